//! What the program writes: data to stdout, everything else to stderr. Nothing else prints.

use anyhow::{Context, Result};
use std::io::{self, ErrorKind, Write};

/// Writes lines of data to stdout. Where the reader has gone, as `head` does, nobody is told.
///
/// # Errors
/// Whatever else keeps the lines from being written: what was asked for has not been told then.
pub fn say(lines: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// Writes a line to stderr. Where that cannot be there is nobody to tell.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
