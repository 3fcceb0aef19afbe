//! Runs the program and keeps what it said.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run of the program came to.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs it with these words.
pub fn run(words: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_stitchpool")).args(words).output().unwrap();
    Run {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Run {
    /// The JSON objects on stdout, one a line, of a run that must have gone well.
    pub fn objects(&self) -> Vec<Value> {
        assert_eq!(self.status, 0, "{self:?}");
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Its only object.
    pub fn object(&self) -> Value {
        let mut objects = self.objects();
        assert_eq!(objects.len(), 1, "{self:?}");
        objects.remove(0)
    }
}

/// A recorded trace that comes with the source.
pub fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name)
}

/// A path as a word of a command line.
pub fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn count(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("{field} is no count in {object}"))
}

pub fn figure(object: &Value, field: &str) -> f64 {
    object[field].as_f64().unwrap_or_else(|| panic!("{field} is no figure in {object}"))
}

/// A file with this content, under a name that no other test uses.
pub fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}
