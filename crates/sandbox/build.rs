//! Compiles `src/lead/main.rs`, the program that prepares commands inside of the sandbox. It needs
//! the compiler and the linker that the crate needs anyway, and nothing else: no C library, no
//! further target.
#![allow(clippy::disallowed_methods, reason = "cargo speaks to build scripts by the environment")]

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Static, at a fixed address, and without anything that would have to be loaded or relocated.
const LINKING: &str = "-nostartfiles -nostdlib -static -no-pie -Wl,--build-id=none";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/lead");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return ExitCode::SUCCESS;
    }
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("cargo::error=compiling src/lead/main.rs: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let output = PathBuf::from(variable("OUT_DIR")?).join("lead");
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.args(["--edition=2024", "--crate-name=lead", "--crate-type=bin"]);
    rustc.arg(format!("--target={}", variable("TARGET")?));
    for option in ["opt-level=s", "panic=abort", "relocation-model=static", "strip=symbols"] {
        rustc.args(["-C", option]);
    }
    rustc.args(["-C", &format!("link-args={LINKING}")]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let ran = rustc.arg("-o").arg(&output).arg("src/lead/main.rs").output();
    let ran = ran.map_err(|error| format!("{}: {error}", rustc.get_program().display()))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!("{}\n{}", ran.status, String::from_utf8_lossy(&ran.stderr))),
    }
}
