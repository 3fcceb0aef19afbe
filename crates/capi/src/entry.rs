//! The functions of the header. Each names its arguments' conditions there, under "Rules of all
//! functions"; here they are read, handed on, and the answer is written.

pub mod alloc;
pub mod arena;
pub mod driver;
pub mod free;
pub mod limits;
pub mod look;
pub mod pool;
pub mod stream;
pub mod torch;
pub mod version;
