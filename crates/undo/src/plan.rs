//! What going back to the beginning of a turn would do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::database::Event;
use crate::state::{Reason, State};

/// What an entry is, and what it becomes again.
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
    /// What is known of the other change, as the end of a sentence about the path.
    pub why: &'static str,
}

/// An entry that was changed and cannot be brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// Absolute.
    pub path: PathBuf,
    pub reason: Reason,
}

/// See the module. Paths are in order within each list.
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
            self.unkept.push(Unkept { path, reason });
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
}

/// Why an entry cannot become what it was.
fn obstacle(now: Option<&State>, to: Option<&State>) -> Option<Reason> {
    match (now, to) {
        (_, Some(State::Unkept { reason, .. })) => Some(*reason),
        // It may hold anything.
        (
            Some(State::Unkept { reason: reason @ (Reason::Ignored | Reason::Unreadable), .. }),
            _,
        ) => Some(*reason),
        _ => None,
    }
}
