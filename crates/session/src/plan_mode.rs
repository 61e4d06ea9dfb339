//! Plan mode: the agent explores and changes nothing, whatever the thread's policy allows and
//! no matter who approves. The reach of a command is decided here, in one place, for every mode.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::port::settings::{Access, Mode, ReadAccess, SandboxPolicy, Settings};

/// Refuses a tool that changes something.
pub(crate) const CHANGES_NOTHING: &str =
    "plan mode changes nothing: explore, and propose the change in the plan";
/// Refuses a command that asks to leave the sandbox.
pub(crate) const STAYS_CONFINED: &str = "plan mode runs commands read-only: none leaves the \
     sandbox, no matter who approves it; do without, and put the command into the plan";

/// The reach of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// It reads.
    ReadOnly,
    /// Everything that the sandbox policy allows.
    Sandbox,
    /// Everything.
    Outside,
}

impl Reach {
    /// `unsandboxed`: the command is to leave the sandbox.
    pub(crate) fn new(mode: Mode, unsandboxed: bool) -> Self {
        match (mode, unsandboxed) {
            (Mode::Plan, _) => Self::ReadOnly,
            (Mode::Default, true) => Self::Outside,
            (Mode::Default, false) => Self::Sandbox,
        }
    }
}

impl Settings {
    /// The settings as they hold for the agent in its mode.
    pub(crate) fn in_force(&self) -> Cow<'_, Self> {
        match self.mode {
            Mode::Default => Cow::Borrowed(self),
            Mode::Plan => {
                let sandbox = self.sandbox.reading_only(&self.cwd);
                Cow::Owned(Self { sandbox, ..self.clone() })
            }
        }
    }
}

impl SandboxPolicy {
    /// A policy under which the same can be read, nothing written, and the network is off.
    pub(crate) fn reading_only(&self, cwd: &Path) -> Self {
        let read = match self {
            Self::DangerFullAccess | Self::External { .. } => ReadAccess::Full,
            Self::ReadOnly { read, .. } => read.clone(),
            Self::WorkspaceWrite { writable_roots, read, exclude_slash_tmp, .. } => {
                // What can be written can be read.
                let own = writable_roots.is_empty().then(|| cwd.to_owned());
                let tmp = (!exclude_slash_tmp).then(|| PathBuf::from("/tmp"));
                readable_too(read, writable_roots.iter().cloned().chain(own).chain(tmp))
            }
            Self::Profile { name, rules, platform_defaults, .. } => {
                let read = |(path, access): &(PathBuf, Access)| match access {
                    Access::None => (path.clone(), Access::None),
                    Access::Read | Access::Write => (path.clone(), Access::Read),
                };
                return Self::Profile {
                    name: name.clone(),
                    rules: rules.iter().map(read).collect(),
                    platform_defaults: *platform_defaults,
                    network: false,
                    managed: false,
                };
            }
        };
        Self::ReadOnly { read, network: false }
    }
}

fn readable_too(read: &ReadAccess, more: impl Iterator<Item = PathBuf>) -> ReadAccess {
    match read {
        ReadAccess::Full => ReadAccess::Full,
        ReadAccess::Restricted { platform_defaults, roots } => ReadAccess::Restricted {
            platform_defaults: *platform_defaults,
            roots: roots.iter().cloned().chain(more).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_mode_policies_write_nothing_and_read_the_same() {
        let cwd = Path::new("/w");
        let full = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false };
        let restricted = |roots: &[&str]| ReadAccess::Restricted {
            platform_defaults: true,
            roots: roots.iter().map(PathBuf::from).collect(),
        };
        let workspace = |writable: &[&str], read, exclude_slash_tmp| {
            let writable_roots = writable.iter().map(PathBuf::from).collect();
            SandboxPolicy::WorkspaceWrite {
                writable_roots,
                read,
                network: true,
                exclude_slash_tmp,
                exclude_tmpdir: false,
            }
        };
        let profile = |write, network, managed| SandboxPolicy::Profile {
            name: "p".into(),
            rules: vec![("/w".into(), write), ("/w/secret".into(), Access::None)],
            platform_defaults: true,
            network,
            managed,
        };
        let reads = |read| SandboxPolicy::ReadOnly { read, network: false };
        for (policy, expected) in [
            (SandboxPolicy::DangerFullAccess, full.clone()),
            (SandboxPolicy::External { network: true }, full.clone()),
            (SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: true }, full.clone()),
            (workspace(&[], ReadAccess::Full, false), full),
            (workspace(&[], restricted(&["/r"]), false), reads(restricted(&["/r", "/w", "/tmp"]))),
            (workspace(&["/x"], restricted(&[]), true), reads(restricted(&["/x"]))),
            (profile(Access::Write, true, false), profile(Access::Read, false, false)),
            (profile(Access::Read, false, true), profile(Access::Read, false, false)),
        ] {
            assert_eq!(policy.reading_only(cwd), expected);
            assert!(!expected.is_unconfined());
            assert_eq!(expected.reading_only(cwd), expected);
        }
    }
}
