//! File systems whose changes inotify does not report, because they happen elsewhere: on a server, in another
//! program, or in the kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Types of file systems that change elsewhere, as the kernel names them. A type that begins with `fuse.` belongs
/// to them too.
const REMOTE: &[&str] = &[
    "9p", "afs", "ceph", "cifs", "coda", "fuse", "gfs2", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
    "smb3", "smbfs", "vboxsf", "virtiofs",
];
/// Types whose entries are made when they are looked at.
const VIRTUAL: &[&str] = &["autofs", "proc", "sysfs"];

/// The method of finding changes in a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They are reported.
    Local,
    /// By examination.
    Remote,
    /// By examination, but only of a path that is named. Looking through all of it shows changes without
    /// an end, or mounts what is not in use.
    Virtual,
}

/// Where file systems are mounted, from the outermost to those on top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Vec<(PathBuf, Kind)>);

impl Mounts {
    /// Those of this process. Asks no file system, so it does not wait for one. Without `/proc`, none.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(table: &[u8]) -> Self {
        Self(table.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
    }

    /// The kind of file system that `path`, which has no links, is on.
    pub(crate) fn kind(&self, path: &Path) -> Kind {
        // A later line of the same depth is mounted over an earlier one.
        let above = self.0.iter().filter(|(at, _)| path.starts_with(at));
        above.max_by_key(|(at, _)| at.as_os_str().len()).map_or(Kind::Local, |(_, kind)| *kind)
    }

    /// The outermost folders below `root` where a file system begins whose changes are not reported.
    pub(crate) fn unreported_below(&self, root: &Path) -> Vec<(PathBuf, Kind)> {
        let below =
            self.0.iter().map(|(at, _)| at).filter(|at| at.starts_with(root) && *at != root);
        let mut found: Vec<_> = below.map(|at| (at.clone(), self.kind(at))).collect();
        found.retain(|(_, kind)| *kind != Kind::Local);
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut outermost = Vec::<(PathBuf, Kind)>::new();
        for (at, kind) in found {
            if outermost.last().is_none_or(|(last, _)| !at.starts_with(last)) {
                outermost.push((at, kind));
            }
        }
        outermost
    }
}

/// `36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw`: the fifth field is the place,
/// the one after the hyphen the type.
fn parse_line(line: &[u8]) -> Option<(PathBuf, Kind)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = unescaped(fields.nth(4)?);
    let name = fields.skip_while(|field| *field != b"-").nth(1)?;
    let is_one_of = |names: &[&str]| names.iter().any(|one| one.as_bytes() == name);
    let kind = if name.starts_with(b"fuse.") || is_one_of(REMOTE) {
        Kind::Remote
    } else if is_one_of(VIRTUAL) {
        Kind::Virtual
    } else {
        Kind::Local
    };
    Some((at, kind))
}

/// The kernel writes white space and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    #[cfg(unix)]
    let text = std::os::unix::ffi::OsStringExt::from_vec(bytes);
    #[cfg(not(unix))]
    let text = OsString::from(String::from_utf8_lossy(&bytes).into_owned());
    let text: OsString = text;
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw shared:1 - proc proc rw
24 22 0:6 / /home/me/far\\040away rw shared:2 master:3 - fuse.sshfs host rw
25 24 0:7 / /home/me/far\\040away/local rw - tmpfs tmpfs rw
26 24 0:8 / /home/me/far\\040away/nfs rw - nfs4 host:/ rw
27 22 0:9 / /home/me/over rw - nfs host:/ rw
28 27 0:9 / /home/me/over rw - tmpfs tmpfs rw
broken
";

    #[test]
    fn the_innermost_mount_decides() {
        let mounts = Mounts::parse(TABLE.as_bytes());
        for (path, kind) in [
            ("/", Kind::Local),
            ("/proc/1", Kind::Virtual),
            ("/procession", Kind::Local),
            ("/home/me", Kind::Local),
            ("/home/me/far away", Kind::Remote),
            ("/home/me/far away/x/y", Kind::Remote),
            ("/home/me/far away/local/x", Kind::Local),
            ("/home/me/over/x", Kind::Local),
        ] {
            assert_eq!(mounts.kind(Path::new(path)), kind, "{path}");
        }
        let far = PathBuf::from("/home/me/far away");
        let (remote, proc) = ((far.clone(), Kind::Remote), ("/proc".into(), Kind::Virtual));
        for (root, expected) in [
            ("/home", vec![remote.clone()]),
            ("/", vec![remote, proc]),
            ("/home/me/far away", vec![(far.join("nfs"), Kind::Remote)]),
        ] {
            assert_eq!(mounts.unreported_below(Path::new(root)), expected, "{root}");
        }
        assert!(Mounts::default().unreported_below(Path::new("/")).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_table_is_trouble(table: Vec<u8>, field: Vec<u8>) {
            Mounts::parse(&table);
            unescaped(&field);
        }
    }
}
