//! What a driver can do here: a verdict, with the reason and the remedy.

use serde::Serialize;
use stitchpool_driver::{Error, Trouble};

/// One thing that a pool, or its user, may need of the driver.
#[derive(Debug, Serialize)]
pub struct Feature {
    /// Its name.
    pub feature: &'static str,
    /// Whether it works.
    pub verdict: Verdict,
    /// What was tried and seen.
    pub reason: String,
    /// What to do where it does not work.
    pub remedy: Option<&'static str>,
    /// The section of the troubleshooting page, where there is one.
    pub see: Option<&'static str>,
}

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was tried on every device, and worked.
    Works,
    /// It worked on some, or within a limit.
    InPart,
    /// It was tried, and did not work.
    DoesNotWork,
    /// It was not tried.
    NotProbed,
}

impl Verdict {
    /// As people read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::InPart => "in part",
            Self::DoesNotWork => "does not",
            Self::NotProbed => "not probed",
        }
    }
}

/// How a trial went on one device or pair of devices: what it was tried on, and what was seen.
pub struct Outcome {
    /// `device 0`, for one.
    pub on: String,
    /// What was seen, or why it does not work.
    pub seen: anyhow::Result<String>,
}

impl Feature {
    /// Something that was not tried, and why.
    pub fn not_probed(feature: &'static str, reason: &str) -> Self {
        Self { feature, verdict: Verdict::NotProbed, reason: reason.to_owned(), remedy: None, see: None }
    }

    /// Judges by trials on several devices; `remedy` is told if any has failed.
    pub fn judged(feature: &'static str, outcomes: &[Outcome], remedy: &'static str) -> Self {
        let failed: Vec<(&str, &anyhow::Error)> =
            outcomes.iter().filter_map(|outcome| Some((outcome.on.as_str(), outcome.seen.as_ref().err()?))).collect();
        let seen = outcomes.iter().find_map(|outcome| outcome.seen.as_ref().ok());
        let verdict = match (failed.len(), seen) {
            (0, None) => return Self::not_probed(feature, "there is nothing to try it on"),
            (0, Some(_)) => Verdict::Works,
            (_, Some(_)) => Verdict::InPart,
            (_, None) => Verdict::DoesNotWork,
        };
        // What several say alike is told once.
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for (on, error) in &failed {
            let words = words_of(error);
            match said.iter_mut().find(|(known, _)| *known == words) {
                Some((_, all)) => all.push(on),
                None => said.push((words, vec![on])),
            }
        }
        let reasons = said.into_iter().map(|(words, on)| format!("{}: {words}", on.join(", ")));
        let reason = match seen {
            Some(words) if failed.is_empty() => words.clone(),
            Some(words) => reasons.chain([format!("else: {words}")]).collect::<Vec<_>>().join("; "),
            None => reasons.collect::<Vec<_>>().join("; "),
        };
        let see = failed.iter().find_map(|(_, error)| trouble_of(error)).map(Trouble::heading);
        Self { feature, verdict, reason, remedy: (!failed.is_empty()).then_some(remedy), see }
    }
}

/// An error without what the report says elsewhere: verb, device and size.
fn words_of(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Error>() {
        Some(refusal) => format!("{}: {}", refusal.kind, refusal.detail),
        None => format!("{error:#}"),
    }
}

/// The usual trouble behind an error, whoever passed it on.
fn trouble_of(error: &anyhow::Error) -> Option<Trouble> {
    let driver = error.chain().find_map(|cause| {
        let chunks = cause.downcast_ref::<stitchpool_chunks::Error>();
        match (cause.downcast_ref::<Error>(), chunks) {
            (Some(error), _) | (_, Some(stitchpool_chunks::Error::Driver(error))) => error.trouble(),
            (_, Some(stitchpool_chunks::Error::Unreachable { .. })) => Some(Trouble::NoPeer),
            (_, Some(stitchpool_chunks::Error::Unaligned { .. })) => Some(Trouble::Rounding),
            _ => None,
        }
    });
    driver.or_else(|| Trouble::ALL.iter().copied().find(|trouble| error.to_string().contains(trouble.see())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    fn outcome(on: &str, seen: anyhow::Result<&str>) -> Outcome {
        Outcome { on: on.to_owned(), seen: seen.map(str::to_owned) }
    }

    #[test]
    fn a_verdict_is_what_all_trials_together_say() {
        let judged = |outcomes: &[Outcome]| Feature::judged("aliases", outcomes, "do something");
        assert_eq!(judged(&[]).verdict, Verdict::NotProbed);
        let works = judged(&[outcome("device 0", Ok("fine")), outcome("device 1", Ok("fine too"))]);
        assert_eq!((works.verdict, works.reason.as_str(), works.remedy), (Verdict::Works, "fine", None));
        let part = judged(&[outcome("device 0", Ok("fine")), outcome("device 1", Err(anyhow!("no")))]);
        assert_eq!((part.verdict, part.remedy), (Verdict::InPart, Some("do something")));
        assert_eq!(part.reason, "device 1: no; else: fine");
        let not = judged(&[outcome("device 0", Err(anyhow!("no"))), outcome("device 1", Err(anyhow!("no")))]);
        assert_eq!((not.verdict, not.reason.as_str()), (Verdict::DoesNotWork, "device 0, device 1: no"));
    }

    #[test]
    fn a_refusal_that_is_a_usual_trouble_leads_to_its_section() {
        let error = stitchpool_chunks::Error::Unaligned { what: "range", bytes: 3, granule_bytes: 2 };
        let feature = Feature::judged("vmm", &[Outcome { on: "device 0".into(), seen: Err(error.into()) }], "round");
        assert_eq!(feature.see, Some(Trouble::Rounding.heading()));
    }
}
