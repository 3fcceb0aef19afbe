//! Arenas: the named parts of a pool, and whether each of them is awake. It knows no memory.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use stitchpool_driver::Grant;

/// A named part of a pool. A block belongs to one arena for its life; what is asked of an arena is done
/// to all its blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ArenaId(pub(crate) u32);

impl ArenaId {
    /// The arena of every request that names none.
    pub const DEFAULT: Self = Self(0);

    /// The arena with this number, for faces whose callers keep numbers. One that is no arena's is refused
    /// where it is used.
    #[must_use]
    pub const fn of_number(number: u32) -> Self {
        Self(number)
    }

    /// Its number in the pool.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn is_default(self) -> bool {
        self.0 == Self::DEFAULT.0
    }
}

/// What an arena is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Wakefulness {
    /// Its blocks have memory, and more can be asked for.
    #[default]
    Awake,
    /// An operation on all of it is under way.
    Moving,
    /// Its blocks have no memory.
    Asleep,
}

/// One arena.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    pub(crate) name: Arc<str>,
    pub(crate) wakefulness: Wakefulness,
    /// Rights that were asked for all its memory, over what each request gives.
    pub(crate) grants: Vec<Grant>,
}

impl Arena {
    /// What errors call it.
    pub(crate) fn title(&self) -> String {
        format!("arena {:?}", self.name)
    }

    /// Refuses what cannot be while an operation on all of it is under way.
    pub(crate) fn demand_still(&self) -> Result<()> {
        if self.wakefulness == Wakefulness::Moving { Err(Error::Busy { what: self.title() }) } else { Ok(()) }
    }

    /// Refuses what needs the memory of its blocks.
    pub(crate) fn demand_awake(&self) -> Result<()> {
        self.demand_still()?;
        if self.wakefulness == Wakefulness::Asleep { Err(Error::Asleep { what: self.title() }) } else { Ok(()) }
    }
}

/// The arenas of a pool. Serials are never given twice, so an id of a dissolved arena is known as such.
#[derive(Debug)]
pub(crate) struct Arenas {
    by_serial: BTreeMap<u32, Arena>,
    next_serial: u32,
}

/// So many arenas can be at a time.
const ARENAS_MAX: usize = 4096;

impl Default for Arenas {
    fn default() -> Self {
        let mut arenas = Self { by_serial: BTreeMap::new(), next_serial: 0 };
        arenas.add("default".into());
        arenas
    }
}

impl Arenas {
    /// The arena of this name, made if there is none.
    pub(crate) fn named(&mut self, name: &str) -> Result<ArenaId> {
        let known = self.by_serial.iter().find(|(_, arena)| &*arena.name == name);
        if let Some((&serial, _)) = known {
            return Ok(ArenaId(serial));
        }
        if self.by_serial.len() >= ARENAS_MAX {
            return Err(Error::TooMany {
                what: "arenas",
                count: ARENAS_MAX as u64,
                remedy: "use one arena for what is suspended together, and dissolve those no longer used",
            });
        }
        Ok(self.add(name.into()))
    }

    fn add(&mut self, name: Arc<str>) -> ArenaId {
        let serial = self.next_serial;
        self.next_serial += 1;
        let arena = Arena { name, wakefulness: Wakefulness::Awake, grants: Vec::new() };
        self.by_serial.insert(serial, arena);
        ArenaId(serial)
    }

    /// The arena is no more. Its serial is never given again.
    pub(crate) fn remove(&mut self, id: ArenaId) {
        self.by_serial.remove(&id.0);
    }

    pub(crate) fn get(&self, id: ArenaId) -> Result<&Arena> {
        self.by_serial.get(&id.0).ok_or(Error::UnknownArena { serial: id.0 })
    }

    pub(crate) fn get_mut(&mut self, id: ArenaId) -> Result<&mut Arena> {
        self.by_serial.get_mut(&id.0).ok_or(Error::UnknownArena { serial: id.0 })
    }

    /// Every arena there is.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ArenaId> + '_ {
        self.by_serial.keys().map(|&serial| ArenaId(serial))
    }
}
