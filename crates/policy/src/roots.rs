//! The writable folders of a policy, including those that it does not name: the working folder and the
//! folders for temporary files.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sandbox_policy::{Access, ReadAccess, SandboxPolicy};

/// The folder for temporary files that every program can use.
pub const SLASH_TMP: &str = "/tmp";

/// The folders for temporary files. `tmpdir` is the `$TMPDIR` of commands; a relative one is ignored.
pub fn temporary_folders(tmpdir: Option<&Path>) -> impl Iterator<Item = &Path> {
    [Some(Path::new(SLASH_TMP)), tmpdir.filter(|path| path.is_absolute())].into_iter().flatten()
}

/// Adds writable roots to those of a policy. An empty list means the working folder `cwd`, and a list
/// that is not empty must name it.
pub fn add_roots<R: PartialEq>(roots: &mut Vec<R>, cwd: R, more: impl IntoIterator<Item = R>) {
    let mut more = more.into_iter().peekable();
    if roots.is_empty() && more.peek().is_some() {
        roots.push(cwd);
    }
    for root in more {
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
}

/// A folder that commands can write, except its [`PROTECTED_NAMES`](crate::PROTECTED_NAMES).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableRoot {
    /// Absolute.
    pub path: PathBuf,
    /// True if it is `/tmp` or `$TMPDIR`, which a policy includes without naming them.
    pub temporary: bool,
}

/// A policy that names the working folder where it is writable, so that it means the same elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RootedPolicy(pub(crate) SandboxPolicy);

impl Deref for RootedPolicy {
    type Target = SandboxPolicy;

    fn deref(&self) -> &SandboxPolicy {
        &self.0
    }
}

impl From<RootedPolicy> for SandboxPolicy {
    fn from(rooted: RootedPolicy) -> Self {
        rooted.0
    }
}

impl RootedPolicy {
    /// Returns a policy that was rooted before, such as a stored one.
    pub fn rooted_before(policy: SandboxPolicy) -> Self {
        Self(policy)
    }

    /// No confinement.
    pub const FULL_ACCESS: Self = Self(SandboxPolicy::DangerFullAccess);
    /// Reads every file, writes none and has no network.
    pub const READ_ONLY: Self =
        Self(SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false });

    /// The writable folders, each once. `tmpdir` is the `$TMPDIR` of commands; relative paths are
    /// ignored. Empty for a policy that confines nothing.
    pub fn writable_roots(&self, tmpdir: Option<&Path>) -> Vec<WritableRoot> {
        let mut roots: Vec<WritableRoot> = Vec::new();
        let mut add = |path: &Path, temporary| {
            if path.is_absolute() && !roots.iter().any(|root| root.path == path) {
                roots.push(WritableRoot { path: path.to_owned(), temporary });
            }
        };
        match &self.0 {
            SandboxPolicy::DangerFullAccess
            | SandboxPolicy::External { .. }
            | SandboxPolicy::ReadOnly { .. } => {}
            SandboxPolicy::WorkspaceWrite {
                writable_roots,
                exclude_slash_tmp,
                exclude_tmpdir,
                ..
            } => {
                writable_roots.iter().for_each(|root| add(root, false));
                let tmp = (!exclude_slash_tmp).then_some(Path::new(SLASH_TMP));
                let tmpdir = tmpdir.filter(|_| !exclude_tmpdir);
                tmp.into_iter().chain(tmpdir).for_each(|root| add(root, true));
            }
            SandboxPolicy::Profile { rules, .. } => {
                let written = rules.iter().filter(|(_, access)| *access == Access::Write);
                written.for_each(|(path, _)| add(path, false));
            }
        }
        roots
    }
}

impl SandboxPolicy {
    /// The policy of a thread whose commands run in `cwd`.
    #[must_use]
    pub fn rooted(&self, cwd: &Path) -> RootedPolicy {
        let mut policy = self.clone();
        if let Self::WorkspaceWrite { writable_roots, .. } = &mut policy
            && writable_roots.is_empty()
        {
            writable_roots.push(cwd.to_owned());
        }
        RootedPolicy(policy)
    }

