//! Tickets: bytes that are passed on, and what they say.

use crate::record::Record;
use crate::refusal::Result;
use stitchpool_driver::HandleKind;
use stitchpool_share::Ticket;

/// `stitchpool_ticket`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CTicket {
    pub bytes: [u8; 256],
}

impl CTicket {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self { bytes: ticket.to_bytes() }
    }

    pub(crate) fn understood(&self) -> Result<Ticket> {
        Ok(Ticket::of_bytes(&self.bytes)?)
    }
}

/// `stitchpool_ticket_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header says it")]
pub struct CTicketInfo {
    pub struct_size: usize,
    pub generation: u64,
    pub mapped_bytes: u64,
    pub offset_bytes: u64,
    pub bytes: u64,
    pub parts: u32,
    pub ranks: u32,
    pub pid: u32,
    pub handle_kind: i32,
    pub rights: i32,
    pub reserved: u32,
    pub device_uuid: [u8; 16],
}

// SAFETY: the size, then numbers, without padding.
unsafe impl Record for CTicketInfo {
    const NAME: &'static str = "stitchpool_ticket_info";
    const FIRST_BYTES: usize = 80;
}

impl CTicketInfo {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self {
            struct_size: size_of::<Self>(),
            generation: ticket.generation(),
            mapped_bytes: ticket.bytes(),
            offset_bytes: ticket.offset_bytes(),
            bytes: ticket.part_bytes(),
            parts: ticket.parts(),
            ranks: ticket.ranks(),
            pid: ticket.pid(),
            handle_kind: if ticket.kind() == HandleKind::Fabric { 2 } else { 1 },
            rights: ticket.rights() as i32,
            reserved: 0,
            device_uuid: ticket.device().0,
        }
    }
}
