//! RMM's logs: CSV lines of a time, an action, a pointer, a size and a stream. Reads them; writes none.

use crate::bytes::Bytes;
use crate::trace::start_at_zero;
use crate::{DeviceTrace, Error, ErrorKind, Event, EventKind, Limits, Result, Source, SourceKind, Trace};
use std::collections::BTreeMap;

/// Whether a file that begins so is one.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(line).is_ok_and(|line| Columns::find(line).is_some())
}

/// Reads a log. It names no device, so all is device 0's.
pub(crate) fn read(mut bytes: Bytes<'_>, limits: &Limits) -> Result<Trace> {
    let mut columns = None;
    let mut clock = Clock::default();
    let mut events = Vec::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    // An event takes the room of three values.
    let limit_events = limits.kept_values / 3;
    for number in 1_u64.. {
        let position = bytes.position();
        let Some(line) = bytes.line(limits.token_bytes)? else { break };
        let refuse = |reason: String| Error::new(ErrorKind::Malformed, position, format!("line {number}: {reason}"));
        let line = std::str::from_utf8(line).map_err(|_| refuse("it is no text".to_owned()))?;
        let Some(columns) = &columns else {
            let found = Columns::find(line);
            columns = Some(found.ok_or_else(|| refuse(format!("{line:?} names too few of the columns")))?);
            continue;
        };
        if line.is_empty() {
            continue;
        }
        let row = columns.row(line).map_err(refuse)?;
        let time_us = clock.reads(row.time).map_err(refuse)?;
        let kinds: &[EventKind] = match row.action {
            "allocate" => &[EventKind::Alloc],
            "free" | "deallocate" => &[EventKind::FreeRequested, EventKind::FreeCompleted],
            "allocate failure" => &[EventKind::OutOfMemory],
            other => {
                *others.entry(other.to_owned()).or_default() += 1;
                &[EventKind::Other]
            }
        };
        let event = row.event(time_us).map_err(refuse)?;
        if events.len() as u64 >= limit_events {
            return Err(Error::new(ErrorKind::LimitReached, position, format!("more than {limit_events} events")));
        }
        events.extend(kinds.iter().map(|&kind| Event { kind, ..event }));
    }
    let mut devices = vec![DeviceTrace { device: 0, events, segments: Vec::new() }];
    devices.retain(|device| !device.events.is_empty());
    start_at_zero(&mut devices);
    Ok(Trace { source: Source { kind: SourceKind::Rmm, other_actions: others, ..Source::default() }, devices })
}

/// Where the header says that each column is.
struct Columns {
    time: usize,
    action: usize,
    pointer: usize,
    size: usize,
    stream: usize,
}

/// One line, in columns.
struct Row<'l> {
    time: &'l str,
    action: &'l str,
    pointer: &'l str,
    size: &'l str,
    stream: &'l str,
}

impl Columns {
    fn find(header: &str) -> Option<Self> {
        let place = |name: &str| header.split(',').position(|column| column.trim().eq_ignore_ascii_case(name));
        Some(Self {
            time: place("time")?,
            action: place("action")?,
            pointer: place("pointer")?,
            size: place("size")?,
            stream: place("stream")?,
        })
    }

    fn row<'l>(&self, line: &'l str) -> std::result::Result<Row<'l>, String> {
        let column = |at: usize| {
            line.split(',').nth(at).map(str::trim).ok_or_else(|| format!("{line:?} has no column {}", at + 1))
        };
        Ok(Row {
            time: column(self.time)?,
            action: column(self.action)?,
            pointer: column(self.pointer)?,
            size: column(self.size)?,
            stream: column(self.stream)?,
        })
    }
}

impl Row<'_> {
    fn event(&self, time_us: u64) -> std::result::Result<Event, String> {
        let size_bytes = self.size.parse().map_err(|_| format!("size {:?} is no number of bytes", self.size))?;
        let address = pointer(self.pointer, 16).ok_or_else(|| format!("pointer {:?} is no address", self.pointer))?;
        let stream = pointer(self.stream, 10).ok_or_else(|| format!("stream {:?} is no handle", self.stream))?;
        Ok(Event { time_us, address, size_bytes, stream, kind: EventKind::Other })
    }
}

/// A pointer as C++ prints it; without `0x` its digits are of `radix`.
fn pointer(text: &str, radix: u32) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text == "(nil)" => Some(0),
        None => u64::from_str_radix(text, radix).ok(),
    }
}

/// Turns times of day into times that go on past midnight.
#[derive(Default)]
struct Clock {
    last_us: u64,
    days: u64,
}

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 24 * 60 * 60 * SECOND_US;

impl Clock {
    /// The time in microseconds since the first midnight, of `HH:MM:SS:micros`, `HH:MM:SS.micros` or seconds.
    fn reads(&mut self, text: &str) -> std::result::Result<u64, String> {
        let refuse = || format!("time {text:?} is neither HH:MM:SS:micros nor seconds");
        let parts: Vec<&str> = text.splitn(5, ':').collect();
        let time_us = match parts[..] {
            [hours, minutes, seconds] => {
                of_day(hours, minutes).zip(seconds_us(seconds).filter(|&rest_us| rest_us <= 61 * SECOND_US))
            }
            [hours, minutes, seconds, micros] => {
                let whole = of_day(hours, minutes).zip(seconds.parse::<u64>().ok().filter(|&seconds| seconds <= 60));
                let micros = micros.parse::<u64>().ok().filter(|&micros| micros < SECOND_US);
                whole.zip(micros).map(|((minutes_us, seconds), micros)| (minutes_us, seconds * SECOND_US + micros))
            }
            // Seconds are not of a day: they never start again.
            [seconds] => return seconds_us(seconds).ok_or_else(refuse),
            _ => None,
        };
        let (minutes_us, rest_us) = time_us.ok_or_else(refuse)?;
        let time_us = minutes_us + rest_us;
        if self.last_us > time_us + DAY_US / 2 {
            self.days += 1;
        } else if self.days > 0 && time_us > self.last_us + DAY_US / 2 {
            // A line of before midnight that was written after one of after midnight.
            return Ok((self.days - 1) * DAY_US + time_us);
        }
        self.last_us = time_us;
        Ok(self.days.saturating_mul(DAY_US).saturating_add(time_us))
    }
}

/// Hours and minutes of a day in microseconds.
fn of_day(hours: &str, minutes: &str) -> Option<u64> {
    let hours = hours.parse::<u64>().ok().filter(|&hours| hours < 24)?;
    let minutes = minutes.parse::<u64>().ok().filter(|&minutes| minutes < 60)?;
    Some((hours * 60 + minutes) * 60 * SECOND_US)
}

/// Decimal seconds in microseconds; digits after the sixth are dropped.
fn seconds_us(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let micros = digits.fold(0, |micros, digit| micros * 10 + u64::from(digit - b'0'));
    whole.parse::<u64>().ok()?.checked_mul(SECOND_US)?.checked_add(micros)
}
