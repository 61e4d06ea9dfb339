//! The changes of going back, as clients see them: a diff in git's format, and lists of paths.

use std::fmt::Write as _;
use std::path::Path;

use ::undo::{Error, Outcome, Plan, State, Step, Undo, Unkept};

/// Bytes of a diff, at most.
const MAX_DIFF: usize = 1 << 20;
/// Largest file whose lines are shown.
const MAX_SHOWN_FILE: u64 = 512 << 10;

/// A path with what is to be said of it.
pub struct NotedPath {
    pub path: String,
    pub why: String,
}

/// The changes of going back, as clients see them.
pub struct RestoredFiles {
    pub diff: String,
    pub(crate) is_diff_cut: bool,
    pub restored: Vec<String>,
    pub conflicts: Vec<NotedPath>,
    pub(crate) unkept: Vec<NotedPath>,
}

impl RestoredFiles {
    /// Returns the changes that `plan` would make.
    pub(super) fn planned(undo: &Undo, plan: &Plan) -> Result<Self, Error> {
        let (mut diff, mut is_diff_cut) = (String::new(), false);
        for step in &plan.steps {
            let part = diff_of(undo, step)?;
            if diff.len() + part.len() > MAX_DIFF {
                is_diff_cut = true;
                break;
            }
            diff.push_str(&part);
        }
        let restored = plan.steps.iter().map(|step| shown(&step.path)).collect();
        Ok(Self {
            diff,
            is_diff_cut,
            restored,
            conflicts: plan.conflicts.iter().map(|it| noted(&it.path, it.why)).collect(),
            unkept: not_restored(&plan.unkept),
        })
    }

    /// Returns the changes that were made.
    pub(super) fn restored(self, outcome: &Outcome) -> Self {
        let restored = outcome.restored.iter().map(|path| shown(path)).collect();
        Self { restored, unkept: not_restored(&outcome.unkept), ..self }
    }
}

fn not_restored(unkept: &[Unkept]) -> Vec<NotedPath> {
    unkept.iter().map(|unkept| noted(&unkept.path, unkept.obstacle.text())).collect()
}

fn noted(path: &Path, why: &str) -> NotedPath {
    NotedPath { path: shown(path), why: why.to_owned() }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn diff_of(undo: &Undo, step: &Step) -> Result<String, Error> {
    let name = shown(&step.path);
    let name = name.trim_start_matches('/');
    let mut diff = String::new();
    let mode = |state: &Option<State>| match state {
        Some(State::File { mode, .. } | State::Folder { mode }) => Some(*mode),
        _ => None,
    };
    let before = text(undo, step.from.as_ref())?;
    let after = text(undo, step.to.as_ref())?;
    let (old, new) = (mode(&step.from), mode(&step.to));
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        // Writing to a string cannot fail.
        let _ = writeln!(diff, "diff --git a/{name} b/{name}\nold mode {old:o}\nnew mode {new:o}");
    }
    match (before, after) {
        (Shown::Text(before), Shown::Text(after)) => {
            diff.push_str(&patch::unified_diff(name, name, before.as_deref(), after.as_deref()));
        }
        (before, after) => {
            let (before, after) = (before.description(), after.description());
            if before != after || diff.is_empty() {
                let _ = writeln!(diff, "diff --git a/{name} b/{name}\n{before} becomes {after}");
            }
        }
    }
    Ok(diff)
}

/// An entry in a diff.
enum Shown {
    /// A file's lines; `None` for no file.
    Text(Option<String>),
    Other(String),
}

impl Shown {
    fn description(&self) -> &str {
        match self {
            Shown::Text(None) => "nothing",
            Shown::Text(Some(_)) => "a text file",
            Shown::Other(what) => what,
        }
    }
}

fn text(undo: &Undo, state: Option<&State>) -> Result<Shown, Error> {
    Ok(match state {
        None => Shown::Text(None),
        Some(State::Folder { .. }) => Shown::Other("a folder".to_owned()),
        Some(State::Link { target }) => {
            Shown::Other(format!("a link to {}", Path::new(target).display()))
        }
        Some(State::Unkept { reason, .. }) => {
            Shown::Other(format!("an entry without kept contents ({})", reason.text()))
        }
        Some(State::File { bytes, contents, .. }) => {
            let found = match *bytes <= MAX_SHOWN_FILE {
                true => undo.contents(*contents)?,
                false => None,
            };
            match found.and_then(|contents| String::from_utf8(contents).ok()) {
                Some(text) if !text.contains('\0') => Shown::Text(Some(text)),
                _ => Shown::Other(format!("a file of {bytes} bytes ({contents:?}…)")),
            }
        }
    })
}
