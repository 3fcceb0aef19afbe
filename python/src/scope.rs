//! What Python callers name of a pool's memory: an arena, a block, or a range of addresses.

use crate::arena::Arena;
use crate::block::Block;
use crate::pool::Pool;
use crate::refused::{Refused, Result};
use pyo3::prelude::*;
use stitchpool_driver::Address;
use stitchpool_pool::Scope;

/// The scope: `None` is all of the pool, a pair is an address and a length.
pub(crate) fn scope_of(pool: &Pool, of: Option<&Bound<'_, PyAny>>) -> Result<Scope> {
    let Some(of) = of.filter(|of| !of.is_none()) else { return Ok(Scope::All) };
    if let Ok(arena) = of.cast::<Arena>() {
        return if arena.get().is_of(pool) { Ok(Scope::Arena(arena.get().id())) } else { Err(foreign("arena")) };
    }
    if let Ok(block) = of.cast::<Block>() {
        return if block.get().is_of(pool) { block.get().scope() } else { Err(foreign("block")) };
    }
    match of.extract::<(u64, u64)>() {
        Ok((address, bytes)) => Ok(Scope::Range { address: Address(address), bytes }),
        Err(_) => {
            let words = format!("{} names no memory: pass an arena, a block, or (address, bytes)", of.get_type());
            Err(Refused::request(words))
        }
    }
}

/// A block's addresses, or those from an address on; its first byte where no length is said.
pub(crate) fn range_of(block: &Bound<'_, PyAny>, bytes: Option<u64>) -> Result<(Address, u64)> {
    match block.cast::<Block>() {
        Ok(block) => Ok((Address(block.get().live_address()?), bytes.unwrap_or(block.get().length()))),
        Err(_) => Ok((Address(block.extract()?), bytes.unwrap_or(1))),
    }
}

fn foreign(what: &str) -> Refused {
    Refused::request(format!("this {what} is another pool's: ask this pool for its own"))
}
