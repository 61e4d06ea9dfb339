//! Patches of a thread: those that are planned and not applied yet, and the diff of each turn. Files
//! are read and written in `inspect`.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use sandbox::files::{Action, Change};
use session::{ChangeKind, Id, PatchPlan};

use services::thread_port::PlannedPatch;

/// Largest file that is patched.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The patches of a thread.
#[derive(Default)]
pub(crate) struct Patches {
    planned: HashMap<u64, PlannedPatch>,
    diffs: BTreeMap<Id, patch::TurnDiff>,
}

/// A patch that applies, or what it was to change and why it cannot.
pub(super) type Planned = Result<(PatchPlan, PlannedPatch), (Vec<session::Change>, String)>;

impl Patches {
    /// A patch applies: it is kept until it is approved.
    pub(super) fn keep(&mut self, call: u64, patch: PlannedPatch) {
        self.planned.insert(call, patch);
    }

    /// A patch was written; returns what the turn, which began in `cwd`, has changed so far.
    pub(super) fn record(&mut self, turn: Id, changes: &[patch::Change], cwd: &Path) -> String {
        let diff = self.diffs.entry(turn).or_insert_with(|| patch::TurnDiff::new(cwd.to_owned()));
        diff.record(changes);
        diff.unified()
    }

    pub(super) fn take(&mut self, call: u64) -> Option<PlannedPatch> {
        self.planned.remove(&call)
    }

    pub(super) fn discard(&mut self, call: u64) {
        self.planned.remove(&call);
    }

    pub(super) fn turn_ended(&mut self, turn: &Id) {
        self.planned.clear();
        self.diffs.remove(turn);
    }
}

/// The changes of a patch that does not apply, with its lines as they were written.
pub(super) fn attempted(parsed: &patch::Patch, cwd: &Path) -> Vec<session::Change> {
    written_changes(&parsed.operations, cwd)
}

/// The changes of `operations`, with lines and paths as they were written; the paths from `cwd` on.
pub(super) fn written_changes(operations: &[patch::Operation], cwd: &Path) -> Vec<session::Change> {
    let absolute = |path: &str| cwd.join(path).display().to_string();
    let change = |operation: &patch::Operation| {
        let (kind, diff) = match operation {
            patch::Operation::Add { contents, .. } => (ChangeKind::Add, contents.clone()),
            patch::Operation::Delete { .. } => (ChangeKind::Delete, String::new()),
            patch::Operation::Update { move_to, hunks, .. } => {
                let move_to = move_to.as_deref().map(absolute);
                (ChangeKind::Update { move_to }, hunks.iter().map(written).collect())
            }
        };
        session::Change { path: absolute(operation.path()), kind, diff }
    };
    operations.iter().map(change).collect()
}

/// A hunk in the notation of a patch.
fn written(hunk: &patch::Hunk) -> String {
    let mut text = String::new();
    if hunk.anchors.is_empty() {
        text.push_str("@@\n");
    }
    for anchor in &hunk.anchors {
        text.push_str(&format!("@@ {}\n", anchor.text));
    }
    for line in &hunk.lines {
        text.push(match line.sign {
            patch::Sign::Context => ' ',
            patch::Sign::Remove => '-',
            patch::Sign::Add => '+',
        });
        text.push_str(&line.text);
        text.push('\n');
    }
    text
}

/// Every path that a change touches.
pub(super) fn touched(change: &patch::Change) -> Vec<&Path> {
    let mut paths = vec![change.path.as_path()];
    if let patch::ChangeKind::Update { move_to: Some(target) } = &change.kind {
        paths.push(target);
    }
    paths
}

/// Changes as file operations.
pub(super) fn writes(changes: &[patch::Change]) -> Vec<Change> {
    changes.iter().flat_map(file_changes).collect()
}

/// A change as file operations: a move creates one file and removes another.
fn file_changes(change: &patch::Change) -> Vec<Change> {
    let path = change.path.clone();
    let write = |path: PathBuf, contents: &str, mode_of: Option<PathBuf>| Change {
        path,
        action: Action::Write {
            contents: contents.as_bytes().to_vec(),
            create_parents: true,
            mode_of,
        },
    };
    let Some(after) = &change.after else { return vec![Change { path, action: Action::Remove }] };
    match &change.kind {
        patch::ChangeKind::Update { move_to: Some(target) } => {
            let moved = write(target.clone(), after, Some(path.clone()));
            vec![moved, Change { path, action: Action::Remove }]
        }
        _ => vec![write(path, after, None)],
    }
}

/// A change as clients see it. A file that a move replaces is shown as a deleted one before it.
pub(super) fn shown(change: &patch::Change) -> impl Iterator<Item = session::Change> {
    change.replaced_file().as_ref().map(shown_one).into_iter().chain([shown_one(change)])
}

fn shown_one(change: &patch::Change) -> session::Change {
    session::Change {
        path: change.path.display().to_string(),
        kind: match &change.kind {
            patch::ChangeKind::Add => ChangeKind::Add,
            patch::ChangeKind::Delete => ChangeKind::Delete,
            patch::ChangeKind::Update { move_to } => ChangeKind::Update {
                move_to: move_to.as_ref().map(|target| target.display().to_string()),
            },
        },
        diff: patch::item_diff(change),
    }
}
