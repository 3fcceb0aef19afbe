//! The usual troubles as checks: whether this machine shows them.

use super::Info;
use super::feature::Verdict;
use crate::bytes::show;
use crate::machine::Machine;
use serde::Serialize;
use stitchpool_driver::Trouble;

/// One usual trouble, looked for.
#[derive(Debug, Serialize)]
pub struct Ailment {
    /// The heading of its section on the troubleshooting page.
    pub trouble: &'static str,
    /// Whether it was found.
    pub sign: Sign,
    /// What was seen.
    pub words: String,
}

/// Whether a trouble was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// It is here.
    Seen,
    /// It may be here: a person must look.
    Possible,
    /// It is not here.
    NotSeen,
    /// Nothing that this program may try would tell.
    CannotTell,
}

impl Sign {
    /// As people read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Seen => "SEEN",
            Self::Possible => "possible",
            Self::NotSeen => "not seen",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// A peer's memory that is read slower than this is worth a look: a direct link of an H200 gives 376 GB/s,
/// its bus about 50.
const SLOW_PEER_GBPS: f64 = 100.0;
/// What contexts of this process may take of a device.
const CONTEXTS_BYTES: u64 = 2 << 30;

/// All usual troubles, looked for in what was found out.
pub fn all(info: &Info) -> Vec<Ailment> {
    Trouble::ALL
        .iter()
        .map(|&trouble| {
            let (sign, words) = look(trouble, info);
            Ailment { trouble: trouble.heading(), sign, words }
        })
        .collect()
}

fn look(trouble: Trouble, info: &Info) -> (Sign, String) {
    match trouble {
        Trouble::NoDevice => {
            no_device(info.cuda_unavailable.as_deref(), info.driver, info.devices.len(), &info.machine)
                .unwrap_or_else(|| opening(trouble, info))
        }
        Trouble::NoLibrary | Trouble::OldDriver => opening(trouble, info),
        Trouble::Rounding => by_feature(info, "whole granules"),
        Trouble::NoPeer => match by_feature(info, "peers") {
            (_, words) if info.devices.len() < 2 => (Sign::NotSeen, words),
            found => found,
        },
        Trouble::NoRights => (
            Sign::CannotTell,
            "a kernel without rights would cost the context, so none was tried; the pool opens what it maps".to_owned(),
        ),
        Trouble::SlowPeer => slow_peer(info),
        Trouble::NotBack => not_back(info),
        Trouble::WrongContext => match &info.contexts {
            None => (Sign::NotSeen, "this driver has no contexts".to_owned()),
            Some(contexts) if contexts.is_unchanged => {
                (Sign::NotSeen, "the thread's current context is after all trials what it was before".to_owned())
            }
            Some(_) => (Sign::Seen, "a trial left another context current on this thread: tell us".to_owned()),
        },
    }
}

/// What kept CUDA from opening.
fn opening(trouble: Trouble, info: &Info) -> (Sign, String) {
    match &info.cuda_unavailable {
        Some(why) if why.contains(trouble.see()) => (Sign::Seen, why.clone()),
        Some(_) => (Sign::CannotTell, "CUDA did not come so far; see the trouble that is seen".to_owned()),
        None if info.driver == "cuda" => (Sign::NotSeen, format!("CUDA opened with {} devices", info.devices.len())),
        None => (Sign::CannotTell, "CUDA was not asked for; --driver cuda does".to_owned()),
    }
}

/// What the machine itself tells of devices that are not seen; none where CUDA's own answer tells more.
fn no_device(unavailable: Option<&str>, driver: &str, devices: usize, machine: &Machine) -> Option<(Sign, String)> {
    let named = machine.visible_devices.as_ref().map(|value| (value, value.split(',').count()));
    match (unavailable, named) {
        (Some(why), Some((value, _))) if why.contains(Trouble::NoDevice.see()) => {
            Some((Sign::Seen, format!("{why}; CUDA_VISIBLE_DEVICES is {value:?}")))
        }
        (Some(why), _) if why.contains(Trouble::NoDevice.see()) => None,
        (Some(_), _) => Some(unseen(machine)),
        // CUDA ends the list at the first name that it does not know, without a word.
        (None, Some((value, names))) if driver == "cuda" && names > devices => {
            let words = format!("CUDA_VISIBLE_DEVICES is {value:?} and names {names}; CUDA shows {devices}");
            Some((Sign::Possible, words))
        }
        (None, _) => None,
    }
}

/// Where CUDA came not so far as to count devices.
fn unseen(machine: &Machine) -> (Sign, String) {
    let container = if machine.is_container { "this container" } else { "this process" };
    match (&machine.nvidia_module, machine.device_files.is_empty()) {
        (Some(_), true) => (
            Sign::Seen,
            format!("the kernel has NVIDIA's module, and {container} has no /dev/nvidia* to reach its devices by"),
        ),
        (Some(_), false) => (Sign::NotSeen, format!("{container} has {}", machine.device_files.join(" "))),
        (None, _) => {
            let words = "the kernel has no module of NVIDIA's: this machine has no GPU, or no driver for it";
            (Sign::CannotTell, words.to_owned())
        }
    }
}

fn by_feature(info: &Info, name: &str) -> (Sign, String) {
    let Some(feature) = info.features.iter().find(|feature| feature.feature == name) else {
        return (Sign::CannotTell, "it was not tried".to_owned());
    };
    let sign = match feature.verdict {
        Verdict::Works => Sign::NotSeen,
        Verdict::InPart | Verdict::DoesNotWork => Sign::Seen,
        Verdict::NotProbed => Sign::CannotTell,
    };
    (sign, feature.reason.clone())
}

fn slow_peer(info: &Info) -> (Sign, String) {
    let pairs = info.links.iter().enumerate().flat_map(|(from, row)| row.iter().enumerate().map(move |to| (from, to)));
    let over_bus: Vec<String> = pairs
        .filter(|(_, (_, word))| **word == "bus")
        .map(|(from, (to, _))| format!("device {from} reaches device {to} over the bus"))
        .collect();
    if !over_bus.is_empty() {
        return (Sign::Seen, over_bus.join("; "));
    }
    if info.devices.len() < 2 {
        return (Sign::NotSeen, "there is one device only".to_owned());
    }
    let Some(measured) = info.measured.as_ref().filter(|_| info.driver == "cuda") else {
        return (Sign::CannotTell, "all peers have a direct link; --measure on CUDA tells how fast it is".to_owned());
    };
    let peers = measured.bandwidth.iter().filter(|row| row.is_peer);
    let slow: Vec<String> = peers
        .filter(|row| row.read_gbps < SLOW_PEER_GBPS)
        .map(|row| format!("{}: {:.0} GB/s", row.path, row.read_gbps))
        .collect();
    match slow.is_empty() {
        true => (Sign::NotSeen, format!("every peer was read with at least {SLOW_PEER_GBPS:.0} GB/s")),
        false => (Sign::Seen, slow.join("; ")),
    }
}

fn not_back(info: &Info) -> (Sign, String) {
    let (sign, words) = by_feature(info, "memory back after release");
    if sign == Sign::Seen {
        return (sign, words);
    }
    let full = info.devices.iter().filter(|device| device.taken_bytes > CONTEXTS_BYTES);
    let full: Vec<String> = full
        .map(|device| {
            format!("device {}: {} are taken, none of it by this program", device.ordinal, show(device.taken_bytes))
        })
        .collect();
    match full.is_empty() {
        true => (Sign::NotSeen, words),
        false => (Sign::Possible, format!("{}; nvidia-smi and fuser -v /dev/nvidia* tell by whom", full.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(module: Option<&str>, files: &[&str], visible: Option<&str>) -> Machine {
        Machine {
            nvidia_module: module.map(str::to_owned),
            device_files: files.iter().map(|&file| file.to_owned()).collect(),
            visible_devices: visible.map(str::to_owned),
            is_container: true,
            ..Machine::default()
        }
    }

    #[test]
    fn devices_that_are_not_seen_are_told_by_what_the_machine_shows() {
        let no_device = format!("cuInit: CUDA_ERROR_NO_DEVICE (100); {}", Trouble::NoDevice.see());
        let files = ["/dev/nvidia0", "/dev/nvidiactl"];
        for (why, machine, sign, words) in [
            (Some("no library"), machine(Some("580"), &[], None), Sign::Seen, "this container has no /dev/nvidia*"),
            (Some("no library"), machine(Some("580"), &files, None), Sign::NotSeen, "has /dev/nvidia0 /dev/nvidiactl"),
            (Some("no library"), machine(None, &[], None), Sign::CannotTell, "no module of NVIDIA's"),
            (Some(no_device.as_str()), machine(None, &[], Some("")), Sign::Seen, "CUDA_VISIBLE_DEVICES is \"\""),
            (None, machine(Some("580"), &files, Some("0,7")), Sign::Possible, "names 2; CUDA shows 1"),
        ] {
            let found = super::no_device(why, "cuda", 1, &machine);
            assert!(
                found.as_ref().is_some_and(|found| found.0 == sign && found.1.contains(words)),
                "{found:?}, not {words}"
            );
        }
        assert_eq!(super::no_device(None, "cuda", 2, &machine(None, &[], Some("0,1"))), None);
        assert_eq!(super::no_device(None, "host", 1, &machine(None, &[], Some("0,1"))), None);
    }
}
