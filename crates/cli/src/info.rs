//! x
use anyhow::Result;
pub fn run(_: &crate::args::InfoArgs) -> Result<bool> {
    Ok(true)
}
