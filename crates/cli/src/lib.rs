//! The `stitchpool` command as a library, so that the Python package has it too: reads the command line
//! and hands over to what it names.

#![deny(unsafe_code)]
#![allow(unreachable_pub, reason = "a program has no public face: `pub` means beyond its file")]

pub mod args;
mod bytes;
mod host_shape;
mod info;
mod machine;
#[allow(unsafe_code, reason = "its owner types prove what the seam asks for")]
mod patch;
mod progress;
mod replay;
mod report;
mod say;
mod session;
mod stress;
mod table;
#[allow(unsafe_code, reason = "its owner types prove what the seam asks for")]
mod work;

use args::{Cli, Command, ReplayArgs};
use clap::Parser;
use std::ffi::OsString;
use std::path::Path;

/// Something was refused, or wrong bytes were seen.
const BAD: u8 = 1;
/// The command line or a file was no good. The parser of the command line uses the same number.
const UNUSABLE: u8 = 2;

/// Runs the command with these words, the program's name first; what the process shall exit with.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(message) => {
            // Where nobody listens there is nobody to tell.
            let _ = message.print();
            return if message.use_stderr() { UNUSABLE } else { 0 };
        }
    };
    let done = match cli.command {
        Command::Replay(args) => replay::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Info(args) => info::run(&args),
    };
    match done {
        Ok(true) => 0,
        Ok(false) => BAD,
        Err(error) => {
            say::complain(&format!("stitchpool: {error:#}"));
            UNUSABLE
        }
    }
}

/// Plays one trace: its figures, as `replay --json` prints them.
///
/// # Errors
/// What is wrong with the file, or with what was asked for.
pub fn replay_json(args: &ReplayArgs, path: &Path) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&replay::play(args, path, |_, _| ())?.0)?)
}
