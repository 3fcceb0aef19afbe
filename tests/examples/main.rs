//! Every example runs on the host driver, ends well, and says what it found.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::process::Command;
use std::thread;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The programs by name.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> = sources.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// `cargo test` builds the examples beside the tests, before it runs any; with `--test` it builds this one alone.
fn program(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    let source = folder().join(format!("{name}.rs"));
    let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let is_there = changed(&program) >= changed(&source);
    assert!(is_there, "{} is not there, or old: `cargo build --examples` makes it", program.display());
    program
}

/// What an example prints where there is no GPU.
fn run(name: &str) -> String {
    let output = Command::new(program(name)).env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let [said, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{name} ended with {}:\n{said}\n{errors}", output.status);
    said
}

/// What the last line of an example says, where it tells of bytes that it has checked.
fn end_of(name: &str) -> Option<String> {
    let (mib, rest) = match name {
        // Four times the weights and the cache in a rollout, what training writes, and the weights once more.
        "sleep_and_wake" => (4 * (96 + 48 + 128 + 96), "addresses changed: none"),
        "pipeline_exchange" => (8 * 64, "nothing was copied"),
        // Twice the prompt's part and the tail of each sequence.
        "shared_prefix" => (2 * CACHES_MIB, "96 MiB given back at the end"),
        _ => return None,
    };
    let bytes: u64 = mib << 20;
    Some(format!("{bytes} bytes were checked on host devices, all right; {rest}"))
}

/// What six sequences read, which share less and less of a prompt.
const CACHES_MIB: u64 = 6 * (48 + 8) - 4 * (1 + 2 + 3 + 4 + 5);

fn check(name: &str) {
    let said = run(name);
    assert!(!said.trim().is_empty(), "{name} says nothing");
    assert!(!said.contains("cuda"), "{name} was to run on the host driver:\n{said}");
    if let Some(end) = end_of(name) {
        assert_eq!(said.trim().lines().last(), Some(end.as_str()), "{name}:\n{said}");
    }
    match name {
        "pipeline_exchange" => {
            let places = said.lines().filter_map(|line| line.strip_prefix("batch ")?.rsplit(", on ").next());
            assert_eq!(places.collect::<Vec<_>>(), ["device 0", "device 1"].repeat(4), "{said}");
        }
        "shared_prefix" => {
            let sums = format!("{CACHES_MIB} MiB of caches in {} MiB of memory", 48 + 6 * 8);
            assert!(said.contains(&sums), "the prompt is there once:\n{said}");
        }
        "watch" => assert!(said.contains("stitched"), "the pool's events are printed:\n{said}"),
        _ => {}
    }
}

#[test]
fn every_example_runs_on_the_host_driver_and_finds_all_right() {
    let names = names();
    let told: Vec<&String> = names.iter().filter(|name| end_of(name).is_some()).collect();
    assert_eq!(told, ["pipeline_exchange", "shared_prefix", "sleep_and_wake"]);
    thread::scope(|scope| names.iter().for_each(|name| drop(scope.spawn(|| check(name)))));
}
