//! Folders that the model requests permissions for: their real paths, and which can never be
//! granted. The folders are looked at once for the question and once more for the grant.

use std::path::{Path, PathBuf};

use policy::PROTECTED_NAMES;
use sandbox::Resolved;
use session::{Access, Grant, Permissions, SandboxPolicy, Settings};

use services::allowed::check_grantable;
use services::error::Error;
use services::options::Options;

/// File systems of the kernel: the sandbox makes its own.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The facts that a request is checked against.
pub(super) struct PermissionChecks<'a> {
    pub(super) options: &'a Options,
    pub(super) config: &'a config::Config,
    pub(super) settings: &'a Settings,
    /// The policy in force.
    pub(super) policy: Resolved,
}

/// Access to a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requested {
    Read,
    Write,
}

impl PermissionChecks<'_> {
    /// The real paths of the folders that the policy does not include yet.
    ///
    /// # Errors
    /// What can never be granted, and what to ask for instead.
    pub(super) fn missing(
        &self,
        read: &[String],
        write: &[String],
        network: bool,
    ) -> Result<Permissions, Error> {
        let mut missing = Permissions::default();
        for folder in write {
            let real = self.real_folder(folder, Requested::Write)?;
            if self.policy.check_write(&real).is_err() && !missing.write.contains(&real) {
                missing.write.push(real);
            }
        }
        for folder in read {
            let real = self.real_folder(folder, Requested::Read)?;
            let is_known = missing.read.contains(&real) || missing.write.contains(&real);
            if self.policy.check_read(&real).is_err() && !is_known {
                missing.read.push(real);
            }
        }
        let is_managed =
            matches!(self.settings.sandbox, SandboxPolicy::Profile { managed: true, .. });
        if network && is_managed {
            return Err(Error::denied(
                "the network of this thread is managed: hosts that are not allowed are asked about \
                 when a command reaches for them, so run the command",
            ));
        }
        missing.network = network && !self.policy.network;
        if !missing.is_empty() {
            check_grantable(&missing, &self.settings.sandbox, self.config, &self.settings.cwd)?;
        }
        Ok(missing)
    }

    /// Checks that the folders of a grant are what they were when the user was asked.
    ///
    /// # Errors
    /// One has changed, or can no longer be granted.
    pub(super) fn check(&self, grant: &Grant) -> Result<(), Error> {
        let Permissions { read, write, network: _ } = &grant.permissions;
        let read = read.iter().map(|path| (path, Requested::Read));
        let write = write.iter().map(|path| (path, Requested::Write));
        for (path, access) in read.chain(write) {
            if self.real(path, access)? != *path {
                return Err(Error::denied(format!(
                    "{} leads elsewhere than when the user was asked; ask again",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    fn real_folder(&self, named: &str, access: Requested) -> Result<PathBuf, Error> {
        if named.trim().is_empty() {
            return Err(Error::denied("a folder without a name cannot be granted"));
        }
        self.real(&self.settings.cwd.join(named), access)
    }

    fn real(&self, path: &Path, access: Requested) -> Result<PathBuf, Error> {
        let shown = path.display();
        let real = path.canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::denied(format!(
                "{shown} does not exist; ask for a folder that does, such as the one that will hold it"
            )),
            _ => Error::denied(format!("{shown} cannot be resolved: {error}")),
        })?;
        if !real.is_dir() {
            return Err(Error::denied(format!(
                "{shown} is not a folder; ask for the folder that holds it"
            )));
        }
        if let Some(why) = self.never(&real, access) {
            let led = if real == path { String::new() } else { format!(" ({})", real.display()) };
            return Err(Error::denied(format!("{shown}{led} cannot be granted: {why}")));
        }
        Ok(real)
    }

    /// Why a folder can never be granted.
    fn never(&self, real: &Path, access: Requested) -> Option<String> {
        if real == Path::new("/") {
            return Some("it is the whole file system; ask for a folder".to_owned());
        }
        let overlaps = |folder: &Path| {
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            real.starts_with(&folder) || folder.starts_with(real)
        };
        if overlaps(&self.options.home) {
            return Some("it is, holds or is part of the agent's own home".to_owned());
        }
        if overlaps(&self.config.sqlite_home) || overlaps(&self.config.log_dir) {
            return Some("it is, holds or is part of the folder of the database or log".to_owned());
        }
        if overlaps(&self.options.system_dir) {
            return Some("it is, holds or is part of the administrator's folder".to_owned());
        }
        if KERNEL.iter().any(|folder| real.starts_with(folder)) {
            return Some("it belongs to the kernel".to_owned());
        }
        let is_protected = |name: &std::ffi::OsStr| {
            PROTECTED_NAMES.iter().any(|protected| name.eq_ignore_ascii_case(protected))
        };
        if access == Requested::Write && real.iter().any(is_protected) {
            let names = PROTECTED_NAMES.join("` and `");
            return Some(format!("`{names}` stay read-only"));
        }
        self.is_hidden(real).then(|| "the permission profile hides it".to_owned())
    }

    /// Returns whether the deepest rule of a profile that covers the path hides it.
    fn is_hidden(&self, real: &Path) -> bool {
        let SandboxPolicy::Profile { rules, .. } = &self.settings.sandbox else { return false };
        let real_rule = |(path, access): &(PathBuf, Access)| {
            (path.canonicalize().unwrap_or_else(|_| path.clone()), *access)
        };
        let covering = rules.iter().map(real_rule).filter(|(path, _)| real.starts_with(path));
        let deepest = covering.max_by_key(|(path, _)| path.components().count());
        deepest.is_some_and(|(_, access)| access == Access::None)
    }
}
