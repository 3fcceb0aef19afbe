//! Samples of one figure: the one in the middle, and how far they lie apart.

use serde::Serialize;

/// What samples of one figure come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The one in the middle; 0 of none.
    pub median: f64,
    /// From the first quarter to the third: half of all samples lie in it.
    pub noise: f64,
}

/// A figure that is not what it was on the card that was measured, by more than noise.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Which figure.
    pub what: String,
    /// Here.
    pub here: f64,
    /// On an H200.
    pub h200: f64,
    /// `us` or `GB/s`.
    pub unit: &'static str,
    /// Here, as a multiple of the H200's.
    pub times: f64,
}

/// A figure must differ by so much of the H200's to be worth a line, and by so many times its noise.
const PART_MIN: f64 = 0.25;
const NOISES_MIN: f64 = 2.0;

impl Spread {
    /// Of samples in any order.
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |quarter: usize| samples.get(samples.len() * quarter / 4).copied().unwrap_or(0.0);
        Self { median: at(2), noise: at(3) - at(1) }
    }

    /// How it differs from the H200's figure, if it does. `step` is what the clock cannot tell.
    pub fn against(self, what: &str, h200: f64, unit: &'static str, step: f64) -> Option<Difference> {
        let apart = (self.median - h200).abs();
        let noise = (self.noise * NOISES_MIN).max(h200 * PART_MIN).max(step);
        let differs = h200 > 0.0 && apart > noise;
        differs.then(|| Difference { what: what.to_owned(), here: self.median, h200, unit, times: self.median / h200 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle_and_noise_is_half_of_the_samples() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 100.0, 2.0, 4.0]), Spread { median: 3.0, noise: 2.0 });
        assert_eq!(Spread::of(vec![]), Spread::default());
    }

    #[test]
    fn what_noise_explains_is_no_difference() {
        let figure = |median, noise| Spread { median, noise };
        assert!(figure(11.0, 0.1).against("create", 10.0, "us", 0.2).is_none());
        assert!(figure(20.0, 6.0).against("create", 10.0, "us", 0.2).is_none());
        assert!(figure(0.3, 0.0).against("map", 0.15, "us", 0.2).is_none());
        assert!(figure(20.0, 1.0).against("not measured there", 0.0, "us", 0.2).is_none());
        let found = figure(20.0, 1.0).against("create", 10.0, "us", 0.2);
        assert!(found.is_some_and(|found| found.times == 2.0 && found.what == "create"));
    }
}
