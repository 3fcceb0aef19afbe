//! The structs of the header as Rust sees them, and what each means to the pool.

mod backup;
mod device;
mod device_info;
mod device_stats;
mod driver_info;
mod driver_options;
mod grant;
mod listener;
mod moved;
mod part;
mod range;
mod relief;
mod request;
mod scope;
mod segment;
mod settings;
mod stats;
mod ticket;
mod trimmed;

pub use backup::CBackup;
pub use device::{device_of, number_of};
pub use device_info::CDeviceInfo;
pub use device_stats::CDeviceStats;
pub use driver_info::CDriverInfo;
pub use driver_options::CDriverOptions;
pub use grant::CGrant;
pub use listener::{CLeaving, CReturned};
pub use moved::CMoved;
pub use part::CPart;
pub use range::CRange;
pub use relief::{CRelief, CShortage};
pub use request::{CPiece, CRequest};
pub use scope::CScope;
pub use segment::CSegment;
pub use settings::CSettings;
pub use stats::CStats;
pub use ticket::{CTicket, CTicketInfo};
pub use trimmed::CTrimmed;

pub(crate) use driver_options::{Choice, DriverOptions};
pub(crate) use grant::{grants_of, rights_of};
pub(crate) use listener::Listener;
pub(crate) use relief::Relief;
