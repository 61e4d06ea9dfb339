//! The system calls of [`super::steps`], without any library.
#![allow(unsafe_code)]

use core::arch::asm;
use core::ffi::CStr;

/// An `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) i32);

impl Errno {
    pub(super) const INVALID: Errno = Errno(22);
    pub(super) const NOT_EXECUTABLE: Errno = Errno(8);
    pub(super) const STALE: Errno = Errno(116);
}

type Result<T> = core::result::Result<T, Errno>;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const READ: usize = 0;
    pub(super) const WRITE: usize = 1;
    pub(super) const IOCTL: usize = 16;
    pub(super) const EXECVE: usize = 59;
    pub(super) const GETCWD: usize = 79;
    pub(super) const SETSID: usize = 112;
    pub(super) const EXIT_GROUP: usize = 231;
    pub(super) const OPENAT: usize = 257;
    pub(super) const STATX: usize = 332;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const GETCWD: usize = 17;
    pub(super) const READ: usize = 63;
    pub(super) const WRITE: usize = 64;
    pub(super) const IOCTL: usize = 29;
    pub(super) const EXECVE: usize = 221;
    pub(super) const SETSID: usize = 157;
    pub(super) const EXIT_GROUP: usize = 94;
    pub(super) const OPENAT: usize = 56;
    pub(super) const STATX: usize = 291;
}

/// The same everywhere.
const CLOSE_RANGE: usize = 436;
const LANDLOCK_CREATE_RULESET: usize = 444;
const LANDLOCK_ADD_RULE: usize = 445;
const LANDLOCK_RESTRICT_SELF: usize = 446;

/// # Safety
/// The arguments are what the call expects; pointers among them are valid for it.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: usize, arguments: [usize; 5]) -> Result<usize> {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: the kernel changes only these registers; the caller guarantees the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    check(result)
}

/// # Safety
/// The arguments are what the call expects; pointers among them are valid for it.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: usize, arguments: [usize; 5]) -> Result<usize> {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: the kernel changes only this register; the caller guarantees the arguments.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c,
            in("x3") d, in("x4") e, options(nostack));
    }
    check(result)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "errors are small")]
fn check(result: isize) -> Result<usize> {
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// A descriptor in the form of an argument.
fn fd(fd: i32) -> usize {
    fd as isize as usize
}

pub(super) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: ends this process.
        let _ = unsafe { call(number::EXIT_GROUP, [fd(code), 0, 0, 0, 0]) };
    }
}

pub(super) fn write(to: i32, bytes: &[u8]) {
    let (start, length) = (bytes.as_ptr() as usize, bytes.len());
    // SAFETY: the kernel reads `bytes`. A failure cannot be reported.
    let _ = unsafe { call(number::WRITE, [fd(to), start, length, 0, 0]) };
}

pub(super) fn new_session() -> Result<()> {
    // SAFETY: takes no arguments.
    unsafe { call(number::SETSID, [0; 5]) }.map(drop)
}

/// Makes standard input the terminal of this session.
pub(super) fn take_terminal() -> Result<()> {
    const TIOCSCTTY: usize = 0x540E;
    // SAFETY: passes no memory.
    unsafe { call(number::IOCTL, [0, TIOCSCTTY, 0, 0, 0]) }.map(drop)
}

/// Marks every descriptor except the first three as close-on-exec.
pub(super) fn close_on_exec() -> Result<()> {
    const CLOEXEC: usize = 1 << 2;
    let last = u32::MAX as usize;
    // SAFETY: passes no memory.
    unsafe { call(CLOSE_RANGE, [3, last, CLOEXEC, 0, 0]) }.map(drop)
}

/// Writes the real path of the working folder, and returns its length with the null byte.
pub(super) fn working_folder(path: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most the length of `path`.
    unsafe { call(number::GETCWD, [path.as_mut_ptr() as usize, path.len(), 0, 0, 0]) }
}

/// Opens a path with `O_PATH`.
pub(super) fn open_path(path: &CStr) -> Result<i32> {
    const O_PATH_CLOEXEC: usize = 0o10_000_000 | 0o2_000_000;
    // SAFETY: the kernel reads `path`.
    let opened = unsafe {
        call(number::OPENAT, [fd(AT_FDCWD), path.as_ptr() as usize, O_PATH_CLOEXEC, 0, 0])
    };
    opened.and_then(|fd| i32::try_from(fd).map_err(|_| Errno::INVALID))
}

