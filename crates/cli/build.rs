//! Linking of the program.
//!
//! Its relative relocations are packed where the system's C library can read them: 41,000 of them took
//! 1 MB of the file and half of the time that `agentd --version` takes.
//!
//! In the `dist` profile the functions that run until the first thread has started stand side by side
//! (`link-order.txt`, which `cargo xtask link-order` writes). Spread over the program they made the
//! kernel map 11 MB of it; they take 3 MB. A name in that file that the program no longer has is ignored.
#![allow(clippy::disallowed_methods, reason = "cargo passes its values to build scripts this way")]

use std::env;
use std::path::Path;
use std::process::Command;

/// The first glibc whose loader reads packed relocations. An older one refuses to start the program.
const FIRST_GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if native && glibc && glibc_version().is_some_and(|version| version >= FIRST_GLIBC) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // There the compiler brings the linker that knows the option.
    if native && is("TARGET", "x86_64-unknown-linux-gnu") && is_dist() {
        let order = Path::new(env!("CARGO_MANIFEST_DIR")).join("link-order.txt");
        println!("cargo:rerun-if-changed={}", order.display());
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", order.display());
        println!("cargo:rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}

/// Returns whether the profile is `dist`: cargo reports it only in the path of the output.
fn is_dist() -> bool {
    let output = env::var_os("OUT_DIR").unwrap_or_default();
    Path::new(&output).ancestors().nth(3).is_some_and(|profile| profile.ends_with("dist"))
}

/// From `getconf`'s `glibc 2.36`.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
