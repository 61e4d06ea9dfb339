//! `cargo xtask book`: the site of the documents, built from `docs/` by mdbook into `target/book`. Fails when a
//! page is broken, missing, or links to nothing.

mod site;
mod stage;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use crate::generate;
use xtask::checkout::target;
use xtask::checkout::tools_folder;
use xtask::steps::{Counts, Done, Outcome, Program};

/// Compiled from its registry the first time, below the target folder.
const VERSION: &str = "0.5.4";

/// Runs [`build`] as a task.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mdbook = installed(root)?;
    let pages = build(root, &mdbook)?;
    println!("{pages} pages: {}", target(root).join("book/index.html").display());
    Ok(())
}

/// Runs [`build`] as a step. Skipped where mdbook cannot be installed.
pub(crate) fn check(root: &Path) -> Outcome {
    let mdbook = match installed(root) {
        Ok(mdbook) => mdbook,
        Err(error) => return Ok(Done::Skipped(format!("{error:#}"))),
    };
    let passed = build(root, &mdbook)?;
    Ok(Done::Tests(Counts { passed, failed: 0, skipped: 0 }))
}

/// The program.
fn installed(root: &Path) -> Result<PathBuf> {
    let folder = tools_folder(root);
    let program = folder.join("bin/mdbook");
    let version = Command::new(&program).arg("--version").output();
    if version
        .is_ok_and(|output| output.stdout.trim_ascii() == format!("mdbook v{VERSION}").as_bytes())
    {
        return Ok(program);
    }
    let place = folder.to_string_lossy();
    let install = ["install", "mdbook", "--version", VERSION, "--locked", "--root", &place];
    let features = ["--no-default-features", "--features", "search", "--force"];
    let done = Program::cargo(root, &[&install[..], &features].concat())
        .succeed("check the network; cargo downloads and compiles mdbook once");
    done.map(|_| program).map_err(|failed| anyhow!(failed.message))
}

/// Builds the site and checks it. Returns the number of its pages.
fn build(root: &Path, mdbook: &Path) -> Result<usize> {
    let target = target(root);
    let (source, site) = (target.join("book-source"), target.join("book"));
    for folder in [&source, &site] {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
    }
    generate::build(root)?;
    let pages = stage::stage(root, &source)?;
    let output = Command::new(mdbook)
        .args(["build", "--dest-dir"])
        .args([&site, &source])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", mdbook.display()))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || is_complaint(&report) {
        bail!("mdbook finds a page of docs/ broken ({}):\n{}", output.status, report.trim_end());
    }
    site::check(&site, &pages)?;
    Ok(pages.len())
}

/// A page with a warning is built, but does not show what it says: `<name>` outside of code is a tag.
fn is_complaint(report: &str) -> bool {
    let mut words = report.lines().filter_map(|line| line.split_whitespace().next());
    words.any(|word| word == "WARN" || word == "ERROR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_complaints() {
        assert!(is_complaint(" INFO Running\n WARN unclosed HTML tag `<dir>` found in `a.md`\n"));
        assert!(!is_complaint(" INFO Running the html backend: WARN\n"));
    }
}
