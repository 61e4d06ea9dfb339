//! The diff of a whole turn: compares each file before the turn with its current contents.

use std::path::{Path, PathBuf};

use crate::diff::unified_diff;
use crate::plan::{Change, ChangeKind};

/// Bytes of file contents that a turn keeps; the diffs of further files only name them.
pub const MAX_HELD: usize = 64 * 1024 * 1024;

/// The changes of a turn (`turn/diff/updated`).
#[derive(Clone, Debug)]
pub struct TurnDiff {
    root: PathBuf,
    files: Vec<File>,
    held: usize,
}

/// A file that changed in the turn.
#[derive(Clone, Debug)]
struct File {
    /// Its path before the turn, or for a new file its first path.
    origin: PathBuf,
    /// Its current or last path.
    path: PathBuf,
    before: Option<String>,
    now: Option<String>,
    /// True if the contents are too large to keep.
    dropped: bool,
    /// The cached diff.
    diff: Option<String>,
}

impl TurnDiff {
    /// Creates an empty diff. Names are relative to `root`; those of files outside of it are
    /// absolute.
    pub fn new(root: PathBuf) -> Self {
        Self { root, files: Vec::new(), held: 0 }
    }

    /// Records applied changes, in order.
    pub fn record(&mut self, changes: &[Change]) {
        for change in changes {
            if let Some(replaced) = change.replaced_file() {
                self.record_one(&replaced);
            }
            self.record_one(change);
        }
    }

    /// The diff so far, with files ordered by name. Omits files without a change.
    pub fn unified(&mut self) -> String {
        let root = &self.root;
        let mut shown: Vec<(&Path, &str)> = Vec::with_capacity(self.files.len());
        for file in &mut self.files {
            let made = file.diff.take().unwrap_or_else(|| file.make_diff(root));
            shown.push((&file.path, file.diff.insert(made)));
        }
        shown.sort();
        shown.into_iter().map(|(_, diff)| diff).collect()
    }

    fn record_one(&mut self, change: &Change) {
        let at = self.file_at(change);
        let target = match &change.kind {
            ChangeKind::Update { move_to: Some(target) } => target.clone(),
            _ => change.path.clone(),
        };
        if target == change.path {
            return self.set(at, change.after.clone());
        }
        // A file that was at the target before the turn remains the base of the comparison.
        match self.files.iter().position(|file| file.path == target) {
            Some(other) => {
                self.set(at, None);
                self.set(other, change.after.clone());
            }
            None => {
                self.files[at].path = target;
                self.set(at, change.after.clone());
            }
        }
    }

    /// The index of the file at the change's path; starts to track it if necessary.
    fn file_at(&mut self, change: &Change) -> usize {
        if let Some(at) = self.files.iter().position(|file| file.path == change.path) {
            return at;
        }
        self.files.push(File {
            origin: change.path.clone(),
            path: change.path.clone(),
            before: None,
            now: None,
            dropped: false,
            diff: None,
        });
        let at = self.files.len() - 1;
        match self.fits(change.before.as_deref()) {
            true => self.files[at].before.clone_from(&change.before),
            false => self.files[at].dropped = true,
        }
        self.held += length(change.before.as_deref()).min(MAX_HELD);
        at
    }

    fn set(&mut self, at: usize, now: Option<String>) {
        self.held = self.held.saturating_sub(length(self.files[at].now.as_deref()));
        let fits = self.fits(now.as_deref());
        let file = &mut self.files[at];
        file.diff = None;
        if file.dropped || !fits {
            file.dropped = true;
            self.held = self.held.saturating_sub(length(file.before.take().as_deref()));
            file.now = None;
            return;
        }
        self.held += length(now.as_deref());
        file.now = now;
    }

    fn fits(&self, text: Option<&str>) -> bool {
        self.held + length(text) <= MAX_HELD
    }
}

impl File {
    fn make_diff(&self, root: &Path) -> String {
        let (old, new) = (name(&self.origin, root), name(&self.path, root));
        if self.dropped {
            return format!("diff --git a/{old} b/{new}\nContents are too large to be shown\n");
        }
        match self.before {
            // A new file has only its current name.
            None => unified_diff(&new, &new, None, self.now.as_deref()),
            Some(_) if self.now.is_none() => unified_diff(&old, &old, self.before.as_deref(), None),
            Some(_) => unified_diff(&old, &new, self.before.as_deref(), self.now.as_deref()),
        }
    }
}

fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

fn name(path: &Path, root: &Path) -> String {
    let shown = path.strip_prefix(root).unwrap_or(path);
    shown.to_string_lossy().trim_start_matches('/').to_owned()
}
