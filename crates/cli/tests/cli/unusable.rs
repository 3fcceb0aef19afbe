//! What is no good: files that are cut, hostile or of another kind, options beyond all bounds, and output that cannot be
//! written. Each is a status of 2 and a line of words, and nobody panics.

use crate::program::{Run, file, run, sample, word};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the trace reader's own tests.
fn packed(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data").join(name)).unwrap()
}

/// The first half of a file.
fn half(name: &str) -> PathBuf {
    let whole = packed(name);
    file(&format!("half_of_{name}"), &whole[..whole.len() / 2])
}

fn log(name: &str, line: &str) -> PathBuf {
    file(name, format!("Thread,Time,Action,Pointer,Size,Stream\n{line}\n").as_bytes())
}

fn demand_refusal(refused: &Run, expected: &str) {
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains(expected), "{expected} is not in {}", refused.stderr);
    assert!(!refused.stderr.contains("panicked") && refused.stderr.lines().count() < 12, "{}", refused.stderr);
}

#[test]
fn files_that_are_no_traces_are_refused_by_replay_and_report_alike() {
    let noise: Vec<u8> = (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let files = [
        (half("packed.pickle.gz"), "cut off or damaged"),
        (half("packed.pickle.xz"), "cut off or damaged"),
        (half("packed.pickle.zst"), "cut off or damaged"),
        (half("protocol4.pickle"), "ends"),
        (file("nothing.csv", b""), "the file is empty"),
        (file("noise.pickle", &noise), "no trace, but"),
        (file("number.pickle", b"\x80\x04K\x05."), "a memory snapshot is a dict"),
        (file("deep.pickle", &[b"\x80\x04".as_slice(), &[b'('; 1 << 20], b"."].concat()), "at byte"),
        (log("words.csv", "1,noon,allocate,0x100,4096,0"), "noon"),
        (log("endless.csv", "1,10:00:00.0,allocate,0x100,99999999999999999999999,0"), "no number of bytes"),
        (log("short.csv", "1,10:00:00.0,allocate"), "line 2"),
    ];
    for (path, expected) in files {
        let page = path.with_extension("html");
        let _ = fs::remove_file(&page);
        demand_refusal(&run(&["replay", word(&path), "--driver", "host", "--json"]), expected);
        demand_refusal(&run(&["report", word(&path), "--driver", "host", "-o", word(&page)]), expected);
        assert!(!page.exists(), "{} was made", page.display());
    }
}

#[test]
fn a_size_beyond_any_memory_is_a_refused_request_and_no_failure_of_the_program() {
    let path = log("huge.csv", "1,10:00:00.000000,allocate,0x100,9223372036854775807,0");
    let played = run(&["replay", word(&path), "--driver", "host", "--json"]);
    assert_eq!(played.status, 1, "{played:?}");
    assert!(played.stdout.contains("\"oom\":1") && played.stderr.is_empty(), "{played:?}");
}

#[test]
fn numbers_beyond_all_bounds_are_refused_with_what_is_allowed() {
    let gnn = sample("gnn_varsize.pickle.gz");
    let lines: [(&[&str], &str); 18] = [
        (&["replay", "--scale", "nan"], "no factor"),
        (&["replay", "--scale", "1e7"], "at most 1000000"),
        (&["replay", "--capacity", "0"], "less than one granule"),
        (&["replay", "--capacity", "1e300x"], "no factor"),
        (&["replay", "--capacity", "99999999999999999999"], "below 16 EiB"),
        (&["replay", "--devices", "64"], "1..=63"),
        (&["replay", "--repeat", "4294967296"], "1..=10000"),
        (&["replay", "--lag-ms", "18446744073709551616"], "too large"),
        (&["stress", "--threads", "257"], "1..=256"),
        (&["stress", "--streams", "0"], "1..=256"),
        (&["stress", "--devices", "0"], "1..=63"),
        (&["stress", "--seconds", "inf"], "no factor"),
        (&["stress", "--ops", "0"], "1.."),
        (&["stress", "--capacity", "16000TiB"], "this machine has to give"),
        (&["stress", "--seed", "18446744073709551616"], "too large"),
        (&["info", "--devices", "65536"], "1..=63"),
        (&["info", "--granule", "1"], "power of two"),
        (&["info", "--capacity", "-1"], "-1"),
    ];
    for (words, expected) in lines {
        let file: &[&str] = if words[0] == "replay" { &[word(&gnn)] } else { &[] };
        demand_refusal(&run(&[words, &["--driver", "host"], file].concat()), expected);
    }
}

#[test]
fn odd_numbers_within_the_bounds_are_served() {
    for words in [
        &["stress", "--ops", "60", "--threads", "1", "--capacity", "1"][..],
        &["stress", "--ops", "3", "--threads", "64", "--streams", "64", "--devices", "9"],
        &["info", "--capacity", "0"],
        &["info", "--capacity", "16000000TiB", "--descriptors", "18446744073709551615"],
    ] {
        let served = run(&[words, &["--driver", "host", "--json"]].concat());
        assert_eq!(served.status, 0, "{words:?}: {served:?}");
    }
}

/// Runs with stdout into a file.
fn run_into(output: File, words: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_stitchpool")).args(words).stdout(output).output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn output_that_cannot_be_written_is_said_and_no_panic() {
    let gnn = sample("gnn_varsize.pickle.gz");
    for words in [
        &["info", "--driver", "host"][..],
        &["info", "--driver", "host", "--json"],
        &["stress", "--driver", "host", "--ops", "3"],
        &["replay", "--driver", "host", "--scale", "0.001", word(&gnn)],
        &["replay", "--driver", "host", "--scale", "0.001", "--json", word(&gnn)],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (status, words_said) = run_into(full, words);
        assert_eq!(status, Some(2), "{words:?}: {words_said}");
        assert!(words_said.contains("cannot write to stdout: No space left"), "{words:?}: {words_said}");
    }
}

#[test]
fn a_reader_that_goes_early_is_no_trouble() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_stitchpool"));
    let done = program.args(["info", "--driver", "host"]).stdout(writer).output().unwrap();
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]), "{done:?}");
}
