//! The table that people see.

use super::figures::Figures;
use crate::bytes::show;
use crate::table::{of_heads, right};
use comfy_table::{Cell, Table};
use std::path::Path;

const HEADS: [&str; 12] = [
    "trace",
    "held by its own allocator",
    "live, at most",
    "held by stitchpool",
    "ratio",
    "no driver call",
    "driver time",
    "of it, 2nd half",
    "longest stall",
    "waits: CPU, streams",
    "ns a pair, warm",
    "refused, wrong",
];

/// The figures of all traces, a row each.
pub fn table(all: &[Figures]) -> Table {
    let mut table = of_heads(&HEADS);
    for figures in all {
        table.add_row(row(figures));
    }
    right(&mut table);
    table
}

fn row(figures: &Figures) -> Vec<Cell> {
    let name = Path::new(&figures.trace).file_name().map_or(figures.trace.clone(), |name| name.display().to_string());
    let reserved = match (figures.peak_reserved_bytes, figures.reserved_ratio) {
        (Some(bytes), Some(ratio)) => format!("{} ({ratio:.4})", show(bytes)),
        _ => "not recorded".to_owned(),
    };
    let hits = 100.0 * figures.hits as f64 / (figures.allocs.max(1)) as f64;
    let wrong = match figures.checked_bytes {
        0 => format!("{}, not checked", figures.oom + figures.refused),
        _ => format!("{}, {} B of {}", figures.oom + figures.refused, figures.wrong_bytes, show(figures.checked_bytes)),
    };
    let cells = [
        name,
        reserved,
        show(figures.peak_live_bytes),
        show(figures.peak_physical_bytes),
        format!("{:.4}", figures.ratio),
        format!("{hits:.2} %"),
        millis(figures.driver_us),
        millis(figures.driver_us_second_half),
        millis(figures.largest_stall_us),
        format!("{}, {}", figures.gpu_waits, figures.stream_waits),
        format!("{:.0}, {:.0}", figures.ns_per_pair, figures.ns_per_pair_warm),
        wrong,
    ];
    cells.into_iter().map(Cell::new).collect()
}

fn millis(us: f64) -> String {
    format!("{:.1} ms", us / 1000.0)
}
