//! The plan of going back to the beginning of a turn.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::event::Event;
use crate::rules::is_version_control;
use crate::state::{Reason, State};

/// An entry's present state, and the state to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Absolute.
    pub path: PathBuf,
    /// `None` for one that does not exist.
    pub from: Option<State>,
    /// `None` for one that is removed.
    pub to: Option<State>,
}

/// An entry that something else than the turns has changed, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Absolute.
    pub path: PathBuf,
    /// The known facts about the other change, as the end of a sentence about the path.
    pub why: &'static str,
}

/// An entry that was changed and cannot be brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// Absolute.
    pub path: PathBuf,
    pub obstacle: Obstacle,
}

/// Why an entry cannot become what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its contents, now or then, are not kept.
    NotKept(Reason),
    /// A folder that would be removed, if it did not hold a version control folder.
    HoldsVersionControl,
    /// A folder that would be removed, if it did not hold an entry that is not kept.
    HoldsUnkept,
    /// A folder that would be removed, if it did not hold entries that are not the turns'.
    HoldsOthers,
}

impl Obstacle {
    /// The obstacle in a message: "… is not restored: {}".
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Obstacle::NotKept(reason) => reason.text(),
            Obstacle::HoldsVersionControl => {
                "it holds a version control folder, such as .git, which is not recorded"
            }
            Obstacle::HoldsUnkept => "it holds entries that are not recorded",
            Obstacle::HoldsOthers => "it holds files that are not the turn's",
        }
    }
}

/// The steps of going back to the beginning of a turn, and the obstacles. Paths are in order within
/// each list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Each has its step, too: it is taken only if later changes are to be overwritten.
    pub conflicts: Vec<Conflict>,
    pub unkept: Vec<Unkept>,
}

/// The recorded changes of one entry.
struct Chain<'e> {
    first: &'e Event,
    last: &'e Event,
    is_broken: bool,
    is_uncertain: bool,
}

impl Plan {
    /// Adds the entries of the folder at `root`. `events` are in order; `now` is the state of an
    /// entry by its path below the root.
    pub(crate) fn add<'s>(
        &mut self,
        root: &Path,
        events: &[Event],
        now: impl Fn(&Path) -> Option<&'s State>,
    ) {
        let mut chains: BTreeMap<&Path, Chain<'_>> = BTreeMap::new();
        for event in events {
            let is_uncertain = event.is_uncertain;
            chains
                .entry(&event.path)
                .and_modify(|chain| {
                    chain.is_broken |= chain.last.after != event.before;
                    chain.is_uncertain |= is_uncertain;
                    chain.last = event;
                })
                .or_insert(Chain { first: event, last: event, is_broken: false, is_uncertain });
        }
        for (path, chain) in chains {
            self.add_entry(root.join(path), &chain, now(path));
        }
    }

    fn add_entry(&mut self, path: PathBuf, chain: &Chain<'_>, now: Option<&State>) {
        let to = chain.first.before.as_ref();
        if now == to {
            return;
        }
        if let Some(reason) = obstacle(now, to) {
            self.unkept.push(Unkept { path, obstacle: Obstacle::NotKept(reason) });
            return;
        }
        let why = if now != chain.last.after.as_ref() {
            Some("was changed after the turn, by something else")
        } else if chain.is_broken {
            Some("was changed between the turn's steps, by something else")
        } else if chain.is_uncertain {
            Some(
                "may be something else's: other calls ran in the folder, or the server was ended meanwhile",
            )
        } else {
            None
        };
        if let Some(why) = why {
            self.conflicts.push(Conflict { path: path.clone(), why });
        }
        self.steps.push(Step { path, from: now.cloned(), to: to.cloned() });
    }

    /// Moves the folders that would be removed, but hold what stays, from the steps to what is not
    /// restored. `names` lists a folder by its absolute path; `None` where it cannot be listed.
    pub(crate) fn keep_filled_folders(&mut self, names: impl Fn(&Path) -> Option<Vec<OsString>>) {
        let mut removed: HashSet<PathBuf> = HashSet::new();
        let mut kept: HashSet<PathBuf> = HashSet::new();
        // Entries come before their folders.
        for step in self.steps.iter().rev() {
            let is_folder = step.from.as_ref().is_some_and(State::is_folder);
            if is_folder && !step.to.as_ref().is_some_and(State::is_folder) {
                let stays = |name: &OsString| !removed.contains(&step.path.join(name));
                let left: Vec<_> =
                    names(&step.path).unwrap_or_default().into_iter().filter(stays).collect();
                if !left.is_empty() {
                    let unkept = |name: &OsString| {
                        let path = step.path.join(name);
                        self.unkept.iter().any(|unkept| unkept.path == path)
                    };
                    let obstacle = if left.iter().any(|name| is_version_control(name)) {
                        Obstacle::HoldsVersionControl
                    } else if left.iter().any(unkept) {
                        Obstacle::HoldsUnkept
                    } else {
                        Obstacle::HoldsOthers
                    };
                    self.unkept.push(Unkept { path: step.path.clone(), obstacle });
                    kept.insert(step.path.clone());
                    continue;
                }
            }
            if step.from.is_some() && step.to.is_none() {
                removed.insert(step.path.clone());
            }
        }
        self.steps.retain(|step| !kept.contains(&step.path));
        self.conflicts.retain(|conflict| !kept.contains(&conflict.path));
        self.unkept.sort_by(|one, other| one.path.cmp(&other.path));
    }
}

/// Why an entry cannot become what it was.
fn obstacle(now: Option<&State>, to: Option<&State>) -> Option<Reason> {
    match (now, to) {
        (_, Some(State::Unkept { reason, .. })) => Some(*reason),
        // It may hold anything.
        (Some(State::Unkept { reason, .. }), _) => match reason {
            Reason::Ignored | Reason::Unreadable | Reason::VersionControl => Some(*reason),
            Reason::TooLarge | Reason::Special => None,
        },
        _ => None,
    }
}
