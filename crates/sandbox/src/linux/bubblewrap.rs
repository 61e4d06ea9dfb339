//! The options that make bubblewrap enforce a policy: separate namespaces without capabilities, the
//! file system read-only or only in part, writable roots writable, and protected names read-only.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use policy::{Access, ReadAccess};

use crate::platform::PLATFORM_READABLE;
use crate::protect::{self, Protection};
use crate::resolved::Resolved;

/// Options of every confined command. No `--new-session`: the command already has its own session,
/// with its own terminal if any, before bubblewrap starts.
const ISOLATION: [&str; 7] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
];

/// The options for `resolved`, whose writable roots have this `protection`. `read_only` are the
/// paths to mount read-only: existing ones and held placeholders.
pub(crate) fn options(
    resolved: &Resolved,
    protection: &Protection,
    read_only: &[PathBuf],
    cwd: &Path,
    env: &[(OsString, OsString)],
) -> io::Result<Vec<Vec<u8>>> {
    let mut options = Options(ISOLATION.iter().map(|option| option.as_bytes().to_vec()).collect());
    if !resolved.network {
        options.flag("--unshare-net");
    }
    if resolved.rules.is_some() {
        options.profile(resolved, protection, read_only)?;
    } else {
        let all_writable = protection.roots.first().is_some_and(|root| root == Path::new("/"));
        options.base(resolved, all_writable && !is_frozen(protection, Path::new("/")));
        options.writable(protection)?;
        // Parents come first, and are mounted with everything below them.
        let mut outermost: Option<&Path> = None;
        for path in read_only {
            if !outermost.is_some_and(|parent| path.starts_with(parent)) {
                outermost = Some(path);
                options.mount("--ro-bind", path);
            }
        }
    }
    options.flag("--chdir");
    options.0.push(cwd.as_os_str().as_bytes().to_vec());
    for (name, value) in env {
        options.flag("--setenv");
        options.0.extend([name, value].map(|part| part.as_bytes().to_vec()));
    }
    Ok(options.0)
}

struct Options(Vec<Vec<u8>>);

impl Options {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.as_bytes().to_vec());
    }

    fn mount(&mut self, kind: &str, path: impl AsRef<OsStr>) {
        self.pair(kind, path.as_ref(), path.as_ref());
    }

    fn pair(&mut self, kind: &str, from: &OsStr, to: &OsStr) {
        self.flag(kind);
        self.0.extend([from, to].map(|path| path.as_bytes().to_vec()));
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
        match whole.map(|(_, access)| *access) {
            Some(Access::Write) if !is_frozen(protection, Path::new("/")) => {
                self.mount("--bind", "/");
            }
            Some(Access::Write | Access::Read) => self.mount("--ro-bind", "/"),
            Some(Access::None) | None => {}
        }
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
                (Access::Read, Ok(_)) => self.mount("--ro-bind-try", path),
                (Access::Write, Ok(_)) => self.mount("--bind-try", path),
                (Access::None, Ok(meta)) if meta.is_dir() => {
                    self.flag("--tmpfs");
                    self.flag_path(path);
                    hidden.push(path);
                }
                // Replaces a hidden file by an empty read-only one.
                (Access::None, Ok(_)) => {
                    self.pair("--ro-bind", "/dev/null".as_ref(), path.as_ref());
                }
            }
        }
        for path in hidden {
            self.flag("--remount-ro");
            self.flag_path(path);
        }
        for (kind, path) in [("--proc", "/proc"), ("--remount-ro", "/proc"), ("--dev", "/dev")] {
            self.flag(kind);
            self.flag(path);
        }
        if whole.is_some_and(|(_, access)| *access == Access::Write) {
            self.mount("--ro-bind-try", "/sys");
        }
        for (path, real) in self.given_links(resolved, whole.is_some()) {
            self.pair("--symlink", real.as_os_str(), path.as_os_str());
        }
        Ok(())
    }

    /// Rules that name a symbolic link which the sandbox's file system does not have.
    fn given_links(&self, resolved: &Resolved, has_root: bool) -> Vec<(PathBuf, PathBuf)> {
        let rules = resolved.rules.iter().flatten().filter(|_| !has_root);
        rules
            .filter(|(_, access)| *access != Access::None)
            .filter_map(|(path, _)| Some((path.clone(), resolved.led(path)?)))
            .filter(|(path, real)| path != real)
            .collect()
    }

    fn flag_path(&mut self, path: &Path) {
        self.0.push(path.as_os_str().as_bytes().to_vec());
    }

    /// The file system before writable mounts.
    fn base(&mut self, resolved: &Resolved, all_writable: bool) {
        match &resolved.read {
            ReadAccess::Full => self.mount(if all_writable { "--bind" } else { "--ro-bind" }, "/"),
            ReadAccess::Restricted { platform_defaults, .. } => {
                if *platform_defaults {
                    PLATFORM_READABLE.iter().for_each(|path| self.mount("--ro-bind-try", path));
                }
                for (root, real) in resolved.readable_folders() {
                    self.mount("--ro-bind-try", &root);
                    // Working folders are entered by their real paths.
                    if real != root {
                        self.mount("--ro-bind-try", &real);
                    }
                }
            }
        }
        // Read-only, because root without capabilities still owns the settings in /proc/sys.
        for (kind, path) in [("--proc", "/proc"), ("--remount-ro", "/proc"), ("--dev", "/dev")] {
            self.flag(kind);
            self.flag(path);
        }
        if all_writable {
            self.mount("--ro-bind-try", "/sys");
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
            if let Some(real) = real {
                self.pair("--symlink", real.as_os_str(), root.path.as_os_str());
            }
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
                None => self.mount("--bind", folder),
                Some(entries) => {
                    if !is_whole {
                        self.mount("--ro-bind", folder);
                    }
                    // An entry that was deleted in the meantime is skipped.
                    entries.iter().for_each(|entry| self.mount("--bind-try", entry));
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

    fn text(options: Vec<Vec<u8>>) -> String {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        options.into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn read_only() {
        let policy = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: true };
        let resolved = Resolved::new(&policy.rooted(Path::new("/")), None);
        let env = [("A".into(), "b c".into())];
        let none = Protection::default();
        let options = options(&resolved, &none, &[], Path::new("/w"), &env).unwrap();
        let expect = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --die-with-parent \
             --cap-drop ALL --ro-bind / / --proc /proc --remount-ro /proc --dev /dev --chdir /w --setenv A b c";
        assert_eq!(text(options), expect);
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
        let read_only = &protection.read_only;
        let options = options(&resolved, &protection, read_only, &base, &[]).unwrap();
        let text = text(options).replace(base.to_str().unwrap(), "");
        let mounts = text.split("--dev /dev ").nth(1).unwrap();
        assert!(text.contains("--unshare-net"));
        let expect = "--bind /a /a --bind /a/b /a/b --bind /a/b/c /a/b/c \
                      --ro-bind /a/b/c/.git /a/b/c/.git --chdir ";
        assert_eq!(mounts, expect);
    }
}
