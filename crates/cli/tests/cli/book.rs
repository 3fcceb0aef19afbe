//! Every command of the book, run as it stands there.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The lines of the book's shell blocks that call the program, each with its page.
fn commands() -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join("docs/src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
                let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("stitchpool "));
                found.extend(lines.map(|line| (path.clone(), line.to_owned())));
            }
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_command_of_the_book_runs() {
    let commands = commands();
    assert!(commands.len() >= 5, "{commands:?}");
    let mut done: Vec<&str> = Vec::new();
    for (page, line) in &commands {
        if done.contains(&line.as_str()) {
            continue;
        }
        let words = line.split_whitespace().skip(1);
        let output = Command::new(env!("CARGO_BIN_EXE_stitchpool")).current_dir(root()).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {line}: {said}", page.display());
        assert!(!output.stdout.is_empty(), "{}: {line} says nothing", page.display());
        done.push(line);
    }
}
