//! What the shared library shows.

use crate::compiler::{LIBRARY, library_folder, run};
use crate::rust_side::functions;
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn the_library_shows_its_own_functions_and_nothing_else() {
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library_folder().join(LIBRARY)));
    let shown: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let functions = functions();
    let declared: BTreeSet<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(shown, declared);
}
