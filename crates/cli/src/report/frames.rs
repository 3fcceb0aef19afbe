//! What stood where, again and again through a run: surveys at even distances of time, more of them where the pool
//! moves memory, and one where most was live; as many as there is room for.

use std::collections::HashMap;
use stitchpool_pool::{SlotState, Survey, SurveyedHandle, SurveyedSlot};

/// Surveys of one run, oldest first.
#[derive(Debug)]
pub struct Frames {
    /// The surveys.
    pub frames: Vec<Frame>,
    /// Every handle that was ever seen, in order of first sight; cells name them by place.
    pub handles: Vec<SurveyedHandle>,
    /// The handles of the last survey. One that was missing there and is here is another: CUDA gives values again.
    numbers: HashMap<SurveyedHandle, u32>,
    /// From one survey to the next that is made because of the time.
    pause_us: u64,
    due_us: u64,
    /// So many moves are one survey.
    pause_moves: u64,
    moves: u64,
    cells: usize,
    /// Beyond so many cells in all, every second survey of a cause is dropped.
    cells_max: usize,
}

/// One survey.
#[derive(Debug)]
pub struct Frame {
    /// When, in microseconds since the run began.
    pub time_us: u64,
    /// What stood where.
    pub cells: Vec<Cell>,
    cause: Cause,
}

/// Why a survey was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Time,
    Move,
    /// More was live than ever before. There is one such survey, the newest.
    Peak,
}

/// A slot or an idle handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Where and what it is.
    pub place: Place,
    /// Its live bytes, in 255ths of its length.
    pub live: u8,
    /// Its pending bytes, in 255ths of its length.
    pub pending: u8,
}

/// What stays the same about a cell from one survey to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// First address; none: the handle is idle.
    pub at: Option<u64>,
    /// Its length.
    pub bytes: u64,
    /// The handle's place in [`Frames::handles`].
    pub handle: Option<u32>,
    /// What it is.
    pub state: State,
}

/// What a cell is. The numbers are the page's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Its handle is in use here.
    Current = 0,
    /// Its handle was moved elsewhere, and still stands here until the GPU is past it.
    Stale = 1,
    /// Nothing stands here any more.
    Hole = 2,
    /// The address is gone for good.
    Lost = 3,
    /// A handle without an address.
    Idle = 4,
}

/// Surveys because of the time, at most, and because of moves.
const TIMES_MAX: usize = 256;
const MOVES_MAX: usize = 128;

impl Frames {
    /// No survey yet of a run that lasts `duration_us`; all of them may have so many cells.
    pub fn new(duration_us: u64, cells_max: usize) -> Self {
        Self {
            frames: Vec::new(),
            handles: Vec::new(),
            numbers: HashMap::new(),
            pause_us: (duration_us / TIMES_MAX as u64).max(1),
            due_us: 0,
            pause_moves: 1,
            moves: 0,
            cells: 0,
            cells_max,
        }
    }

    /// Time goes on to `time_us`: makes a survey if one was due before. What stands now stood since the last step.
    pub fn reach(&mut self, time_us: u64, survey: impl FnOnce() -> Survey) {
        if time_us > self.due_us {
            self.add(self.due_us, &survey(), Cause::Time);
            self.due_us = time_us.div_ceil(self.pause_us).saturating_mul(self.pause_us);
        }
    }

    /// Memory was mapped at `time_us`.
    pub fn moved(&mut self, time_us: u64, survey: impl FnOnce() -> Survey) {
        self.moves += 1;
        if self.moves >= self.pause_moves {
            self.moves = 0;
            self.add(time_us, &survey(), Cause::Move);
        }
    }

    /// More is live at `time_us` than ever before.
    pub fn peak(&mut self, time_us: u64, survey: &Survey) {
        self.frames.retain(|frame| frame.cause != Cause::Peak);
        self.cells = self.frames.iter().map(|frame| frame.cells.len()).sum();
        self.add(time_us, survey, Cause::Peak);
    }

    /// The run is over.
    pub fn end(&mut self, time_us: u64, survey: &Survey) {
        self.add(time_us, survey, Cause::Time);
    }

    fn add(&mut self, time_us: u64, survey: &Survey, cause: Cause) {
        let before = std::mem::take(&mut self.numbers);
        let slots = survey.slots.iter().map(|slot| self.cell(slot, &before)).collect::<Vec<_>>();
        let idle = survey.idle.iter().map(|&handle| self.idle(handle, &before)).collect::<Vec<_>>();
        let cells = [slots, idle].concat();
        self.cells += cells.len();
        if let Some(same) = self.frames.pop_if(|frame| frame.time_us == time_us) {
            self.cells -= same.cells.len();
        }
        self.frames.push(Frame { time_us, cells, cause });
        loop {
            let count = |cause| self.frames.iter().filter(|frame| frame.cause == cause).count();
            let (times, moves) = (count(Cause::Time), count(Cause::Move));
            let is_full = self.cells > self.cells_max;
            match (times > TIMES_MAX + 1, moves > MOVES_MAX) {
                (true, _) => self.thin(Cause::Time),
                (_, true) => self.thin(Cause::Move),
                _ if is_full && times.max(moves) > 1 => {
                    self.thin(if times > moves { Cause::Time } else { Cause::Move })
                }
                _ => break,
            }
        }
    }

