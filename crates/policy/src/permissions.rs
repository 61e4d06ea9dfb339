//! Permissions beyond a sandbox policy, and the policy with them.

use std::path::{Path, PathBuf};

use crate::roots::add_roots;
use crate::sandbox_policy::{Access, SandboxPolicy};

/// Permissions beyond a sandbox policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Folders to read: real paths.
    pub read: Vec<PathBuf>,
    /// Folders to read and write: real paths.
    pub write: Vec<PathBuf>,
    /// True if sockets to the network work.
    pub network: bool,
}

impl Permissions {
    /// Returns whether they permit nothing.
    pub fn is_empty(&self) -> bool {
        let Self { read, write, network } = self;
        read.is_empty() && write.is_empty() && !network
    }

    /// The folders.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.read.iter().chain(&self.write).cloned().collect()
    }

    /// Returns whether `requested` includes all of them. A folder that is requested for writing may be
    /// granted for reading only.
    pub fn are_within(&self, requested: &Self) -> bool {
        let can_read = |path| requested.read.contains(path) || requested.write.contains(path);
        self.read.iter().all(can_read)
            && self.write.iter().all(|path| requested.write.contains(path))
            && (requested.network || !self.network)
    }

    /// Adds `more`. A folder inside another one of the same access is left out: a command that can write
    /// the outer one could replace the inner one by a link.
    pub fn add(&mut self, more: &Self) {
        add_folders(&mut self.read, &more.read);
        add_folders(&mut self.write, &more.write);
        self.network |= more.network;
    }
}

fn add_folders(folders: &mut Vec<PathBuf>, more: &[PathBuf]) {
    for folder in more {
        if !folders.iter().any(|outer| folder.starts_with(outer)) {
            folders.retain(|inner| !inner.starts_with(folder));
            folders.push(folder.clone());
        }
    }
}

impl SandboxPolicy {
    /// The policy with `more` permissions; `cwd` is where commands run. A policy that confines
    /// nothing stays as it is.
    #[must_use]
    pub fn widened(&self, cwd: &Path, more: &Permissions) -> Self {
        if more.is_empty() {
            return self.clone();
        }
        match self {
            Self::DangerFullAccess | Self::External { .. } => self.clone(),
            Self::ReadOnly { read, network } if more.write.is_empty() => Self::ReadOnly {
                read: read.with_roots(more.read.iter().cloned()),
                network: *network || more.network,
            },
            Self::ReadOnly { read, network } => Self::WorkspaceWrite {
                writable_roots: more.write.clone(),
                read: read.with_roots(more.read.iter().cloned()),
                network: *network || more.network,
                exclude_slash_tmp: true,
                exclude_tmpdir: true,
            },
            Self::WorkspaceWrite {
                writable_roots,
                read,
                network,
                exclude_slash_tmp,
                exclude_tmpdir,
            } => {
                let mut roots = writable_roots.clone();
                add_roots(&mut roots, cwd.to_owned(), more.write.iter().cloned());
                Self::WorkspaceWrite {
                    writable_roots: roots,
                    read: read.with_roots(more.read.iter().cloned()),
                    network: *network || more.network,
                    exclude_slash_tmp: *exclude_slash_tmp,
                    exclude_tmpdir: *exclude_tmpdir,
                }
            }
            Self::Profile { name, rules, platform_defaults, network, managed } => Self::Profile {
                name: name.clone(),
                rules: widened_rules(rules, more),
                platform_defaults: *platform_defaults,
                network: *network || (more.network && !managed),
                managed: *managed,
            },
        }
    }
}

