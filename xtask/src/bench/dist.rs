//! Builds with the `dist` profile, which is also that of releases.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Builds a package with the `dist` profile; returns the path of its program.
pub(super) fn dist_build(root: &Path, package: &str, program: &str) -> Result<std::path::PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--profile", "dist", "--package", package])
        .current_dir(root)
        .status()
        .context("cargo")?;
    ensure!(built.success(), "`cargo build --profile dist --package {package}` failed: see above");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("dist").join(program))
}
