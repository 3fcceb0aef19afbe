//! A pool's figures in the text that Prometheus reads (format 0.0.4). It counts nothing itself.

use crate::stats::{DeviceStats, Stats};
use std::fmt::{Display, Write};
use stitchpool_driver::{DeviceId, Spent};

/// Families of figures one after the other, each under its name, help and type.
struct Exposition<'a> {
    text: String,
    /// The label that every figure bears.
    pool: &'a str,
}

/// Whether a figure only ever grows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

impl Stats {
    /// All figures as Prometheus reads them, each with the label `pool`: serve them as
    /// `text/plain; version=0.0.4`. With `spent`, as a [`Metered`](stitchpool_driver::Metered) driver
    /// counts it, the driver's calls are among them.
    #[must_use]
    pub fn prometheus(&self, pool: &str, spent: Option<&Spent>) -> String {
        let mut exposition = Exposition { text: String::new(), pool };
        exposition.counters(self);
        exposition.gauges(self);
        exposition.devices(&self.devices);
        if let Some(spent) = spent {
            exposition.driver(spent);
        }
        exposition.text
    }
}

impl Exposition<'_> {
    fn counters(&mut self, stats: &Stats) {
        for (name, help, value) in [
            ("allocs_total", "Requests served.", stats.allocs),
            ("frees_total", "Blocks freed.", stats.frees),
            ("hits_total", "Requests served without a driver call.", stats.hits()),
            ("misses_total", "Requests that found no free extent.", stats.misses),
            ("handles_created_total", "Physical handles created.", stats.handles_created),
            ("handles_released_total", "Physical handles released.", stats.handles_released),
            ("handles_aliased_total", "Handles taken from one place to another by an alias.", stats.handles_aliased),
            ("handles_unmapped_total", "Mappings taken down.", stats.handles_unmapped),
            ("stream_waits_total", "Times that one stream was made to wait for another.", stats.stream_waits),
            ("cpu_waits_total", "Times that the CPU waited for the GPU.", stats.cpu_waits),
            ("forced_bytes_total", "Bytes created beyond the highest live bytes at that time.", stats.forced_bytes),
            ("evictions_total", "Blocks put out because memory was short.", stats.evictions),
            ("evicted_bytes_total", "Bytes freed by putting blocks out.", stats.evicted_bytes),
            ("returned_bytes_total", "Bytes taken to bring blocks back that were put out.", stats.returned_bytes),
        ] {
            self.family(name, Kind::Counter, help);
            self.sample(name, &[], value);
        }
    }

    fn gauges(&mut self, stats: &Stats) {
        for (name, help, value) in [
            ("live_blocks", "Live blocks.", stats.live_blocks),
            ("stale_mappings", "Mappings that wait to be taken down.", stats.stale_mappings),
            ("metadata_bytes", "Host memory that the pool takes for itself.", stats.metadata_bytes),
            ("quarantined", "Things that the driver refused to take back.", stats.quarantined),
        ] {
            self.family(name, Kind::Gauge, help);
            self.sample(name, &[], value);
        }
    }

    fn devices(&mut self, devices: &[DeviceStats]) {
        self.family("held_bytes", Kind::Gauge, "Physical bytes that the pool holds of a device, by their state.");
        for device in devices {
            let holdings = &device.holdings;
            for (state, bytes) in [
                ("live", holdings.live_bytes),
                ("cached", holdings.free_bytes),
                ("pending", holdings.pending_bytes),
                ("stranded", holdings.stranded_bytes),
                ("pinned", holdings.pinned_bytes),
                ("kept", holdings.kept_bytes),
                ("backup", holdings.backup_bytes),
                ("quarantined", holdings.quarantined_bytes),
            ] {
                self.sample("held_bytes", &[("device", &label(holdings.device)), ("state", state)], bytes);
            }
        }
        type Figure = fn(&DeviceStats) -> Option<u64>;
        let families: [(&str, &str, Figure); 8] = [
            ("physical_bytes", "Physical bytes that the pool holds.", |of| Some(of.holdings.physical_bytes)),
            ("suspended_bytes", "Bytes needed to resume what sleeps.", |of| Some(of.holdings.suspended_bytes)),
            ("leased_bytes", "Live bytes that only leases keep from being put out.", |of| {
                Some(of.holdings.leased_bytes)
            }),
            ("remote_bytes", "Live bytes of streams of other devices.", |of| Some(of.holdings.remote_bytes)),
            ("limit_bytes", "Physical bytes that the pool may hold.", |of| Some(of.holdings.limit_bytes)),
            ("physical_peak_bytes", "The most physical bytes ever held.", |of| Some(of.physical_peak_bytes)),
            ("live_peak_bytes", "The highest live bytes, lowered by decay.", |of| Some(of.live_peak_bytes)),
            ("device_free_bytes", "Bytes of the device that nobody has taken.", |of| of.holdings.device_free_bytes),
        ];
        for (name, help, figure) in families {
            self.family(name, Kind::Gauge, help);
            for device in devices {
                if let Some(bytes) = figure(device) {
                    self.sample(name, &[("device", &label(device.holdings.device))], bytes);
                }
            }
        }
    }

    fn driver(&mut self, spent: &Spent) {
        let used = || spent.by_verb().filter(|(_, of)| of.calls > 0);
        self.family("driver_calls_total", Kind::Counter, "Calls of the driver, refused ones included.");
        used().for_each(|(verb, of)| self.sample("driver_calls_total", &[("verb", verb.word())], of.calls));
        self.family("driver_refusals_total", Kind::Counter, "Calls that the driver refused.");
        used().for_each(|(verb, of)| self.sample("driver_refusals_total", &[("verb", verb.word())], of.refused));
        self.family("driver_seconds_total", Kind::Counter, "What calls cost: their wall clock, or their price.");
        used().for_each(|(verb, of)| self.sample("driver_seconds_total", &[("verb", verb.word())], of.cost_us / 1e6));
    }

    // Writing to a string cannot fail.

    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        let _ = writeln!(self.text, "# HELP stitchpool_{name} {help}\n# TYPE stitchpool_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "stitchpool_{name}{{pool=\"{}\"", escaped(self.pool));
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

fn label(device: DeviceId) -> String {
    if device.is_host() { "host".to_owned() } else { device.0.to_string() }
}

/// A label's text between its quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::holdings::Holdings;
    use std::collections::{BTreeMap, BTreeSet};
    use stitchpool_driver::host::{HostConfig, HostDriver};
    use stitchpool_driver::{Driver, Metered};

    const NASTY: &str = "a \"pool\" in C:\\pools\nof two lines";

    fn stats() -> Stats {
        let holdings = |device, live_bytes| Holdings {
            device,
            limit_bytes: 100,
            physical_bytes: 90,
            live_bytes,
            free_bytes: 20,
            pending_bytes: 6,
            leased_bytes: 3,
            remote_bytes: 2,
            stranded_bytes: 4,
            kept_bytes: 0,
            pinned_bytes: 0,
            suspended_bytes: 30,
            backup_bytes: 0,
            quarantined_bytes: 0,
            device_free_bytes: (!device.is_host()).then_some(10),
        };
        let of = |device, live_bytes| DeviceStats {
            holdings: holdings(device, live_bytes),
            physical_peak_bytes: 95,
            live_peak_bytes: 80,
        };
        let devices = vec![of(DeviceId(0), 60), of(DeviceId::HOST, 50)];
        Stats { devices, allocs: 10, misses: 3, evictions: 2, ..Stats::default() }
    }

    /// Labels of a sample by name, unescaped as the format says.
    fn labels(text: &str) -> BTreeMap<String, String> {
        let (mut found, mut letters) = (BTreeMap::new(), text.chars());
        loop {
            let name: String = letters.by_ref().take_while(|letter| *letter != '=').collect();
            if name.is_empty() {
                return found;
            }
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'), "{name:?}");
            assert_eq!(letters.next(), Some('"'));
            let mut value = String::new();
            loop {
                match letters.next().unwrap() {
                    '"' => break,
                    '\\' => value.push(match letters.next().unwrap() {
                        'n' => '\n',
                        letter @ ('\\' | '"') => letter,
                        other => panic!("\\{other} is no escape"),
                    }),
                    letter => value.push(letter),
                }
            }
            assert!(found.insert(name, value).is_none());
            assert!(matches!(letters.next(), Some(',') | None));
        }
    }

    /// Holds a text against the rules of the format; gives its samples.
    fn read(text: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
        assert!(text.ends_with('\n'));
        let (mut samples, mut done, mut family) = (BTreeMap::new(), BTreeSet::new(), None);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
                assert!(!words.is_empty() && ["counter", "gauge"].contains(&kind));
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
                assert!(done.insert(name), "{name} comes twice");
                family = Some(name);
                continue;
            }
            let (head, value) = line.rsplit_once(' ').unwrap();
            let (name, rest) = head.split_once('{').unwrap();
            assert_eq!(Some(name), family, "a sample stands under its family");
            assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{name}");
            let key = (name.to_owned(), labels(rest.strip_suffix('}').unwrap()));
            assert!(samples.insert(key, value.parse().unwrap()).is_none(), "{line} comes twice");
        }
        samples
    }

    #[test]
    fn figures_are_in_the_format_and_labels_come_back_as_they_were() {
        let samples = read(&stats().prometheus(NASTY, None));
        let labels = |more: &[(&str, &str)]| -> BTreeMap<String, String> {
            let own = [("pool", NASTY)];
            own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let value = |name: &str, more: &[(&str, &str)]| samples.get(&(format!("stitchpool_{name}"), labels(more)));
        assert_eq!(value("hits_total", &[]), Some(&7.0));
        assert_eq!(value("held_bytes", &[("device", "0"), ("state", "live")]), Some(&60.0));
        assert_eq!(value("held_bytes", &[("device", "host"), ("state", "cached")]), Some(&20.0));
        assert_eq!(value("suspended_bytes", &[("device", "0")]), Some(&30.0));
        assert_eq!(value("device_free_bytes", &[("device", "0")]), Some(&10.0));
        assert_eq!(value("remote_bytes", &[("device", "host")]), Some(&2.0));
        assert_eq!(value("evictions_total", &[]), Some(&2.0));
        assert_eq!(value("device_free_bytes", &[("device", "host")]), None, "what is not known is not told");
        assert!(!samples.keys().any(|(name, _)| name.contains("driver_calls")));
    }

    #[test]
    fn calls_of_a_metered_driver_are_told_by_verb() {
        let metered = Metered::timed(HostDriver::new(HostConfig::default()).unwrap());
        metered.devices().unwrap();
        assert!(metered.reserve(1, 0).is_err());
        let samples = read(&stats().prometheus("p", Some(&metered.spent())));
        let of = |name: &str, verb: &str| {
            let found =
                samples.iter().find(|((of, labels), _)| of == name && labels.get("verb").is_some_and(|v| v == verb));
            found.map(|(_, value)| *value)
        };
        assert_eq!(of("stitchpool_driver_calls_total", "devices"), Some(1.0));
        assert_eq!(of("stitchpool_driver_refusals_total", "reserve"), Some(1.0));
        assert!(of("stitchpool_driver_seconds_total", "reserve").unwrap() > 0.0);
        assert_eq!(of("stitchpool_driver_calls_total", "create"), None);
    }
}
