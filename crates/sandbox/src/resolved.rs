//! A policy on this machine: where its folders lead, and whether it lets a path be read or written.
//! Starts nothing and confines nothing.

use std::path::{Path, PathBuf};

use policy::{Access, ReadAccess, RootedPolicy, SandboxPolicy, WritableRoot};

use crate::error::{Error, ErrorKind};
use crate::platform::PLATFORM_READABLE;
use crate::protect::{ProtectedPaths, lifts_protection};
use crate::real_path::{real_entry, real_path, real_root};

/// A policy with its writable roots listed.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// True if commands are confined: false for full access and for an external sandbox.
    pub confined: bool,
    /// Empty when unconfined or read-only.
    pub writable: Vec<WritableRoot>,
    pub read: ReadAccess,
    pub network: bool,
    /// The rules of a profile; where they are present, `read` has no effect.
    pub rules: Option<Vec<(PathBuf, Access)>>,
    /// See [`crate::Spawn::guarded`].
    pub(crate) guarded: Vec<PathBuf>,
    /// See [`crate::Config::kept`].
    pub(crate) kept: Vec<PathBuf>,
    /// See [`crate::Spawn::granted`].
    pub(crate) granted: Vec<PathBuf>,
    /// Where the roots and the rules lead, once [`Resolved::settle`] has looked.
    pub(crate) settled: Option<Settled>,
}

/// Where a policy's paths led at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    folders: Vec<PathBuf>,
    readable: Vec<(PathBuf, PathBuf)>,
    lapsed: Vec<PathBuf>,
    rules: Vec<(PathBuf, Access)>,
    protected: Result<ProtectedPaths, Error>,
}

impl Resolved {
    /// `tmpdir` is the command's `$TMPDIR`. Reads no file.
    pub fn new(policy: &RootedPolicy, tmpdir: Option<&Path>) -> Self {
        let (read, rules) = match &**policy {
            SandboxPolicy::DangerFullAccess | SandboxPolicy::External { .. } => {
                (ReadAccess::Full, None)
            }
            SandboxPolicy::ReadOnly { read, .. } | SandboxPolicy::WorkspaceWrite { read, .. } => {
                (read.clone(), None)
            }
            SandboxPolicy::Profile { rules, platform_defaults, .. } => {
                let rules = rules.iter().filter(|(path, _)| path.is_absolute());
                let read = rules.clone().filter(|(_, access)| *access == Access::Read);
                let read = ReadAccess::Restricted {
                    platform_defaults: *platform_defaults,
                    roots: read.map(|(path, _)| path.clone()).collect(),
                };
                (read, Some(rules.cloned().collect()))
            }
        };
        Self {
            confined: !policy.is_unconfined(),
            writable: policy.writable_roots(tmpdir),
            read,
            network: policy.network(),
            rules,
            ..Self::default()
        }
    }

    /// Also protects the protected names in `folders`, where these lie in a writable root. The
    /// folders need not exist.
    #[must_use]
    pub fn guarding(self, folders: &[PathBuf]) -> Self {
        Self { guarded: folders.to_vec(), ..self }
    }

    /// Also protects everything in `folders`, where these lie in a writable root, are one, or lead into
    /// one. The folders need not exist. A writable root inside of one stays writable.
    #[must_use]
    pub fn keeping(self, folders: &[PathBuf]) -> Self {
        Self { kept: folders.to_vec(), ..self }
    }

    /// Marks paths of the policy as granted: real paths, each of which permits nothing while it leads
    /// elsewhere.
    #[must_use]
    pub fn granting(self, paths: &[PathBuf]) -> Self {
        Self { granted: paths.to_vec(), ..self }
    }

    /// The granted paths that lead elsewhere, or to nothing, and so permit nothing.
    pub fn lapsed(&self) -> Vec<PathBuf> {
        if let Some(settled) = &self.settled {
            return settled.lapsed.clone();
        }
        let lapsed = |path: &&PathBuf| self.confined && self.led(path).is_none();
        self.granted.iter().filter(lapsed).cloned().collect()
    }

