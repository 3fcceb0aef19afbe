//! Tickets: what one process gives another so that it can import memory. Plain bytes of a fixed layout.

use crate::door::{NAME_BYTES_MAX, Name};
use crate::error::{Error, Result};
use crate::request::{rights_byte, rights_of};
use std::fmt;
use stitchpool_driver::{HandleKind, Rights, Uuid};

/// So many bytes a ticket has.
pub const TICKET_BYTES: usize = 256;
/// The version of tickets and messages that this program speaks.
pub(crate) const VERSION: u32 = 1;
const MARK: &[u8; 8] = b"stitch\x01\n";
/// The checksum is over all before it.
const SUMMED_BYTES: usize = TICKET_BYTES - 4;

/// Names memory that an exporter offers. Two tickets of the same offer are the same bytes: every byte is
/// written, and none of them depends on when it was.
///
/// It is no secret and no right: only processes of the exporter's user get an answer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) kind: HandleKind,
    pub(crate) rights: Rights,
    pub(crate) exporter: [u8; 16],
    pub(crate) uuid: Uuid,
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    pub(crate) offset_bytes: u64,
    pub(crate) part_bytes: u64,
    pub(crate) handles: u32,
    pub(crate) parts: u32,
    pub(crate) ranks: u32,
    pub(crate) pid: u32,
    pub(crate) name: Name,
}

impl Ticket {
    /// How the handles travel.
    #[must_use]
    pub const fn kind(&self) -> HandleKind {
        self.kind
    }

    /// The most that an importer may do with the memory.
    #[must_use]
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// The device that the first of the memory lies on.
    #[must_use]
    pub const fn device(&self) -> Uuid {
        self.uuid
    }

    /// Which offer of its exporter it names. A generation never comes again.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// How many bytes an importer maps: whole handles.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the first part begins in what is mapped.
    #[must_use]
    pub const fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// How long the first part is.
    #[must_use]
    pub const fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// How many parts were offered.
    #[must_use]
    pub const fn parts(&self) -> u32 {
        self.parts
    }

    /// How many processes import it together, all or none; 0: each for itself.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The exporting process, as it sees itself.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The ticket as bytes, to be passed on by any means.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TICKET_BYTES] {
        let name = self.name.bytes();
        let mut bytes = Vec::with_capacity(TICKET_BYTES);
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[u8::from(self.kind == HandleKind::Fabric), rights_byte(self.rights)]);
        bytes.extend_from_slice(&[name.len() as u8, 0]);
        bytes.extend_from_slice(&self.exporter);
        bytes.extend_from_slice(&self.uuid.0);
        for number in [self.generation, self.bytes, self.offset_bytes, self.part_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.handles, self.parts, self.ranks, self.pid] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&name);
        bytes.resize(SUMMED_BYTES, 0);
        let sum = crc32fast::hash(&bytes);
        let mut whole = [0; TICKET_BYTES];
        whole[..SUMMED_BYTES].copy_from_slice(&bytes);
        whole[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        whole
    }

    /// The ticket that bytes are.
    ///
    /// # Errors
    /// [`Error::NoTicket`], or [`Error::Version`].
    pub fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let no = |why: String| Error::NoTicket(why);
        let whole: &[u8; TICKET_BYTES] =
            bytes.try_into().map_err(|_| no(format!("{} bytes came, and a ticket has {TICKET_BYTES}", bytes.len())))?;
        let mut rest = Rest(&whole[..]);
        if &rest.take::<8>() != MARK {
            return Err(no("it does not begin as one".into()));
        }
        let version = u32::from_le_bytes(rest.take());
        if version != VERSION {
            return Err(Error::Version { what: "the ticket", found: version, known: VERSION });
        }
        let [fabric, rights, name_bytes, _] = rest.take();
        if crc32fast::hash(&whole[..SUMMED_BYTES]).to_le_bytes() != whole[SUMMED_BYTES..] {
            return Err(no("its checksum is wrong".into()));
        }
        let (exporter, uuid) = (rest.take(), Uuid(rest.take()));
        let [generation, bytes, offset_bytes, part_bytes] = [(); 4].map(|()| u64::from_le_bytes(rest.take()));
        let [handles, parts, ranks, pid] = [(); 4].map(|()| u32::from_le_bytes(rest.take()));
        let name = rest.0.get(..usize::from(name_bytes)).filter(|name| name.len() <= NAME_BYTES_MAX + 1);
        let name = name.and_then(Name::of_bytes).ok_or_else(|| no("it names no socket".into()))?;
        let kind = if fabric == 1 { HandleKind::Fabric } else { HandleKind::FileDescriptor };
        let rights = rights_of(rights).map_err(no)?;
        let inside = offset_bytes.checked_add(part_bytes).is_some_and(|end| end <= bytes);
        if !inside || part_bytes == 0 || handles == 0 || parts == 0 {
            return Err(no(format!("{part_bytes} bytes from {offset_bytes} lie outside of {bytes}")));
        }
        Ok(Self {
            kind,
            rights,
            exporter,
            uuid,
            generation,
            bytes,
            offset_bytes,
            part_bytes,
            handles,
            parts,
            ranks,
            pid,
            name,
        })
    }
}

