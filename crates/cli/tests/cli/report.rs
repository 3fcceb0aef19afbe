//! `stitchpool report`: the page holds the replay's figures, needs nothing beside itself, and lets no text of a
//! trace become part of it.

use crate::program::{Run, count, figure, file, run, sample, word};
use crate::replay::two_devices;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use stitchpool_trace::{Source, Trace, write_snapshot};

/// The page of some files, made under a name that no other test uses, and what the program said.
fn report(name: &str, files: &[&Path], words: &[&str]) -> (Run, PathBuf) {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&page);
    let mut all = vec!["report", "--driver", "host", "-o", word(&page)];
    all.extend(words);
    all.extend(files.iter().map(|path| word(path)));
    (run(&all), page)
}

/// The data that a page carries.
fn data(page: &Path) -> Value {
    let text = fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// What is the same each time: not the wall clock, nor the room of tables that goes with addresses.
fn steady(figures: &Value) -> Map<String, Value> {
    let mut figures = figures.as_object().unwrap().clone();
    figures.retain(|name, _| !name.starts_with("ns_per_pair") && name != "metadata_bytes");
    figures
}

fn bytes(packed: &Value) -> Vec<u8> {
    STANDARD.decode(packed.as_str().unwrap()).unwrap()
}

fn words(packed: &Value) -> Vec<u32> {
    bytes(packed).chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// The highest value of a series.
fn peak(series: &Value) -> u64 {
    u64::from(words(&series["high"]).into_iter().max().unwrap()) * count(series, "unit_bytes")
}

#[test]
fn the_page_carries_the_figures_of_the_replay() {
    let (gnn, llama) = (sample("gnn_varsize.pickle.gz"), sample("llama_lora_gc.pickle.gz"));
    let (said, page) = report("both.html", &[&gnn, &llama], &["--json"]);
    let replayed = run(&["replay", "--driver", "host", "--json", word(&gnn), word(&llama)]).objects();
    let data = data(&page);
    let runs = data["runs"].as_array().unwrap();
    assert_eq!((runs.len(), said.objects().len()), (2, 2));
    for ((run, said), replayed) in runs.iter().zip(said.objects()).zip(replayed) {
        assert_eq!(steady(&run["figures"]), steady(&said));
        let mut figures = steady(&said);
        let saved_bytes = figures.remove("saved_bytes").unwrap().as_u64().unwrap();
        assert_eq!(figures, steady(&replayed));
        assert_eq!(saved_bytes, count(&replayed, "peak_reserved_bytes") - count(&replayed, "peak_physical_bytes"));
    }
}

#[test]
fn what_is_drawn_comes_to_the_figures() {
    let (said, page) = report("drawn.html", &[&sample("gnn_varsize.pickle.gz")], &["--json"]);
    let (figures, data) = (said.object(), data(&page));
    let run = &data["runs"][0];
    for (series, name) in [("live", "live"), ("physical", "physical"), ("reserved", "reserved")] {
        assert_eq!(peak(&run["devices"][0][series]), count(&figures, &format!("peak_{name}_bytes")), "{name}");
    }
    for (verb, spent) in figures["verbs"].as_object().unwrap() {
        let bins = words(&run["calls"]["verbs"][verb]["calls"]);
        assert_eq!(bins.iter().map(|&calls| u64::from(calls)).sum::<u64>(), count(spent, "calls"), "{verb}");
    }
    let blocks = |bins: &Value| bins.as_array().unwrap().iter().map(|bin| count(bin, "blocks")).sum::<u64>();
    assert_eq!(blocks(&run["histograms"]["sizes"]), count(&figures, "allocs"));
    assert_eq!(blocks(&run["histograms"]["lifetimes"]), count(&figures, "frees"));
    assert_eq!(figure(&run["calls"]["stalls"][0], "cost_us"), figure(&figures, "largest_stall_us"));
}

#[test]
fn the_map_shows_every_handle_and_what_is_live_at_the_end() {
    let (said, page) = report("map.html", &[&sample("llama_lora_gc.pickle.gz")], &["--json"]);
    let data = data(&page);
    let map = &data["runs"][0]["map"];
    let column = |name: &str| words(&map[name]);
    let (granules, handles, states) = (column("granules"), column("handle"), bytes(&map["state"]));
    let last: Vec<u8> = bytes(&map["last"]);
    let surveys = map["times_us"].as_array().unwrap();
    assert!(surveys.len() > 100 && surveys.len() <= 386, "{}", surveys.len());
    assert_eq!(surveys.last().unwrap().as_u64(), said.object()["duration_us"].as_u64());
    let is_at_end =
        |stay: usize| usize::from(u16::from_le_bytes([last[2 * stay], last[2 * stay + 1]])) + 1 == surveys.len();
    let current = (0..granules.len()).filter(|&stay| states[stay] == 0 && is_at_end(stay));
    let held_bytes: u64 = current.map(|stay| u64::from(granules[stay]) * count(map, "granule_bytes")).sum();
    assert_eq!(held_bytes, count(&said.object(), "end_physical_bytes"));
    assert!(
        handles.iter().all(|&handle| handle == u32::MAX || (handle as usize) < bytes(&map["handle_device"]).len() / 2)
    );
}

#[test]
fn a_run_of_two_devices_is_drawn_for_each_and_for_both() {
    let mut snapshot = Vec::new();
    write_snapshot(&two_devices(), &mut snapshot).unwrap();
    let (said, page) = report("two.html", &[&file("report_two.pickle", &snapshot)], &["--json"]);
    let data = data(&page);
    let run = &data["runs"][0];
    let ordinals: Vec<u64> = run["devices"].as_array().unwrap().iter().map(|device| count(device, "ordinal")).collect();
    assert_eq!(ordinals, [0, 3]);
    assert_eq!(peak(&run["total"]["live"]), count(&said.object(), "peak_live_bytes"));
    assert!(run["total"]["reserved"].is_null() && said.object()["saved_bytes"].is_null());
    // Blocks that another stream still uses are seen waiting.
    assert!(!words(&run["map"]["pending_at"]).is_empty(), "{run}");
}

#[test]
fn a_page_asks_nobody_for_anything() {
    let (said, page) = report("alone.html", &[&sample("gnn_varsize.pickle.gz")], &[]);
    assert_eq!(said.status, 0, "{said:?}");
    let text = fs::read_to_string(page).unwrap();
    for outside in ["http:", "https:", "//cdn", "@import", "url(", " src=", "fetch(", "import(", "XMLHttpRequest"] {
        assert!(!text.contains(outside), "{outside} is in the page");
    }
    assert!(text.contains("default-src 'none'"));
    assert_eq!(text.matches(" href=").count(), text.matches("<link rel=\"icon\" href=\"data:,\">").count());
}

#[test]
fn no_name_and_no_text_of_a_trace_becomes_part_of_the_page() {
    let attack = "</script><script>window.taken=1</script><img src=x onerror=window.taken=1>";
    let source = Source { backend: Some(attack.to_owned()), ..Source::default() };
    let mut snapshot = Vec::new();
    write_snapshot(&Trace { source, ..two_devices() }, &mut snapshot).unwrap();
    // A path may hold all of it: its slashes part folders.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile").join(attack);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &snapshot).unwrap();
    let plain = report("plain.html", &[&file("report_plain.pickle", &snapshot)], &[]).1;
    let (said, hostile) = report("hostile.html", &[&path], &[]);
    assert_eq!(said.status, 0, "{said:?}");
    let count_of = |page: &Path, mark: &str| fs::read_to_string(page).unwrap().matches(mark).count();
    for mark in ["<script", "</script", "<img", "<!--"] {
        assert_eq!(count_of(&hostile, mark), count_of(&plain, mark), "{mark}");
    }
    let data = data(&hostile);
    assert_eq!(data["runs"][0]["figures"]["trace"].as_str(), Some(word(&path)));
    assert_eq!(data["runs"][0]["recorder"]["backend"].as_str(), Some(attack));
}

#[test]
fn a_file_that_is_no_good_is_refused_in_words_and_no_page_is_made() {
    let whole = fs::read(sample("gnn_varsize.pickle.gz")).unwrap();
    let cut = file("report_cut.pickle.gz", &whole[..whole.len() / 2]);
    let (refused, page) = report("cut.html", &[&sample("gnn_varsize.pickle.gz"), &cut], &["--json"]);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains("cannot read on") && refused.stderr.contains(word(&cut)), "{}", refused.stderr);
    assert!(!page.exists());
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_with_its_name() {
    let (refused, page) = report("no/such/folder.html", &[&sample("gnn_varsize.pickle.gz")], &[]);
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains(word(&page)), "{}", refused.stderr);
}

#[test]
fn refused_requests_are_shown_and_make_the_status_1() {
    let (said, page) = report("refused.html", &[&sample("gnn_varsize.pickle.gz")], &["--capacity", "8GiB"]);
    assert_eq!(said.status, 1, "{said:?}");
    let data = data(&page);
    assert!(!data["runs"][0]["refusals_us"].as_array().unwrap().is_empty());
    // What was not served is not saved.
    assert!(data["runs"][0]["figures"]["saved_bytes"].is_null());
    assert!(data["runs"][0]["figures"]["first_refusal"].as_str().unwrap().contains("out of memory"));
}

#[test]
fn people_get_the_figures_in_the_terminal_too() {
    let (said, page) = report("said.html", &[&sample("gnn_varsize.pickle.gz")], &[]);
    assert_eq!(said.status, 0, "{said:?}");
    for text in ["gnn_varsize.pickle.gz", "41.50 GiB", "72.50 GiB (1.7470)", "42.7 %", word(&page)] {
        assert!(said.stdout.contains(text), "{text} is not in {}", said.stdout);
    }
}

#[test]
fn a_log_without_segments_and_a_trace_of_one_moment_have_their_page() {
    let log = file("report.csv", b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.000000,allocate,0x100,4096,0\n");
    let (said, page) = report("log.html", &[&log], &["--json"]);
    assert_eq!(count(&said.object(), "allocs"), 1);
    let data = data(&page);
    let run = &data["runs"][0];
    assert_eq!((run["recorder"]["name"].as_str(), &run["devices"][0]["reserved"]), (Some("RMM"), &Value::Null));
    assert_eq!((peak(&run["devices"][0]["live"]), count(&run["histograms"], "still_live")), (4096, 1));
}
