//! What a report says in a few figures: to scripts, at the head of the page, and in the terminal.

use crate::bytes::show;
use crate::replay::figures::Figures;
use crate::table::{of_heads, right};
use comfy_table::Table;
use serde::Serialize;

/// The figures of a run and what they come to beside the recorded allocator's.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// As `stitchpool replay --json` prints them.
    #[serde(flatten)]
    pub figures: Figures,
    /// How much less the pool held at its highest than the recorded allocator at its own; less than 0 if it held
    /// more. None where the trace does not say, its sizes were scaled, or requests were refused: what was not served
    /// is not saved.
    pub saved_bytes: Option<i64>,
}

impl Summary {
    /// Of a run.
    pub fn new(figures: Figures) -> Self {
        let is_alike = figures.scale == 1.0 && figures.oom + figures.refused == 0;
        let reserved_bytes = figures.peak_reserved_bytes.filter(|_| is_alike);
        let less = |reserved_bytes| i128::from(reserved_bytes) - i128::from(figures.peak_physical_bytes);
        let saved_bytes = reserved_bytes.and_then(|bytes| i64::try_from(less(bytes)).ok());
        Self { figures, saved_bytes }
    }
}

/// Runs beside each other in a table, at most.
const COLUMNS_MAX: usize = 3;

/// Tables with a column for each run.
pub fn tables(summaries: &[&Summary]) -> String {
    summaries.chunks(COLUMNS_MAX).map(|summaries| format!("{}\n", table(summaries))).collect()
}

fn table(summaries: &[&Summary]) -> Table {
    let names = summaries.iter().map(|summary| name(&summary.figures.trace));
    let heads: Vec<String> = std::iter::once(String::new()).chain(names).collect();
    let mut table = of_heads(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for (label, of) in ROWS {
        table.add_row(std::iter::once(label.to_owned()).chain(summaries.iter().map(|summary| of(summary))));
    }
    right(&mut table);
    table
}

/// The file's name; what a terminal could take for a command is left out.
fn name(path: &str) -> String {
    let file = std::path::Path::new(path).file_name().map_or_else(|| path.into(), |name| name.to_string_lossy());
    file.chars().filter(|letter| !letter.is_control()).collect()
}

type Row = (&'static str, fn(&Summary) -> String);

const ROWS: [Row; 11] = [
    ("live, at most", |summary| show(summary.figures.peak_live_bytes)),
    ("held by its own allocator", held_before),
    ("held by stitchpool", |summary| {
        format!("{} ({:.4})", show(summary.figures.peak_physical_bytes), summary.figures.ratio)
    }),
    ("saved", saved),
    ("driver time", |summary| millis(summary.figures.driver_us)),
    ("of it, in the 2nd half", |summary| millis(summary.figures.driver_us_second_half)),
    ("longest stall", |summary| millis(summary.figures.largest_stall_us)),
    ("ns a pair, warm", |summary| {
        format!("{:.0}, {:.0}", summary.figures.ns_per_pair, summary.figures.ns_per_pair_warm)
    }),
    ("no driver call", |summary| {
        format!("{:.2} %", 100.0 * summary.figures.hits as f64 / summary.figures.allocs.max(1) as f64)
    }),
    ("waits: CPU, streams", |summary| format!("{}, {}", summary.figures.gpu_waits, summary.figures.stream_waits)),
    ("refused", |summary| (summary.figures.oom + summary.figures.refused).to_string()),
];

fn held_before(summary: &Summary) -> String {
    match (summary.figures.peak_reserved_bytes, summary.figures.reserved_ratio) {
        (Some(bytes), Some(ratio)) => format!("{} ({ratio:.4})", show(bytes)),
        _ => "not recorded".to_owned(),
    }
}

fn saved(summary: &Summary) -> String {
    let Some(saved_bytes) = summary.saved_bytes else { return "-".to_owned() };
    let sign = if saved_bytes < 0 { "-" } else { "" };
    let share = saved_bytes as f64 / summary.figures.peak_reserved_bytes.unwrap_or(0).max(1) as f64;
    format!("{sign}{} ({:.1} %)", show(saved_bytes.unsigned_abs()), share * 100.0)
}

fn millis(us: f64) -> String {
    format!("{:.1} ms", us / 1000.0)
}
