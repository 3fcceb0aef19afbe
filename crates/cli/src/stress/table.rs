//! The table that people see.

use super::figures::Figures;
use crate::bytes::show;
use crate::table::{of_heads, right};
use comfy_table::Table;

/// What a run came to.
pub fn table(figures: &Figures) -> Table {
    let mut table = of_heads(&["stress", if figures.ok { "all was well" } else { "something went wrong" }]);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("driver, devices", format!("{}, {}", figures.driver, figures.devices));
    row("threads, shared streams", format!("{}, {}", figures.threads, figures.streams));
    row("seed", figures.seed.to_string());
    row("operations", format!("{} in {:.1} s", figures.ops, figures.seconds));
    row("blocks allocated, lent, handed over", format!("{}, {}, {}", figures.allocs, figures.lends, figures.handovers));
    row("requests that missed", figures.misses.to_string());
    row("handles aliased", figures.handles_aliased.to_string());
    row("waits: CPU, streams", format!("{}, {}", figures.gpu_waits, figures.stream_waits));
    row("held, at most", show(figures.peak_physical_bytes));
    row("refused for want of memory", figures.refused.to_string());
    row("calls made to fail, refusals", format!("{}, {}", figures.calls_failed, figures.errors));
    row("in quarantine", figures.quarantined.to_string());
    row("bytes checked, wrong", format!("{}, {} B", show(figures.checked_bytes), figures.wrong_bytes));
    row("accesses at fault", figures.access_faults.to_string());
    let leaks = [figures.leaked_handles, figures.leaked_reservations, figures.leaked_events];
    row("leaked: handles, reservations, events", leaks.map(|count| count.to_string()).join(", "));
    right(&mut table);
    table
}
