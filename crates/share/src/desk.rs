//! The exporter's desk: what is offered, who has imported it, and what each request is answered. It knows
//! no socket; whoever has one brings requests and takes letters away.

use crate::answer::{Answer, HANDLES_MAX, Layout, PARTS_MAX, Reason};
use crate::request::Request;
use crate::round::{Missed, Round, Together};
use crate::ticket::VERSION;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use stitchpool_chunks::PhysicalHandle;
use stitchpool_driver::Rights;
use stitchpool_pool::{Export, Part};

/// All that the exporter's one lock guards but the sockets.
#[derive(Debug)]
pub(crate) struct Desk {
    exporter: [u8; 16],
    entries: BTreeMap<u64, Entry>,
    next_generation: u64,
}

/// What was asked to be offered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) parts: Vec<Part>,
    pub(crate) rights: Rights,
    pub(crate) together: Option<Together>,
}

/// Memory that is offered, or that is not any more and still held by somebody.
#[derive(Debug)]
struct Entry {
    terms: Terms,
    export: Arc<Export>,
    /// How many offers of it live.
    offers: u32,
    recalled: bool,
    /// How many imports each visitor has, never 0.
    imports: BTreeMap<u64, u32>,
    /// The attempt of the group that is under way.
    round: Option<Round>,
    /// Why an attempt ended, for visitors that were not ready yet.
    called_off: BTreeMap<u64, String>,
    /// Who had not even come to the attempt that was called off last.
    missed: Option<Missed>,
}

/// Something to be sent to a visitor.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) to: u64,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Answer(Answer),
    /// Handles, to be exported when they are sent.
    Handles(Vec<Arc<PhysicalHandle>>),
}

/// A visitor has at most so many imports at a time, of all generations.
const IMPORTS_MAX: u32 = 65_536;

impl Content {
    /// Whether it answers no question.
    pub(crate) const fn is_unasked(&self) -> bool {
        matches!(self, Self::Answer(Answer::Recalled { .. }))
    }
}

impl Desk {
    pub(crate) const fn new(exporter: [u8; 16]) -> Self {
        Self { exporter, entries: BTreeMap::new(), next_generation: 1 }
    }

    /// The generation that is offered on these terms already, with one more offer of it.
    pub(crate) fn again(&mut self, terms: &Terms) -> Option<(u64, Arc<Export>)> {
        let same = |entry: &Entry| entry.offers > 0 && !entry.recalled && entry.terms == *terms;
        let (&generation, entry) = self.entries.iter_mut().find(|(_, entry)| same(entry))?;
        entry.offers += 1;
        Some((generation, entry.export.clone()))
    }

    /// Offers an export from now on.
    pub(crate) fn offer(&mut self, terms: Terms, export: Arc<Export>) -> u64 {
        let generation = self.next_generation;
        self.next_generation += 1;
        let (imports, called_off) = Default::default();
        let entry = Entry { terms, export, offers: 1, recalled: false, imports, round: None, called_off, missed: None };
        self.entries.insert(generation, entry);
        generation
    }

    /// One offer ends; with the last one who has imported it is told.
    pub(crate) fn end_offer(&mut self, generation: u64) -> Vec<Letter> {
        let Some(entry) = self.entries.get_mut(&generation) else { return Vec::new() };
        entry.offers = entry.offers.saturating_sub(1);
        if entry.offers > 0 { Vec::new() } else { self.recall(generation) }
    }

    /// Nobody can import it from now on, and who has is asked to let it go.
    pub(crate) fn recall(&mut self, generation: u64) -> Vec<Letter> {
        let Some(entry) = self.entries.get_mut(&generation) else { return Vec::new() };
        entry.recalled = true;
        let mut letters = entry.call_off(generation, None, "the exporter has recalled the memory");
        let told = entry.imports.keys().map(|&to| say(to, Answer::Recalled { generation }));
        letters.extend(told);
        self.settle(generation);
        letters
    }

    /// It is offered again, if anybody still offers it.
    pub(crate) fn take_recall_back(&mut self, generation: u64) {
        if let Some(entry) = self.entries.get_mut(&generation) {
            entry.recalled = false;
        }
        self.settle(generation);
    }

