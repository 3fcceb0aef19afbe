//! Files that want to run code, exhaust the machine, or end early.

use crate::data::{Data, event, fixture_bytes, read, snapshot};
use std::io::Write;
use stitchpool_trace::{Error, ErrorKind, Limits, Trace};

/// A pickle of these opcodes.
fn pickle(opcodes: &[u8]) -> Vec<u8> {
    [b"\x80\x04", opcodes, b"."].concat()
}

fn read_within(bytes: &[u8], limits: Limits) -> Error {
    Trace::read(bytes, &limits).unwrap_err()
}

#[test]
fn opcodes_that_name_code_are_refused_by_name_and_place() {
    let cases: [(&[u8], &str); 15] = [
        (b"cos\nsystem\n", "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"N)R", "REDUCE"),
        (b"N}b", "BUILD"),
        (b"(ios\nsystem\n", "INST"),
        (b"(No", "OBJ"),
        (b"N)\x81", "NEWOBJ"),
        (b"N)}\x92", "NEWOBJ_EX"),
        (b"Pid\n", "PERSID"),
        (b"NQ", "BINPERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\x00", "EXT2"),
        (b"\x84\x01\x00\x00\x00", "EXT4"),
        (b"\x97", "NEXT_BUFFER"),
        (b"N\x98", "READONLY_BUFFER"),
    ];
    for (opcodes, name) in cases {
        let error = read(&pickle(opcodes)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.reason.contains(&format!("asks for {name},")), "{error}");
        assert!(error.position >= 2 && error.position < 2 + opcodes.len() as u64, "{error}");
    }
}

#[test]
fn opcodes_out_of_place_are_malformed() {
    let cases: [&[u8]; 20] = [
        b"", b"0", b"2", b"a", b"Na", b"NNa", b"s", b"NNNs", b"e", b"(e", b"N(e", b"u", b"}(Nu", b"](NNu", b"\x85",
        b"(\x94", b"h\x00", b"q\x00", b"NN", b"\x07",
    ];
    for opcodes in cases {
        let error = read(&pickle(opcodes)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed, "{opcodes:?}: {error}");
    }
    assert!(read(&pickle(b"I7\n")).unwrap_err().reason.contains("protocol 0"));
    assert!(read(b"\x80\x06N.").unwrap_err().reason.contains("protocol 6"));
    assert!(read(b"\x80\x02N..").unwrap_err().reason.contains("follow the pickle's end"));
}

#[test]
fn every_truncation_of_a_file_is_an_error() {
    let magic_bytes = [
        ("protocol2.pickle", 1),
        ("protocol5.pickle", 1),
        ("packed.pickle.gz", 2),
        ("packed.pickle.xz", 6),
        ("packed.pickle.zst", 4),
    ];
    for (name, magic_bytes) in magic_bytes {
        let whole = fixture_bytes(name);
        assert!(read(&whole).is_ok());
        for length in 0..whole.len() {
            let error = read(&whole[..length]).unwrap_err();
            let expected = if length < magic_bytes { ErrorKind::NotATrace } else { ErrorKind::Truncated };
            // Cut inside the magic bytes of a second xz stream, those are called wrong, not short.
            let is_second_magic = error.reason.contains("incomplete XZ magic");
            assert!(error.kind == expected || is_second_magic, "{name} cut to {length}: {error}");
            assert!(error.position <= 4096, "{name} cut to {length}: {error}");
        }
    }
}

#[test]
fn a_damaged_byte_of_a_packed_file_is_noticed_by_its_checksum() {
    for name in ["packed.pickle.gz", "packed.pickle.xz", "packed.pickle.zst"] {
        let whole = fixture_bytes(name);
        let mut damaged = whole.clone();
        let middle = whole.len() / 4;
        damaged[middle] ^= 0x10;
        assert!(read(&damaged).is_err(), "{name}");
    }
}