    /// Where a path of the policy leads, with symbolic links resolved. `None`: to nothing, or
    /// elsewhere than when it was granted.
    pub(crate) fn led(&self, path: &Path) -> Option<PathBuf> {
        self.unless_lapsed(path, path.canonicalize().ok()?)
    }

    /// `real`, where `path` leads, unless `path` was granted and led elsewhere then.
    fn unless_lapsed(&self, path: &Path, real: PathBuf) -> Option<PathBuf> {
        let is_granted = self.granted.iter().any(|granted| granted == path);
        (!is_granted || real == path).then_some(real)
    }

    /// Checks that `path`, which need not exist, can be written: its real path must lie in a
    /// writable root and under no protected name of any root. Returns the real path.
    ///
    /// # Errors
    /// The policy denies it, or the path cannot be resolved.
    pub fn check_write(&self, path: &Path) -> Result<PathBuf, Error> {
        self.check_real(path, real_path(path)?)
    }

    /// As [`Resolved::check_write`], for the directory entry itself: a symbolic link as the last
    /// component is not resolved.
    ///
    /// # Errors
    /// As for [`Resolved::check_write`].
    pub fn check_write_entry(&self, path: &Path) -> Result<PathBuf, Error> {
        self.check_real(path, real_entry(path)?)
    }

    fn check_real(&self, path: &Path, real: PathBuf) -> Result<PathBuf, Error> {
        if !self.confined {
            return Ok(real);
        }
        let decided = self.rule_for(&real);
        if decided.as_ref().is_some_and(|(_, access)| *access != Access::Write) {
            return Err(not_writable(path, "the permission profile does not let it be written"));
        }
        let roots: Vec<PathBuf> = self.writable_folders();
        let inside = |root: &&PathBuf| real.starts_with(root);
        if !roots.iter().any(|root| inside(&root)) {
            let sandbox = if roots.is_empty() { "read-only" } else { "workspace-write" };
            return Err(not_writable(path, &format!("sandbox: {sandbox}")));
        }
        let protected_paths = self.protected_paths().map_err(|reason| {
            let message = format!("{} cannot be written: {reason}", path.display());
            Error::new(ErrorKind::Denied, message)
        })?;
        for root in roots.iter().filter(inside) {
            if let Some(protected) = protected_paths.covering(root, &real) {
                let lifts = |rule: &Path| rule.starts_with(&protected) && lifts_protection(rule);
                if decided.as_ref().is_some_and(|(rule, _)| lifts(rule)) {
                    continue;
                }
                let (path, protected) = (path.display(), protected.display());
                let message = format!(
                    "{path} is protected: {protected} stays read-only inside a writable folder"
                );
                return Err(Error::new(ErrorKind::Denied, message));
            }
        }
        Ok(real)
    }

    /// Checks that `path` can be read; returns its real path.
    ///
    /// # Errors
    /// The policy denies it, or the path cannot be resolved.
    pub fn check_read(&self, path: &Path) -> Result<PathBuf, Error> {
        let real = real_path(path)?;
        if let Some((_, access)) = self.rule_for(&real) {
            return match access {
                Access::None => Err(not_readable(path)),
                Access::Read | Access::Write => Ok(real),
            };
        }
        let ReadAccess::Restricted { platform_defaults, .. } = &self.read else {
            return Ok(real);
        };
        let defaults = PLATFORM_READABLE.iter().map(Path::new).filter(|_| *platform_defaults);
        let readable = self.readable_folders().into_iter().map(|(_, real)| real);
        let readable = readable
            .chain(defaults.filter_map(|root| root.canonicalize().ok()))
            .chain(self.writable.iter().filter_map(|root| self.led(&root.path)))
            .any(|root| real.starts_with(root));
        if !self.confined || readable {
            return Ok(real);
        }
        Err(not_readable(path))
    }

    /// Looks at the policy's paths now and never again: between two looks of one start of a command
    /// they could change, and many checks cost one look.
    #[must_use]
    pub fn settle(mut self) -> Self {
        if self.settled.is_none() {
            let (folders, rules) = (self.writable_folders(), self.real_rules());
            let (readable, lapsed) = (self.readable_folders(), self.lapsed());
            // Looking at the folders twice could pin one that is not a writable root.
            let protected = self.protected_in(&folders);
            self.settled = Some(Settled { folders, readable, lapsed, rules, protected });
        }
        self
    }

