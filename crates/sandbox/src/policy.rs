//! What a command or a patch may touch: the wire-independent form of the specification's
//! "Sandbox policy", and the checks made from it. Starts nothing and confines nothing.

use std::path::{Component, Path, PathBuf};

use crate::protect::{self, ProtectedPaths};

/// Names that stay read-only at the top of every writable root, under any letter case: they hold
/// configuration that makes other programs run code.
pub const PROTECTED_NAMES: [&str; 2] = [".git", ".agent"];

/// A permission policy as the client or the configuration gives it ("Sandbox policy").
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
    /// Path by path: the deepest rule that covers a path decides, at the same path the strictest.
    /// What no rule covers cannot be read.
    Profile {
        /// Absolute paths.
        rules: Vec<(PathBuf, Access)>,
        /// Also reads [`PLATFORM_READABLE`].
        platform_defaults: bool,
        network: bool,
    },
    /// Somebody else's sandbox is around us: no confinement of ours. `network` is what we were
    /// told about it.
    External { network: bool },
}

/// What a rule of [`Policy::Profile`] grants, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Neither seen nor made.
    None,
    Read,
    /// Read and written, but for the protected names in it that no rule names.
    Write,
}

/// What a confined command can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadAccess {
    /// Every file the user can read.
    #[default]
    Full,
    /// The listed roots, the writable roots and, on request, what programs of the system need to
    /// run ([`PLATFORM_READABLE`]).
    Restricted { include_platform_defaults: bool, readable_roots: Vec<PathBuf> },
}

/// What `include_platform_defaults` adds to a restricted read: programs, libraries and the
/// configuration that they need. Deliberately not all of `/etc`.
pub const PLATFORM_READABLE: [&str; 33] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/etc/terminfo",
];

/// A policy with its writable roots spelled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Whether we confine at all: false for full access and for an external sandbox.
    pub confined: bool,
    /// Empty when unconfined or read-only.
    pub writable: Vec<WritableRoot>,
    pub read: ReadAccess,
    pub network: bool,
    /// The rules of a profile, which then decide instead of `read`.
    pub rules: Option<Vec<(PathBuf, Access)>>,
    /// See [`crate::Spawn::guarded`].
    pub(crate) guarded: Vec<PathBuf>,
    /// Where the roots and the rules really lead, once that was looked at.
    pub(crate) found: Option<Found>,
}

/// What was found of a policy's paths, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    folders: Vec<PathBuf>,
    rules: Vec<(PathBuf, Access)>,
    protected: Result<ProtectedPaths, String>,
}

/// A folder that a confined command can write, except its [`PROTECTED_NAMES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableRoot {
    pub path: PathBuf,
    /// `/tmp` or `$TMPDIR`, which the policy includes without naming them.
    pub temporary: bool,
}

/// Why a path cannot be written or read under a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("{} is outside the folders that the sandbox policy lets be written", .0.display())]
    OutsideWritableRoots(PathBuf),
    #[error("{} is protected: {} stays read-only inside a writable folder", .path.display(), .protected.display())]
    Protected { path: PathBuf, protected: PathBuf },
    #[error("{} is outside the folders that the sandbox policy lets be read", .0.display())]
    OutsideReadableRoots(PathBuf),
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error("{} cannot be resolved: {reason}", .path.display())]
    Unresolvable { path: PathBuf, reason: String },
    /// What is protected in the writable roots could not be found out.
    #[error("{} cannot be written: {reason}", .path.display())]
    UnknownProtection { path: PathBuf, reason: String },
}

impl Policy {
    /// Spells the writable roots out. `tmpdir` is the command's `$TMPDIR`; a relative one is
    /// ignored. Pure: looks at no file.
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
                guarded: Vec::new(),
                found: None,
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
                    guarded: Vec::new(),
                    found: None,
                }
            }
        }
    }

    /// [`Resolved::check_write`] as a yes or no.
    pub fn may_write(&self, path: &Path, tmpdir: Option<&Path>) -> bool {
        self.resolve(tmpdir).check_write(path).is_ok()
    }
}

impl Resolved {
    /// Protects the protected names of `folders` too, where these lie in a writable root. They need not
    /// exist.
    #[must_use]
    pub fn guarding(self, folders: &[PathBuf]) -> Self {
        Self { guarded: folders.to_vec(), ..self }
    }

