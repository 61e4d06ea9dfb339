//! The changes of a whole turn as one diff: what each file was before the turn against what
//! it is now, however many changes lie between.

use std::path::{Path, PathBuf};

use crate::diff::unified_diff;
use crate::plan::{Change, ChangeKind};

/// How many bytes of file contents one turn holds; files beyond are named, not shown.
pub const MAX_HELD: usize = 64 * 1024 * 1024;

/// The changes of a turn (`turn/diff/updated`).
#[derive(Clone, Debug)]
pub struct TurnDiff {
    root: PathBuf,
    files: Vec<File>,
    held: usize,
}

/// One file, followed through the turn.
#[derive(Clone, Debug)]
struct File {
    /// Where it was before the turn; where it appeared when it is new.
    origin: PathBuf,
    /// Where it is now, or was last.
    path: PathBuf,
    before: Option<String>,
    now: Option<String>,
    /// Whether the contents were left out, being too large.
    dropped: bool,
    /// The diff, once it has been made.
    diff: Option<String>,
}

impl TurnDiff {
    /// Names in the diff are relative to `root`; those of files elsewhere are absolute.
    pub fn new(root: PathBuf) -> Self {
        Self { root, files: Vec::new(), held: 0 }
    }

    /// Takes in changes that were carried out, in order.
    pub fn record(&mut self, changes: &[Change]) {
        for change in changes {
            if let Some(replaced) = change.replaced_file() {
                self.record_one(&replaced);
            }
            self.record_one(change);
        }
    }

    /// The diff of the turn so far, files in the order of their names. A file that is as it
    /// was before is not in it.
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
        // A file that was at the new place before the turn stays the one to compare with.
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

    /// The file that is at the change's path, followed from now on if it was not yet.
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
            // What is new has no other name than the one it has now.
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