    /// Returns the paths that the protected names of the writable roots protect.
    pub(crate) fn protected_paths(&self) -> Result<ProtectedPaths, Error> {
        if let Some(settled) = &self.settled {
            return settled.protected.clone();
        }
        self.protected_in(&self.writable_folders())
    }

    fn protected_in(&self, folders: &[PathBuf]) -> Result<ProtectedPaths, Error> {
        // Only what lies in a writable folder needs protection. The kept folders can hold very many
        // entries, so they are not searched for nothing.
        if folders.is_empty() {
            return Ok(ProtectedPaths::default());
        }
        // The temporary folders may hold very many entries, so they are not searched for other
        // letter cases.
        let named = self.writable.iter().filter(|root| !root.temporary);
        let named: Vec<PathBuf> = named.filter_map(|root| self.led(&root.path)).collect();
        let guarded = self.guarded.iter().filter_map(|folder| real_path(folder).ok());
        let guarded: Vec<PathBuf> = guarded
            .filter(|folder| folders.iter().any(|root| folder != root && folder.starts_with(root)))
            .collect();
        let is_named = |root: &Path| named.iter().any(|it| it == root);
        ProtectedPaths::find(folders, &guarded, &self.kept, is_named)
            .map_err(|source| Error::io("looking for protected paths", source))
    }

    /// The rules of a profile under their real paths, parents first, each path once.
    pub(crate) fn real_rules(&self) -> Vec<(PathBuf, Access)> {
        if let Some(settled) = &self.settled {
            return settled.rules.clone();
        }
        let rules = self.rules.iter().flatten();
        let written = self.rules.iter().flatten().filter(|(_, access)| *access == Access::Write);
        let writable: Vec<PathBuf> = written.filter_map(|(path, _)| self.led(path)).collect();
        let real = |(path, access): &(PathBuf, Access)| {
            let grants_more = *access == Access::Write && path.exists();
            let real = match grants_more {
                true => real_root(path, &writable)?,
                false => real_path(path).ok()?,
            };
            Some((self.unless_lapsed(path, real)?, *access))
        };
        let mut real: Vec<(PathBuf, Access)> = rules.filter_map(real).collect();
        real.sort();
        real.dedup_by(|later, kept| later.0 == kept.0);
        real
    }

    /// The rule of a profile that applies to a real path.
    fn rule_for(&self, real: &Path) -> Option<(PathBuf, Access)> {
        self.rules.as_ref()?;
        self.real_rules().into_iter().rfind(|(path, _)| real.starts_with(path))
    }

    /// The real paths of the writable roots, each once, parents first. A root that does not exist
    /// is left out: nothing is created for it.
    pub fn writable_folders(&self) -> Vec<PathBuf> {
        if let Some(settled) = &self.settled {
            return settled.folders.clone();
        }
        let given = || self.writable.iter().map(|root| root.path.as_path());
        let all: Vec<PathBuf> = given().filter_map(|root| self.led(root)).collect();
        let real = |root: &Path| self.unless_lapsed(root, real_root(root, &all)?);
        let mut folders: Vec<PathBuf> = given().filter_map(real).collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// The readable roots that exist, each with its real path.
    pub(crate) fn readable_folders(&self) -> Vec<(PathBuf, PathBuf)> {
        if let Some(settled) = &self.settled {
            return settled.readable.clone();
        }
        let ReadAccess::Restricted { roots, .. } = &self.read else { return Vec::new() };
        let real = |root: &PathBuf| Some((root.clone(), self.led(root)?));
        roots.iter().filter_map(real).collect()
    }
}

fn not_writable(path: &Path, why: &str) -> Error {
    let message = format!("{} is not in a writable folder ({why})", path.display());
    Error::new(ErrorKind::Denied, message)
}

fn not_readable(path: &Path) -> Error {
    let message = format!("{} is not in a readable folder of the sandbox", path.display());
    Error::new(ErrorKind::Denied, message)
}

#[cfg(test)]
mod tests;