    /// Whether `path`, which need not exist, can be written: symbolic links are resolved, then
    /// it must lie in a writable root and under no protected name of any root. Returns the
    /// resolved path.
    pub fn check_write(&self, path: &Path) -> Result<PathBuf, Denied> {
        self.check_real(path, real_path(path)?)
    }

    /// As [`Resolved::check_write`] for the entry itself: a symbolic link at the end of `path` is
    /// not resolved, only those on the way to it.
    pub fn check_write_entry(&self, path: &Path) -> Result<PathBuf, Denied> {
        self.check_real(path, real_entry(path)?)
    }

    fn check_real(&self, path: &Path, real: PathBuf) -> Result<PathBuf, Denied> {
        if !self.confined {
            return Ok(real);
        }
        let decided = self.decided(&real);
        if decided.as_ref().is_some_and(|(_, access)| *access != Access::Write) {
            return Err(Denied::OutsideWritableRoots(path.to_owned()));
        }
        let roots: Vec<PathBuf> = self.writable_folders();
        let inside = |root: &&PathBuf| real.starts_with(root);
        if !roots.iter().any(|root| inside(&root)) {
            return Err(Denied::OutsideWritableRoots(path.to_owned()));
        }
        let protected_paths = self
            .protected_paths()
            .map_err(|reason| Denied::UnknownProtection { path: path.to_owned(), reason })?;
        for root in roots.iter().filter(inside) {
            if let Some(protected) = protected_paths.covering(root, &real) {
                let lifts = |rule: &Path| rule.starts_with(&protected) && lifts_protection(rule);
                if decided.as_ref().is_some_and(|(rule, _)| lifts(rule)) {
                    continue;
                }
                return Err(Denied::Protected { path: path.to_owned(), protected });
            }
        }
        Ok(real)
    }

    /// Whether `path` can be read; returns the resolved path.
    pub fn check_read(&self, path: &Path) -> Result<PathBuf, Denied> {
        let real = real_path(path)?;
        if let Some((_, access)) = self.decided(&real) {
            return match access {
                Access::None => Err(Denied::OutsideReadableRoots(path.to_owned())),
                Access::Read | Access::Write => Ok(real),
            };
        }
        let ReadAccess::Restricted { include_platform_defaults, readable_roots } = &self.read
        else {
            return Ok(real);
        };
        let defaults =
            PLATFORM_READABLE.iter().map(Path::new).filter(|_| *include_platform_defaults);
        let readable = readable_roots
            .iter()
            .map(PathBuf::as_path)
            .chain(defaults)
            .chain(self.writable.iter().map(|root| root.path.as_path()))
            .filter_map(|root| root.canonicalize().ok())
            .any(|root| real.starts_with(root));
        if !self.confined || readable {
            return Ok(real);
        }
        Err(Denied::OutsideReadableRoots(path.to_owned()))
    }

    /// Looks at its paths now, and not again: what starts a command must not find them changed
    /// from one look to the next, and many checks cost one look.
    #[must_use]
    pub fn settle(mut self) -> Self {
        if self.found.is_none() {
            let (folders, rules) = (self.writable_folders(), self.real_rules());
            // A second look at the folders could find others, and pin what is no writable root.
            let protected = self.protected_in(&folders);
            self.found = Some(Found { folders, rules, protected });
        }
        self
    }

    /// What is protected because of the writable roots. Fails with the reason, for people.
    pub(crate) fn protected_paths(&self) -> Result<ProtectedPaths, String> {
        if let Some(found) = &self.found {
            return found.protected.clone();
        }
        self.protected_in(&self.writable_folders())
    }

    fn protected_in(&self, folders: &[PathBuf]) -> Result<ProtectedPaths, String> {
        // The temporary folders may hold very many entries: they are not searched for other letter
        // cases.
        let named = self.writable.iter().filter(|root| !root.temporary);
        let named: Vec<PathBuf> = named.filter_map(|root| root.path.canonicalize().ok()).collect();
        let guarded = self.guarded.iter().filter_map(|folder| real_path(folder).ok());
        let guarded: Vec<PathBuf> = guarded
            .filter(|folder| folders.iter().any(|root| folder != root && folder.starts_with(root)))
            .collect();
        ProtectedPaths::find(folders, &guarded, |root| named.iter().any(|it| it == root))
            .map_err(|error| error.to_string())
    }

