//! System calls that make namespaces and mounts, without wrappers elsewhere.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::process::Pid;

use super::limit_calls;
use super::sys::{Forked, check};

/// `MOUNT_ATTR_RDONLY`.
pub(crate) const READ_ONLY: u64 = 1;
/// `MOUNT_ATTR_NOSUID`.
pub(crate) const NO_SUID: u64 = 2;
/// `MOUNT_ATTR_NODEV`.
pub(crate) const NO_DEVICES: u64 = 4;
/// `MOUNT_ATTR_NOEXEC`.
pub(crate) const NO_EXEC: u64 = 8;

/// Namespaces of a confined command. Mounts and processes always are its own.
pub(crate) const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;
/// The further namespace of a command that has no network, or a managed one.
pub(crate) const NETWORK: libc::c_int = libc::CLONE_NEWNET;

/// Forks into new namespaces, and into a control group if there is one.
///
/// # Safety
/// The process must have only one thread, because the child allocates and takes locks.
pub(crate) unsafe fn fork_into(
    namespaces: libc::c_int,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<Forked> {
    if let Some(group) = group {
        // SAFETY: the caller guarantees it.
        return unsafe { limit_calls::fork_into_group(namespaces, group) };
    }
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without a stack and without sharing memory, this is a fork; the caller guarantees the rest.
    match check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })? {
        0 => Ok(Forked::Child),
        pid => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .map(Forked::Parent)
            .ok_or_else(|| io::Error::other("clone")),
    }
}

/// Forks a sibling of this process into namespaces of its own for processes, IPC and mounts, and for the network if
/// `network`. The rest is this process's.
///
/// # Safety
/// As for [`fork_into`].
pub(crate) unsafe fn fork_sibling(
    network: bool,
    group: Option<BorrowedFd<'_>>,
) -> io::Result<Forked> {
    let own = libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWNS | libc::CLONE_PARENT;
    // SAFETY: the caller guarantees it.
    unsafe { fork_into(own | if network { NETWORK } else { 0 }, group) }
}

/// Gives this process a copy of its mounts.
pub(crate) fn copy_mounts() -> io::Result<()> {
    // SAFETY: passes no memory.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into()).map(drop)
}

/// Enters a namespace.
pub(crate) fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: passes a descriptor and no memory.
    check(unsafe { libc::setns(namespace.as_raw_fd(), 0) }.into()).map(drop)
}

/// Makes all mounts of this namespace private: later ones of the machine do not appear in it.
pub(crate) fn make_private() -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the kernel reads the target only.
    let done = unsafe { libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), flags, ptr::null()) };
    check(done.into()).map(drop)
}

/// A copy of the mount that holds an open file or folder, and of all mounts below it, that nothing leads to yet.
pub(crate) fn copy_tree(opened: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE as libc::c_long
        | libc::c_long::from(libc::AT_RECURSIVE | libc::AT_EMPTY_PATH | libc::O_CLOEXEC);
    // SAFETY: the kernel reads the empty path; the result is checked before it is owned.
    unsafe { owned(libc::syscall(libc::SYS_open_tree, opened.as_raw_fd(), c"".as_ptr(), flags)) }
}

/// `struct mount_attr`.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes of a mount, and of all mounts below it if `recursive`.
pub(crate) fn set_attributes(mount: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attributes = Attributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    let below = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the kernel reads the empty path and `attributes`, which has the given size.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | below,
            ptr::from_ref(&attributes),
            size_of::<Attributes>(),
        )
    };
    check(done).map(drop)
}

/// Attaches a mount that nothing leads to at an open file or folder.
pub(crate) fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>) -> io::Result<()> {
    const EMPTY_PATHS: libc::c_uint = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: the kernel reads the empty paths.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            at.as_raw_fd(),
            c"".as_ptr(),
            EMPTY_PATHS,
        )
    };
    check(done).map(drop)
}

/// A new file system of a kind, with options, that nothing leads to yet.
pub(crate) fn new_file_system(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    const SET_STRING: libc::c_uint = 1;
    const CREATE: libc::c_uint = 6;
    const CLOEXEC: libc::c_uint = 1;
    // SAFETY: the kernel reads the strings, which end with a null byte; results are checked before they
    // are owned.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), CLOEXEC))?;
        let configure =
            |command: libc::c_uint, key: *const libc::c_char, value: *const libc::c_char| {
                let fd = context.as_raw_fd();
                check(libc::syscall(libc::SYS_fsconfig, fd, command, key, value, 0)).map(drop)
            };
        for (key, value) in options {
            configure(SET_STRING, key.as_ptr(), value.as_ptr())?;
        }
        configure(CREATE, ptr::null(), ptr::null())?;
        owned(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOEXEC, attributes))
    }
}

/// Makes the working folder, which is the top of a mount, the root, and detaches the root before it.
pub(crate) fn change_root() -> io::Result<()> {
    // SAFETY: the kernel reads the paths only.
    unsafe {
        check(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()))?;
        check(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into())?;
    }
    Ok(())
}

/// Returns whether `pid_max` belongs to a namespace (Linux 6.14), and not to the machine.
pub(crate) fn has_own_process_numbers() -> bool {
    // SAFETY: the structure is bytes, which the call fills; the release ends with a null byte within it.
    let release = unsafe {
        let mut names = std::mem::zeroed::<libc::utsname>();
        if libc::uname(&raw mut names) != 0 {
            return false;
        }
        CStr::from_ptr(names.release.as_ptr()).to_bytes().to_vec()
    };
    is_since(&String::from_utf8_lossy(&release), (6, 14))
}

/// Returns whether a release, as in `6.14.2-1-amd64`, is `version` or a later one.
fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    number().zip(number()).is_some_and(|found| found >= version)
}

/// Switches on the loopback interface of this process's network.
pub(crate) fn start_loopback() -> io::Result<()> {
    // SAFETY: the structure is zeroed, as the kernel expects it, and outlives the calls; the socket is
    // checked before it is owned.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = owned(libc::socket(libc::AF_INET, kind, 0).into())?;
        let mut interface = std::mem::zeroed::<libc::ifreq>();
        for (place, byte) in interface.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
            *place = libc::c_char::try_from(*byte).unwrap_or_default();
        }
        let get =
            libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, ptr::from_mut(&mut interface));
        check(get.into())?;
        interface.ifr_ifru.ifru_flags |= libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
        let set = libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, ptr::from_ref(&interface));
        check(set.into()).map(drop)
    }
}

/// # Safety
/// A result that is no error is a descriptor that nothing else owns.
unsafe fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the caller guarantees it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::is_since;

    #[test]
    fn releases_of_the_kernel() {
        for release in ["6.14.0", "6.14-rc1", "6.18.44-fc-v595", "7.0", "10.1.2"] {
            assert!(is_since(release, (6, 14)), "{release}");
        }
        for release in ["6.13.9", "5.15.0-91-generic", "6", "", "x.y"] {
            assert!(!is_since(release, (6, 14)), "{release}");
        }
    }
}
