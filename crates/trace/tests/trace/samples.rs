//! The recorded runs that lie in `traces/`, and those that lie beside the repository, where they do.

use std::path::{Path, PathBuf};
use stitchpool_trace::{EventKind, Limits, Op, Trace};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Counts and peak of a sample: allocs, frees, peak live in thousandths of a GiB.
fn check_sample(name: &str, expected: (u64, u64, u64)) -> Trace {
    let trace = Trace::open(repository().join("traces").join(name), &Limits::default()).unwrap();
    let steps = trace.steps(0);
    let peak = (steps.peak_live_bytes as f64 / f64::from(1 << 30) * 1000.0).round() as u64;
    assert_eq!((steps.allocs, steps.frees, peak), expected, "{name}");
    assert_eq!((steps.skipped_frees, steps.lost_frees, steps.initial.len()), (0, 0, 0), "{name}");
    let pending = steps.steps.iter().filter(|step| matches!(step.op, Op::FreeRequested { .. })).count();
    assert_eq!(pending, 0, "{name} has one stream");
    assert_eq!(steps.streams, [0]);
    let segments = &trace.device(0).unwrap().segments;
    assert_eq!(steps.peak_reserved_bytes, Some(segments.iter().map(|segment| segment.total_bytes).sum()), "{name}");
    trace
}

#[test]
fn the_graph_network_sample_has_its_counts_and_peak() {
    let trace = check_sample("gnn_varsize.pickle.gz", (16_490, 16_488, 41_497));
    assert_eq!(trace.device(0).unwrap().count(EventKind::SegmentAlloc), 47);
}

#[test]
fn the_lora_sample_has_its_counts_and_peak() {
    let trace = check_sample("llama_lora_gc.pickle.gz", (124_365, 124_363, 12_944));
    assert_eq!(trace.device(0).unwrap().count(EventKind::SegmentAlloc), 189);
}

#[test]
fn the_sharded_run_has_three_streams_and_pending_frees() {
    let path = repository().join("../shared/traces/fsdp1_lora.pickle.gz");
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return;
    }
    let trace = Trace::open(&path, &Limits::default()).unwrap();
    assert_eq!(trace.devices.len(), 1);
    let device = &trace.devices[0];
    let count = |kind| device.count(kind);
    let counts = (count(EventKind::Alloc), count(EventKind::FreeRequested), count(EventKind::FreeCompleted));
    assert_eq!(counts, (68_114, 67_709, 67_690));
    let steps = device.steps();
    assert_eq!(steps.streams.len(), 3);
    assert_eq!((steps.allocs, steps.frees, steps.skipped_frees, steps.lost_frees), (68_114, 67_709, 0, 0));
    let counted = |is: fn(&Op) -> bool| steps.steps.iter().filter(|step| is(&step.op)).count() as u64;
    let requested = counted(|op| matches!(op, Op::FreeRequested { .. }));
    let completed = counted(|op| matches!(op, Op::FreeCompleted { .. }));
    assert_eq!(requested - completed, 67_709 - 67_690);
    assert!(requested > 1000, "{requested} blocks were pending");
}
