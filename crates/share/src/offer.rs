//! The owner of an offer: while it lives, other processes may import what its ticket names.

use crate::house::House;
use crate::ticket::Ticket;
use std::sync::Arc;

/// Memory that is offered. Its blocks are held in place.
///
/// Dropped, nobody can import it any more, and who has is asked to let it go; the blocks are held until
/// the last of these is gone, which the exporter sees when it is served. To be sure of that, recall it:
/// [`Exporter::recall`](crate::Exporter::recall).
#[derive(Debug)]
#[must_use = "the memory is offered only while this lives"]
pub struct Offer {
    pub(crate) house: Arc<House>,
    pub(crate) ticket: Ticket,
}

impl Offer {
    /// What other processes import by.
    #[must_use]
    pub const fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Which offer of its exporter this is.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.ticket.generation
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.house.end_offer(self.ticket.generation);
    }
}
