//! Where memory of a life can lie: the devices, and the host where it is a place of the pool. How much there is,
//! and how much of it the pool may hold.

use crate::case::{Store, Where};
use crate::world::{DEVICES, World};
use stitchpool::driver::{DeviceId, Driver};
use stitchpool::{Backup, Holdings, Piece, Placement, Segment, Shortage};

impl World<'_> {
    /// A place of the pool.
    pub fn place(&self, pick: usize) -> DeviceId {
        self.places[pick % self.places.len()]
    }

    pub fn backup(&self, store: Store) -> Backup {
        match store {
            Store::Host => Backup::Host,
            Store::Discard => Backup::Discard,
            Store::Peer(place) => Backup::Peer(self.place(place)),
            Store::Disk => Backup::Disk(std::env::temp_dir()),
        }
    }

    /// Where it is for a stream of a device. Without the host as a place, its part is the other device's.
    pub fn placement(&self, place: Where, home: DeviceId) -> Option<Placement> {
        let other = DeviceId(1 - home.0);
        let host = self.places.get(usize::from(DEVICES)).copied();
        let deal = |devices| Some(Placement::RoundRobin { devices, stripe_bytes: self.case.granule_bytes });
        match place {
            Where::Home => None,
            Where::Away => Some(Placement::Home(other)),
            Where::Host => Some(Placement::Home(host.unwrap_or(other))),
            Where::Dealt => deal(vec![home, other]),
            Where::Mixed => deal([home, other].into_iter().chain(host).collect()),
            Where::Weighted => Some(Placement::Weighted(vec![(home, 2), (other, 1)])),
            Where::Spilled => Some(Placement::Spill([home, other].into_iter().chain(host).collect())),
        }
    }

    /// Each granule lies where the placement says.
    pub fn assert_placed(placement: &Placement, segments: &[Segment], granule_bytes: u64) {
        let bytes = segments.iter().map(|segment| segment.bytes).sum();
        let mut homes = placed(placement, bytes, granule_bytes).into_iter();
        let granules =
            |segment: &Segment| std::iter::repeat_n(segment.device, (segment.bytes / granule_bytes) as usize);
        let mut lies = segments.iter().flat_map(granules);
        assert!(lies.all(|device| homes.next().unwrap().contains(&device)), "{placement:?}: {segments:?}");
    }

    /// What the pool holds of each place.
    pub fn physical(&self) -> Vec<u64> {
        self.pool.stats().devices.iter().map(|device| device.holdings.physical_bytes).collect()
    }

    /// A request was refused for want of memory: not even what nobody
    /// has taken yet of its places is enough for so many bytes. It can be shown where a handle is a granule.
    pub fn assert_short(&self, placement: &Placement, bytes: u64, shortage: &Shortage) {
        if self.case.handle_granules > 1 || self.pool.stats().quarantined > 0 {
            return;
        }
        let devices = match placement {
            Placement::Home(device) => std::slice::from_ref(device),
            Placement::Spill(devices) => devices,
            _ => return,
        };
        let granules: u64 = devices.iter().map(|&device| self.left_granules(device)).sum();
        let needed = bytes.div_ceil(self.case.granule_bytes);
        assert!(
            granules < needed,
            "{granules} granules were left of {placement:?}, {needed} are asked for: {shortage}"
        );
    }

    /// Whether of some device less is left than what may lie on it of these granules, each with its devices. It can
    /// be told where a handle is a granule.
    pub fn is_short_of(&self, homes: &[Vec<DeviceId>]) -> bool {
        let wanted = |device: &DeviceId| homes.iter().filter(|homes| homes.contains(device)).count() as u64;
        let is_short = |device: &DeviceId| self.left_granules(*device) < wanted(device);
        let untold = self.case.handle_granules > 1 || self.pool.stats().quarantined > 0;
        untold || self.places.iter().any(is_short)
    }

    /// A resume was refused for want of memory: of some place less is left than all that sleeps there needs.
    pub fn assert_short_of_sleepers(&self) {
        let stats = self.pool.stats();
        let needed = |held: &Holdings| held.suspended_bytes / self.case.granule_bytes;
        let short = |held: &Holdings| self.left_granules(held.device) < needed(held);
        assert!(stats.quarantined > 0 || stats.devices.iter().any(|device| short(&device.holdings)), "{stats:?}");
    }

    /// What nobody has taken of a place, and the pool may.
    fn left_granules(&self, device: DeviceId) -> u64 {
        let index = self.places.iter().position(|&place| place == device).unwrap();
        let allowed_bytes = self.limits_bytes[index].saturating_sub(self.physical()[index]);
        self.host.memory(device).unwrap().free_bytes.min(allowed_bytes) / self.case.granule_bytes
    }

    pub fn set_limit(&mut self, place: usize, granules: u64) -> bool {
        let limit_bytes = (granules > 0).then_some(granules * self.case.granule_bytes);
        if let Err(error) = self.pool.set_limit(self.place(place), limit_bytes) {
            return self.excuse(&error);
        }
        let index = place % self.places.len();
        self.limits_bytes[index] = limit_bytes.unwrap_or(u64::MAX);
        false
    }

    pub fn set_headroom(&self, place: usize, granules: u64) {
        self.pool.set_headroom(self.place(place), granules * self.case.granule_bytes).unwrap();
    }

    /// Others take so many granules. More than the pool leaves them is refused, and then nothing changes.
    pub fn set_outside(&self, place: usize, granules: u64) {
        drop(self.host.outside(self.place(place), granules * self.case.granule_bytes));
    }
}

/// The devices that each granule of so many bytes may lie on.
pub fn placed(placement: &Placement, bytes: u64, granule_bytes: u64) -> Vec<Vec<DeviceId>> {
    let homes = |piece: Piece| {
        let home = std::iter::once(piece.device).chain(placement.fallbacks().iter().copied()).collect();
        std::iter::repeat_n(home, (piece.bytes / granule_bytes) as usize)
    };
    placement.pieces(bytes, granule_bytes).unwrap().into_iter().flat_map(homes).collect()
}
