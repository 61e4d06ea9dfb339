//! Packages of the system that tests need: installed where this user can, else named.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::anyhow;

use super::program::Program;
use super::{Done, Outcome};

/// A program that tests start, and the Debian package that has it.
const NEEDED: &[(&str, &str)] =
    &[("bwrap", "bubblewrap"), ("c++", "g++"), ("chromium", "chromium")];

pub(crate) fn packages(_root: &Path) -> Outcome {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| !Program::exists(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(Done::Passed);
    }
    let names = missing.join(" ");
    if !is_root() || !Program::exists("apt-get") {
        return Err(anyhow!(
            "missing: {names}. Install it, on Debian and its kin with `sudo apt-get install {names}`, \
             elsewhere with your system's package tool, and run this again"
        )
        .into());
    }
    let apt = |arguments: &[&str]| {
        Program::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive")
    };
    apt(&["update", "-qq"]).succeed("check the network and /etc/apt/sources.list")?;
    let install = [&["install", "-y", "-qq", "--no-install-recommends"][..], &missing].concat();
    apt(&install).succeed("install the package by hand and run this again")
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