    /// A policy under which the same can be read, nothing written, and the network is off. Commands run
    /// in `cwd`, and `tmpdir` is their `$TMPDIR`.
    #[must_use]
    pub fn reading_only(&self, cwd: &Path, tmpdir: Option<&Path>) -> Self {
        let read = match self {
            Self::DangerFullAccess | Self::External { .. } => ReadAccess::Full,
            Self::ReadOnly { read, .. } => read.clone(),
            Self::WorkspaceWrite { read, .. } => {
                // What can be written can be read.
                let writable = self.rooted(cwd).writable_roots(tmpdir);
                read.with_roots(writable.into_iter().map(|root| root.path))
            }
            Self::Profile { name, rules, platform_defaults, .. } => {
                let read =
                    |(path, access): &(PathBuf, Access)| (path.clone(), Access::Read.min(*access));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    fn workspace(roots: &[&str], read: ReadAccess, no_tmp: bool, no_tmpdir: bool) -> SandboxPolicy {
        SandboxPolicy::WorkspaceWrite {
            writable_roots: paths(roots),
            read,
            network: true,
            exclude_slash_tmp: no_tmp,
            exclude_tmpdir: no_tmpdir,
        }
    }

    fn profile(write: Access, network: bool, managed: bool) -> SandboxPolicy {
        SandboxPolicy::Profile {
            name: "p".into(),
            rules: vec![("/w".into(), write), ("/w/secret".into(), Access::None)],
            platform_defaults: true,
            network,
            managed,
        }
    }

    #[test]
    fn roots_are_those_given_or_the_working_folder_and_the_temporary_folders() {
        let full = || ReadAccess::Full;
        let some = &["/a", "relative", "/a"];
        for (policy, tmpdir, expected) in [
            (workspace(some, full(), false, false), "/var/t", &["/a", "/tmp", "/var/t"][..]),
            (workspace(some, full(), true, false), "/var/t", &["/a", "/var/t"]),
            (workspace(some, full(), false, true), "/var/t", &["/a", "/tmp"]),
            (workspace(some, full(), true, true), "/var/t", &["/a"]),
            (workspace(&[], full(), true, true), "/var/t", &["/w"]),
            (workspace(&[], full(), false, false), "relative", &["/w", "/tmp"]),
            (workspace(&[], full(), false, false), "/tmp", &["/w", "/tmp"]),
            (SandboxPolicy::ReadOnly { read: full(), network: true }, "/var/t", &[]),
            (SandboxPolicy::DangerFullAccess, "/var/t", &[]),
            (profile(Access::Write, false, false), "/var/t", &["/w"]),
            (profile(Access::Read, false, false), "/var/t", &[]),
        ] {
            let roots = policy.rooted(Path::new("/w")).writable_roots(Some(Path::new(tmpdir)));
            let found: Vec<_> = roots.iter().map(|root| root.path.to_str().unwrap()).collect();
            assert_eq!(found, expected, "{policy:?} with {tmpdir}");
            let named = roots.iter().filter(|root| !root.temporary).count();
            assert_eq!(named, usize::from(!expected.is_empty()), "{policy:?} with {tmpdir}");
        }
    }

    #[test]
    fn a_list_of_roots_that_grows_names_the_working_folder() {
        for (given, more, expected) in [
            (&[][..], &[][..], &[][..]),
            (&[], &["/a"], &["/w", "/a"]),
            (&["/b"], &["/a", "/b"], &["/b", "/a"]),
            (&["/b"], &[], &["/b"]),
        ] {
            let mut roots = given.to_vec();
            add_roots(&mut roots, "/w", more.iter().copied());
            assert_eq!(roots, expected, "{given:?} and {more:?}");
        }
    }

    #[test]
    fn reading_only_writes_nothing_and_reads_the_same() {
        let full = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false };
        let restricted = |roots: &[&str]| ReadAccess::Restricted {
            platform_defaults: true,
            roots: paths(roots),
        };
        let reads = |roots| SandboxPolicy::ReadOnly { read: restricted(roots), network: false };
        let (cwd, tmpdir) = (Path::new("/w"), Some(Path::new("/var/t")));
        for (policy, expected) in [
            (SandboxPolicy::DangerFullAccess, full.clone()),
            (SandboxPolicy::External { network: true }, full.clone()),
            (SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: true }, full.clone()),
            (workspace(&[], ReadAccess::Full, false, false), full),
            (
                workspace(&[], restricted(&["/r"]), false, false),
                reads(&["/r", "/w", "/tmp", "/var/t"]),
            ),
            (workspace(&["/x"], restricted(&[]), true, false), reads(&["/x", "/var/t"])),
            (workspace(&["/x"], restricted(&[]), true, true), reads(&["/x"])),
            (profile(Access::Write, true, false), profile(Access::Read, false, false)),
            (profile(Access::Read, false, true), profile(Access::Read, false, false)),
        ] {
            assert_eq!(policy.reading_only(cwd, tmpdir), expected);
            assert!(!expected.is_unconfined());
            assert_eq!(expected.reading_only(cwd, tmpdir), expected);
        }
    }
}
