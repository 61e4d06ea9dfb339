//! The access of a command or a patch: the wire-independent form of the specification's "Sandbox
//! policy". Starts nothing and confines nothing.

mod access;
mod resolved;

use std::path::{Path, PathBuf};

pub use access::{Access, PLATFORM_READABLE, PROTECTED_NAMES, ReadAccess};
pub use resolved::{Resolved, WritableRoot};

/// A permission policy as the client or the configuration states it ("Sandbox policy").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No confinement at all.
    DangerFullAccess,
    /// Nothing can be written.
    ReadOnly { read: ReadAccess, network: bool },
    /// Only the listed roots, `/tmp` and `$TMPDIR` can be written. The caller lists the thread's
    /// folder among the roots when the client named none: nothing is added here.
    WorkspaceWrite {
        writable_roots: Vec<PathBuf>,
        read: ReadAccess,
        network: bool,
        exclude_slash_tmp: bool,
        exclude_tmpdir: bool,
    },
    /// Path by path: the deepest rule that covers a path decides, and of several for the same path
    /// the strictest. What no rule covers cannot be read.
    Profile {
        /// Absolute paths.
        rules: Vec<(PathBuf, Access)>,
        /// Also reads [`PLATFORM_READABLE`].
        platform_defaults: bool,
        network: bool,
    },
    /// The server itself runs in a sandbox, so commands are not confined again. `network` is what
    /// the client or the configuration says about that sandbox.
    External { network: bool },
}

impl Policy {
    /// Lists the writable roots. `tmpdir` is the command's `$TMPDIR`; a relative one is ignored.
    /// Reads no file.
    pub fn resolve(&self, tmpdir: Option<&Path>) -> Resolved {
        match self {
            Policy::DangerFullAccess => unconfined(true),
            Policy::External { network } => unconfined(*network),
            Policy::ReadOnly { read, network } => Resolved {
                confined: true,
                writable: Vec::new(),
                read: read.clone(),
                network: *network,
                rules: None,
                ..Resolved::default()
            },
            Policy::Profile { rules, platform_defaults, network } => {
                profile(rules, *platform_defaults, *network)
            }
            Policy::WorkspaceWrite {
                writable_roots,
                read,
                network,
                exclude_slash_tmp,
                exclude_tmpdir,
            } => {
                let tmp = (!exclude_slash_tmp).then_some(Path::new("/tmp"));
                let tmpdir = tmpdir.filter(|_| !exclude_tmpdir);
                Resolved {
                    confined: true,
                    writable: writable(writable_roots, [tmp, tmpdir]),
                    read: read.clone(),
                    network: *network,
                    rules: None,
                    ..Resolved::default()
                }
            }
        }
    }

    /// Returns whether [`Resolved::check_write`] allows `path`.
    pub fn may_write(&self, path: &Path, tmpdir: Option<&Path>) -> bool {
        self.resolve(tmpdir).check_write(path).is_ok()
    }
}

fn unconfined(network: bool) -> Resolved {
    Resolved {
        confined: false,
        writable: Vec::new(),
        read: ReadAccess::Full,
        network,
        rules: None,
        ..Resolved::default()
    }
}

fn profile(rules: &[(PathBuf, Access)], platform_defaults: bool, network: bool) -> Resolved {
    let with = |wanted: Access| {
        rules.iter().filter(move |(path, access)| *access == wanted && path.is_absolute())
    };
    let writable = with(Access::Write)
        .map(|(path, _)| WritableRoot { path: path.clone(), temporary: false })
        .collect();
    Resolved {
        confined: true,
        writable,
        read: ReadAccess::Restricted {
            include_platform_defaults: platform_defaults,
            readable_roots: with(Access::Read).map(|(path, _)| path.clone()).collect(),
        },
        network,
        rules: Some(rules.iter().filter(|(path, _)| path.is_absolute()).cloned().collect()),
        ..Resolved::default()
    }
}

