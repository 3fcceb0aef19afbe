//! The `stitchpool` command: reads the command line and hands over to what it names.

#![deny(unsafe_code)]
#![allow(unreachable_pub, reason = "a program has no public face: `pub` means beyond its file")]

mod args;
mod bytes;
mod host_shape;
mod info;
mod machine;
#[allow(unsafe_code, reason = "its owner types prove what the seam asks for")]
mod patch;
mod progress;
mod replay;
mod session;
mod stress;
mod table;
#[allow(unsafe_code, reason = "its owner types prove what the seam asks for")]
mod work;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// Something was refused, or wrong bytes were seen.
const BAD: u8 = 1;
/// The command line or a file was no good. The parser of the command line uses the same number.
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Replay(args) => replay::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Info(args) => info::run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BAD),
        Err(error) => {
            eprintln!("stitchpool: {error:#}");
            ExitCode::from(UNUSABLE)
        }
    }
}
