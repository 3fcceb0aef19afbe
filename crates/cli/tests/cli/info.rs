//! `stitchpool info`: what it tells, and what it says where there is no GPU.

use crate::program::{count, figure, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use stitchpool_driver::Trouble;

#[test]
fn the_driver_and_this_machine_are_told_of() {
    let info = run(&["info", "--driver", "host", "--json"]).object();
    assert_eq!((info["driver"].as_str(), info["version"].as_str()), (Some("host"), Some(env!("CARGO_PKG_VERSION"))));
    let device = &info["devices"][0];
    assert_eq!(device["uuid"].as_str().unwrap().len(), 36);
    assert!(count(device, "free_bytes") <= count(device, "total_bytes"));
    assert_eq!(info["links"][0][0], "own");
    let kinds = device["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 3);
    let private = &kinds[0];
    assert_eq!((private["kind"].as_str(), private["is_granted"].as_bool()), (Some("private"), Some(true)));
    assert!(count(private, "granularity_bytes").is_power_of_two());
    assert!(count(&info["machine"]["open_files"], "soft") > 0);
    assert!(count(&info["machine"], "map_count") > 0);
    assert!(info["measured"].is_null());
}

#[test]
fn calls_are_measured_and_set_beside_the_cards() {
    let info = run(&["info", "--driver", "host", "--measure", "--json"]).object();
    let sizes = info["measured"]["by_size"].as_array().unwrap();
    assert_eq!((sizes.len(), count(&sizes[0], "handle_bytes")), (6, 2 << 20));
    for size in sizes {
        for verb in ["create_us", "map_us", "first_rights_us", "rights_us", "unmap_us", "release_us"] {
            assert!(figure(&size["here"], verb) > 0.0 && figure(&size["h200"], verb) > 0.0, "{verb} in {size}");
        }
    }
    for cost in info["measured"]["fixed"].as_array().unwrap() {
        assert!(figure(cost, "here_us") > 0.0 && figure(cost, "h200_us") > 0.0, "{cost}");
    }
}

/// The verdict on a feature, with its reason.
fn verdict<'a>(info: &'a Value, feature: &str) -> (&'a str, &'a str) {
    let all = info["features"].as_array().unwrap();
    let found = all.iter().find(|row| row["feature"] == feature).unwrap_or_else(|| panic!("no {feature} in {info}"));
    let works = found["verdict"] == "works" || found["verdict"] == "not_probed";
    assert_eq!(works, found["remedy"].is_null(), "a remedy stands iff something does not work: {found}");
    (found["verdict"].as_str().unwrap(), found["reason"].as_str().unwrap())
}

#[test]
fn many_devices_and_large_granules_are_tried_in_seconds() {
    let start = std::time::Instant::now();
    let many = run(&["info", "--driver", "host", "--devices", "63", "--json"]).object();
    assert_eq!((many["devices"].as_array().unwrap().len(), verdict(&many, "peers").0), (63, "works"));
    let coarse = run(&["info", "--driver", "host", "--devices", "2", "--granule", "1GiB", "--json"]).object();
    for feature in ["stitching", "aliases", "read-only rights", "peers", "host memory"] {
        assert_eq!(verdict(&coarse, feature).0, "works", "{feature}");
    }
    // All of every handle would be some 200 GiB to write and to read.
    assert!(start.elapsed().as_secs() < 60, "it took {:?}", start.elapsed());
}

fn sign(info: &Value, trouble: Trouble) -> &str {
    let all = info["troubles"].as_array().unwrap();
    assert_eq!(all.len(), Trouble::ALL.len());
    let found = all.iter().find(|row| row["trouble"] == trouble.heading()).unwrap();
    assert!(!found["words"].as_str().unwrap().is_empty(), "{found}");
    found["sign"].as_str().unwrap()
}

#[test]
fn what_a_pool_needs_is_tried_and_works_on_the_host_driver() {
    let info = run(&["info", "--driver", "host", "--json"]).object();
    for feature in [
        "virtual memory",
        "whole granules",
        "stitching",
        "aliases",
        "memory behind a standing address",
        "read-only rights",
        "memory back after release",
        "host memory",
        "file descriptors",
        "events",
        "stream numbers",
        "capture query",
    ] {
        assert_eq!(verdict(&info, feature).0, "works", "{feature}: {info}");
    }
    assert_eq!(verdict(&info, "peers"), ("not_probed", "there is one device only"));
    assert_eq!(verdict(&info, "fabric handles").0, "does_not_work");
    assert_eq!(verdict(&info, "RDMA flag").0, "not_probed");
    assert!(count(&info["limits"], "reservation_bytes") >= 1 << 40, "{info}");
    for trouble in [Trouble::Rounding, Trouble::NoPeer, Trouble::SlowPeer, Trouble::NotBack, Trouble::WrongContext] {
        assert_eq!(sign(&info, trouble), "not_seen", "{trouble:?}");
    }
    assert_eq!(sign(&info, Trouble::NoRights), "cannot_tell");
}

#[test]
fn devices_without_peers_are_told_of_with_the_section_that_helps() {
    let info = run(&["info", "--driver", "host", "--devices", "2", "--no-peers", "--json"]).object();
    let (found, reason) = verdict(&info, "peers");
    assert_eq!(found, "does_not_work", "{reason}");
    assert!(reason.contains("device 0 on memory of device 1"), "{reason}");
    assert_eq!((&info["links"][0][1], sign(&info, Trouble::NoPeer)), (&Value::from("none"), "seen"));
    let all = info["features"].as_array().unwrap();
    assert_eq!(all.iter().find(|row| row["feature"] == "peers").unwrap()["see"], Trouble::NoPeer.heading());
    let info = run(&["info", "--driver", "host", "--devices", "2", "--json"]).object();
    assert_eq!((verdict(&info, "peers").0, sign(&info, Trouble::NoPeer)), ("works", "not_seen"));
}

#[test]
fn a_granule_of_one_memory_page_changes_what_can_be_held() {
    let info = run(&["info", "--driver", "host", "--granule", "4KiB", "--json"]).object();
    assert_eq!(count(&info["devices"][0]["kinds"][0], "granularity_bytes"), 4096);
    assert!(verdict(&info, "whole granules").1.contains("4.00 KiB"));
    assert_eq!(verdict(&info, "all memory in handles of one granule").0, "does_not_work");
    let info = run(&["info", "--driver", "host", "--granule", "4KiB", "--capacity", "16MiB", "--json"]).object();
    assert_eq!(verdict(&info, "all memory in handles of one granule").0, "works");
    let refused = run(&["info", "--driver", "host", "--granule", "3MiB"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("power of two"), "{refused:?}");
}

#[test]
fn without_descriptors_nothing_can_be_exported() {
    let info = run(&["info", "--driver", "host", "--descriptors", "0", "--json"]).object();
    let (found, reason) = verdict(&info, "file descriptors");
    assert_eq!(found, "does_not_work");
    assert!(reason.contains("all 0 descriptors"), "{reason}");
    assert_eq!(info["devices"][0]["kinds"][1]["is_granted"], false);
    assert_eq!(verdict(&info, "stitching").0, "works");
}

#[test]
fn bandwidth_is_measured_in_one_handle_and_stitched() {
    let words = ["info", "--driver", "host", "--devices", "2", "--capacity", "64MiB", "--measure", "--json"];
    let info = run(&words).object();
    let rows = info["measured"]["bandwidth"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "its own, a peer's and the host's memory, each made in two ways: {info}");
    for row in rows {
        for figure_name in ["write_gbps", "read_gbps", "copy_gbps", "h200_read_gbps"] {
            assert!(figure(row, figure_name) > 0.0, "{figure_name} in {row}");
        }
        let bytes = count(row, "bytes");
        assert!(bytes > 0 && bytes <= 16 << 20, "a course takes a quarter of what is free: {row}");
    }
    assert!(!info["measured"]["differs"].as_array().unwrap().is_empty(), "the host driver is no H200");
}

#[test]
fn people_get_tables() {
    let shown = run(&["info", "--driver", "host"]);
    assert_eq!(shown.status, 0, "{shown:?}");
    for text in [
        "host driver",
        "139.75 GiB",
        "private: 2.00 MiB",
        "vm.max_map_count",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA's device files",
        "stitching",
        "works",
        "largest reservation",
        "nvidia-smi",
        Trouble::WrongContext.heading(),
    ] {
        assert!(shown.stdout.contains(text), "{text} is not in {}", shown.stdout);
    }
}

#[test]
fn where_there_is_no_gpu_the_driver_cuda_is_refused_with_a_remedy() {
    let asked = run(&["info", "--json"]).object();
    if asked["driver"] == "cuda" {
        assert_eq!(run(&["info", "--driver", "cuda", "--json"]).status, 0);
        return;
    }
    assert!(!asked["cuda_unavailable"].as_str().unwrap().is_empty());
    let signs = [Trouble::NoDevice, Trouble::NoLibrary, Trouble::OldDriver].map(|trouble| sign(&asked, trouble));
    assert!(signs.contains(&"seen"), "one of them is the reason: {signs:?}");
    for words in [&["info", "--driver", "cuda"][..], &["stress", "--driver", "cuda", "--ops", "1"]] {
        let refused = run(words);
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("--driver host"), "{words:?}: {}", refused.stderr);
    }
}

#[test]
fn a_library_that_is_none_is_named_with_its_path_and_the_section_that_helps() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_library");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so.1", "libcuda.so"] {
        std::fs::write(folder.join(name), "no library, but long enough to look into: ".repeat(50)).unwrap();
    }
    let ask = |words: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_stitchpool"));
        let done =
            program.args(words).env("LD_LIBRARY_PATH", &folder).env("CUDA_VISIBLE_DEVICES", "7,8").output().unwrap();
        let [stdout, stderr] = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (done.status.code(), stdout, stderr)
    };
    let (status, _, refusal) = ask(&["info", "--driver", "cuda"]);
    assert_eq!(status, Some(2), "{refusal}");
    for words in ["no_library/libcuda.so.1", "stitchpool info", Trouble::NoLibrary.see()] {
        assert!(refusal.contains(words), "{words} is not in {refusal}");
    }
    let (status, told, _) = ask(&["info", "--json"]);
    let info: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((status, info["driver"].as_str(), sign(&info, Trouble::NoLibrary)), (Some(0), Some("host"), "seen"));
    assert_eq!(info["machine"]["visible_devices"], "7,8");
}

#[test]
fn help_names_every_command() {
    let help = run(&["--help"]);
    assert_eq!(help.status, 0);
    for command in ["replay", "report", "stress", "info"] {
        assert!(help.stdout.contains(command), "{}", help.stdout);
        assert_eq!(run(&[command, "--help"]).status, 0);
    }
}