#[test]
fn a_declared_length_allocates_nothing() {
    let huge: [&[u8]; 6] = [
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"X\xff\xff\xff\xff",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"B\xff\xff\xff\xff",
        b"\x96\x00\x00\x00\x00\x00\x01\x00\x00",
        b"\x8b\xff\xff\xff\x7f",
    ];
    for opcodes in huge {
        let error = read(&pickle(opcodes)).unwrap_err();
        assert_eq!((error.kind, error.position), (ErrorKind::LimitReached, 2), "{error}");
    }
    // Within the limit, and not there: read in steps up to the file's end.
    let error = read(&pickle(b"X\x00\x00\xf0\x00")).unwrap_err();
    assert_eq!((error.kind, error.position), (ErrorKind::Truncated, 8), "{error}");
    // A frame's length is not believed at all.
    let framed = [b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff", &snapshot(vec![], vec![]).pickle()[2..]].concat();
    assert!(read(&framed).is_ok());
}

#[test]
fn a_memo_grows_only_with_what_is_put_in() {
    let error = read(&pickle(b"Nr\xff\xff\xff\x01")).unwrap_err();
    assert!(error.kind == ErrorKind::Malformed && error.reason.contains("after only 0 entries"), "{error}");
    let error = read(&pickle(b"Nr\xff\xff\xff\xff")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitReached, "{error}");
    let bomb = pickle(&[b"N".as_slice(), &[0x94; 11]].concat());
    let error = read_within(&bomb, Limits { memo_entries: 10, ..Limits::default() });
    assert_eq!((error.kind, error.position), (ErrorKind::LimitReached, 13), "{error}");
}

#[test]
fn nesting_and_stack_are_bounded() {
    let deep = pickle(&[b'('; 100_000]);
    let error = read(&deep).unwrap_err();
    assert_eq!((error.kind, error.position), (ErrorKind::LimitReached, 1002), "{error}");
    let wide = pickle(&[b'N'; 1000]);
    let error = read_within(&wide, Limits { stack_values: 999, ..Limits::default() });
    assert_eq!((error.kind, error.position), (ErrorKind::LimitReached, 1001), "{error}");
    // Tuples inside each other need no mark, and no recursion either.
    let tuples = pickle(&[b"N".as_slice(), &[0x85; 500_000]].concat());
    assert!(read(&tuples).unwrap_err().reason.contains("bare list"));
}

#[test]
fn what_is_kept_is_bounded() {
    let few = Limits { kept_values: 200, ..Limits::default() };
    let containers = pickle(&[b']'; 300]);
    assert_eq!(read_within(&containers, few.clone()).kind, ErrorKind::LimitReached);
    let events = snapshot(vec![event("alloc", 1, 0); 100], vec![]).pickle();
    assert_eq!(read_within(&events, few.clone()).kind, ErrorKind::LimitReached);
    let texts: Vec<u8> = (0..=255).flat_map(|byte| [b'U', 1, byte, b'0']).collect();
    assert_eq!(read_within(&pickle(&texts), few).kind, ErrorKind::LimitReached);
}

#[test]
fn one_list_named_again_and_again_is_counted_each_time() {
    // device_traces is a thousand times the same list of a thousand times the same event.
    let mut bytes = b"\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces](](".to_vec();
    let event = event("alloc", 1, 0).pickle();
    bytes.extend(&event[2..event.len() - 1]);
    bytes.extend(b"q\x00");
    bytes.extend(b"h\x00".repeat(999));
    bytes.extend(b"eq\x01");
    bytes.extend(b"h\x01".repeat(999));
    bytes.extend(b"eu.");
    let error = read_within(&bytes, Limits { kept_values: 1 << 20, ..Limits::default() });
    assert_eq!(error.kind, ErrorKind::LimitReached, "{error}");
    assert_eq!(read(&bytes).unwrap().devices.len(), 1000);
}

#[test]
fn a_container_that_holds_itself_is_no_trap() {
    assert!(read(&pickle(b"]\x94h\x00a")).unwrap_err().reason.contains("bare list"));
    let mut bytes = b"\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces]q\x00h\x00au.".to_vec();
    let error = read(&bytes).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WrongShape, "{error}");
    bytes.truncate(30);
    assert_eq!(read(&bytes).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn a_decompression_bomb_stops_at_the_limit() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    bomb.write_all(b"\x80\x04").unwrap();
    // NONE, POP: sound for ever.
    let chunk = b"N0".repeat(1 << 19);
    for _ in 0..64 {
        bomb.write_all(&chunk).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    let error = read_within(&bomb, Limits { unpacked_bytes: 4 << 20, ..Limits::default() });
    assert_eq!((error.kind, error.position), (ErrorKind::LimitReached, 4 << 20), "{error}");
}

#[test]
fn a_stream_of_exactly_the_limit_is_read() {
    let bytes = Data::pickle(&snapshot(vec![event("alloc", 1, 0)], vec![]));
    let limits = |unpacked_bytes| Limits { unpacked_bytes, ..Limits::default() };
    assert!(Trace::read(&bytes[..], &limits(bytes.len() as u64)).is_ok());
    let error = Trace::read(&bytes[..], &limits(bytes.len() as u64 - 1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitReached);
}

#[test]
fn a_window_beyond_the_limit_is_refused_before_it_is_allocated() {
    let small = Limits { window_bytes: 1 << 16, ..Limits::default() };
    // The xz fixture declares a window of 8 MiB.
    let error = read_within(&fixture_bytes("packed.pickle.xz"), small.clone());
    assert_eq!(error.kind, ErrorKind::LimitReached, "{error}");
    // A zstd frame header that declares a window of 2 GiB, with no content.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    for limits in [small, Limits::default()] {
        let error = read_within(&frame, limits);
        assert_eq!(error.kind, ErrorKind::LimitReached, "{error}");
    }
}
