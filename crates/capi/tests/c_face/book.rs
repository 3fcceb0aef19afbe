//! The book's examples in C, compiled and run.

use crate::compiler::{c, crate_path, library_folder, run, scratch};
use std::process::Command;

#[test]
fn the_books_examples_in_c_run() {
    let page = std::fs::read_to_string(crate_path("../../docs/src/guides/c.md")).unwrap();
    let blocks: Vec<&str> = page.split("```c\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    for (number, block) in blocks.iter().enumerate() {
        let (source, executable) = (scratch(&format!("book{number}.c")), scratch(&format!("book{number}")));
        std::fs::write(&source, block).unwrap();
        let library = library_folder();
        let mut link = c();
        link.arg(&source).arg("-o").arg(&executable).arg("-L").arg(&library);
        link.arg("-lstitchpool_c").arg(format!("-Wl,-rpath,{}", library.display()));
        run(&mut link);
        let said = run(Command::new(&executable).env_remove("LD_LIBRARY_PATH"));
        assert!(!said.is_empty(), "example {number} says nothing");
    }
}
