//! Unpickles plain data, protocols 2 to 5, and executes nothing. Knows no shape: a [`Heap`] keeps what it cares for.

mod heap;
mod machine;
mod memo;
mod opcode;
mod pickler;
mod value;

pub(crate) use heap::Heap;
pub(crate) use machine::Machine;
pub(crate) use pickler::Pickler;
pub(crate) use value::{NodeId, TextId, Value};
