//! The remains of a restoration whose process was killed: folders with temporary modes, and files
//! that are not moved to their places yet. A restoration notes where it works, and the next to look at
//! the folder next cleans up, so that all that is left to see are entries that are restored, and
//! entries that are not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode};

use crate::kernel::{OpenFolder, permissions};
use crate::plan::Step;
use crate::restore::{MODE_MEANWHILE, OPENED_UP, is_aside};
use crate::state::State;

/// Names in a folder that are looked through, at most.
const MAX_NAMES: usize = 1_000_000;

/// A folder that a restoration works in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    /// `None` for a folder that the restoration makes.
    pub(crate) mode_before: Option<u32>,
    /// `None` for one whose mode stays.
    pub(crate) mode_after: Option<u32>,
}

/// The folders that `steps` work in. `mode` is the one of a folder that exists, by its path below
/// the root.
pub(crate) fn marks(root: &Path, steps: &[Step], mode: impl Fn(&Path) -> Option<u32>) -> Vec<Mark> {
    let mut marks: BTreeMap<&Path, Option<u32>> = BTreeMap::new();
    for step in steps {
        let path = step.path.strip_prefix(root).unwrap_or(&step.path);
        if let Some(parent) = path.parent() {
            marks.entry(parent).or_insert_with(|| mode(parent));
        }
        if let Some(State::Folder { mode }) = &step.to {
            marks.insert(path, Some(*mode));
        }
    }
    let mark = |(path, mode_after): (&Path, Option<u32>)| Mark {
        path: path.to_owned(),
        mode_before: mode(path),
        mode_after,
    };
    marks.into_iter().map(mark).collect()
}

/// Cleans up after the restoration of a process that died. A folder that is gone, or belongs to
/// another user by now, stays as it is: what is wrong with it is found when it is compared.
pub(crate) fn clean_up(root: &OpenFolder, process: u32, mark: &Mark) {
    let Ok(folder) = root.below(&mark.path) else { return };
    for name in folder.names(MAX_NAMES).map(|(names, _)| names).unwrap_or_default() {
        if is_aside(&name, process) {
            let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
        }
    }
    let (Some(after), Ok(stat)) = (mark.mode_after, folder.stat()) else { return };
    let now = permissions(&stat);
    let is_meanwhile = now == MODE_MEANWHILE.bits()
        || now == after | OPENED_UP
        || mark.mode_before.is_some_and(|before| now == before | OPENED_UP);
    if is_meanwhile && mark.mode_before != Some(now) {
        let _ = rustix::fs::fchmod(&folder, Mode::from_raw_mode(after));
    }
}
