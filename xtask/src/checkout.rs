//! Where things are in this checkout: the program under test, and what is written.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::steps::{PROGRAM_SCOPE, Program};

/// A debug build of `agentd`, made as the tests make it.
pub fn agentd(root: &Path) -> Result<PathBuf> {
    // Of this program alone: a build of xtask would replace the one that runs.
    let build = [&["build", "--locked", "--bin", "agentd"][..], &PROGRAM_SCOPE].concat();
    let built = Program::linted(root, &build).succeed("fix the compiler errors above");
    built.map_err(|failed| anyhow!(failed.message))?;
    Ok(target(root).join("debug/agentd"))
}

pub fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Writes a page of `docs/`.
pub fn write_page(root: &Path, page: &str, text: &str) -> Result<()> {
    let path = root.join(page);
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("wrote {page}");
    Ok(())
}

/// Where programs are kept that checks download.
pub fn tools_folder(root: &Path) -> PathBuf {
    target(root).join("tools")
}
