//! The user's entries for projects: trust, and what the agent may do there (`projects.<path>`).

use crate::error::Error;
use crate::kind::{ReadContext, Setting};
use crate::origin::Origin;
use crate::table::{Project, ProjectAccess, TrustLevel};
use crate::trust::{FolderEntries, Trust};
use crate::value::{Node, Table, Value};

/// The entries of `projects`.
pub(crate) struct ProjectEntries {
    pub(crate) trust: Trust,
    pub(crate) access: FolderEntries<AccessEntry>,
}

impl ProjectEntries {
    /// Reads them from the merged layers that may have them.
    ///
    /// # Errors
    /// An entry has a value that its key does not accept.
    pub(crate) fn read(base: &Table, cx: &ReadContext<'_>) -> Result<Self, Error> {
        let mut levels: Vec<(&str, TrustLevel)> = Vec::new();
        let mut accesses: Vec<(&str, AccessEntry)> = Vec::new();
        if let Some(Value::Table(projects)) = base.get("projects").map(|node| &node.value) {
            for (path, node) in projects {
                let Project { trust_level, access } = Project::read(node, cx)?;
                levels.extend(trust_level.map(|level| (path.as_str(), level)));
                accesses.extend(access.map(|access| {
                    let origin = origin_of_access(node);
                    (path.as_str(), AccessEntry { access, origin })
                }));
            }
        }
        let home = cx.user_home.as_deref();
        let is_stricter = |one: &AccessEntry, other: &AccessEntry| one.rank() < other.rank();
        Ok(Self {
            trust: Trust::new(levels.into_iter(), home),
            access: FolderEntries::new(accesses.into_iter(), home, is_stricter),
        })
    }
}

fn origin_of_access(entry: &Node) -> Origin {
    let own = match &entry.value {
        Value::Table(members) => members.get("access"),
        _ => None,
    };
    own.unwrap_or(entry).origin.clone()
}

/// The rights of the agent in a project, and where the user wrote them.
#[derive(Debug)]
pub(crate) struct AccessEntry {
    access: ProjectAccess,
    origin: Origin,
}

impl AccessEntry {
    /// The keys that it stands for. `default_permissions` would replace the sandbox mode, so it is unset.
    pub(crate) fn values(&self) -> Table {
        let (sandbox, approval) = match self.access {
            ProjectAccess::ReadOnly => ("read-only", "never"),
            ProjectAccess::Ask => ("read-only", "on-request"),
            ProjectAccess::Edit => ("workspace-write", "on-request"),
            ProjectAccess::FullAccess => ("danger-full-access", "never"),
        };
        let node = |value| Node { value, origin: self.origin.clone() };
        [
            ("sandbox_mode", Value::Text(sandbox.to_owned())),
            ("approval_policy", Value::Text(approval.to_owned())),
            ("default_permissions", Value::Unset),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), node(value)))
        .collect()
    }

    /// Lower is stricter.
    fn rank(&self) -> u8 {
        match self.access {
            ProjectAccess::ReadOnly => 0,
            ProjectAccess::Ask => 1,
            ProjectAccess::Edit => 2,
            ProjectAccess::FullAccess => 3,
        }
    }
}
