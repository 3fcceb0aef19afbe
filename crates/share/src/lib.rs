//! Memory of a pool in several processes of one user.
//!
//! An [`Exporter`] offers parts of live blocks; each [`Offer`] has a [`Ticket`], plain bytes that any other
//! process may be given. An [`Importer`] takes the ticket to the exporter's socket, gets the physical handles
//! from it and maps them. Nothing runs on a thread unless it is asked for. This crate knows no heap and no
//! stream: what it may hand out, and for how long, is the pool's word.
#![forbid(unsafe_code)]

mod answer;
mod desk;
mod door;
mod error;
mod exporter;
mod home;
mod house;
mod import;
mod importer;
mod link;
mod offer;
mod packet;
mod peer;
mod request;
mod round;
mod service;
mod socket;
mod ticket;

pub use error::{Error, Result};
pub use exporter::Exporter;
pub use house::Guest;
pub use import::{Hold, Import};
pub use importer::Importer;
pub use offer::Offer;
pub use round::Together;
pub use ticket::{TICKET_BYTES, Ticket};
