//! What an importer asks of an exporter.

use crate::packet::{Packet, Reading};
use stitchpool_driver::Rights;

/// A question, or word of what the importer has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Who is here: the first message, once.
    Hello { version: u32 },
    /// The memory of a generation is about to be imported.
    Open { generation: u64, rights: Rights },
    /// The handles from the `first` on, as many as fit a message.
    Handles { generation: u64, first: u32 },
    /// The parts from the `first` on, as many as fit a message.
    Parts { generation: u64, first: u32 },
    /// Of an import together: this process has mapped all, or could not.
    Vote { generation: u64, refusal: Option<String> },
    /// One import of the generation is gone. Not answered.
    Leave { generation: u64 },
}

const HELLO: u16 = 1;
const OPEN: u16 = 2;
const HANDLES: u16 = 3;
const PARTS: u16 = 4;
const VOTE: u16 = 5;
const LEAVE: u16 = 6;

impl Request {
    pub(crate) fn packet(&self) -> Packet {
        match self {
            Self::Hello { version } => {
                let mut packet = Packet::of_kind(HELLO);
                packet.put_u32(*version);
                packet
            }
            Self::Open { generation, rights } => {
                let mut packet = about(OPEN, *generation);
                packet.put(&[rights_byte(*rights)]);
                packet
            }
            Self::Handles { generation, first } => {
                let mut packet = about(HANDLES, *generation);
                packet.put_u32(*first);
                packet
            }
            Self::Parts { generation, first } => {
                let mut packet = about(PARTS, *generation);
                packet.put_u32(*first);
                packet
            }
            Self::Vote { generation, refusal } => {
                let mut packet = about(VOTE, *generation);
                put_refusal(&mut packet, refusal.as_deref());
                packet
            }
            Self::Leave { generation } => about(LEAVE, *generation),
        }
    }

    /// The request that a message is, or what is wrong with it.
    pub(crate) fn read(packet: &Packet) -> Result<Self, String> {
        let (kind, mut reading) = Reading::begin(&packet.bytes)?;
        let request = match kind {
            HELLO => Self::Hello { version: reading.u32()? },
            OPEN => Self::Open { generation: reading.u64()?, rights: rights_of(reading.u8()?)? },
            HANDLES => Self::Handles { generation: reading.u64()?, first: reading.u32()? },
            PARTS => Self::Parts { generation: reading.u64()?, first: reading.u32()? },
            VOTE => Self::Vote { generation: reading.u64()?, refusal: refusal(&mut reading)? },
            LEAVE => Self::Leave { generation: reading.u64()? },
            other => return Err(format!("a request of kind {other} is unknown")),
        };
        reading.end()?;
        if !packet.descriptors.is_empty() {
            return Err("a request brings no descriptors".into());
        }
        Ok(request)
    }
}

fn about(kind: u16, generation: u64) -> Packet {
    let mut packet = Packet::of_kind(kind);
    packet.put_u64(generation);
    packet
}

pub(crate) fn put_refusal(packet: &mut Packet, refusal: Option<&str>) {
    packet.put(&[u8::from(refusal.is_some())]);
    packet.put_text(refusal.unwrap_or_default());
}

pub(crate) fn refusal(reading: &mut Reading<'_>) -> Result<Option<String>, String> {
    let refused = reading.u8()?;
    let text = reading.text()?;
    match refused {
        0 => Ok(None),
        1 => Ok(Some(text)),
        other => Err(format!("{other} is neither yes nor no")),
    }
}

pub(crate) const fn rights_byte(rights: Rights) -> u8 {
    match rights {
        Rights::None => 0,
        Rights::Read => 1,
        Rights::ReadWrite => 2,
    }
}

pub(crate) fn rights_of(byte: u8) -> Result<Rights, String> {
    match byte {
        1 => Ok(Rights::Read),
        2 => Ok(Rights::ReadWrite),
        other => Err(format!("{other} names no rights that memory can be shared with")),
    }
}
