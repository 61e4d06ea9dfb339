//! What the user allowed for the rest of the session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::plan_mode::Reach;
use crate::port::approval::NetworkTarget;
use crate::port::item::{Change, ChangeKind};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    commands: BTreeSet<(Vec<String>, PathBuf, Reach)>,
    paths: BTreeSet<String>,
    hosts: BTreeSet<NetworkTarget>,
}

/// Grants of one kind that are kept; past it the user is asked again.
const MAX_GRANTS: usize = 10_000;

impl Grants {
    /// `identity` says what runs (shell included, which the display form leaves out).
    pub(crate) fn allow_command(&mut self, identity: Vec<String>, cwd: &Path, reach: Reach) {
        if self.commands.len() < MAX_GRANTS {
            self.commands.insert((identity, cwd.to_owned(), reach));
        }
    }

    pub(crate) fn allow_changes(&mut self, changes: &[Change]) {
        for path in touched(changes) {
            if self.paths.len() < MAX_GRANTS {
                self.paths.insert(path.to_owned());
            }
        }
    }

    pub(crate) fn allow_host(&mut self, target: NetworkTarget) {
        if self.hosts.len() < MAX_GRANTS {
            self.hosts.insert(target);
        }
    }

    pub(crate) fn has_host(&self, target: &NetworkTarget) -> bool {
        self.hosts.contains(target)
    }

    /// What was allowed in the sandbox may also run where it can only read.
    pub(crate) fn has_command(&self, identity: &[String], cwd: &Path, reach: Reach) -> bool {
        let granted: &[Reach] = match reach {
            Reach::ReadOnly => &[Reach::ReadOnly, Reach::Sandbox],
            Reach::Sandbox => &[Reach::Sandbox],
            Reach::Outside => &[Reach::Outside],
        };
        let allows =
            |reach: &Reach| self.commands.contains(&(identity.to_owned(), cwd.to_owned(), *reach));
        granted.iter().any(allows)
    }

    pub(crate) fn has_changes(&self, changes: &[Change]) -> bool {
        !changes.is_empty() && touched(changes).all(|path| self.paths.contains(path))
    }
}

/// Every path that a patch writes, new names included.
fn touched(changes: &[Change]) -> impl Iterator<Item = &str> {
    changes.iter().flat_map(|change| {
        let target = match &change.kind {
            ChangeKind::Update { move_to } => move_to.as_deref(),
            ChangeKind::Add | ChangeKind::Delete => None,
        };
        std::iter::once(change.path.as_str()).chain(target)
    })
}
