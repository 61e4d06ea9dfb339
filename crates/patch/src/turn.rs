//! All changes of a turn as one diff: from what each file was first to what it is now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::diff::unified_diff;
use crate::plan::{Change, ChangeKind};

/// See the module. Files that are back to what they were do not show.
#[derive(Clone, Debug)]
pub struct TurnDiff {
    root: PathBuf,
    /// By the path that a file has now.
    files: BTreeMap<PathBuf, Tracked>,
}

#[derive(Clone, Debug)]
struct Tracked {
    old_path: PathBuf,
    before: Option<String>,
    after: Option<String>,
}

impl TurnDiff {
    /// Paths are shown relative to `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root, files: BTreeMap::new() }
    }

    /// Takes changes that were applied, in order.
    pub fn record(&mut self, changes: &[Change]) {
        for change in changes {
            let tracked = self.files.remove(&change.path).unwrap_or_else(|| Tracked {
                old_path: change.path.clone(),
                before: change.before.clone(),
                after: None,
            });
            let now = match &change.kind {
                ChangeKind::Update { move_to: Some(target) } => target.clone(),
                _ => change.path.clone(),
            };
            self.files.insert(now, Tracked { after: change.after.clone(), ..tracked });
        }
    }

    /// The aggregated diff, files in the order of their paths.
    pub fn unified(&self) -> String {
        let show =
            |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        self.files
            .iter()
            .filter(|(_, tracked)| tracked.before.is_some() || tracked.after.is_some())
            .map(|(path, Tracked { old_path, before, after })| {
                // A file that was not there before has no old name to be renamed from.
                let old = if before.is_some() { old_path } else { path };
                unified_diff(&show(old), &show(path), before.as_deref(), after.as_deref())
            })
            .collect()
    }
}
