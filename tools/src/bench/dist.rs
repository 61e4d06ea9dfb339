//! Builds with the `dist` profile, which is also that of releases.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::link_order;

/// Builds a package with the `dist` profile; returns the path of its program.
pub(super) fn dist_build(root: &Path, package: &str, program: &str) -> Result<PathBuf> {
    Ok(build(root, &["--package", package])?.join(program))
}

/// Builds an example of a package with the `dist` profile; returns its path.
pub(super) fn dist_example(root: &Path, package: &str, example: &str) -> Result<PathBuf> {
    Ok(build(root, &["--package", package, "--example", example])?.join("examples").join(example))
}

/// Builds what is chosen; returns the folder of the programs.
fn build(root: &Path, chosen: &[&str]) -> Result<PathBuf> {
    // As packages have it, when one was made here.
    let order = Some(link_order::file(root)).filter(|file| file.is_file());
    if let Some(order) = &order {
        println!("functions in the order of {}", order.display());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--profile", "dist"])
        .args(chosen)
        .envs(order.map(|order| (link_order::VARIABLE, order)))
        .current_dir(root)
        .status()
        .context("cargo")?;
    let chosen = chosen.join(" ");
    ensure!(built.success(), "`cargo build --profile dist {chosen}` failed: see above");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("dist"))
}