    /// The rules of a profile under their real paths, parents first, each path once.
    pub(crate) fn real_rules(&self) -> Vec<(PathBuf, Access)> {
        if let Some(found) = &self.found {
            return found.rules.clone();
        }
        let rules = self.rules.iter().flatten();
        let written = self.rules.iter().flatten().filter(|(_, access)| *access == Access::Write);
        let writable: Vec<PathBuf> =
            written.filter_map(|(path, _)| path.canonicalize().ok()).collect();
        let real = |(path, access): &(PathBuf, Access)| {
            let grants_more = *access == Access::Write && path.exists();
            let path = match grants_more {
                true => settled(path, &writable)?,
                false => real_path(path).ok()?,
            };
            Some((path, *access))
        };
        let mut real: Vec<(PathBuf, Access)> = rules.filter_map(real).collect();
        real.sort();
        real.dedup_by(|later, kept| later.0 == kept.0);
        real
    }

    /// The rule of a profile that decides about a real path.
    fn decided(&self, real: &Path) -> Option<(PathBuf, Access)> {
        self.rules.as_ref()?;
        self.real_rules().into_iter().rfind(|(path, _)| real.starts_with(path))
    }

    /// The writable roots that exist, with symbolic links resolved, each once, parents first.
    /// A root that does not exist cannot be written: nothing is created for it.
    pub fn writable_folders(&self) -> Vec<PathBuf> {
        if let Some(found) = &self.found {
            return found.folders.clone();
        }
        let given = || self.writable.iter().map(|root| root.path.as_path());
        let all: Vec<PathBuf> = given().filter_map(|root| root.canonicalize().ok()).collect();
        let mut folders: Vec<PathBuf> = given().filter_map(|root| settled(root, &all)).collect();
        folders.sort();
        folders.dedup();
        folders
    }
}

/// Whether a rule that grants writing below `path` says so on purpose: it spells a protected name.
/// One that names something else to which a protected name happens to lead does not.
pub(crate) fn lifts_protection(path: &Path) -> bool {
    path.iter().any(protect::is_protected_name)
}

/// The real path of a root, unless it leads through a symbolic link inside of a writable folder: a
/// command may have put that there, and would choose what the next one can write.
fn settled(given: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let real = given.canonicalize().ok()?;
    let mut links = false;
    for part in given.ancestors() {
        if part.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            links = true;
            let holder = part.parent()?.canonicalize().ok()?;
            if writable.iter().any(|root| holder.starts_with(root)) {
                return None;
            }
        }
    }
    // Without links it is where it says, or it changed just now.
    let plain = given.components().all(|part| part != Component::ParentDir);
    (links || !plain || given.components().eq(real.components())).then_some(real)
}

/// `path` with the symbolic links of everything that exists resolved; the rest is appended.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf, Denied> {
    if !path.is_absolute() {
        return Err(Denied::Relative(path.to_owned()));
    }
    let unresolvable =
        |reason: &str| Denied::Unresolvable { path: path.to_owned(), reason: reason.to_owned() };
    let mut missing: Vec<&std::ffi::OsStr> = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |path, name| path.join(name))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(unresolvable(&e.to_string())),
        }
        if existing.symlink_metadata().is_ok() {
            return Err(unresolvable("it goes through a symbolic link to nowhere"));
        }
        let Some(Component::Normal(name)) = existing.components().next_back() else {
            return Err(unresolvable("it has `..` after a folder that does not exist"));
        };
        missing.push(name);
        let Some(parent) = existing.parent() else {
            return Err(unresolvable("it has no parent folder"));
        };
        existing = parent;
    }
}

/// `path` with the symbolic links on the way to its last component resolved.
pub(crate) fn real_entry(path: &Path) -> Result<PathBuf, Denied> {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok(real_path(parent)?.join(name)),
        _ => real_path(path),
    }
}

fn unconfined(network: bool) -> Resolved {
    Resolved {
        confined: false,
        writable: Vec::new(),
        read: ReadAccess::Full,
        network,
        rules: None,
        guarded: Vec::new(),
        found: None,
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
        guarded: Vec::new(),
        found: None,
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
    fn writes_are_judged_by_the_real_path() {
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
    fn a_protected_name_of_any_root_wins() {
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
    fn a_root_behind_a_link_of_a_command_is_none() {
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
