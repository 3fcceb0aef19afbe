//! The C and C++ compilers of this machine, and where the library is.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where this test's files go.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The folder of the shared library: cargo builds it together with the one that this test is linked
/// with, and puts both beside the test.
pub(crate) fn library_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().to_path_buf();
    let library = folder.join(LIBRARY);
    assert!(library.exists(), "{} is not there: build the package stitchpool-capi", library.display());
    folder
}

pub(crate) const LIBRARY: &str = "libstitchpool_c.so";

/// A compiler that is strict, with the header's folder.
pub(crate) fn c() -> Command {
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"]).arg(crate_path("include"));
    compiler
}

pub(crate) fn cxx() -> Command {
    let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    compiler.args(["-x", "c++", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
    compiler.arg(crate_path("include"));
    compiler
}

/// Runs a command that must succeed, and gives what it prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}
