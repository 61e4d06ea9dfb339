//! Linking of the program.
//!
//! Its relative relocations are packed where the system's C library can read them: 41,000 of them took
//! 1 MB of the file and half of the time that `agentd --version` takes.
//!
//! `AGENTD_LINK_ORDER` names a file with the functions that the linker puts side by side, a name a line: those
//! that run first. `cargo xtask package` makes it, from a build without it.
#![allow(clippy::disallowed_methods, reason = "cargo passes its values to build scripts this way")]

use std::env;
use std::path::Path;
use std::process::Command;

/// The first glibc whose loader reads packed relocations. An older one refuses to start the program.
const FIRST_GLIBC: (u32, u32) = (2, 36);
const LINK_ORDER: &str = "AGENTD_LINK_ORDER";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if native && glibc && glibc_version().is_some_and(|version| version >= FIRST_GLIBC) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo:rerun-if-env-changed={LINK_ORDER}");
    if let Some(order) = env::var_os(LINK_ORDER).filter(|order| !order.is_empty()) {
        // There the compiler brings the linker that knows the option.
        let knows_order = native && is("TARGET", "x86_64-unknown-linux-gnu");
        assert!(knows_order, "{LINK_ORDER} is for x86_64-unknown-linux-gnu only");
        let order = Path::new(&order).display();
        println!("cargo:rerun-if-changed={order}");
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={order}");
        println!("cargo:rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}

/// From `getconf`'s `glibc 2.36`.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
