//! Patches of a thread: planned against the files as they are, applied as a whole, and summed up
//! as the turn's diff.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sandbox::files::{Action, Change, ReadError};
use session::{ChangeKind, Id, Input, PatchPlan, Prepared};

use crate::convert::settings::confinement;
use crate::thread::actor::Actor;

/// Larger files are not patched.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// What is kept between planning and applying, and for the diff of a turn.
#[derive(Default)]
pub(crate) struct Patches {
    planned: HashMap<u64, Vec<patch::Change>>,
    diffs: BTreeMap<Id, patch::TurnDiff>,
}

impl Patches {
    pub(super) fn discard(&mut self, call: u64) {
        self.planned.remove(&call);
    }

    pub(super) fn turn_ended(&mut self, turn: &Id) {
        self.planned.clear();
        self.diffs.remove(turn);
    }
}

impl Actor {
    /// Finds the hunks of a patch; nothing is changed.
    pub(super) fn prepare_patch(&mut self, call: u64, text: &str, cwd: &Path) -> Prepared {
        let parsed = match patch::parse(text) {
            Ok(parsed) => parsed,
            Err(error) => return Prepared::Refused(format!("the patch cannot be read: {error}")),
        };
        let policy = confinement(&self.machine.settings().sandbox, &self.machine.settings().cwd);
        let resolved = policy.resolve(self.core.options.tmpdir().as_deref());
        let mut read = |path: &Path| -> Result<Option<String>, patch::ReadError> {
            resolved.check_read(path).map_err(|error| patch::ReadError::new(error.to_string()))?;
            match sandbox::files::read_text(path, MAX_FILE_BYTES) {
                Ok(text) => Ok(Some(text)),
                Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    Ok(None)
                }
                Err(error) => Err(patch::ReadError::new(error.to_string())),
            }
        };
        let changes = match patch::plan(&parsed, cwd, &mut read) {
            Ok(changes) => changes,
            Err(error) => return Prepared::Refused(format!("the patch does not apply: {error}")),
        };
        let outside = changes
            .iter()
            .flat_map(touched)
            .find_map(|path| resolved.check_write(path).err())
            .map(|denied| denied.to_string());
        let plan = PatchPlan { changes: changes.iter().flat_map(shown).collect(), outside };
        self.patches.planned.insert(call, changes);
        Prepared::Patch(plan)
    }

    /// Writes what was planned. What the user approved beyond the sandbox's roots is allowed for
    /// exactly these files.
    pub(super) fn apply(&mut self, call: u64, turn: &Id) {
        let outcome = match self.patches.planned.remove(&call) {
            None => Err("the patch is gone; give it again".to_owned()),
            Some(changes) => self.apply_changes(&changes).map(|()| {
                let cwd = self.machine.settings().cwd.clone();
                let diff = self
                    .patches
                    .diffs
                    .entry(turn.clone())
                    .or_insert_with(|| patch::TurnDiff::new(cwd));
                diff.record(&changes);
                diff.unified()
            }),
        };
        self.soon(Input::Applied { call, outcome });
    }

    fn apply_changes(&self, changes: &[patch::Change]) -> Result<(), String> {
        let policy = confinement(&self.machine.settings().sandbox, &self.machine.settings().cwd);
        let resolved = policy.resolve(self.core.options.tmpdir().as_deref());
        let inside = changes.iter().flat_map(touched).all(|p| resolved.check_write(p).is_ok());
        let bound = inside.then_some(&resolved);
        let writes: Vec<Change> = changes.iter().flat_map(file_changes).collect();
        sandbox::files::apply(&writes, bound).map_err(|error| error.to_string())
    }
}

/// Every path that a change touches.
fn touched(change: &patch::Change) -> Vec<&Path> {
    let mut paths = vec![change.path.as_path()];
    if let patch::ChangeKind::Update { move_to: Some(target) } = &change.kind {
        paths.push(target);
    }
    paths
}

/// A change as the files see it: a move is a new file and one less.
fn file_changes(change: &patch::Change) -> Vec<Change> {
    let path = change.path.clone();
    let write = |path: PathBuf, contents: &str| Change {
        path,
        action: Action::Write {
            contents: contents.as_bytes().to_vec(),
            create_parents: true,
            mode: None,
        },
    };
    let Some(after) = &change.after else { return vec![Change { path, action: Action::Remove }] };
    match &change.kind {
        patch::ChangeKind::Update { move_to: Some(target) } => {
            vec![write(target.clone(), after), Change { path, action: Action::Remove }]
        }
        _ => vec![write(path, after)],
    }
}

/// A change as clients see it. A file that a move replaces is shown as a deleted one before it.
fn shown(change: &patch::Change) -> impl Iterator<Item = session::Change> {
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
