//! A run: neighbouring mappings that are made, opened and undone together.

use crate::{Mapping, PhysicalHandle, Vacancy};
use std::sync::Arc;
use stitchpool_driver::{Address, Error, ErrorKind, Grant, Result, Verb};

/// Why a run was not made, and what is left of the vacancy it was to stand in: one piece iff it was
/// undone in full. What could not be undone is in quarantine.
#[derive(Debug)]
pub struct RunFailure {
    /// The first refusal.
    pub error: Error,
    /// The vacancy again, in address order.
    pub vacancies: Vec<Vacancy>,
}

/// Maps `handles` one after the other from the start of `vacancy` and opens them to `grants` in one
/// driver call: all or none. Gives the mappings and what is left of the vacancy.
///
/// # Errors
/// The first refusal, with the vacancy undone; `InvalidValue` if the handles need more room.
pub fn map_run(
    vacancy: Vacancy,
    handles: Vec<Arc<PhysicalHandle>>,
    grants: &[Grant],
) -> std::result::Result<(Vec<Mapping>, Option<Vacancy>), RunFailure> {
    let grants: Arc<[Grant]> = grants.into();
    map_run_by(vacancy, handles, |_| grants.clone())
}

/// As [`map_run`], where who gets rights depends on the place: one driver call for neighbours with the
/// same grants.
///
/// # Errors
/// As [`map_run`].
pub fn map_run_by(
    vacancy: Vacancy,
    handles: Vec<Arc<PhysicalHandle>>,
    grants_at: impl Fn(Address) -> Arc<[Grant]>,
) -> std::result::Result<(Vec<Mapping>, Option<Vacancy>), RunFailure> {
    let wanted_bytes: u64 = handles.iter().map(|handle| handle.bytes()).sum();
    if wanted_bytes > vacancy.bytes() {
        let detail = format!("handles of {wanted_bytes} bytes do not fit a vacancy of {} bytes", vacancy.bytes());
        let error = Error::new(Verb::Map, ErrorKind::InvalidValue, detail).of(wanted_bytes);
        return Err(RunFailure { error, vacancies: vec![vacancy] });
    }
    let mut run = Vec::with_capacity(handles.len());
    let mut rest = Some(vacancy);
    for handle in handles {
        let Some(vacancy) = rest.take() else { break };
        let (low, high) = match vacancy.split(handle.bytes()) {
            Ok((low, high)) => (low, Some(high)),
            Err(whole) => (whole, None),
        };
        rest = high;
        match low.map(handle) {
            Ok(mapping) => run.push(mapping),
            Err((error, low)) => {
                let vacancies = take_down(run, [low].into_iter().chain(rest));
                return Err(RunFailure { error, vacancies });
            }
        }
    }
    let parts = run.chunk_by(|a, b| grants_at(a.at()) == grants_at(b.at()));
    match parts.into_iter().try_for_each(|part| open(part, &grants_at(part[0].at()))) {
        Ok(()) => Ok((run, rest)),
        Err(error) => Err(RunFailure { error, vacancies: take_down(run, rest) }),
    }
}

/// Unmaps a run that no work has used yet, and joins what comes back with the vacancies that follow it: one
/// piece iff all of it went. A mapping that will not go, asked twice, is given up.
#[must_use]
pub fn take_down(run: Vec<Mapping>, behind: impl IntoIterator<Item = Vacancy>) -> Vec<Vacancy> {
    let unmapped = run.into_iter().filter_map(|mapping| match mapping.unmap().or_else(|(_, again)| again.unmap()) {
        Ok((vacancy, _)) => Some(vacancy),
        Err((refusal, mapping)) => {
            mapping.give_up(refusal);
            None
        }
    });
    join_all(unmapped.chain(behind))
}

/// Joins neighbours among vacancies that come in address order.
#[must_use]
pub fn join_all(vacancies: impl IntoIterator<Item = Vacancy>) -> Vec<Vacancy> {
    let mut joined: Vec<Vacancy> = Vec::new();
    for next in vacancies {
        match joined.pop() {
            None => joined.push(next),
            Some(last) => match last.join(next) {
                Ok(whole) => joined.push(whole),
                Err((last, next)) => joined.extend([last, next]),
            },
        }
    }
    joined
}

/// Gives `grants` over a run of neighbouring mappings in one driver call; devices not named keep the
/// rights they have. An empty run or an empty list of grants is no call.
///
/// # Errors
/// The driver's; `InvalidValue`, without a call, if the mappings are no neighbours in address order.
pub fn open<'a>(run: impl IntoIterator<Item = &'a Mapping>, grants: &[Grant]) -> Result<()> {
    let mut run = run.into_iter();
    let Some(first) = run.next() else { return Ok(()) };
    let mut end = first.end();
    for next in run {
        if next.at() != end {
            let detail = format!("a hole lies between {end} and {}: open each run by itself", next.at());
            return Err(Error::new(Verb::SetRights, ErrorKind::InvalidValue, detail));
        }
        end = next.end();
    }
    if grants.is_empty() {
        return Ok(());
    }
    // SAFETY: the borrowed owners prove that whole mappings stand here, and the loop that they are
    // neighbours; rights are lowered only under the contract of `Mapping`.
    unsafe { first.origin().driver().set_rights(first.at(), end.bytes_from(first.at()), grants) }
}
