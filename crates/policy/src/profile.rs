//! Permission profiles: rules for locations, some of which depend on the machine or the project.

use std::path::{Path, PathBuf};

use crate::roots::SLASH_TMP;
use crate::sandbox_policy::{Access, SandboxPolicy};

/// Base of a rule's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `:root`: the whole file system.
    Root,
    /// `:minimal`: the files that the system's programs need to run.
    Minimal,
    /// `:project_roots`: the root of the project.
    ProjectRoots,
    /// `:tmpdir`: the folder that `$TMPDIR` names.
    Tmpdir,
    /// `:slash_tmp`: `/tmp`.
    SlashTmp,
    /// An absolute path.
    Path(PathBuf),
}

/// One rule of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRule {
    /// The folder that `subpath` is relative to.
    pub base: Location,
    /// A relative path without `..`; `None` is the base itself.
    pub subpath: Option<PathBuf>,
    /// The access that is granted there.
    pub access: Access,
}

/// The rules of a profile on one machine, in one project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFiles {
    /// Absolute paths, as in [`SandboxPolicy::Profile`].
    pub rules: Vec<(PathBuf, Access)>,
    /// True if the platform's own programs and libraries can be read.
    pub platform_defaults: bool,
}

impl ProfileFiles {
    /// `tmpdir` is the `$TMPDIR` of commands; without one, its rules grant nothing.
    pub fn new<'r>(
        rules: impl IntoIterator<Item = &'r ProfileRule>,
        project_root: &Path,
        tmpdir: Option<&Path>,
    ) -> Self {
        let mut files = Self::default();
        for rule in rules {
            let base = match &rule.base {
                Location::Root => Path::new("/"),
                Location::ProjectRoots => project_root,
                Location::SlashTmp => Path::new(SLASH_TMP),
                Location::Path(path) => path,
                Location::Minimal => {
                    files.platform_defaults = true;
                    continue;
                }
                Location::Tmpdir => match tmpdir.filter(|path| path.is_absolute()) {
                    Some(tmpdir) => tmpdir,
                    None => continue,
                },
            };
            let path = rule.subpath.as_ref().map_or_else(|| base.to_owned(), |sub| base.join(sub));
            files.rules.push((path, rule.access));
        }
        files
    }

    /// See [`SandboxPolicy::reach`].
    pub fn reach(&self, has_network: bool) -> Reach {
        reach(&self.rules, has_network)
    }
}

/// The least of the sandbox modes that allows all that a policy allows. Administrators limit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// `read-only`.
    Read,
    /// `workspace-write`.
    Workspace,
    /// `danger-full-access`.
    Everything,
}

impl SandboxPolicy {
    /// The mode that the policy counts as. An external sandbox counts as none, because its
    /// limits are unknown.
    pub fn reach(&self) -> Reach {
        match self {
            Self::ReadOnly { .. } => Reach::Read,
            Self::WorkspaceWrite { .. } => Reach::Workspace,
            Self::Profile { rules, network, managed, .. } => reach(rules, *network || *managed),
            Self::DangerFullAccess | Self::External { .. } => Reach::Everything,
        }
    }
}

fn reach(rules: &[(PathBuf, Access)], has_network: bool) -> Reach {
    let mut written = rules.iter().filter(|(_, access)| *access == Access::Write).peekable();
    if written.peek().is_none() && !has_network {
        return Reach::Read;
    }
    match written.any(|(path, _)| path == Path::new("/")) {
        true => Reach::Everything,
        false => Reach::Workspace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_found_on_the_machine_and_in_the_project() {
        let path = || Location::Path("/srv".into());
        for (base, subpath, tmpdir, expected) in [
            (Location::Root, None, None, Some("/")),
            (Location::ProjectRoots, None, None, Some("/project")),
            (Location::ProjectRoots, Some("a/b"), None, Some("/project/a/b")),
            (Location::SlashTmp, None, None, Some("/tmp")),
            (Location::Tmpdir, None, Some("/var/t"), Some("/var/t")),
            (Location::Tmpdir, Some("x"), Some("/var/t"), Some("/var/t/x")),
            (Location::Tmpdir, None, Some("relative"), None),
            (Location::Tmpdir, None, None, None),
            (Location::Minimal, None, None, None),
            (path(), None, None, Some("/srv")),
        ] {
            let is_minimal = base == Location::Minimal;
            let rule =
                ProfileRule { base, subpath: subpath.map(PathBuf::from), access: Access::Read };
            let files = ProfileFiles::new([&rule], Path::new("/project"), tmpdir.map(Path::new));
            let found: Vec<_> = files.rules.iter().map(|(path, _)| path.to_str()).collect();
            assert_eq!(found, Vec::from_iter(expected.map(Some)), "{rule:?}");
            assert_eq!(files.platform_defaults, is_minimal, "{rule:?}");
        }
    }

    #[test]
    fn a_profile_counts_as_the_least_mode_that_allows_as_much() {
        use Access::{None as Hidden, Read, Write};
        for (rules, has_network, expected) in [
            (&[][..], false, Reach::Read),
            (&[("/", Read), ("/a", Hidden)], false, Reach::Read),
            (&[("/", Read)], true, Reach::Workspace),
            (&[("/", Read), ("/a", Write)], false, Reach::Workspace),
            (&[("/a", Write), ("/", Write)], false, Reach::Everything),
        ] {
            let rules = rules.iter().map(|(path, access)| (path.into(), *access)).collect();
            let files = ProfileFiles { rules, platform_defaults: true };
            assert_eq!(files.reach(has_network), expected, "{files:?}, network: {has_network}");
        }
    }
}
