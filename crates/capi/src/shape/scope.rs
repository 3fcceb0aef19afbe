//! What an operation on memory that stays at its address is about.

use crate::pointer::address_of;
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::status::Status;
use std::ffi::c_void;
use stitchpool_pool::{ArenaId, Scope};

/// `stitchpool_scope`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CScope {
    pub struct_size: usize,
    pub kind: i32,
    pub arena: u32,
    pub address: *const c_void,
    pub bytes: u64,
}

// SAFETY: the size, then numbers and a pointer, without padding.
unsafe impl Record for CScope {
    const NAME: &'static str = "stitchpool_scope";
    const FIRST_BYTES: usize = 32;
}

impl CScope {
    /// All of a pool.
    pub(crate) const ALL: Self =
        Self { struct_size: size_of::<Self>(), kind: 0, arena: 0, address: std::ptr::null(), bytes: 0 };

    pub(crate) fn understood(&self) -> Result<Scope> {
        let address = address_of(self.address);
        Ok(match self.kind {
            0 => Scope::All,
            1 => Scope::Arena(ArenaId::of_number(self.arena)),
            2 => Scope::Block(address),
            3 => Scope::Range { address, bytes: self.bytes },
            kind => {
                let words = format!("{}.kind is {kind}: 0 is all, 1 an arena, 2 a block, 3 a range", Self::NAME);
                return Err(Refusal::new(Status::InvalidArgument, words));
            }
        })
    }
}
