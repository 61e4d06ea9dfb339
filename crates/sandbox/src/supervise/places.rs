//! Which files a command may change or read, by their real paths.

use std::path::{Path, PathBuf};

use policy::Access;

use crate::protect::{Protection, is_protected_name};
use crate::resolved::Resolved;

/// The places of a policy, as real paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The writable folders.
    pub(crate) roots: Vec<PathBuf>,
    /// Nothing at or below these changes, whether or not they exist.
    pub(crate) protected: Vec<PathBuf>,
    /// Folders in which no entry is added or removed.
    pub(crate) frozen: Vec<PathBuf>,
    /// Folders that are neither renamed nor removed.
    pub(crate) pins: Vec<PathBuf>,
    /// The rules of a profile about reading, parents first. Empty: the supervisor is not asked about reading.
    pub(crate) readable: Vec<(PathBuf, Access)>,
}

impl Places {
    pub(crate) fn new(resolved: &Resolved, protection: &Protection) -> Self {
        let rules = resolved.real_rules();
        let is_hidden = |(path, access): &(PathBuf, Access)| {
            let above = rules.iter().rfind(|(rule, _)| rule != path && path.starts_with(rule));
            *access == Access::None && above.is_some_and(|(_, access)| *access != Access::None)
        };
        // Without a hidden path, Landlock decides about reading.
        let readable = if rules.iter().any(is_hidden) { rules.clone() } else { Vec::new() };
        Self {
            roots: protection.roots.clone(),
            protected: protection.protected(),
            frozen: protection.frozen.clone(),
            pins: protection.pins.clone(),
            readable,
        }
    }

    /// Returns whether the contents and the attributes of a file may change.
    pub(crate) fn may_change(&self, path: &Path) -> bool {
        let above = self.roots.iter().filter(|root| path.starts_with(root));
        let Some(root) = above.max_by_key(|root| root.as_os_str().len()) else { return false };
        let first = path.strip_prefix(root).ok().and_then(|rest| rest.iter().next());
        !first.is_some_and(is_protected_name)
            && !self.protected.iter().any(|protected| is_at_or_below(path, protected))
    }

    /// Returns whether an entry may be added, replaced or removed.
    pub(crate) fn may_name(&self, path: &Path) -> bool {
        let is = |list: &[PathBuf], path: &Path| list.iter().any(|listed| listed == path);
        self.may_change(path)
            && !is(&self.roots, path)
            && !is(&self.pins, path)
            && path.parent().is_some_and(|folder| {
                !is(&self.frozen, folder) && self.roots.iter().any(|root| folder.starts_with(root))
            })
    }

    /// Returns whether a file may be read. Names that differ from a hidden path in letter case alone could be that path.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        let devices = Path::new("/dev");
        let decided = self.readable.iter().rfind(|(rule, _)| path.starts_with(rule));
        // Only a rule about them grants the machine's devices, and memory that others share.
        let may_read = |(rule, access): &(PathBuf, Access)| {
            *access != Access::None && (rule.starts_with(devices) || !path.starts_with(devices))
        };
        let is_hidden = |(rule, access): &(PathBuf, Access)| {
            *access == Access::None && is_at_or_below(path, rule) && !path.starts_with(rule)
        };
        decided.is_some_and(may_read) && !self.readable.iter().any(is_hidden)
    }
}

/// As `path.starts_with(protected)` on a file system that ignores case, which this could be.
fn is_at_or_below(path: &Path, protected: &Path) -> bool {
    let mut path = path.iter();
    protected.iter().all(|part| path.next().is_some_and(|found| found.eq_ignore_ascii_case(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    fn places() -> Places {
        Places {
            roots: paths(&["/w", "/w/a/inner", "/tmp"]),
            protected: paths(&["/w/.git", "/w/.agent", "/w/store/git"]),
            frozen: paths(&["/tmp"]),
            pins: paths(&["/w/a", "/w/store"]),
            readable: vec![
                ("/".into(), Access::Read),
                ("/w".into(), Access::Write),
                ("/w/secret".into(), Access::None),
                ("/w/secret/open".into(), Access::Read),
            ],
        }
    }

    #[test]
    fn contents_and_names() {
        for (path, contents, name) in [
            ("/w", true, false),
            ("/w/new", true, true),
            ("/w/sub/.git", true, true),
            ("/w/.git", false, false),
            ("/w/.git/config", false, false),
            ("/w/.GIT/config", false, false),
            ("/w/.Agent", false, false),
            ("/w/.gitignore", true, true),
            ("/w/a", true, false),
            ("/w/a/x", true, true),
            ("/w/a/inner", true, false),
            ("/w/a/inner/.git", false, false),
            ("/w/store", true, false),
            ("/w/store/git/hooks", false, false),
            ("/w/store/GIT", false, false),
            ("/w/store/gitx", true, true),
            ("/tmp/x", true, false),
            ("/tmp/x/y", true, true),
            ("/wx", false, false),
            ("/", false, false),
        ] {
            let path = Path::new(path);
            let found = (places().may_change(path), places().may_name(path));
            assert_eq!(found, (contents, name), "{}", path.display());
        }
    }

    #[test]
    fn the_deepest_rule_decides_about_reading() {
        for (path, expect) in [
            ("/etc/passwd", true),
            ("/w/x", true),
            ("/w/secret", false),
            ("/w/secret/x", false),
            ("/w/secret/open/x", true),
            ("/w/SECRET/x", false),
            ("/dev/shm/x", false),
            ("/device", true),
        ] {
            assert_eq!(places().may_read(Path::new(path)), expect, "{path}");
        }
        assert!(!Places::default().may_read(Path::new("/etc")));
    }
}
