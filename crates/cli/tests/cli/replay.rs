//! `stitchpool replay`: its figures, its checks, and what it says to files that are no good.

use crate::program::{count, figure, file, run, sample, word};
use stitchpool_trace::{DeviceTrace, Event, EventKind, Trace, write_snapshot};

/// Every field that scripts may count on.
const FIELDS: [&str; 36] = [
    "trace",
    "driver",
    "devices",
    "allocs",
    "frees",
    "skipped_frees",
    "peak_live_bytes",
    "peak_physical_bytes",
    "ratio",
    "end_physical_bytes",
    "remote_bytes",
    "remote_peak_bytes",
    "hits",
    "misses",
    "handles_created",
    "handles_aliased",
    "handles_unmapped",
    "gpu_waits",
    "stream_waits",
    "stream_waits_second_half",
    "driver_us",
    "driver_us_second_half",
    "duration_us",
    "ns_per_pair",
    "ns_per_pair_warm",
    "oom",
    "checked_bytes",
    "wrong_bytes",
    "largest_stall_us",
    "peak_reserved_bytes",
    "limit_bytes",
    "repeat",
    "scale",
    "rounds",
    "per_device",
    "verbs",
];

fn gnn() -> String {
    word(&sample("gnn_varsize.pickle.gz")).to_owned()
}

#[test]
fn a_recorded_run_is_played_and_every_figure_is_there() {
    let figures = run(&["replay", &gnn(), "--driver", "host", "--json"]).object();
    for field in FIELDS {
        assert!(!figures[field].is_null(), "{field} is missing in {figures}");
    }
    assert_eq!((count(&figures, "oom"), count(&figures, "wrong_bytes"), count(&figures, "gpu_waits")), (0, 0, 0));
    assert_eq!(count(&figures, "allocs"), count(&figures, "hits") + count(&figures, "misses"));
    let (physical, live) = (count(&figures, "peak_physical_bytes"), count(&figures, "peak_live_bytes"));
    assert_eq!(figure(&figures, "ratio"), physical as f64 / live as f64);
    assert!(figure(&figures, "ratio") >= 1.0 && figure(&figures, "ratio") <= 1.012, "{figures}");
    assert!(figure(&figures, "largest_stall_us") <= figure(&figures, "driver_us"), "{figures}");
    assert_eq!(count(&figures, "checked_bytes"), 0);
}

#[test]
fn the_host_driver_gives_the_same_figures_each_time() {
    let play = || {
        let mut figures = run(&["replay", &gnn(), "--driver", "host", "--json", "--scale", "0.3"]).object();
        // Wall clock, and the room that hash tables keep, which goes with where the system puts the addresses.
        let varies = |name: &str| name.starts_with("ns_per_pair") || name == "metadata_bytes";
        figures.as_object_mut().unwrap().retain(|name, _| !varies(name));
        figures
    };
    assert_eq!(play(), play());
}

#[test]
fn every_byte_of_a_checked_run_is_looked_at_and_right() {
    let figures = run(&["replay", &gnn(), "--driver", "host", "--json", "--check", "--scale", "0.005"]).object();
    assert!(count(&figures, "checked_bytes") > count(&figures, "peak_live_bytes"), "{figures}");
    assert_eq!((count(&figures, "wrong_bytes"), count(&figures, "faults"), count(&figures, "oom")), (0, 0, 0));
}

#[test]
fn rounds_are_played_on_one_pool_and_told_apart() {
    let figures = run(&["replay", &gnn(), "--driver", "host", "--json", "--repeat", "3"]).object();
    let rounds = figures["rounds"].as_array().unwrap();
    assert_eq!((rounds.len(), count(&figures, "repeat")), (3, 3));
    let once = run(&["replay", &gnn(), "--driver", "host", "--json"]).object();
    assert_eq!(count(&figures, "allocs"), 3 * count(&once, "allocs"));
    assert_eq!(rounds[0]["ratio"], once["ratio"]);
    let peaks = rounds.iter().map(|round| count(round, "peak_physical_bytes"));
    assert_eq!(peaks.max().unwrap(), count(&figures, "peak_physical_bytes"));
    // The memory is there already, so later rounds cost less.
    assert!(figure(&rounds[2], "driver_us") < figure(&rounds[0], "driver_us"), "{figures}");
}

