//! The `stitchpool` command.

fn main() {}
