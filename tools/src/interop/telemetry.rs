//! A real collector, of a package of PyPI, takes what `agentd exec` exports over all three encodings.

use std::path::Path;

use anyhow::ensure;

use super::clients::{COLLECTOR, install_python};
use xtask::checkout::{agentd, target};
use xtask::steps::{Counts, Done, Failed, Outcome};

/// Skipped where the collector cannot be installed.
pub(super) fn check(root: &Path) -> Outcome {
    let collector = match install_python(root, &target(root), &COLLECTOR) {
        Ok(collector) => collector,
        Err(error) => return Ok(Done::Skipped(format!("{error:#}"))),
    };
    let output = collector.command().arg(agentd(root)?).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure_ran(output.status.success(), &errors)?;
    let counts = Counts {
        passed: text.lines().filter(|line| line.starts_with("PASS ")).count(),
        failed: text.lines().filter(|line| line.starts_with("FAIL ")).count(),
        skipped: 0,
    };
    if counts.failed == 0 && counts.passed > 0 {
        return Ok(Done::Tests(counts));
    }
    print!("{text}");
    let message = format!("the collector misses what the lines above name: {errors}");
    Err(Failed { message, counts })
}

fn ensure_ran(has_run: bool, errors: &str) -> anyhow::Result<()> {
    ensure!(has_run, "the script of the collector failed: {errors}");
    Ok(())
}
