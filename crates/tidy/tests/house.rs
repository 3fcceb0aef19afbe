//! The rules of the house.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use stitchpool_tidy::{files, manifests, root, sources, text};

/// Who may use whom; the drawing in ARCHITECTURE.md says the same.
const ARROWS: &[(&str, &[&str])] = &[
    ("cuda-sys", &[]),
    ("driver", &["cuda-sys"]),
    ("chunks", &["driver"]),
    ("pool", &["chunks", "driver"]),
    ("share", &["pool", "chunks", "driver"]),
    ("trace", &[]),
    ("capi", &["share", "pool", "chunks", "driver"]),
    ("cli", &["pool", "chunks", "driver", "trace"]),
    ("cudarc", &["pool", "driver"]),
    ("python", &["capi", "cli", "share", "pool", "driver"]),
    ("stitchpool", &["share", "pool", "chunks", "driver"]),
    ("parity", &["cuda-sys"]),
    ("tidy", &[]),
];

/// Where code may be unsafe: the raw interface, the drivers, the owners, the two files of the pool that
/// scan rows and are a lock, the two files of the program that queue work of their own, and those of the Python face that take
/// streams from callers and lend bytes to the interpreter.
const UNSAFE: &[&str] = &[
    "crates/cuda-sys/",
    "crates/driver/",
    "crates/parity/",
    "crates/capi/",
    "crates/cudarc/",
    "crates/cli/src/work.rs",
    "crates/cli/src/patch.rs",
    "crates/chunks/src/content.rs",
    "crates/chunks/src/event.rs",
    "crates/chunks/src/mapping.rs",
    "crates/chunks/src/physical_handle.rs",
    "crates/chunks/src/reservation.rs",
    "crates/chunks/src/run.rs",
    "crates/pool/src/heap/eights.rs",
    "crates/pool/src/heap/sixteens.rs",
    "crates/pool/src/heap/latch.rs",
    "crates/pool/src/heap/scan.rs",
    "python/src/block.rs",
    "python/src/stream.rs",
];

/// Names that say nothing.
const EMPTY_NAMES: &[&str] =
    &["manager", "base", "common", "utils", "util", "helper", "helpers", "misc", "core", "page"];

#[test]
fn dependencies_go_down_only() {
    for manifest in manifests() {
        let allowed = ARROWS.iter().find(|(name, _)| *name == manifest.name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("crate {} is not in the drawing", manifest.name));
        for used in &manifest.uses {
            assert!(allowed.contains(&used.as_str()), "{} may not use {used}", manifest.name);
        }
    }
}

#[test]
fn the_drawing_in_the_architecture_is_the_code() {
    let architecture = text("ARCHITECTURE.md");
    for manifest in manifests() {
        let row = architecture.lines().find(|line| line.starts_with(&format!("| `{}` |", manifest.name)));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {}", manifest.name));
        let drawn: BTreeSet<&str> = row.split('|').nth(2).unwrap().split('`').skip(1).step_by(2).collect();
        let real: BTreeSet<&str> = manifest.uses.iter().map(String::as_str).collect();
        assert_eq!(drawn, real, "what ARCHITECTURE.md draws for {} against its manifest", manifest.name);
    }
}

#[test]
fn unsafe_stands_only_where_it_belongs() {
    for source in sources().iter().filter(|source| !UNSAFE.iter().any(|place| source.path.starts_with(place))) {
        let guilty = source.code_lines().find(|line| line.contains("unsafe ") && !line.contains("unsafe_code"));
        assert!(guilty.is_none(), "{}: {}", source.path, guilty.unwrap());
    }
}

#[test]
fn every_unsafe_block_says_why_it_may() {
    for source in sources() {
        let lines: Vec<&str> = source.code().lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let opens = line.contains("unsafe {") && !line.trim_start().starts_with("//");
            let said = lines[number.saturating_sub(8)..=number].iter().any(|line| line.contains("SAFETY"));
            assert!(!opens || said, "{}:{}: an unsafe block without a SAFETY line", source.path, number + 1);
        }
    }
}

#[test]
fn a_file_begins_with_what_it_owns() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{} does not begin with a `//!` line", source.path);
    }
}

#[test]
fn no_file_has_an_empty_name() {
    for path in sources().into_iter().map(|source| source.path) {
        let stem = path.rsplit('/').next().unwrap().trim_end_matches(".rs").to_owned();
        assert!(!EMPTY_NAMES.contains(&stem.as_str()), "{path}: name the noun that lives there");
    }
}

#[test]
fn library_code_neither_panics_nor_leaves_the_process() {
    let forbidden = [".unwrap()", "panic!(", "todo!(", "unimplemented!(", "process::abort", "dbg!("];
    for source in sources().iter().filter(|source| !["cli", "tidy", "parity"].contains(&source.house.as_str())) {
        for line in source.code_lines() {
            let guilty = forbidden.iter().find(|word| line.contains(*word));
            assert!(guilty.is_none(), "{}: {line}", source.path);
        }
    }
}

