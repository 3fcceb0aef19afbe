//! `stitchpool info`: what it tells, and what it says where there is no GPU.

use crate::program::{count, figure, run};

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

#[test]
fn people_get_tables() {
    let shown = run(&["info", "--driver", "host"]);
    assert_eq!(shown.status, 0, "{shown:?}");
    for text in ["host driver", "139.75 GiB", "private: 2.00 MiB", "vm.max_map_count"] {
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
    for words in [&["info", "--driver", "cuda"][..], &["stress", "--driver", "cuda", "--ops", "1"]] {
        let refused = run(words);
        assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("--driver host"), "{words:?}: {}", refused.stderr);
    }
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
