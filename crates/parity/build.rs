//! Lets the tests link on a machine without CUDA. cuda-driver-sys asks the linker for `-lcuda`
//! although we only read its types and never call it: an empty linker script by that name will do.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?);
    fs::write(folder.join("libcuda.so"), "/* empty: nothing of it is called */\n")?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    Ok(())
}
