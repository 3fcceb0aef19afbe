//! Random and damaged files: whatever they hold, an answer comes back. Each body is a plain function of bytes.

use crate::data::fixture_bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use stitchpool_trace::{Limits, Trace, write_snapshot};

/// Small enough that a file which reaches a limit does so at once.
fn limits() -> Limits {
    Limits {
        unpacked_bytes: 1 << 20,
        nesting: 100,
        stack_values: 10_000,
        memo_entries: 10_000,
        kept_values: 100_000,
        token_bytes: 10_000,
        window_bytes: 16 << 20,
    }
}

/// Any bytes: an answer, and if it is a trace, one that can be played and written and read back as itself.
fn reads_or_refuses(bytes: &[u8]) {
    let Ok(trace) = Trace::read(bytes, &limits()) else { return };
    for device in &trace.devices {
        let steps = device.steps();
        assert!(steps.steps.len() <= 2 * device.events.len());
    }
    let mut written = Vec::new();
    write_snapshot(&trace, &mut written).unwrap();
    let again = Trace::read(&written[..], &Limits::default()).unwrap();
    assert_eq!(again.devices, trace.devices);
}

const SEEDS: [&str; 6] =
    ["protocol2.pickle", "protocol5.pickle", "packed.pickle.gz", "packed.pickle.xz", "packed.pickle.zst", "rmm.csv"];

/// One change to a file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Flip(at, bit) => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << (bit % 8);
            }
            Self::Set(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            Self::Insert(at, more) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, more);
            }
            Self::Remove(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Self::Repeat(at, count) => {
                let at = at.index(bytes.len());
                let piece = bytes[at..(at + count).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), vec(any::<u8>(), 1..8)).prop_map(|(at, more)| Damage::Insert(at, more)),
        (at(), 1..64_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (at(), 1..256_usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ]
}

/// Opcodes that a machine obeys, with arguments that make sense, so that programs get far.
fn opcode() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::sample::select(vec![
        "action",
        "addr",
        "size",
        "stream",
        "time_us",
        "segments",
        "device_traces",
        "blocks",
        "device",
        "address",
        "alloc",
        "total_size",
        "state",
        "inactive",
        "free_completed",
        "allocator_settings",
        "x",
    ]);
    prop_oneof![
        4 => text.prop_map(|text| [&[b'U', u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()),
        2 => any::<u8>().prop_map(|byte| vec![b'K', byte]),
        2 => (0..8_u8).prop_map(|index| vec![b'h', index]),
        2 => (0..8_u8).prop_map(|index| vec![b'q', index]),
        6 => prop::sample::select(b"(}])uesatldN012\x94\x85\x86\x87\x88\x8f\x90\x91.".to_vec()).prop_map(|byte| vec![byte]),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..600), head in 0..5_usize) {
        let magic: [&[u8]; 5] = [b"", b"\x80\x04", b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
        reads_or_refuses(&[magic[head], &bytes].concat());
    }

    #[test]
    fn damaged_files_never_panic(seed in 0..SEEDS.len(), damages in vec(damage(), 1..6)) {
        let mut bytes = fixture_bytes(SEEDS[seed]);
        for damage in damages {
            damage.apply(&mut bytes);
        }
        reads_or_refuses(&bytes);
    }

    #[test]
    fn random_programs_never_panic(opcodes in vec(opcode(), 0..200)) {
        reads_or_refuses(&[b"\x80\x04".to_vec(), opcodes.concat(), b".".to_vec()].concat());
    }

    #[test]
    fn random_log_lines_never_panic(lines in vec("[0-9a-z:.,() -]{0,40}", 0..20)) {
        let log = format!("Thread,Time,Action,Pointer,Size,Stream\n{}", lines.join("\n"));
        reads_or_refuses(log.as_bytes());
    }
}
