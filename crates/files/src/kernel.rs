//! Files that the kernel makes when they are read. Some of `/proc` are about the process that reads
//! them, such as its environment, where others must not see the server's.

use std::fs::File;
use std::io;

/// The name of the kernel's file system that an open file is on; `None` for any other.
#[cfg(target_os = "linux")]
pub(crate) fn file_system(file: &File) -> io::Result<Option<&'static str>> {
    let magic = rustix::fs::fstatfs(file)?.f_type;
    Ok(FILE_SYSTEMS.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name))
}

/// On other systems, nothing is known of such files.
#[cfg(not(target_os = "linux"))]
pub(crate) fn file_system(_: &File) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// From `linux/magic.h` and the sources of the file systems. Those that keep files in memory, such as
/// `tmpfs`, are not among them.
#[cfg(target_os = "linux")]
const FILE_SYSTEMS: [(rustix::fs::FsWord, &str); 19] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0xcafe_4a11, "bpf"),
    (0x6265_6570, "configfs"),
    (0x6e73_6673, "nsfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
    (0x0765_5821, "resctrl"),
    (0xabba_1974, "xenfs"),
];
