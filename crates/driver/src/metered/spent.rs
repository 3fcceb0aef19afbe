//! What calls have cost, read from a meter.

use crate::Verb;

/// What calls have cost since the meter was made, or since an earlier reading of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    pub(super) by_verb: [VerbSpent; Verb::ALL.len()],
}

/// What the calls of one verb have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VerbSpent {
    /// Calls, refused ones included.
    pub calls: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Their wall clock or their price, in microseconds.
    pub cost_us: f64,
    /// Their wall clock inside the driver, in microseconds.
    pub wall_us: f64,
}

impl Spent {
    /// What one verb's calls have cost.
    #[must_use]
    pub const fn of(&self, verb: Verb) -> VerbSpent {
        self.by_verb[verb as usize]
    }

    /// What each verb's calls have cost, in the order of [`Verb::ALL`].
    pub fn by_verb(&self) -> impl Iterator<Item = (Verb, VerbSpent)> {
        Verb::ALL.iter().map(|&verb| (verb, self.of(verb)))
    }

    /// What all calls have cost.
    #[must_use]
    pub fn total(&self) -> VerbSpent {
        self.by_verb.iter().fold(VerbSpent::default(), |sum, spent| VerbSpent {
            calls: sum.calls + spent.calls,
            refused: sum.refused + spent.refused,
            cost_us: sum.cost_us + spent.cost_us,
            wall_us: sum.wall_us + spent.wall_us,
        })
    }

    /// What was spent after `earlier`, a reading of the same meter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let by_verb = std::array::from_fn(|verb| {
            let (now, then) = (self.by_verb[verb], earlier.by_verb[verb]);
            VerbSpent {
                calls: now.calls - then.calls,
                refused: now.refused - then.refused,
                cost_us: now.cost_us - then.cost_us,
                wall_us: now.wall_us - then.wall_us,
            }
        });
        Self { by_verb }
    }
}