    /// Who holds a generation, and how often.
    pub(crate) fn holders(&self, generation: u64) -> impl Iterator<Item = (u64, u32)> + '_ {
        let imports = self.entries.get(&generation).map(|entry| &entry.imports);
        imports.into_iter().flatten().map(|(&visitor, &count)| (visitor, count))
    }

    pub(crate) fn generations(&self) -> Vec<u64> {
        self.entries.keys().copied().collect()
    }

    /// Exports that somebody still uses, for whoever must not let them go.
    pub(crate) fn take_exports(&mut self) -> Vec<Arc<Export>> {
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.export).collect()
    }

    /// How many imports a visitor has, and how many bytes they map.
    pub(crate) fn imports_of(&self, visitor: u64) -> (u32, u64) {
        let all = self.entries.values().filter_map(|entry| Some((*entry.imports.get(&visitor)?, entry.export.bytes())));
        all.fold((0, 0), |(count, bytes), (imports, size)| (count + imports, bytes + size))
    }

    /// When the next attempt of a group ends.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| entry.round.as_ref().map(|round| round.ends)).min()
    }

    /// Ends attempts whose time is over.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Letter> {
        let mut letters = Vec::new();
        for (&generation, entry) in &mut self.entries {
            let over = entry.round.as_ref().filter(|round| round.ends <= now).map(Round::shortfall);
            letters.extend(over.into_iter().flat_map(|why| entry.call_off(generation, None, &why)));
        }
        letters
    }

    /// A visitor is gone, and its imports with it.
    pub(crate) fn gone(&mut self, visitor: u64, pid: i32) -> Vec<Letter> {
        let mut letters = Vec::new();
        for generation in self.generations() {
            let Some(entry) = self.entries.get_mut(&generation) else { continue };
            entry.called_off.remove(&visitor);
            if entry.imports.remove(&visitor).is_none() {
                continue;
            }
            if entry.round.as_ref().is_some_and(|round| round.has(visitor)) {
                letters.extend(entry.call_off(generation, Some(visitor), &format!("process {pid} has ended")));
            }
            entry.called_off.remove(&visitor);
            self.settle(generation);
        }
        letters
    }

    /// Answers a visitor.
    pub(crate) fn hear(&mut self, visitor: u64, pid: i32, request: Request, now: Instant) -> Vec<Letter> {
        let refused = |why: String| vec![say(visitor, Answer::Refused { reason: Reason::Other, why })];
        match request {
            Request::Hello { version } if version == VERSION => {
                vec![say(visitor, Answer::Welcome { exporter: self.exporter })]
            }
            Request::Hello { version } => {
                refused(format!("this exporter speaks version {VERSION}, and you speak version {version}"))
            }
            Request::Open { generation, rights } => match self.open(visitor, generation, rights, now) {
                Ok(layout) => vec![say(visitor, Answer::Layout(layout))],
                Err((reason, why)) => vec![say(visitor, Answer::Refused { reason, why })],
            },
            Request::Handles { generation, first } => match self.imported(visitor, generation) {
                Some(entry) => {
                    let from = entry.export.handles().iter().skip(first as usize);
                    let content = Content::Handles(from.take(HANDLES_MAX).cloned().collect());
                    vec![Letter { to: visitor, content }]
                }
                None => refused(format!("generation {generation} was not opened")),
            },
            Request::Parts { generation, first } => match self.imported(visitor, generation) {
                Some(entry) => {
                    let parts = entry.export.parts().iter().skip(first as usize).take(PARTS_MAX).copied();
                    vec![say(visitor, Answer::Parts(parts.collect()))]
                }
                None => refused(format!("generation {generation} was not opened")),
            },
            Request::Vote { generation, refusal } => self.vote(visitor, pid, generation, refusal),
            Request::Leave { generation } => self.leave(visitor, pid, generation),
        }
    }

    fn open(
        &mut self,
        visitor: u64,
        generation: u64,
        rights: Rights,
        now: Instant,
    ) -> Result<Layout, (Reason, String)> {
        let held = self.imports_of(visitor).0;
        let known = generation < self.next_generation && generation > 0;
        let Some(entry) = self.entries.get_mut(&generation).filter(|entry| !entry.recalled) else {
            let why = if known { "it is not offered any more" } else { "this exporter never gave it" };
            return Err((Reason::Stale, why.into()));
        };
        if rights > entry.terms.rights {
            return Err((Reason::Other, format!("{:?} is offered, and not {rights:?}", entry.terms.rights)));
        }
        if held >= IMPORTS_MAX {
            return Err((Reason::Other, format!("a process may have {IMPORTS_MAX} imports; drop some")));
        }
        if let Some(together) = entry.terms.together
            && !entry.join(visitor, together, now)
        {
            let ranks = together.ranks;
            return Err((Reason::Other, format!("all {ranks} processes that import it together are there already")));
        }
        *entry.imports.entry(visitor).or_default() += 1;
        let within_ms = entry.terms.together.map_or(0, |together| together.within.as_millis() as u64);
        let (handles, parts) = (entry.export.handles().len() as u32, entry.export.parts().len() as u32);
        Ok(Layout { bytes: entry.export.bytes(), handles, parts, within_ms })
    }

    fn imported(&self, visitor: u64, generation: u64) -> Option<&Entry> {
        self.entries.get(&generation).filter(|entry| entry.imports.contains_key(&visitor))
    }

    fn vote(&mut self, visitor: u64, pid: i32, generation: u64, refusal: Option<String>) -> Vec<Letter> {
        let no = |why: String| vec![say(visitor, Answer::Verdict { generation, refusal: Some(why) })];
        let Some(entry) = self.entries.get_mut(&generation) else { return no("it is not offered any more".into()) };
        if let Some(why) = entry.called_off.remove(&visitor) {
            return no(why);
        }
        let Some(round) = entry.round.as_mut().filter(|round| round.has(visitor)) else {
            return no("no import together is under way".into());
        };
        if let Some(why) = refusal {
            let mut letters = entry.call_off(generation, Some(visitor), &format!("process {pid} failed: {why}"));
            letters.extend(no(format!("this process failed: {why}")));
            return letters;
        }
        if !round.note_ready(visitor) {
            return Vec::new();
        }
        let all: Vec<u64> = round.joined().collect();
        (entry.round, entry.missed) = (None, None);
        all.into_iter().map(|to| say(to, Answer::Verdict { generation, refusal: None })).collect()
    }

    fn leave(&mut self, visitor: u64, pid: i32, generation: u64) -> Vec<Letter> {
        let Some(entry) = self.entries.get_mut(&generation) else { return Vec::new() };
        entry.called_off.remove(&visitor);
        let letters = match entry.round.as_ref().is_some_and(|round| round.has(visitor)) {
            true => entry.call_off(generation, Some(visitor), &format!("process {pid} left before all were ready")),
            false => Vec::new(),
        };
        if let Some(imports) = entry.imports.get_mut(&visitor) {
            *imports -= 1;
            if *imports == 0 {
                entry.imports.remove(&visitor);
            }
        }
        self.settle(generation);
        letters
    }

    /// Forgets what nobody offers or has imported; the pool's blocks are let go with it.
    fn settle(&mut self, generation: u64) {
        let over = |entry: &Entry| entry.imports.is_empty() && (entry.offers == 0 || entry.recalled);
        if self.entries.get(&generation).is_some_and(over) {
            self.entries.remove(&generation);
        }
    }
}

