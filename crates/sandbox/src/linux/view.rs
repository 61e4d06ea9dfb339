//! The file system that a confined command sees under a policy: read-only or only in part, writable roots
//! writable, and protected names read-only. Decides about it; [`super::mounts`] makes it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use policy::{Access, ReadAccess};

use crate::platform::PLATFORM_READABLE;
use crate::protect::{self, Protection};
use crate::resolved::Resolved;

/// The file system of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The access to the whole file system, where that is there before the steps. Otherwise they begin with an empty
    /// folder.
    pub(crate) whole: Option<Writable>,
    /// In this order: later ones cover earlier ones.
    pub(crate) steps: Vec<Step>,
}

/// True if a mount is writable.
pub(crate) type Writable = bool;

/// A step that makes the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A file or folder of the machine appears at its own path, with everything mounted below it.
    Show { path: PathBuf, writable: Writable, missing: Missing },
    /// An empty writable folder.
    Empty(PathBuf),
    /// A file that cannot be opened appears in the place of another file.
    Cover(PathBuf),
    /// A folder of [`Step::Empty`] becomes read-only.
    Freeze(PathBuf),
    /// `/proc` with the processes of the sandbox, read-only: root without capabilities still owns the settings
    /// in `/proc/sys`.
    Processes,
    /// `/dev` with the devices that every command can use.
    Devices,
    /// A symbolic link.
    Link { at: PathBuf, to: PathBuf },
}

/// The treatment of a step whose path has gone meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The command does not start.
    Refused,
    /// The step is left out.
    Skipped,
}

impl View {
    /// The file system for `resolved`, whose writable roots have this `protection`. `read_only` are the paths to
    /// mount read-only: existing ones and held placeholders.
    ///
    /// # Errors
    /// A frozen folder cannot be listed.
    pub(crate) fn new(
        resolved: &Resolved,
        protection: &Protection,
        read_only: &[PathBuf],
    ) -> io::Result<Self> {
        let mut view = Self::default();
        if resolved.rules.is_some() {
            view.profile(resolved, protection, read_only)?;
            return Ok(view);
        }
        let all_writable = protection.roots.first().is_some_and(|root| root == Path::new("/"));
        view.base(resolved, all_writable && !is_frozen(protection, Path::new("/")));
        view.writable(protection)?;
        // Parents come first, and are mounted with everything below them.
        let mut outermost: Option<&Path> = None;
        for path in read_only {
            if !outermost.is_some_and(|parent| path.starts_with(parent)) {
                outermost = Some(path);
                view.show(path, false, Missing::Refused);
            }
        }
        Ok(view)
    }

    fn show(&mut self, path: &Path, writable: Writable, missing: Missing) {
        self.steps.push(Step::Show { path: path.to_owned(), writable, missing });
    }

    /// The file system of a profile: one mount per rule, parents first, so that the deepest
    /// applies.
    fn profile(
        &mut self,
        resolved: &Resolved,
        protection: &Protection,
        read_only: &[PathBuf],
    ) -> io::Result<()> {
        let mut rules = resolved.real_rules();
        for (path, access) in &mut rules {
            if *access == Access::Write && path.exists() && !protection.roots.contains(path) {
                *access = Access::Read;
            }
        }
        let whole = rules.first().filter(|(path, _)| path == Path::new("/"));
        self.whole = match whole.map(|(_, access)| *access) {
            Some(Access::Write) => Some(!is_frozen(protection, Path::new("/"))),
            Some(Access::Read) => Some(false),
            Some(Access::None) | None => None,
        };
        let frozen = frozen_entries(protection)?;
        let mut mounts: BTreeMap<&Path, Access> = BTreeMap::new();
        let defaults =
            matches!(resolved.read, ReadAccess::Restricted { platform_defaults: true, .. });
        if defaults && whole.is_none() {
            mounts.extend(PLATFORM_READABLE.iter().map(|path| (Path::new(path), Access::Read)));
        }
        // A pin prevents renaming a folder; the access to its contents does not change.
        for pin in &protection.pins {
            let decided = rules.iter().rfind(|(path, _)| pin.starts_with(path));
            mounts.extend(decided.map(|(_, access)| (pin.as_path(), *access)));
        }
        for (_, entries) in &frozen {
            mounts.extend(entries.iter().filter_map(|entry| {
                let (_, access) = rules.iter().rfind(|(path, _)| entry.starts_with(path))?;
                (*access == Access::Write).then_some((entry.as_path(), Access::Write))
            }));
        }
        mounts.extend(read_only.iter().map(|path| (path.as_path(), Access::Read)));
        mounts.extend(
            rules.iter().skip(usize::from(whole.is_some())).map(|(p, a)| (p.as_path(), *a)),
        );
        for (folder, _) in frozen.iter().filter(|(folder, _)| *folder != Path::new("/")) {
            mounts.entry(folder).and_modify(|access| *access = (*access).min(Access::Read));
        }
        let mut hidden = Vec::new();
        for (path, access) in mounts {
            let exists = path.symlink_metadata();
            match (access, exists) {
                (_, Err(_)) => {}
                (Access::Read, Ok(_)) => self.show(path, false, Missing::Skipped),
                (Access::Write, Ok(_)) => self.show(path, true, Missing::Skipped),
                (Access::None, Ok(meta)) if meta.is_dir() => {
                    self.steps.push(Step::Empty(path.to_owned()));
                    hidden.push(Step::Freeze(path.to_owned()));
                }
                (Access::None, Ok(_)) => self.steps.push(Step::Cover(path.to_owned())),
            }
        }
        self.steps.extend(hidden);
        self.steps.extend([Step::Processes, Step::Devices]);
        if whole.is_some_and(|(_, access)| *access == Access::Write) {
            self.show(Path::new("/sys"), false, Missing::Skipped);
        }
        self.given_links(resolved, whole.is_some());
        Ok(())
    }