#[test]
fn a_refused_request_is_counted_and_makes_the_status_1() {
    let refused = run(&["replay", &gnn(), "--driver", "host", "--json", "--capacity", "8GiB"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    let figures: serde_json::Value = serde_json::from_str(&refused.stdout).unwrap();
    assert!(count(&figures, "oom") > 0, "{figures}");
    assert!(count(&figures, "peak_physical_bytes") <= 8 << 30, "{figures}");
    assert!(figures["first_refusal"].as_str().unwrap().contains("out of memory"), "{figures}");
}

#[test]
fn a_capacity_can_be_named_in_terms_of_the_traces_own_peak() {
    let figures = run(&["replay", &gnn(), "--driver", "host", "--json", "--capacity", "1.05x"]).object();
    let (limit, peak) = (count(&figures, "limit_bytes"), count(&figures, "peak_live_bytes") as f64);
    assert!((limit as f64 - 1.05 * peak).abs() <= (2 << 20) as f64, "{limit} of {peak}");
    assert!(count(&figures, "peak_physical_bytes") <= limit);
}

#[test]
fn what_home_has_no_room_for_spills_to_the_next_device() {
    let line = |more: &[&str]| {
        let words = ["--driver", "host", "--json", "--devices", "2", "--capacity", "0.6x", "--scale", "0.005"];
        run(&[&["replay", &gnn()], &words[..], more].concat())
    };
    assert_eq!(line(&[]).status, 1);
    let figures = line(&["--spill", "--check"]).object();
    assert_eq!((count(&figures, "oom"), count(&figures, "wrong_bytes"), count(&figures, "faults")), (0, 0, 0));
    let (limit, remote_peak) = (count(&figures, "limit_bytes"), count(&figures, "remote_peak_bytes"));
    assert!(remote_peak > 0 && remote_peak <= count(&figures, "remote_bytes"), "{figures}");
    let devices = figures["per_device"].as_array().unwrap();
    assert_eq!((devices.len(), count(&devices[1], "peak_live_bytes")), (2, remote_peak));
    for device in devices {
        let (live, physical) = (count(device, "peak_live_bytes"), count(device, "peak_physical_bytes"));
        assert!(live <= physical && physical <= limit, "{figures}");
    }
    let roomy = run(&["replay", &gnn(), "--driver", "host", "--json", "--devices", "2", "--spill"]).object();
    assert_eq!((count(&roomy, "remote_bytes"), count(&roomy, "oom")), (0, 0));
    let alone = run(&["replay", &gnn(), "--driver", "host", "--spill"]);
    assert_eq!(alone.status, 2, "{alone:?}");
    assert!(alone.stderr.contains("--devices 2"), "{}", alone.stderr);
}

#[test]
fn people_get_a_table_with_the_traces_name_and_ratio() {
    let shown = run(&["replay", &gnn(), "--driver", "host"]);
    assert_eq!(shown.status, 0, "{shown:?}");
    for text in ["gnn_varsize.pickle.gz", "ratio", "41.50 GiB", "72.50 GiB (1.7470)"] {
        assert!(shown.stdout.contains(text), "{text} is not in {}", shown.stdout);
    }
    assert!(shown.stderr.is_empty(), "{}", shown.stderr);
}

/// Two devices, each with a block that another stream still uses after its free.
pub fn two_devices() -> Trace {
    let device = |device: u32| {
        let event =
            |time_us, kind, address, mib: u64, stream| Event { time_us, address, size_bytes: mib << 20, stream, kind };
        let events = vec![
            event(0, EventKind::Alloc, 1, 40, 0),
            event(10, EventKind::Alloc, 2, 8, 77),
            event(20, EventKind::FreeRequested, 1, 40, 0),
            event(30, EventKind::Alloc, 3, 20, 77),
            event(40_000, EventKind::FreeCompleted, 1, 40, 0),
            event(40_010, EventKind::FreeRequested, 3, 20, 77),
            event(40_010, EventKind::FreeCompleted, 3, 20, 77),
        ];
        DeviceTrace { device, events, segments: Vec::new() }
    };
    Trace { devices: vec![device(0), device(3)], ..Trace::default() }
}

#[test]
fn a_trace_of_two_devices_is_played_on_one_pool_over_both() {
    let mut bytes = Vec::new();
    write_snapshot(&two_devices(), &mut bytes).unwrap();
    let path = file("two_devices.pickle", &bytes);
    let figures = run(&["replay", word(&path), "--driver", "host", "--json", "--check"]).object();
    assert_eq!((count(&figures, "devices"), count(&figures, "streams"), count(&figures, "allocs")), (2, 4, 6));
    assert_eq!(count(&figures, "peak_live_bytes"), 2 * (48 << 20));
    assert_eq!(figures["per_device"].as_array().unwrap().len(), 2);
    assert_eq!((count(&figures, "wrong_bytes"), count(&figures, "faults")), (0, 0));
    assert!(count(&figures, "checked_bytes") >= (2 * (40 + 40 + 20 + 8)) << 20, "{figures}");
    let refused = run(&["replay", word(&path), "--driver", "host", "--devices", "1"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("2 devices") && refused.stderr.contains("--devices"), "{}", refused.stderr);
}

#[test]
fn a_file_that_is_no_good_is_refused_in_words() {
    let whole = std::fs::read(sample("gnn_varsize.pickle.gz")).unwrap();
    let directory = env!("CARGO_TARGET_TMPDIR").to_owned();
    let hostile = b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00echo\x85R.";
    let paths = [
        (word(&file("empty.pickle", b"")).to_owned(), "empty"),
        (word(&file("cut.pickle.gz", &whole[..whole.len() / 2])).to_owned(), "cannot read on"),
        (word(&file("hostile.pickle", hostile)).to_owned(), "could run code"),
        (word(&file("text.txt", b"Dear reader,\n")).to_owned(), "no trace"),
        (directory, "directory"),
        ("nowhere.pickle".to_owned(), "cannot open"),
    ];
    for (path, expected) in paths {
        let refused = run(&["replay", &path, "--driver", "host", "--json"]);
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{path}: {refused:?}");
        assert!(refused.stderr.contains(expected) && refused.stderr.contains(&path), "{path}: {}", refused.stderr);
    }
}

#[test]
fn a_command_line_that_is_no_good_is_refused_in_words() {
    let gnn = gnn();
    let lines: [(&[&str], &str); 7] = [
        (&["replay"], "FILE"),
        (&["replay", &gnn, "--no-such-option"], "--no-such-option"),
        (&["replay", &gnn, "--scale", "0"], "0"),
        (&["replay", &gnn, "--capacity", "much"], "much"),
        (&["replay", &gnn, "--repeat", "0"], "--repeat"),
        (&["replay", &gnn, "--driver", "abacus"], "abacus"),
        (&["no-such-command"], "no-such-command"),
    ];
    for (words, expected) in lines {
        let refused = run(words);
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{words:?}: {}", refused.stderr);
    }
}

#[test]
fn patterns_that_would_not_fit_this_machine_are_refused_beforehand() {
    let refused = run(&["replay", &gnn(), "--driver", "host", "--check", "--scale", "1000"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("--scale"), "{}", refused.stderr);
}