/// The crates whose files and folders are held against each other.
const HOUSES: [&str; 10] =
    ["cuda-sys", "driver", "chunks", "pool", "share", "trace", "capi", "cli", "cudarc", "python"];

/// Files of one crate use each other downwards: no circle.
#[test]
fn files_import_in_no_circle() {
    for house in HOUSES {
        demand_no_circle(house, &imports(house));
    }
}

/// And so do its folders, each taken with the file that is its door.
#[test]
fn folders_import_in_no_circle() {
    for house in HOUSES {
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, uses) in imports(house) {
            let folder = |file: &str| file.split("::").next().unwrap_or_default().to_owned();
            let others = uses.iter().map(|used| folder(used)).filter(|used| *used != folder(&file));
            arrows.entry(folder(&file)).or_default().extend(others);
        }
        demand_no_circle(house, &arrows);
    }
}

#[track_caller]
fn demand_no_circle(house: &str, arrows: &BTreeMap<String, BTreeSet<String>>) {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    while done.len() < arrows.len() {
        let next = arrows
            .iter()
            .find(|(name, uses)| !done.contains(name.as_str()) && uses.iter().all(|used| done.contains(used.as_str())));
        let left: Vec<_> = arrows.keys().filter(|name| !done.contains(name.as_str())).collect();
        let (name, _) = next.unwrap_or_else(|| panic!("{house}: a circle among {left:?}"));
        done.insert(name);
    }
}

/// Which file of a crate names which other by `crate::` or through what the crate's root re-exports.
fn imports(house: &str) -> BTreeMap<String, BTreeSet<String>> {
    let files: Vec<_> =
        sources().into_iter().filter(|source| source.house == house && !source.module().is_empty()).collect();
    let modules: BTreeSet<String> = files.iter().map(|source| source.module()).collect();
    let exported = exports(house);
    let mut arrows = BTreeMap::new();
    for source in &files {
        let mut uses = BTreeSet::new();
        let code: Vec<&str> = source.code_lines().collect();
        for used in named(&code.join("\n")) {
            let target = innermost(&modules, &used).or_else(|| exported.get(&used).cloned());
            uses.extend(target.filter(|target| *target != source.module()));
        }
        arrows.insert(source.module(), uses);
    }
    arrows
}

/// The file that a path of names ends in: `mapper::chain` for `mapper::chain::Chain`.
fn innermost(modules: &BTreeSet<String>, path: &str) -> Option<String> {
    let ends = path.match_indices("::").map(|(end, _)| end).chain([path.len()]);
    ends.map(|end| &path[..end]).filter(|prefix| modules.contains(*prefix)).last().map(str::to_owned)
}

/// Paths after `crate::`, groups opened.
fn named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in code.split("crate::").skip(1) {
        let end = part.find([';', ')', '(', '<', '>', ' ', ',', '{']).unwrap_or(part.len());
        match part.strip_prefix('{') {
            Some(group) => {
                let group = group.split("};").next().unwrap_or_default();
                names.extend(group.split(',').map(|name| name.trim().to_owned()));
            }
            None => names.push(part[..end].to_owned()),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// What the root of a crate re-exports: name to file.
fn exports(house: &str) -> BTreeMap<String, String> {
    let folder = if house == "python" { "python".into() } else { format!("crates/{house}") };
    let lib = text(&format!("{folder}/src/lib.rs"));
    let mut exports = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        if let Some((module, names)) = statement.rsplit_once("::") {
            for name in names.trim_matches(['{', '}']).split(',') {
                exports.insert(name.trim().to_owned(), module.to_owned());
            }
        }
    }
    exports
}

#[test]
fn every_path_that_a_document_names_exists() {
    let documents = ["README.md", "ARCHITECTURE.md", "DECISIONS.md", "CHANGELOG.md"].map(String::from);
    for document in documents.into_iter().chain(files("docs", ".md")) {
        for span in text(&document).split('`').skip(1).step_by(2) {
            let path_like = span.contains('/')
                && !span.contains([' ', '*', '<', '{', '$', ':', '(', '|', '…', '"', '='])
                && !span.starts_with(['/', '.', '-', '~']);
            assert!(!path_like || root().join(span).exists(), "{document} names `{span}`, which is not there");
        }
    }
}

#[test]
fn every_dependency_has_earned_its_line() {
    let decisions = text("DECISIONS.md");
    for manifest in manifests() {
        for package in manifest.packages {
            assert!(decisions.contains(&format!("`{package}`")), "DECISIONS.md does not say why we use {package}");
        }
    }
}