/// Reads the beginning of a file, and returns the number of bytes. The descriptor stays open until
/// the next `exec`.
pub(super) fn read_start(path: &CStr, block: &mut [u8]) -> Result<usize> {
    const O_NONBLOCK_CLOEXEC: usize = 0o4_000 | 0o2_000_000;
    // SAFETY: the kernel reads `path`.
    let opened = unsafe {
        call(number::OPENAT, [fd(AT_FDCWD), path.as_ptr() as usize, O_NONBLOCK_CLOEXEC, 0, 0])?
    };
    // SAFETY: the kernel writes at most the length of `block`.
    unsafe { call(number::READ, [opened, block.as_mut_ptr() as usize, block.len(), 0, 0]) }
}

const AT_FDCWD: i32 = -100;

/// The identity of a file (device and inode), and its mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    device: [u32; 2],
    inode: u64,
    pub(super) mode: u16,
}

impl File {
    pub(super) fn is(self, other: File) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The start of `struct statx`.
#[repr(C)]
struct Statx {
    mask: u32,
    block_size: u32,
    attributes: u64,
    links: u32,
    user: u32,
    group: u32,
    mode: u16,
    _spare: u16,
    inode: u64,
    _sizes: [u64; 3],
    _times: [u64; 8],
    _special: [u32; 2],
    device: [u32; 2],
    _rest: [u64; 14],
}

pub(super) fn file(opened: i32) -> Result<File> {
    const AT_EMPTY_PATH: usize = 0x1000;
    statx(opened, c"", AT_EMPTY_PATH)
}

/// The file at `path`; does not follow a symbolic link.
pub(super) fn file_at(path: &CStr) -> Result<File> {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
}

fn statx(folder: i32, path: &CStr, flags: usize) -> Result<File> {
    const TYPE_AND_INODE: usize = 1 | 0x100;
    let mut found = core::mem::MaybeUninit::<Statx>::zeroed();
    let to = found.as_mut_ptr() as usize;
    // SAFETY: the kernel reads `path` and writes `found`, which is as large as its structure.
    let found = unsafe {
        call(number::STATX, [fd(folder), path.as_ptr() as usize, flags, TYPE_AND_INODE, to])?;
        found.assume_init()
    };
    Ok(File { device: found.device, inode: found.inode, mode: found.mode })
}

/// Creates a Landlock ruleset that denies `access` except where a rule allows it.
pub(super) fn ruleset(access: u64) -> Result<i32> {
    let size = size_of::<u64>();
    // SAFETY: the kernel reads `access`, which is the first version of the structure.
    let made =
        unsafe { call(LANDLOCK_CREATE_RULESET, [&raw const access as usize, size, 0, 0, 0]) };
    made.and_then(|fd| i32::try_from(fd).map_err(|_| Errno::INVALID))
}

#[repr(C, packed)]
struct PathBeneath {
    access: u64,
    parent: i32,
}

pub(super) fn allow(ruleset: i32, parent: i32, access: u64) -> Result<()> {
    const PATH_BENEATH: usize = 1;
    let rule = PathBeneath { access, parent };
    // SAFETY: the kernel reads `rule`.
    unsafe { call(LANDLOCK_ADD_RULE, [fd(ruleset), PATH_BENEATH, &raw const rule as usize, 0, 0]) }
        .map(drop)
}

pub(super) fn restrict(ruleset: i32) -> Result<()> {
    // SAFETY: passes no memory.
    unsafe { call(LANDLOCK_RESTRICT_SELF, [fd(ruleset), 0, 0, 0, 0]) }.map(drop)
}

/// Replaces this program; returns only an error.
///
/// # Safety
/// Both are arrays of strings that end with a null pointer.
pub(super) unsafe fn execute(
    program: &CStr,
    arguments: *const *const core::ffi::c_char,
    environment: *const *const core::ffi::c_char,
) -> Errno {
    let arguments = [program.as_ptr() as usize, arguments as usize, environment as usize, 0, 0];
    // SAFETY: the caller guarantees the arrays.
    match unsafe { call(number::EXECVE, arguments) } {
        Err(errno) => errno,
        Ok(_) => Errno::INVALID,
    }
}
