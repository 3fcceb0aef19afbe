//! A source file of a library or program, without its tests.

use crate::{files, text};

/// One Rust source file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the root.
    pub path: String,
    /// The crate's folder under `crates/`; `python`; `stitchpool` for the root package.
    pub house: String,
    /// All of its text.
    pub text: String,
}

/// The source files of all crates; tests and benches are not among them.
#[must_use]
pub fn sources() -> Vec<Source> {
    let paths = files("crates", ".rs").into_iter().chain(files("src", ".rs")).chain(files("python/src", ".rs"));
    let in_source = paths.filter(|path| path.starts_with("src/") || path.contains("/src/"));
    in_source
        .map(|path| {
            let of_crate = path.strip_prefix("crates/").and_then(|path| path.split('/').next());
            let of_root = if path.starts_with("python/") { "python" } else { "stitchpool" };
            let house = of_crate.unwrap_or(of_root);
            Source { house: house.to_owned(), text: text(&path), path }
        })
        .collect()
}

impl Source {
    /// The module's path inside its crate: `host::ledger` for `src/host/ledger.rs`, empty for the root.
    #[must_use]
    pub fn module(&self) -> String {
        let inside = self.path.split_once("src/").map_or("", |(_, inside)| inside).trim_end_matches(".rs");
        let module = inside.trim_end_matches("/mod").replace('/', "::");
        if module == "lib" || module == "main" { String::new() } else { module }
    }

    /// The code before the file's own tests.
    #[must_use]
    pub fn code(&self) -> &str {
        self.text.split("#[cfg(test)]").next().unwrap_or_default()
    }

    /// Its code lines: no comment, no doc.
    pub fn code_lines(&self) -> impl Iterator<Item = &str> {
        self.code().lines().filter(|line| !line.trim_start().starts_with("//"))
    }
}
