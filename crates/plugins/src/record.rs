//! The record of an installed plugin with the digest of every file, and the difference between two
//! of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::install::Record;
use crate::installed_file::InstalledFile;
use crate::source::{MarketplaceSource, Source};

/// An installed plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    /// `plugin@marketplace`.
    pub id: String,
    pub name: String,
    pub marketplace: String,
    /// As the manifest states it.
    pub version: Option<String>,
    /// The commit of a plugin from a git repository, or of the git marketplace that contains it.
    pub revision: Option<String>,
    /// The folder with the plugin's files. Absolute if the home was.
    pub root: PathBuf,
    pub source: Source,
    /// Where its marketplace came from when it was installed; a folder without links. `None` in records of
    /// versions that did not write it.
    #[serde(default)]
    pub marketplace_source: Option<MarketplaceSource>,
    /// The commit of its marketplace, if that is a git repository.
    #[serde(default)]
    pub marketplace_revision: Option<String>,
    /// SHA-256 of the list of files, in hexadecimal.
    pub digest: String,
    /// Sorted by path.
    pub files: Vec<InstalledFile>,
}

impl Record for Installed {
    const REPAIR: &'static str = "install the plugin again, or uninstall it";

    fn stem(&self) -> &str {
        &self.id
    }
}

/// The difference between two lists of files. Sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub added: Vec<PathBuf>,
    pub removed: Vec<PathBuf>,
    /// Contents, mode or kind differ.
    pub changed: Vec<PathBuf>,
}

impl Difference {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Returns the changes that lead from the old files to the new ones.
#[must_use]
pub fn difference(old: &[InstalledFile], new: &[InstalledFile]) -> Difference {
    let mut left: BTreeMap<&PathBuf, &InstalledFile> =
        old.iter().map(|file| (&file.path, file)).collect();
    let mut found = Difference::default();
    for file in new {
        match left.remove(&file.path) {
            None => found.added.push(file.path.clone()),
            Some(before) if before != file => found.changed.push(file.path.clone()),
            Some(_) => {}
        }
    }
    found.removed = left.into_keys().cloned().collect();
    found.added.sort();
    found.changed.sort();
    found
}

/// The digest of a list of files. Sizes separate the parts, so that two lists never look the same.
pub(crate) fn digest(files: &[InstalledFile]) -> String {
    let mut digest = Sha256::new();
    for file in files {
        let kind = match (&file.link, file.executable) {
            (Some(_), _) => 'l',
            (None, true) => 'x',
            (None, false) => 'f',
        };
        let path = file.path.to_string_lossy();
        digest.update(format!("{kind} {} {} {path}\n", file.sha256, path.len()));
    }
    const_hex::encode(digest.finalize())
}
