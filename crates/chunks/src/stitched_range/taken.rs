//! What a mapping comes apart into when it is taken from a range, with all that it needs to stand again.

use super::part::{Opened, Part};
use crate::{PhysicalHandle, Vacancy, map_run};
use std::sync::Arc;
use stitchpool_driver::{Error, Grant};

pub(super) struct Taken {
    pub(super) vacancy: Vacancy,
    pub(super) handle: Arc<PhysicalHandle>,
    grants: Vec<Grant>,
}

impl Taken {
    /// Unmaps a run. `Err` is the driver's first refusal, with the run as it stands again.
    pub(super) fn all(run: Vec<Opened>) -> Result<Vec<Self>, (Error, Vec<Part>)> {
        let mut taken: Vec<Self> = Vec::with_capacity(run.len());
        let mut rest = run.into_iter();
        while let Some(Opened { mapping, grants }) = rest.next() {
            match mapping.unmap() {
                Ok((vacancy, handle)) => taken.push(Self { vacancy, handle, grants }),
                Err((error, mapping)) => {
                    let stayed = std::iter::once(Opened { mapping, grants }).chain(rest).map(Part::Mapped);
                    return Err((error, taken.into_iter().flat_map(Self::put_back).chain(stayed).collect()));
                }
            }
        }
        Ok(taken)
    }

    /// Maps it again, with its rights. What will not come back is given up, and leaves its vacancy.
    fn put_back(self) -> Vec<Part> {
        let Self { vacancy, handle, grants } = self;
        match map_run(vacancy, vec![handle.clone()], &grants) {
            Ok((run, _)) => {
                run.into_iter().map(|mapping| Part::Mapped(Opened { mapping, grants: grants.clone() })).collect()
            }
            Err(failure) => {
                handle.give_up(failure.error);
                failure.vacancies.into_iter().map(Part::Vacant).collect()
            }
        }
    }
}
