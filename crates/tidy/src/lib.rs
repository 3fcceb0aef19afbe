//! Reads the house: its crates, its source files, its documents. The rules are in the tests.

mod manifest;
mod source;

pub use manifest::{Manifest, manifests};
pub use source::{Source, sources};

use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// A file of the workspace as text; empty if it is not there.
#[must_use]
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// The files below a folder of the workspace whose names end in `ending`, by path from the root.
#[must_use]
pub fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(ending)
                && let Ok(inside) = path.strip_prefix(root())
            {
                found.push(inside.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}
