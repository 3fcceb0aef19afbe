//! All that the callers of one pool hold by handles of their own.

use crate::refusal::{Refusal, Result};
use crate::shelf::Shelf;
use crate::status::Status;
use parking_lot::Mutex;
use stitchpool_pool::{Growable, Lease, ListenerId, Pin, View};
use stitchpool_share::{Exporter, Offer};

/// A shelf for each kind.
pub struct Shelves {
    leases: Shelf<Mutex<Lease>>,
    views: Shelf<View>,
    growables: Shelf<Growable>,
    pins: Shelf<Pin>,
    listeners: Shelf<ListenerId>,
    exporters: Shelf<Exporter>,
    offers: Shelf<Offer>,
}

/// A kind of thing that stands on a shelf.
pub trait Shelved: Sized {
    #[doc(hidden)]
    fn find(shelves: &Shelves) -> Kind<'_, Self>;
}

/// The shelf of one kind.
pub struct Kind<'a, T>(pub(crate) &'a Shelf<T>);

macro_rules! shelved {
    ($($thing:ty, $shelf:ident;)*) => {
        $(impl Shelved for $thing {
            fn find(shelves: &Shelves) -> Kind<'_, Self> {
                Kind(&shelves.$shelf)
            }
        })*
    };
}

shelved! {
    Mutex<Lease>, leases;
    View, views;
    Growable, growables;
    Pin, pins;
    ListenerId, listeners;
    Exporter, exporters;
    Offer, offers;
}

impl Shelves {
    /// Empty ones. The tables of drivers and pools have the kinds 1 and 2; those of importers come after these.
    pub(crate) const fn new() -> Self {
        Self {
            leases: Shelf::new("lease", 3),
            views: Shelf::new("view", 4),
            growables: Shelf::new("growable", 5),
            pins: Shelf::new("pin", 6),
            listeners: Shelf::new("listener", 7),
            exporters: Shelf::new("exporter", 8),
            offers: Shelf::new("offer", 9),
        }
    }

    /// Refuses while anything is held that keeps memory in its place.
    pub(crate) fn may_go(&self) -> Result<()> {
        let stays = [self.leases.held(), self.views.held(), self.growables.held(), self.pins.held()];
        let held = stays.into_iter().chain([self.offers.held(), self.exporters.held()]);
        let held: Vec<String> =
            held.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{name}s: {count}")).collect();
        if held.is_empty() {
            return Ok(());
        }
        let words = format!(
            "something is still held ({}): end it, or leave all standing with stitchpool_pool_destroy_leaking",
            held.join(", ")
        );
        Err(Refusal::new(Status::InUse, words))
    }
}
