//! The functions of the header. Each names its arguments' conditions there, under "Rules of all
//! functions"; here they are read, handed on, and the answer is written.

pub mod alloc;
pub mod arena;
pub mod capture;
pub mod driver;
pub mod exporter;
pub mod free;
pub mod growable;
pub mod importer;
pub mod lease;
pub mod limits;
pub mod listener;
pub mod look;
pub mod pin;
pub mod pool;
pub mod rights;
pub mod stream;
pub mod torch;
pub mod version;
pub mod view;
