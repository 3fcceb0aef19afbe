//! What this machine allows a process, as the system's own files say.

use serde::Serialize;
use std::path::Path;
use std::{env, fs};

/// This machine; none where it does not say.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// The system's kernel.
    pub kernel: Option<String>,
    /// NVIDIA's kernel module.
    pub nvidia_module: Option<String>,
    /// NVIDIA's device files that this process sees.
    pub device_files: Vec<String>,
    /// Whether there are signs of a container.
    pub is_container: bool,
    /// `CUDA_VISIBLE_DEVICES`, where it is set.
    pub visible_devices: Option<String>,
    /// Memory that a process could get now.
    pub available_bytes: Option<u64>,
    /// Open files that this process may have: each exported or imported handle takes one.
    pub open_files: Option<Limit>,
    /// Addresses that this process may have.
    pub address_space_bytes: Option<Limit>,
    /// Mappings that a process may have (vm.max_map_count): the host driver needs one for each run of handles.
    pub map_count: Option<u64>,
}

/// Files that only the usual container engines make.
const CONTAINER_SIGNS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

fn device_files() -> Vec<String> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut files: Vec<String> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("nvidia"))
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .collect();
    files.sort();
    files
}

/// A limit of this process; none means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// What holds now.
    pub soft: Option<u64>,
    /// How far the process may raise it itself.
    pub hard: Option<u64>,
}

impl Machine {
    /// Asks the system.
    pub fn ask() -> Self {
        let limits = read("/proc/self/limits").unwrap_or_default();
        Self {
            kernel: read("/proc/sys/kernel/osrelease"),
            nvidia_module: read("/proc/driver/nvidia/version").and_then(|text| text.lines().next().map(str::to_owned)),
            device_files: device_files(),
            is_container: CONTAINER_SIGNS.iter().any(|path| Path::new(path).exists()),
            visible_devices: env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned()),
            available_bytes: available_bytes(),
            open_files: limit(&limits, "Max open files"),
            address_space_bytes: limit(&limits, "Max address space"),
            map_count: read("/proc/sys/vm/max_map_count").and_then(|text| text.parse().ok()),
        }
    }
}

/// Memory that a process could get now, where the system says so.
pub fn available_bytes() -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The limit of that name in the system's table of them: name, soft, hard, unit.
fn limit(table: &str, name: &str) -> Option<Limit> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_whitespace();
    let mut next = || match words.next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Limit { soft: next()?, hard: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_the_systems_table() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max open files            1024                 524288               files     \n\
                     Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(table, "Max open files"), Some(Limit { soft: Some(1024), hard: Some(524_288) }));
        assert_eq!(limit(table, "Max address space"), Some(Limit { soft: None, hard: None }));
        assert_eq!(limit(table, "Max dreams"), None);
    }
}
