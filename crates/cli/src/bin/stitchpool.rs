//! The `stitchpool` program: hands its command line over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(stitchpool_cli::run(std::env::args_os()))
}
