//! Our interface against NVIDIA's own header, by a C compiler: every constant, size, alignment,
//! offset and signature. It needs the header: `STITCHPOOL_CUDA_INCLUDE` names the folder that holds
//! `cuda.h`, and `fetch-header.sh` beside this crate fetches one. Without it the tests say that
//! they checked nothing.

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use stitchpool_parity::statements;

const FOLDER_VARIABLE: &str = "STITCHPOOL_CUDA_INCLUDE";

/// The folder with the header, or a line that says why the test is skipped.
fn header_folder() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from) else {
        // Straight to the stream, because the test harness hides what a passing test prints by macro.
        let _ = writeln!(stderr(), "SKIPPED: {FOLDER_VARIABLE} is not set: nothing was compared with NVIDIA's header");
        return None;
    };
    assert!(
        folder.join("cuda.h").is_file(),
        "{FOLDER_VARIABLE} is set, but there is no cuda.h in {}",
        folder.display()
    );
    Some(folder)
}

/// Lets the compiler judge the statements. It makes no program: they are judged while it reads them.
fn judge(folder: &Path, name: &str, statements: &[String]) -> Output {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // With this name defined the header declares each symbol of the library as it is exported, old
    // forms too, and renames none.
    let text = format!(
        "#define __CUDA_API_VERSION_INTERNAL\n#include <stddef.h>\n#include <cuda.h>\n{}\n",
        statements.join("\n")
    );
    std::fs::write(&file, text).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    Command::new(compiler).args(["-std=gnu11", "-fsyntax-only", "-I"]).arg(folder).arg(&file).output().unwrap()
}

#[test]
fn nvidias_header_agrees_with_every_line_of_our_tables() {
    let Some(folder) = header_folder() else { return };
    let statements = statements();
    let verdict = judge(&folder, "parity.c", &statements);
    assert!(verdict.status.success(), "{}", String::from_utf8_lossy(&verdict.stderr));
    let _ = writeln!(stderr(), "NVIDIA's header agrees with {} statements", statements.len());
}

#[test]
fn the_compiler_refuses_a_wrong_value_a_wrong_offset_and_a_wrong_signature() {
    let Some(folder) = header_folder() else { return };
    for (right, wrong) in [
        ("CUDA_ERROR_NOT_READY == 600u", "CUDA_ERROR_NOT_READY == 601u"),
        ("offsetof(CUmemAccessDesc, flags) == 8", "offsetof(CUmemAccessDesc, flags) == 4"),
        ("CUresult (CUevent, CUstream)", "CUresult (CUstream, CUevent)"),
    ] {
        let all = statements();
        let altered: Vec<String> = all.iter().map(|statement| statement.replace(right, wrong)).collect();
        assert_ne!(all, altered, "no statement says {right}");
        let verdict = judge(&folder, "wrong.c", &altered);
        assert!(!verdict.status.success(), "nobody noticed {wrong}");
    }
}
