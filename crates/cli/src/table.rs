//! Tables as all commands draw them.

use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use serde_json::Value;

/// A table with these heads, figures on the right.
pub fn of_heads(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(heads);
    table
}

/// Moves all columns but the first to the right.
pub fn right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The plain fields of a record, a row each, in its own order of names.
pub fn of_fields(record: &impl Serialize) -> Result<Table> {
    let mut table = of_heads(&["figure", "value"]);
    if let Value::Object(fields) = serde_json::to_value(record)? {
        for (name, value) in fields {
            let words = name.replace('_', " ");
            match value {
                Value::Array(lines) if lines.is_empty() => continue,
                Value::Array(lines) => table.add_row([words, joined(&lines)]),
                Value::String(text) => table.add_row([words, text]),
                other => table.add_row([words, other.to_string()]),
            };
        }
    }
    right(&mut table);
    Ok(table)
}

fn joined(lines: &[Value]) -> String {
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    lines.join("\n")
}
