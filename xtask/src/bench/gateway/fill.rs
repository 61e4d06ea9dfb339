//! Fills a gateway's database with many organizations and keys, as the admin API would have made them.

use std::path::Path;

use anyhow::{Result, bail};

/// Adds so many keys of so many organizations; gives one of the keys.
pub(crate) fn database(file: &Path, keys: u64, organizations: u64) -> Result<String> {
    bail!("{}: cannot be filled with {keys} keys of {organizations} organizations", file.display())
}