    /// Rules that name a symbolic link which the sandbox's file system does not have.
    fn given_links(&mut self, resolved: &Resolved, has_root: bool) {
        let rules = resolved.rules.iter().flatten().filter(|_| !has_root);
        let links = rules
            .filter(|(_, access)| *access != Access::None)
            .filter_map(|(path, _)| Some((path.clone(), resolved.led(path)?)))
            .filter(|(path, real)| path != real);
        self.steps.extend(links.map(|(at, to)| Step::Link { at, to }));
    }

    /// The file system before writable mounts.
    fn base(&mut self, resolved: &Resolved, all_writable: bool) {
        match &resolved.read {
            ReadAccess::Full => self.whole = Some(all_writable),
            ReadAccess::Restricted { platform_defaults, .. } => {
                if *platform_defaults {
                    for path in PLATFORM_READABLE {
                        self.show(Path::new(path), false, Missing::Skipped);
                    }
                }
                for (root, real) in resolved.readable_folders() {
                    self.show(&root, false, Missing::Skipped);
                    // Working folders are entered by their real paths.
                    if real != root {
                        self.show(&real, false, Missing::Skipped);
                    }
                }
            }
        }
        self.steps.extend([Step::Processes, Step::Devices]);
        if all_writable {
            self.show(Path::new("/sys"), false, Missing::Skipped);
        }
        self.links(resolved);
    }

    /// With restricted reads, a writable root is mounted only under its real path; a symbolic link
    /// leads there from the configured path.
    fn links(&mut self, resolved: &Resolved) {
        if resolved.read == ReadAccess::Full {
            return;
        }
        for root in &resolved.writable {
            let real = resolved.led(&root.path).filter(|real| *real != root.path);
            self.steps.extend(real.map(|to| Step::Link { at: root.path.clone(), to }));
        }
    }

    /// The writable roots, and the folders in them that must not be renamed.
    fn writable(&mut self, protection: &Protection) -> io::Result<()> {
        let frozen: BTreeMap<&Path, Vec<PathBuf>> =
            frozen_entries(protection)?.into_iter().collect();
        let mut folders: Vec<&PathBuf> = protection.roots.iter().chain(&protection.pins).collect();
        folders.sort();
        for folder in folders {
            let is_whole = folder == Path::new("/");
            match frozen.get(folder.as_path()) {
                // The root of the file system is already mounted.
                None if is_whole => {}
                None => self.show(folder, true, Missing::Refused),
                Some(entries) => {
                    if !is_whole {
                        self.show(folder, false, Missing::Refused);
                    }
                    // An entry that was deleted in the meantime is skipped.
                    entries.iter().for_each(|entry| self.show(entry, true, Missing::Skipped));
                }
            }
        }
        Ok(())
    }
}

fn is_frozen(protection: &Protection, folder: &Path) -> bool {
    protection.frozen.iter().any(|frozen| frozen == folder)
}

/// The frozen folders, each with its writable entries.
fn frozen_entries(protection: &Protection) -> io::Result<Vec<(&Path, Vec<PathBuf>)>> {
    /// Mounted separately, or never written, if the whole file system is a root.
    const SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];
    let protected = protection.protected();
    let entries = |folder: &Path| -> io::Result<Vec<PathBuf>> {
        let mut entries = protect::grantable_entries(folder, &protected)?;
        entries.retain(|entry| !SYSTEM.iter().any(|system| entry == Path::new(system)));
        Ok(entries)
    };
    let frozen = protection.frozen.iter().map(PathBuf::as_path);
    frozen.map(|folder| Ok((folder, entries(folder)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::SandboxPolicy;

    fn shown(path: &Path, writable: Writable) -> Step {
        Step::Show { path: path.to_owned(), writable, missing: Missing::Refused }
    }

    #[test]
    fn read_only() {
        let policy = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: true };
        let resolved = Resolved::new(&policy.rooted(Path::new("/")), None);
        let view = View::new(&resolved, &Protection::default(), &[]).unwrap();
        let steps = vec![Step::Processes, Step::Devices];
        assert_eq!(view, View { whole: Some(false), steps });
    }

    #[test]
    fn parents_are_mounted_first_and_protected_names_last() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b/c/.git")).unwrap();
        let policy = SandboxPolicy::WorkspaceWrite {
            writable_roots: vec![base.join("a/b/c"), base.join("a")],
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        };
        let resolved = Resolved::new(&policy.rooted(&base), None);
        let found = resolved.protected_paths().unwrap();
        let protection = Protection::of(&resolved.writable_folders(), &found);
        let view = View::new(&resolved, &protection, &protection.read_only).unwrap();
        let mut steps = vec![Step::Processes, Step::Devices];
        steps.extend(["a", "a/b", "a/b/c"].map(|path| shown(&base.join(path), true)));
        steps.push(shown(&base.join("a/b/c/.git"), false));
        assert_eq!(view, View { whole: Some(false), steps });
    }
}