/// What is left of a ticket whose length was checked.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, rest)) = self.0.split_first_chunk() else { return [0; N] };
        self.0 = rest;
        *head
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, bytes, rights, pid, .. } = self;
        write!(f, "Ticket(generation {generation} of process {pid}, {bytes} bytes, {rights:?}, {})", self.name.title())
    }
}

/// A device's identity as tools print it.
pub(crate) fn spelled(uuid: Uuid) -> String {
    let hex: Vec<String> = uuid.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex[from..to].concat();
    format!("GPU-{}-{}-{}-{}-{}", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            kind: HandleKind::FileDescriptor,
            rights: Rights::Read,
            exporter: [7; 16],
            uuid: Uuid(*b"0123456789abcdef"),
            generation: 3,
            bytes: 4 << 20,
            offset_bytes: 512,
            part_bytes: 1 << 20,
            handles: 2,
            parts: 1,
            ranks: 4,
            pid: 99,
            name: Name::Abstract(b"stitchpool-test".to_vec()),
        }
    }

    #[test]
    fn a_ticket_survives_its_bytes_and_is_the_same_bytes_each_time() {
        for name in [Name::Abstract(vec![b'x'; NAME_BYTES_MAX]), Name::Path("/run/a.sock".into())] {
            let ticket = Ticket { name, ..ticket() };
            assert_eq!(Ticket::of_bytes(&ticket.to_bytes()).unwrap(), ticket);
            assert_eq!(ticket.to_bytes(), ticket.clone().to_bytes());
        }
    }

    #[test]
    fn what_is_no_ticket_is_refused_in_words() {
        let whole = ticket().to_bytes();
        let said = |bytes: &[u8]| Ticket::of_bytes(bytes).unwrap_err().to_string();
        assert!(said(&whole[..255]).contains("255 bytes came"));
        assert!(said(&[0; TICKET_BYTES]).contains("does not begin as one"));
        let mut newer = whole;
        newer[8] = 2;
        assert!(said(&newer).contains("version 2, this program speaks version 1"));
        for byte in 12..TICKET_BYTES {
            let mut broken = whole;
            broken[byte] ^= 0x40;
            assert!(said(&broken).contains("checksum"), "byte {byte}");
        }
        let outside = Ticket { offset_bytes: 4 << 20, ..ticket() };
        assert!(said(&outside.to_bytes()).contains("outside"));
        let endless = Ticket { offset_bytes: u64::MAX, ..ticket() };
        assert!(said(&endless.to_bytes()).contains("outside"));
    }

    #[test]
    fn a_device_is_spelled_as_the_tools_do() {
        assert_eq!(spelled(ticket().uuid), "GPU-30313233-3435-3637-3839-616263646566");
    }
}
