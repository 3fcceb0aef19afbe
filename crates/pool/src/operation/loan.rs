//! A right to read that is lent while content is copied away: the device that copies may have none. It
//! copies nothing.

use crate::error::Result;
use crate::mapper::Mapper;
use crate::mapper::slot::Slot;
use crate::operation::bed::Bed;
use stitchpool_chunks::open;
use stitchpool_driver::{Error, Grant, Rights};

impl Mapper {
    /// Lets the device of each bed's stream read it: all of them, or none.
    pub(crate) fn lend(&mut self, beds: &[Bed]) -> Result<()> {
        for (lent, bed) in beds.iter().enumerate().filter(|(_, bed)| bed.barred) {
            if let Err(error) = self.let_read(bed, Rights::Read) {
                self.take_back(&beds[..lent]);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// What was lent is taken back, where the memory still stands. Where the driver refuses that twice, the
    /// right is written down.
    pub(crate) fn take_back<'a>(&mut self, beds: impl IntoIterator<Item = &'a Bed>) {
        for bed in beds.into_iter().filter(|bed| bed.barred) {
            let closed = self.let_read(bed, Rights::None).or_else(|_| self.let_read(bed, Rights::None));
            if let Err(error) = closed {
                tracing::warn!(%error, at = %bed.at, "a right that was lent could not be taken back");
                if let Some(chain) = self.chain_holding_mut(bed.at.0) {
                    let lent = Grant { device: bed.stream.device, rights: Rights::Read };
                    chain.rights.set(bed.at.0..bed.at.0 + bed.bytes, &[lent]);
                }
            }
        }
    }

    fn let_read(&self, bed: &Bed, rights: Rights) -> std::result::Result<(), Error> {
        let here = self.slot_holding(bed.at.0).and_then(Slot::current);
        open(here, &[Grant { device: bed.stream.device, rights }])
    }
}
