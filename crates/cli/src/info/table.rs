//! What people see of it.

use super::measure::{HandleCost, Measured};
use super::{Device, Info};
use crate::bytes::show;
use crate::machine::Limit;
use crate::table::{of_heads, right};
use comfy_table::Table;

/// Prints all of it.
pub fn print(info: &Info) {
    println!("stitchpool {} on the {} driver", info.version, info.driver);
    if let Some(why) = &info.cuda_unavailable {
        println!("CUDA is not available: {why}");
    }
    println!("{}", devices(&info.devices));
    if info.devices.len() > 1 {
        println!("How the device of the row reaches memory of the column's:\n{}", links(&info.links));
    }
    println!("{}", machine(info));
    if let Some(measured) = &info.measured {
        println!("Microseconds for one handle, here / on an H200:\n{}", by_size(measured));
        println!("Microseconds whatever the size:\n{}", fixed(measured));
    }
}

fn devices(devices: &[Device]) -> Table {
    let mut table = of_heads(&["device", "name", "uuid", "memory", "free", "handles and their granularity"]);
    for device in devices {
        let kinds = device.kinds.iter().map(|kind| match (&kind.refusal, kind.granularity_bytes) {
            (None, Some(bytes)) => format!("{}: {}", kind.kind, show(bytes)),
            (refusal, _) => format!("{}: {}", kind.kind, refusal.as_deref().unwrap_or("no granularity")),
        });
        let kinds: Vec<String> = kinds.collect();
        table.add_row([
            device.ordinal.to_string(),
            device.name.clone(),
            device.uuid.clone(),
            show(device.total_bytes),
            show(device.free_bytes),
            kinds.join("\n"),
        ]);
    }
    table
}

fn links(links: &[Vec<&'static str>]) -> Table {
    let heads: Vec<String> =
        std::iter::once(String::new()).chain((0..links.len()).map(|to| format!("device {to}"))).collect();
    let mut table = of_heads(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for (from, row) in links.iter().enumerate() {
        table.add_row(std::iter::once(format!("device {from}")).chain(row.iter().map(|word| (*word).to_owned())));
    }
    table
}

fn machine(info: &Info) -> Table {
    let machine = &info.machine;
    let unknown = || "unknown".to_owned();
    let limit = |limit: Option<Limit>, show: fn(u64) -> String| {
        let word = |value: Option<u64>| value.map_or("unlimited".to_owned(), show);
        limit.map_or_else(unknown, |limit| format!("{} (may be raised to {})", word(limit.soft), word(limit.hard)))
    };
    let mut table = of_heads(&["this machine", ""]);
    table.add_row(["kernel".to_owned(), machine.kernel.clone().unwrap_or_else(unknown)]);
    table.add_row(["NVIDIA's module".to_owned(), machine.nvidia_module.clone().unwrap_or_else(|| "none".to_owned())]);
    table.add_row(["memory available".to_owned(), machine.available_bytes.map_or_else(unknown, show)]);
    table.add_row(["open files".to_owned(), limit(machine.open_files, |count| count.to_string())]);
    table.add_row(["address space".to_owned(), limit(machine.address_space_bytes, show)]);
    table.add_row(["vm.max_map_count".to_owned(), machine.map_count.map_or_else(unknown, |count| count.to_string())]);
    table
}

fn by_size(measured: &Measured) -> Table {
    let heads = ["handle", "create", "map", "first rights", "later rights", "unchanged rights", "unmap", "release"];
    let mut table = of_heads(&heads);
    for cost in &measured.by_size {
        let pair = |of: fn(&HandleCost) -> f64| format!("{:.2} / {:.2}", of(&cost.here), of(&cost.h200));
        table.add_row([
            show(cost.handle_bytes),
            pair(|cost| cost.create_us),
            pair(|cost| cost.map_us),
            pair(|cost| cost.first_rights_us),
            pair(|cost| cost.rights_us),
            pair(|cost| cost.unchanged_rights_us),
            pair(|cost| cost.unmap_us),
            pair(|cost| cost.release_us),
        ]);
    }
    right(&mut table);
    table
}

fn fixed(measured: &Measured) -> Table {
    let mut table = of_heads(&["call", "here", "on an H200"]);
    for cost in &measured.fixed {
        table.add_row([cost.verb.to_owned(), format!("{:.2}", cost.here_us), format!("{:.2}", cost.h200_us)]);
    }
    right(&mut table);
    table
}