    /// Drops every second survey of a cause; the newest of all stays.
    fn thin(&mut self, cause: Cause) {
        let newest_us = self.frames.last().map(|frame| frame.time_us);
        let mut keep = false;
        self.frames.retain(|frame| {
            keep ^= frame.cause == cause;
            keep || frame.cause != cause || Some(frame.time_us) == newest_us
        });
        self.cells = self.frames.iter().map(|frame| frame.cells.len()).sum();
        match cause {
            Cause::Time => self.pause_us = self.pause_us.saturating_mul(2),
            Cause::Move => self.pause_moves = self.pause_moves.saturating_mul(2),
            Cause::Peak => {}
        }
    }

    fn cell(&mut self, slot: &SurveyedSlot, before: &HashMap<SurveyedHandle, u32>) -> Cell {
        let state = match slot.state {
            SlotState::Current => State::Current,
            SlotState::Stale => State::Stale,
            // A replay suspends nothing and views nothing.
            SlotState::Asleep | SlotState::Viewed | SlotState::Hole => State::Hole,
            SlotState::Lost => State::Lost,
        };
        let handle = slot.handle.map(|handle| self.number(handle, before));
        let place = Place { at: Some(slot.at.0), bytes: slot.bytes, handle, state };
        Cell { place, live: share(slot.live_bytes, slot.bytes), pending: share(slot.pending_bytes, slot.bytes) }
    }

    fn idle(&mut self, handle: SurveyedHandle, before: &HashMap<SurveyedHandle, u32>) -> Cell {
        let number = self.number(handle, before);
        let place = Place { at: None, bytes: handle.bytes, handle: Some(number), state: State::Idle };
        Cell { place, live: 0, pending: 0 }
    }

    fn number(&mut self, handle: SurveyedHandle, before: &HashMap<SurveyedHandle, u32>) -> u32 {
        *self.numbers.entry(handle).or_insert_with(|| {
            before.get(&handle).copied().unwrap_or_else(|| {
                self.handles.push(handle);
                u32::try_from(self.handles.len() - 1).unwrap_or(u32::MAX)
            })
        })
    }
}

/// A part in 255ths; never 0 or 255 unless it is nothing or the whole.
fn share(bytes: u64, of_bytes: u64) -> u8 {
    if bytes == 0 || of_bytes == 0 {
        return 0;
    }
    if bytes >= of_bytes {
        return 255;
    }
    let share = u128::from(bytes) * 255 / u128::from(of_bytes);
    u8::try_from(share).unwrap_or(254).clamp(1, 254)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stitchpool_driver::{DeviceId, RawHandle};

    fn survey(handles: u64) -> Survey {
        let idle = |raw| SurveyedHandle { raw: RawHandle(raw), device: DeviceId(0), bytes: 2 << 20 };
        Survey { slots: Vec::new(), idle: (0..handles).map(idle).collect() }
    }

    #[test]
    fn surveys_are_thinned_to_what_there_is_room_for_and_the_newest_stays() {
        let mut frames = Frames::new(1_000_000, 1_500_000);
        frames.peak(0, &survey(1));
        for time_us in (0..=1_000_000).step_by(100) {
            frames.reach(time_us, || survey(60_000));
            frames.moved(time_us, || survey(60_000));
        }
        let times: Vec<u64> = frames.frames.iter().map(|frame| frame.time_us).collect();
        assert!(frames.cells <= frames.cells_max && times.len() >= 8, "{} cells at {times:?}", frames.cells);
        assert!(times.is_sorted() && *times.last().unwrap() > 900_000, "{times:?}");
        assert_eq!(frames.handles.len(), 60_000);
    }

    #[test]
    fn a_handle_that_was_gone_and_bears_its_value_again_is_another() {
        let mut frames = Frames::new(100, 100);
        for (time_us, handles) in [(0, 2), (1, 1), (2, 2), (3, 2)] {
            frames.end(time_us, &survey(handles));
        }
        assert_eq!(frames.handles.len(), 3);
        let last: Vec<_> = frames.frames[3].cells.iter().map(|cell| cell.place.handle).collect();
        assert_eq!(last, [Some(0), Some(2)]);
    }

    #[test]
    fn only_nothing_and_the_whole_look_like_it() {
        assert_eq!([share(0, 9), share(1, 1 << 40), share((1 << 40) - 1, 1 << 40), share(9, 9)], [0, 1, 254, 255]);
    }
}