/// The rules of a profile with `more`: one rule a path, the one that permits more.
fn widened_rules(rules: &[(PathBuf, Access)], more: &Permissions) -> Vec<(PathBuf, Access)> {
    let mut rules = rules.to_vec();
    let read = more.read.iter().map(|path| (path, Access::Read));
    let write = more.write.iter().map(|path| (path, Access::Write));
    for (path, access) in read.chain(write) {
        match rules.iter_mut().find(|(known, _)| known == path) {
            Some((_, Access::Write)) => {}
            Some((_, known)) => *known = access,
            None => rules.push((path.clone(), access)),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox_policy::ReadAccess;

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    fn permissions(read: &[&str], write: &[&str], network: bool) -> Permissions {
        Permissions { read: paths(read), write: paths(write), network }
    }

    fn workspace(roots: &[&str], read: ReadAccess, network: bool, no_tmp: bool) -> SandboxPolicy {
        SandboxPolicy::WorkspaceWrite {
            writable_roots: paths(roots),
            read,
            network,
            exclude_slash_tmp: no_tmp,
            exclude_tmpdir: no_tmp,
        }
    }

    #[test]
    fn each_policy_is_widened_by_exactly_what_is_granted() {
        let full = || ReadAccess::Full;
        let some = |roots| ReadAccess::Restricted { platform_defaults: true, roots: paths(roots) };
        let read_only = |read, network| SandboxPolicy::ReadOnly { read, network };
        let profile = |rules: &[(&str, Access)], network, managed| SandboxPolicy::Profile {
            name: "p".into(),
            rules: rules.iter().map(|(path, access)| (path.into(), *access)).collect(),
            platform_defaults: false,
            network,
            managed,
        };
        let write = permissions(&[], &["/a"], false);
        let read = permissions(&["/r"], &[], false);
        let network = permissions(&[], &[], true);
        let none = Permissions::default();
        let full_access = SandboxPolicy::DangerFullAccess;
        use Access::{None as Hidden, Read, Write};
        for (policy, more, expected) in [
            (full_access.clone(), &write, full_access),
            (read_only(full(), false), &none, read_only(full(), false)),
            (read_only(full(), false), &write, workspace(&["/a"], full(), false, true)),
            (read_only(some(&["/x"]), false), &read, read_only(some(&["/x", "/r"]), false)),
            (read_only(full(), false), &network, read_only(full(), true)),
            (
                workspace(&[], full(), false, false),
                &write,
                workspace(&["/w", "/a"], full(), false, false),
            ),
            (
                workspace(&["/x"], full(), false, true),
                &write,
                workspace(&["/x", "/a"], full(), false, true),
            ),
            (workspace(&[], full(), false, true), &network, workspace(&[], full(), true, true)),
            (
                profile(&[("/", Read), ("/a/b", Hidden)], false, false),
                &write,
                profile(&[("/", Read), ("/a/b", Hidden), ("/a", Write)], false, false),
            ),
            (profile(&[("/a", Read)], false, true), &write, profile(&[("/a", Write)], false, true)),
            (
                profile(&[("/r", Write)], false, false),
                &read,
                profile(&[("/r", Write)], false, false),
            ),
            (profile(&[], false, true), &network, profile(&[], false, true)),
            (profile(&[], false, false), &network, profile(&[], true, false)),
        ] {
            assert_eq!(policy.widened(Path::new("/w"), more), expected, "{policy:?} and {more:?}");
        }
    }

    #[test]
    fn grants_add_up_and_an_outer_folder_replaces_an_inner_one() {
        let mut all = permissions(&["/r"], &["/a/b", "/c"], false);
        all.add(&permissions(&["/r/x"], &["/a", "/c/d"], true));
        assert_eq!(all, permissions(&["/r"], &["/c", "/a"], true));
    }

    #[test]
    fn no_more_is_granted_than_was_requested() {
        let requested = permissions(&["/r"], &["/w"], false);
        for (granted, expected) in [
            (permissions(&[], &[], false), true),
            (permissions(&["/r"], &["/w"], false), true),
            (permissions(&["/w"], &[], false), true),
            (permissions(&[], &["/r"], false), false),
            (permissions(&["/w/x"], &[], false), false),
            (permissions(&[], &[], true), false),
        ] {
            assert_eq!(granted.are_within(&requested), expected, "{granted:?}");
        }
    }
}
