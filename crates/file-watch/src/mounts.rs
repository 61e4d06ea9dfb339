//! File systems whose changes inotify does not report, because they happen elsewhere: on a server, in another
//! program, or in the kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Types of file systems, as the kernel names them. A type that begins with `fuse.` belongs to them too.
const UNREPORTED: &[&str] = &[
    "9p", "afs", "autofs", "ceph", "cifs", "coda", "fuse", "gfs2", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "proc", "smb3", "smbfs", "sysfs", "vboxsf", "virtiofs",
];

/// Where file systems are mounted, from the outermost to those on top, and whether inotify reports their
/// changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Vec<(PathBuf, bool)>);

impl Mounts {
    /// Those of this process. Asks no file system, so it does not wait for one. Without `/proc`, none.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(table: &[u8]) -> Self {
        Self(table.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
    }

    /// Whether `path`, which has no links, is on a file system whose changes are not reported.
    pub(crate) fn is_unreported(&self, path: &Path) -> bool {
        // A later line of the same depth is mounted over an earlier one.
        let above = self.0.iter().filter(|(at, _)| path.starts_with(at));
        above.max_by_key(|(at, _)| at.as_os_str().len()).is_some_and(|(_, reported)| !reported)
    }

    /// The outermost folders below `root` where a file system begins whose changes are not reported.
    pub(crate) fn unreported_below(&self, root: &Path) -> Vec<PathBuf> {
        let below = self.0.iter().filter(|(at, _)| at.starts_with(root) && at != root);
        let mut found: Vec<_> =
            below.map(|(at, _)| at).filter(|at| self.is_unreported(at)).collect();
        found.sort_unstable();
        found.dedup();
        let mut outermost = Vec::<PathBuf>::new();
        for at in found {
            if outermost.last().is_none_or(|last| !at.starts_with(last)) {
                outermost.push(at.clone());
            }
        }
        outermost
    }
}

/// `36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw`: the fifth field is the place,
/// the one after the hyphen the type.
fn parse_line(line: &[u8]) -> Option<(PathBuf, bool)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = unescaped(fields.nth(4)?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let unreported = kind.starts_with(b"fuse.")
        || UNREPORTED.iter().any(|unreported| unreported.as_bytes() == kind);
    Some((at, !unreported))
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
        for (path, unreported) in [
            ("/", false),
            ("/proc/1", true),
            ("/procession", false),
            ("/home/me", false),
            ("/home/me/far away", true),
            ("/home/me/far away/x/y", true),
            ("/home/me/far away/local/x", false),
            ("/home/me/over/x", false),
        ] {
            assert_eq!(mounts.is_unreported(Path::new(path)), unreported, "{path}");
        }
        let far = PathBuf::from("/home/me/far away");
        assert_eq!(mounts.unreported_below(Path::new("/home")), std::slice::from_ref(&far));
        assert_eq!(mounts.unreported_below(Path::new("/")), [far.clone(), "/proc".into()]);
        assert_eq!(mounts.unreported_below(&far), [far.join("nfs")]);
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
