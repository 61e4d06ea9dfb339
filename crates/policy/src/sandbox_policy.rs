//! The sandbox policy of a thread or a command.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Names that stay read-only at the top of every writable root, in any letter case: they hold
/// configuration that makes other programs run code.
pub const PROTECTED_NAMES: [&str; 2] = [".git", ".agent"];

/// Files that commands can read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadAccess {
    /// Every file that the user can read.
    #[default]
    Full,
    /// Only these roots and the writable ones, with what programs need to start when
    /// `platform_defaults` is set.
    Restricted {
        /// Add the platform's own libraries and programs.
        platform_defaults: bool,
        /// Absolute paths.
        roots: Vec<PathBuf>,
    },
}

impl ReadAccess {
    /// The same with more roots.
    #[must_use]
    pub(crate) fn with_roots(&self, more: impl IntoIterator<Item = PathBuf>) -> Self {
        match self {
            Self::Full => Self::Full,
            Self::Restricted { platform_defaults, roots } => Self::Restricted {
                platform_defaults: *platform_defaults,
                roots: roots.iter().cloned().chain(more).collect(),
            },
        }
    }
}

/// Access that a rule of a permission profile grants, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Neither reading nor creating.
    None,
    /// Reading.
    Read,
    /// Reading and writing, except the [`PROTECTED_NAMES`] that no rule spells.
    Write,
}

/// Files and network that commands and patches may touch (specification: Sandbox policy).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxPolicy {
    /// No confinement.
    DangerFullAccess,
    /// Nothing can be written.
    ReadOnly {
        /// Files that can be read.
        read: ReadAccess,
        /// True if sockets to the network work.
        network: bool,
    },
    /// The given roots and the temporary folders can be written, except their protected names.
    WorkspaceWrite {
        /// Absolute paths; empty means the working folder.
        writable_roots: Vec<PathBuf>,
        /// Files that can be read.
        read: ReadAccess,
        /// True if sockets to the network work.
        network: bool,
        /// Leave `/tmp` read-only.
        exclude_slash_tmp: bool,
        /// Leave `$TMPDIR` read-only.
        exclude_tmpdir: bool,
    },
    /// A permission profile: the deepest rule that covers a path decides, and of several for the same
    /// path the strictest. What no rule covers cannot be read.
    Profile {
        /// Its name in the configuration.
        name: String,
        /// Absolute paths.
        rules: Vec<(PathBuf, Access)>,
        /// True if the platform's own programs and libraries can be read.
        platform_defaults: bool,
        /// True if sockets to the network work.
        network: bool,
        /// True if the network is reached through the managed proxy; `network` is off then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        managed: bool,
    },
    /// The whole server is confined from outside, so commands are not confined again.
    External {
        /// True if the network is reachable.
        network: bool,
    },
}

impl SandboxPolicy {
    /// Returns whether commands run without any confinement of ours.
    pub fn is_unconfined(&self) -> bool {
        matches!(self, Self::DangerFullAccess | Self::External { .. })
    }

    /// Returns whether there can be files that commands cannot read.
    pub fn restricts_reading(&self) -> bool {
        match self {
            Self::DangerFullAccess | Self::External { .. } => false,
            Self::ReadOnly { read, .. } | Self::WorkspaceWrite { read, .. } => {
                *read != ReadAccess::Full
            }
            Self::Profile { .. } => true,
        }
    }

    /// Returns whether sockets to the network work without a proxy.
    pub fn network(&self) -> bool {
        match self {
            Self::DangerFullAccess => true,
            Self::ReadOnly { network, .. }
            | Self::WorkspaceWrite { network, .. }
            | Self::Profile { network, .. }
            | Self::External { network } => *network,
        }
    }
}
