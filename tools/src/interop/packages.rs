//! The packages of `cargo xtask package`: installed by pip, npm and dpkg in clean environments and
//! used there, with the program of the tests in place of the one that is shipped; and the static
//! program, in the tests of the command line.

use std::path::Path;

use anyhow::{Context, Result};

use super::clients::check_packages;
use crate::package;
use xtask::checkout::target;
use xtask::steps::{self, Counts, Done, Failed, Outcome, Program, SCOPE};

/// The program that the tests have built already.
const INSTALLED: &str = "dev";
const STATIC: &str = "release";
/// Where the packages are installed, below the target folder.
const PLACE: &str = "installed-packages";
/// The tests that a static program must pass, of the crate `cli`.
const SMOKE: &str = "package(cli) & binary(/^(app_server|crash|demo|exec|gateway|mcp|threads)$/)";
/// The variable that names the program that those tests start in place of the program of their
/// build.
const UNDER_TEST: &str = "AGENTD_UNDER_TEST";

/// Skipped where an installer is missing.
pub(super) fn check(root: &Path) -> Outcome {
    let needed = ["python3", "npm", "unshare"];
    if let Some(missing) = needed.into_iter().find(|program| !Program::exists(program)) {
        return Ok(Done::Skipped(format!("`{missing}` is not on this machine")));
    }
    let packages = package::build_installed(root, INSTALLED)?;
    let place = empty(&target(root).join(PLACE))?;
    check_packages(root, "python,javascript,debian,redhat,install", &packages, &place)
}

/// Builds the static program with its packages, and tests it.
pub(super) fn check_static(root: &Path) -> Outcome {
    let (packages, program) = package::build_static(root, STATIC)?;
    let place = empty(&target(root).join(PLACE))?;
    let mut counts = Counts::default();
    add(&mut counts, check_packages(root, "static,install", &packages, &place))?;
    add(&mut counts, smoke(root, &program))?;
    Ok(Done::Tests(counts))
}

/// Builds the image of the application server, and uses it. Skipped without root and debootstrap.
pub(super) fn check_server_image(root: &Path) -> Outcome {
    if let Some(missing) = ["debootstrap", "setpriv"].into_iter().find(|it| !Program::exists(it)) {
        return Ok(Done::Skipped(format!("`{missing}` is not on this machine")));
    }
    let packages = package::build_server_image(root, STATIC)?;
    let place = empty(&target(root).join(PLACE))?;
    check_packages(root, "server_image", &packages, &place)
}

fn smoke(root: &Path, program: &Path) -> Outcome {
    let program = program.to_string_lossy();
    if !Program::exists("cargo-nextest") {
        return Ok(Done::Skipped("the tests of the static program need cargo-nextest".to_owned()));
    }
    let options = ["nextest", "run", "--no-fail-fast", "--status-level", "slow"];
    let options = [&options[..], &SCOPE, &["-E", SMOKE]].concat();
    Program::cargo(root, &options).env(UNDER_TEST, &program).run_tests(steps::nextest)
}

/// Adds the counts of a part, also to those of a failure.
fn add(counts: &mut Counts, outcome: Outcome) -> Result<(), Failed> {
    match outcome {
        Ok(Done::Tests(more)) => *counts += more,
        Ok(Done::Skipped(reason)) => println!("left out: {reason}"),
        Ok(_) => {}
        Err(mut failed) => {
            failed.counts += *counts;
            return Err(failed);
        }
    }
    Ok(())
}

/// An empty folder in the place of what an earlier run left.
fn empty(folder: &Path) -> Result<std::path::PathBuf> {
    let shown = || folder.display().to_string();
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(shown)?;
    }
    std::fs::create_dir_all(folder).with_context(shown)?;
    Ok(folder.to_owned())
}