fn writable(given: &[PathBuf], temporary: [Option<&Path>; 2]) -> Vec<WritableRoot> {
    let mut roots: Vec<WritableRoot> = Vec::with_capacity(given.len() + temporary.len());
    let named = given.iter().map(|path| (path.as_path(), false));
    let implied = temporary.into_iter().flatten().map(|path| (path, true));
    for (path, temporary) in named.chain(implied) {
        if path.is_absolute() && !roots.iter().any(|root| root.path == path) {
            roots.push(WritableRoot { path: path.to_owned(), temporary });
        }
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn workspace(roots: &[&Path]) -> Policy {
        Policy::WorkspaceWrite {
            writable_roots: roots.iter().map(|root| root.to_path_buf()).collect(),
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        }
    }

    #[test]
    fn roots_are_exactly_those_given_and_the_temporary_folders() {
        let check = |exclude_slash_tmp, exclude_tmpdir, expect: &[&str]| {
            let policy = Policy::WorkspaceWrite {
                writable_roots: vec!["/a".into(), "relative".into(), "/a".into()],
                read: ReadAccess::Full,
                network: true,
                exclude_slash_tmp,
                exclude_tmpdir,
            };
            let resolved = policy.resolve(Some(Path::new("/var/t")));
            let roots: Vec<_> =
                resolved.writable.iter().map(|r| r.path.to_str().unwrap()).collect();
            assert_eq!(roots, expect);
        };
        check(false, false, &["/a", "/tmp", "/var/t"]);
        check(true, false, &["/a", "/var/t"]);
        check(false, true, &["/a", "/tmp"]);
        check(true, true, &["/a"]);
    }

    #[test]
    fn writes_are_decided_by_the_real_path() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let root = base.join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::create_dir(base.join("other")).unwrap();
        symlink(base.join("other"), root.join("out")).unwrap();
        symlink(root.join(".git"), root.join("alias")).unwrap();
        symlink(base.join("nowhere"), root.join("dangling")).unwrap();
        let policy = workspace(&[&root]);
        let check = |path: &str, expect: bool| {
            assert_eq!(policy.may_write(&base.join(path), None), expect, "{path}");
        };
        check("root/new", true);
        check("root/sub/deep/new", true);
        check("root/.gitignore", true);
        check("root/sub/../new", true);
        check("root/.git/config", false);
        check("root/.git", false);
        check("root/.GIT/config", false);
        check("root/.Agent/config.toml", false);
        check("root/alias/hooks/pre-commit", false);
        check("root/out/file", false);
        check("root/dangling", false);
        check("root/missing/../../other/x", false);
        check("root/../other/x", false);
        check("other/x", false);
        check("rootless", false);
        assert!(!policy.may_write(Path::new("root/new"), None));
        assert!(Policy::DangerFullAccess.may_write(&root.join(".git/config"), None));
        let read_only = Policy::ReadOnly { read: ReadAccess::Full, network: false };
        assert!(!read_only.may_write(&root.join("new"), None));
    }

    #[test]
    fn a_protected_name_of_any_root_takes_precedence() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("sub")).unwrap();
        let both = workspace(&[&base, &base.join("sub")]);
        assert!(!both.may_write(&base.join("sub/.git/config"), None));
        assert!(workspace(&[&base]).may_write(&base.join("sub/.git/config"), None));
    }

    #[test]
    fn restricted_reads() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir(base.join("in")).unwrap();
        fs::create_dir(base.join("out")).unwrap();
        let resolved = Policy::ReadOnly {
            read: ReadAccess::Restricted {
                include_platform_defaults: true,
                readable_roots: vec![base.join("in")],
            },
            network: false,
        }
        .resolve(None);
        assert!(resolved.check_read(&base.join("in/x")).is_ok());
        assert!(resolved.check_read(Path::new("/usr/bin")).is_ok());
        assert!(resolved.check_read(&base.join("out/x")).is_err());
    }

    #[test]
    fn a_root_behind_a_link_made_by_a_command_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["outer", "elsewhere", "outer/real"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        symlink(base.join("elsewhere"), base.join("outer/link")).unwrap();
        symlink(base.join("elsewhere"), base.join("given")).unwrap();
        let roots = |names: &[&str]| {
            let writable_roots = names.iter().map(|name| base.join(name)).collect();
            let policy = Policy::WorkspaceWrite {
                writable_roots,
                read: ReadAccess::Full,
                network: false,
                exclude_slash_tmp: true,
                exclude_tmpdir: true,
            };
            let found = policy.resolve(None).writable_folders();
            let names = found.iter().map(|path| path.strip_prefix(&base).unwrap().to_owned());
            names.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(roots(&["outer", "outer/real"]), ["outer", "outer/real"]);
        assert_eq!(roots(&["outer", "outer/link"]), ["outer"]);
        // A link that no command can have made is followed.
        assert_eq!(roots(&["given", "outer"]), ["elsewhere", "outer"]);
        assert_eq!(roots(&["outer/../given"]), ["elsewhere"]);
        assert_eq!(roots(&["outer/link"]), ["elsewhere"]);
    }
}
