//! What people see of it.

use super::Info;
use super::bandwidth::Bandwidth;
use super::device::Device;
use super::measure::{HandleCost, Measured};
use crate::bytes::show;
use crate::machine::Limit;
use crate::table::{of_heads, right};
use comfy_table::{ContentArrangement, Table};

/// All of it.
pub fn text(info: &Info) -> String {
    let mut lines = vec![format!("stitchpool {} on the {} driver", info.version, info.driver)];
    if let Some((major, minor)) = info.cuda_version {
        lines.push(format!("The driver speaks CUDA {major}.{minor}"));
    }
    if let Some(why) = &info.cuda_unavailable {
        lines.push(format!("CUDA is not available: {why}"));
    }
    lines.push(devices(&info.devices).to_string());
    lines.push(
        "What is taken may be another process's, a context's, or the driver's own: the driver does not say. nvidia-smi \
         --query-compute-apps=pid,used_memory --format=csv does; fuser -v /dev/nvidia* where it shows nothing."
            .to_owned(),
    );
    if info.devices.len() > 1 {
        lines.push(format!("How the device of the row reaches memory of the column's:\n{}", links(&info.links)));
    }
    lines.extend([features(info), troubles(info), machine(info)].map(|table| table.to_string()));
    if let Some(measured) = &info.measured {
        lines.push(format!("Microseconds for one handle, here / on an H200:\n{}", by_size(measured)));
        lines.push(format!("Microseconds whatever the size:\n{}", fixed(measured)));
        lines.push(format!("10^9 bytes a second, kernels of device 0:\n{}", bandwidth(&measured.bandwidth)));
        lines.push(differs(info, measured));
    }
    lines.join("\n") + "\n"
}

fn features(info: &Info) -> Table {
    let mut table = of_heads(&["feature", "verdict", "tried and seen", "what to do"]);
    for feature in &info.features {
        let remedy = match (feature.remedy, feature.see) {
            (Some(remedy), Some(see)) => format!("{remedy}; see \"{see}\""),
            (remedy, _) => remedy.unwrap_or_default().to_owned(),
        };
        table.add_row([feature.feature, feature.verdict.word(), &feature.reason, &remedy]);
    }
    narrow(&mut table)
}

fn troubles(info: &Info) -> Table {
    let mut table = of_heads(&["usual trouble (docs/src/troubleshooting.md)", "sign", ""]);
    for trouble in &info.troubles {
        table.add_row([trouble.trouble, trouble.sign.word(), &trouble.words]);
    }
    narrow(&mut table)
}

/// Lets long cells wrap.
fn narrow(table: &mut Table) -> Table {
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    table.clone()
}

const WIDTH: u16 = 140;

fn devices(devices: &[Device]) -> Table {
    let mut table = of_heads(&["device", "name", "uuid", "memory", "free", "taken", "handles and their granularity"]);
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
            show(device.taken_bytes),
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
    let files = if machine.device_files.is_empty() { "none".to_owned() } else { machine.device_files.join(" ") };
    table.add_row(["NVIDIA's device files".to_owned(), files]);
    let visible = machine.visible_devices.as_ref().map_or_else(|| "not set".to_owned(), |value| format!("{value:?}"));
    table.add_row(["CUDA_VISIBLE_DEVICES".to_owned(), visible]);
    table.add_row(["memory available".to_owned(), machine.available_bytes.map_or_else(unknown, show)]);
    table.add_row(["open files".to_owned(), limit(machine.open_files, |count| count.to_string())]);
    table.add_row(["address space".to_owned(), limit(machine.address_space_bytes, show)]);
    let reservation = match &info.limits.reservation_refusal {
        Some(refusal) => format!("{} (twice as much: {refusal})", show(info.limits.reservation_bytes)),
        None => show(info.limits.reservation_bytes),
    };
    table.add_row(["largest reservation".to_owned(), reservation]);
    if let Some(contexts) = &info.contexts {
        let on: Vec<String> = contexts.on_devices.iter().map(|device| format!("device {device}")).collect();
        table.add_row(["contexts of this process".to_owned(), format!("{} (about half a GiB each)", on.join(", "))]);
    }
    table.add_row(["vm.max_map_count".to_owned(), machine.map_count.map_or_else(unknown, |count| count.to_string())]);
    narrow(&mut table)
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

fn bandwidth(rows: &[Bandwidth]) -> Table {
    let mut table = of_heads(&["path", "made of", "used", "written", "read", "read on an H200", "copied to device 0"]);
    for row in rows {
        table.add_row([
            row.path.clone(),
            row.made_of.clone(),
            show(row.bytes),
            format!("{:.1}", row.write_gbps),
            format!("{:.1}", row.read_gbps),
            format!("{:.1}", row.h200_read_gbps),
            format!("{:.1}", row.copy_gbps),
        ]);
    }
    right(&mut table);
    table
}

fn differs(info: &Info, measured: &Measured) -> String {
    if info.driver == "host" {
        return "The host driver moves pages of this machine: its figures say nothing of a GPU.".to_owned();
    }
    if measured.differs.is_empty() {
        return "Nothing differs from an H200 by more than noise.".to_owned();
    }
    let mut table = of_heads(&["differs from an H200", "here", "there", "times"]);
    for row in &measured.differs {
        let figure = |value: f64| format!("{value:.2} {}", row.unit);
        table.add_row([row.what.clone(), figure(row.here), figure(row.h200), format!("{:.2}", row.times)]);
    }
    right(&mut table);
    table.to_string()
}