impl Entry {
    /// A visitor comes to the group's attempt, or hears later that the one it comes to was called off. False: all
    /// places are taken.
    fn join(&mut self, visitor: u64, together: Together, now: Instant) -> bool {
        self.called_off.remove(&visitor);
        let missed = self.missed.as_mut().filter(|_| self.round.is_none());
        if let Some(why) = missed.and_then(|missed| missed.meet(visitor, now)) {
            self.called_off.insert(visitor, why);
            return true;
        }
        self.round.get_or_insert_with(|| Round::begin(together, now)).join(visitor)
    }

    /// Ends the group's attempt: who is ready is told now, who is not hears it when it says so. Not told: `but`.
    fn call_off(&mut self, generation: u64, but: Option<u64>, why: &str) -> Vec<Letter> {
        let Some(round) = self.round.take() else { return Vec::new() };
        self.missed = Some(round.missed(why));
        let mut letters = Vec::new();
        for visitor in round.joined().filter(|&visitor| Some(visitor) != but) {
            if round.is_ready(visitor) {
                letters.push(say(visitor, Answer::Verdict { generation, refusal: Some(why.into()) }));
            } else {
                self.called_off.insert(visitor, why.into());
            }
        }
        letters
    }
}

const fn say(to: u64, answer: Answer) -> Letter {
    Letter { to, content: Content::Answer(answer) }
}
