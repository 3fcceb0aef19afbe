//! What each verb costs on the measured card, so that a run without a GPU can say what it would cost.

use crate::Verb;

const MIB: u64 = 1 << 20;

/// Prices of driver calls in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    /// What goes with the size of a handle, by ascending size. Between two sizes the price lies on the
    /// line between theirs; below the first it is the first's; above the last the line goes on.
    pub by_size: Vec<HandleCost>,
    /// Giving a mapping the rights that it has.
    pub unchanged_rights_us: f64,
    /// `reserve`.
    pub reserve_us: f64,
    /// `unreserve`.
    pub unreserve_us: f64,
    /// `record`: making the event and recording it.
    pub record_us: f64,
    /// `wait`.
    pub wait_us: f64,
    /// `is_done` and `finish`, the waiting itself not counted.
    pub is_done_us: f64,
    /// `forget`.
    pub forget_us: f64,
    /// `capture`.
    pub capture_us: f64,
    /// `stream_identity`.
    pub stream_identity_us: f64,
    /// `copy` and `memset`: queueing it.
    pub copy_us: f64,
    /// `export`.
    pub export_us: f64,
    /// `import`.
    pub import_us: f64,
}

/// Prices for one handle of one size, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandleCost {
    /// The handle's size.
    pub bytes: u64,
    /// `create`.
    pub create_us: f64,
    /// `map`.
    pub map_us: f64,
    /// `set_rights` over memory that had none before.
    pub first_rights_us: f64,
    /// `set_rights` later.
    pub rights_us: f64,
    /// `unmap`.
    pub unmap_us: f64,
    /// `release`.
    pub release_us: f64,
}

impl CostTable {
    /// The figures of an H200, driver 580.159, CUDA 13.0. Event verbs include two exchanges of the
    /// thread's capture mode. Verbs that were not measured (devices, memory, link, granularity) cost nothing.
    #[must_use]
    pub fn h200() -> Self {
        let row = |mib: u64, [create_us, map_us, first_rights_us, rights_us, unmap_us, release_us]: [f64; 6]| {
            HandleCost { bytes: mib * MIB, create_us, map_us, first_rights_us, rights_us, unmap_us, release_us }
        };
        let exchanges_us = 2.0 * 0.048;
        Self {
            by_size: vec![
                row(2, [9.0, 0.65, 28.0, 28.0, 17.0, 11.0]),
                row(16, [9.0, 0.6, 27.0, 26.0, 17.0, 15.0]),
                row(32, [10.0, 0.6, 65.0, 26.0, 17.0, 19.0]),
                row(64, [10.0, 0.55, 133.0, 25.0, 16.0, 28.0]),
                row(256, [12.0, 0.6, 527.0, 40.0, 22.0, 78.0]),
                row(1024, [80.0, 0.65, 1030.0, 1064.0, 28.0, 326.0]),
            ],
            unchanged_rights_us: 0.23,
            reserve_us: 14.0,
            unreserve_us: 17.0,
            record_us: 0.25 + 0.29 + exchanges_us,
            wait_us: 0.27 + exchanges_us,
            is_done_us: 0.3 + exchanges_us,
            forget_us: 0.18 + exchanges_us,
            capture_us: 0.062,
            stream_identity_us: 0.061,
            copy_us: 3.9,
            export_us: 840.0,
            import_us: 113.0,
        }
    }

    /// The price of a verb that no handle's size changes; 0 for those that one does, and for those not measured.
    #[must_use]
    pub const fn fixed_us(&self, verb: Verb) -> f64 {
        match verb {
            Verb::Reserve => self.reserve_us,
            Verb::Unreserve => self.unreserve_us,
            Verb::Record => self.record_us,
            Verb::Wait => self.wait_us,
            Verb::IsDone | Verb::Finish => self.is_done_us,
            Verb::Forget => self.forget_us,
            Verb::CaptureOf => self.capture_us,
            Verb::StreamIdentity => self.stream_identity_us,
            Verb::Copy | Verb::Memset => self.copy_us,
            Verb::Export => self.export_us,
            Verb::Import => self.import_us,
            _ => 0.0,
        }
    }

    /// The prices for a handle of `bytes`.
    #[must_use]
    pub fn handle(&self, bytes: u64) -> HandleCost {
        let above = self.by_size.partition_point(|row| row.bytes < bytes);
        let (low, high) = match self.by_size.as_slice() {
            [] => return HandleCost::free(bytes),
            [only] => return HandleCost { bytes, ..*only },
            rows if above == 0 => return HandleCost { bytes, ..rows[0] },
            rows => {
                let high = above.min(rows.len() - 1);
                (rows[high - 1], rows[high])
            }
        };
        let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
        let between = |of: fn(&HandleCost) -> f64| (of(&high) - of(&low)).mul_add(share, of(&low));
        HandleCost {
            bytes,
            create_us: between(|row| row.create_us),
            map_us: between(|row| row.map_us),
            first_rights_us: between(|row| row.first_rights_us),
            rights_us: between(|row| row.rights_us),
            unmap_us: between(|row| row.unmap_us),
            release_us: between(|row| row.release_us),
        }
    }
}

impl HandleCost {
    const fn free(bytes: u64) -> Self {
        let (create_us, map_us, first_rights_us, rights_us, unmap_us, release_us) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        Self { bytes, create_us, map_us, first_rights_us, rights_us, unmap_us, release_us }
    }
}
