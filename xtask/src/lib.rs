//! Shared parts of the developer tasks of this package and of `tools`: steps and the programs that they start,
//! the files of the checkout, pages of Markdown. No part of the product, so unlike the crates it may start
//! programs and print.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

pub mod checkout;
pub mod files;
pub mod markdown;
pub mod names;
pub mod notes;
pub mod steps;

use std::path::{Path, PathBuf};

/// The root of the checkout. Cargo sets the variable at run time; the path from compile time is the
/// fallback for a binary that is started by hand.
pub fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_owned)
}
