//! A crate's manifest, as far as the rules look at it.

use crate::text;

/// A crate and the crates of the house that its library or program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The folder's name under `crates/`; `python`; `stitchpool` for the root package.
    pub name: String,
    /// Names of the same kind, from `[dependencies]` alone.
    pub uses: Vec<String>,
    /// Every outside package it names, in any section.
    pub packages: Vec<String>,
}

/// All crates of the workspace.
#[must_use]
pub fn manifests() -> Vec<Manifest> {
    let mut names: Vec<String> = std::fs::read_dir(crate::root().join("crates"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let members = names.into_iter().map(|name| read(&name, &text(&format!("crates/{name}/Cargo.toml"))));
    members.chain([read("python", &text("python/Cargo.toml")), read("stitchpool", &text("Cargo.toml"))]).collect()
}

fn read(name: &str, manifest: &str) -> Manifest {
    let (mut uses, mut packages) = (Vec::new(), Vec::new());
    let mut section = String::new();
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            continue;
        }
        let dependencies =
            section == "dependencies" || section.ends_with("-dependencies") || section.ends_with(".dependencies");
        let package = line.split(['.', '=', ' ']).next().unwrap_or_default();
        let name_like =
            !package.is_empty() && package.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !dependencies || section.starts_with("workspace") || !name_like {
            continue;
        }
        match package.strip_prefix("stitchpool") {
            Some(own) if section == "dependencies" => {
                uses.push(if own.is_empty() { package.to_owned() } else { own.trim_start_matches('-').to_owned() });
            }
            Some(_) => {}
            None => packages.push(package.to_owned()),
        }
    }
    Manifest { name: name.to_owned(), uses, packages }
}
