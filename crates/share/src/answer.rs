//! What an exporter answers.

use crate::packet::{DESCRIPTORS_MAX, PACKET_BYTES_MAX, Packet, Reading};
use crate::request::{put_refusal, refusal};
use rustix::fd::OwnedFd;
use stitchpool_driver::{Address, FabricHandle, HandleKind, Shareable, Uuid};
use stitchpool_pool::ExportedPart;

/// An answer, or word of what the exporter wants.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To `Hello`: who answers here.
    Welcome { exporter: [u8; 16] },
    /// To `Open`.
    Layout(Layout),
    /// To `Handles`.
    Handles(Vec<HandleRecord>),
    /// To `Parts`.
    Parts(Vec<ExportedPart>),
    /// To `Vote`: all have, or why none has.
    Verdict { generation: u64, refusal: Option<String> },
    /// To anything.
    Refused { reason: Reason, why: String },
    /// Unasked: let the memory go.
    Recalled { generation: u64 },
}

/// What the memory of a generation is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) bytes: u64,
    pub(crate) handles: u32,
    pub(crate) parts: u32,
    /// A process that imports together waits so long for the others; 0: it imports alone.
    pub(crate) within_ms: u64,
}

/// One handle on its way.
#[derive(Debug)]
pub(crate) struct HandleRecord {
    pub(crate) bytes: u64,
    pub(crate) uuid: Uuid,
    pub(crate) shareable: Shareable,
}

/// Which refusals an importer tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// The generation is not offered.
    Stale,
    /// Anything else.
    Other,
}

const WELCOME: u16 = 101;
const LAYOUT: u16 = 102;
const HANDLES: u16 = 103;
const PARTS: u16 = 104;
const VERDICT: u16 = 105;
const REFUSED: u16 = 106;
const RECALLED: u16 = 107;

const HEAD_BYTES: usize = 14;
const HANDLE_RECORD_BYTES: usize = 8 + 16 + 1 + FabricHandle::BYTES;
const PART_RECORD_BYTES: usize = 24;
/// So many handles go in a message.
pub(crate) const HANDLES_MAX: usize = DESCRIPTORS_MAX;
/// And so many parts.
pub(crate) const PARTS_MAX: usize = 128;
const _: () = assert!(HEAD_BYTES + HANDLES_MAX * HANDLE_RECORD_BYTES <= PACKET_BYTES_MAX);
const _: () = assert!(HEAD_BYTES + PARTS_MAX * PART_RECORD_BYTES <= PACKET_BYTES_MAX);

impl Answer {
    pub(crate) fn packet(self) -> Packet {
        match self {
            Self::Welcome { exporter } => {
                let mut packet = Packet::of_kind(WELCOME);
                packet.put(&exporter);
                packet
            }
            Self::Layout(Layout { bytes, handles, parts, within_ms }) => {
                let mut packet = Packet::of_kind(LAYOUT);
                packet.put_u64(bytes);
                packet.put_u32(handles);
                packet.put_u32(parts);
                packet.put_u64(within_ms);
                packet
            }
            Self::Handles(records) => {
                let mut packet = Packet::of_kind(HANDLES);
                packet.put_u32(records.len() as u32);
                records.into_iter().for_each(|record| record.put(&mut packet));
                packet
            }
            Self::Parts(parts) => {
                let mut packet = Packet::of_kind(PARTS);
                packet.put_u32(parts.len() as u32);
                for part in parts {
                    [part.address.0, part.bytes, part.offset_bytes].iter().for_each(|&number| packet.put_u64(number));
                }
                packet
            }
            Self::Verdict { generation, refusal } => {
                let mut packet = Packet::of_kind(VERDICT);
                packet.put_u64(generation);
                put_refusal(&mut packet, refusal.as_deref());
                packet
            }
            Self::Refused { reason, why } => {
                let mut packet = Packet::of_kind(REFUSED);
                packet.put(&[u8::from(reason == Reason::Stale)]);
                packet.put_text(&why);
                packet
            }
            Self::Recalled { generation } => {
                let mut packet = Packet::of_kind(RECALLED);
                packet.put_u64(generation);
                packet
            }
        }
    }

    /// The answer that a message is, or what is wrong with it.
    pub(crate) fn read(packet: Packet) -> Result<Self, String> {
        let Packet { bytes, descriptors } = packet;
        let mut descriptors = descriptors.into_iter();
        let (kind, mut reading) = Reading::begin(&bytes)?;
        let answer = match kind {
            WELCOME => Self::Welcome { exporter: reading.take()? },
            LAYOUT => Self::Layout(Layout {
                bytes: reading.u64()?,
                handles: reading.u32()?,
                parts: reading.u32()?,
                within_ms: reading.u64()?,
            }),
            HANDLES => {
                let plain = reading.records(|reading| PlainRecord::read(reading))?;
                Self::Handles(plain.into_iter().map(|plain| plain.with(&mut descriptors)).collect::<Result<_, _>>()?)
            }
            PARTS => Self::Parts(reading.records(|reading| {
                let (address, bytes, offset_bytes) = (Address(reading.u64()?), reading.u64()?, reading.u64()?);
                Ok(ExportedPart { address, bytes, offset_bytes })
            })?),
            VERDICT => Self::Verdict { generation: reading.u64()?, refusal: refusal(&mut reading)? },
            REFUSED => {
                let reason = if reading.u8()? == 1 { Reason::Stale } else { Reason::Other };
                Self::Refused { reason, why: reading.text()? }
            }
            RECALLED => Self::Recalled { generation: reading.u64()? },
            other => return Err(format!("an answer of kind {other} is unknown")),
        };
        reading.end()?;
        match descriptors.next() {
            None => Ok(answer),
            Some(_) => Err("more descriptors came than it speaks of".into()),
        }
    }
}

impl HandleRecord {
    fn put(self, packet: &mut Packet) {
        packet.put_u64(self.bytes);
        packet.put(&self.uuid.0);
        packet.put(&[u8::from(self.shareable.kind() == HandleKind::Fabric)]);
        match self.shareable {
            Shareable::Descriptor(descriptor) => {
                packet.put(&[0; FabricHandle::BYTES]);
                packet.descriptors.push(descriptor);
            }
            Shareable::Fabric(FabricHandle(name)) => packet.put(&name),
        }
    }
}

/// A record without its descriptor.
struct PlainRecord {
    bytes: u64,
    uuid: Uuid,
    fabric: Option<FabricHandle>,
}

impl PlainRecord {
    fn read(reading: &mut Reading<'_>) -> Result<Self, String> {
        let (bytes, uuid) = (reading.u64()?, Uuid(reading.take()?));
        let (is_fabric, name) = (reading.u8()?, FabricHandle(reading.take()?));
        Ok(Self { bytes, uuid, fabric: (is_fabric == 1).then_some(name) })
    }

    fn with(self, descriptors: &mut impl Iterator<Item = OwnedFd>) -> Result<HandleRecord, String> {
        let shareable = match self.fabric {
            Some(name) => Shareable::Fabric(name),
            None => Shareable::Descriptor(descriptors.next().ok_or("fewer descriptors came than it speaks of")?),
        };
        Ok(HandleRecord { bytes: self.bytes, uuid: self.uuid, shareable })
    }
}
