//! Safe wrappers of system calls without one, so that the rest of the crate needs no `unsafe`.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal};
use tokio::io::unix::AsyncFd;

/// The exit code of a process that could not become the command.
pub(crate) const NOT_STARTED: i32 = 127;

/// The result of `fork`.
pub(crate) enum Forked {
    Parent(Pid),
    Child,
}

/// Forks.
///
/// # Safety
/// The process must have only one thread, because the child allocates and takes locks.
pub(crate) unsafe fn fork() -> io::Result<Forked> {
    // SAFETY: the caller guarantees that no other thread can hold a lock that the child needs.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Pid::from_raw(pid).map(Forked::Parent).ok_or_else(|| io::Error::other("fork")),
    }
}

/// Starts a child that shares the memory of this process and runs `child`, and waits until it has
/// become another program or has ended. Several times faster than [`fork`]: no page is copied.
///
/// # Safety
/// The process must have only one thread. `child` must not touch what the rest of this process
/// relies on, other than what it captures: its writes stay. It runs on a stack of
/// [`CHILD_STACK_BYTES`].
pub(crate) unsafe fn start_child(mut child: &mut dyn FnMut()) -> io::Result<Pid> {
    extern "C" fn enter(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is that of the caller's variable, whose process waits meanwhile.
        let child = unsafe { &mut *child.cast::<&mut dyn FnMut()>() };
        child();
        NOT_STARTED
    }
    let stack = Stack::new()?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack outlives the child's use of it, because the call returns only afterwards;
    // the caller guarantees the rest.
    let pid = unsafe { libc::clone(enter, stack.top(), flags, ptr::from_mut(&mut child).cast()) };
    check(pid.into())?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("clone"))
}

/// Bytes of the stack of a child that shares the memory of its parent.
const CHILD_STACK_BYTES: usize = 256 * 1024;

/// A stack with an inaccessible page below it.
struct Stack {
    start: *mut libc::c_void,
}

impl Stack {
    /// At least one page on every system.
    const GUARD_BYTES: usize = 64 * 1024;
    const BYTES: usize = Self::GUARD_BYTES + CHILD_STACK_BYTES;

    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: maps new memory, and takes access only from that memory.
        unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(ptr::null_mut(), Self::BYTES, access, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let stack = Self { start };
            let guarded = libc::mprotect(start, Self::GUARD_BYTES, libc::PROT_NONE);
            check(guarded.into()).map(|_| stack)
        }
    }

    /// Where an empty stack begins: stacks grow downwards on every supported processor.
    fn top(&self) -> *mut libc::c_void {
        self.start.wrapping_byte_add(Self::BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and nothing else uses it.
        unsafe { libc::munmap(self.start, Self::BYTES) };
    }
}

/// Ends this process without the exit handlers of the program that it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Replaces this program; returns only an error.
pub(crate) fn exec(program: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let env = pointers(env);
    // SAFETY: both arrays end with a null pointer, and the arguments own the strings.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Registers `fd`, which must be non-blocking, with the runtime.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open and the same until it is dropped, which happens only with the
    // `AsyncFd`.
    unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)
}

/// Marks every descriptor from `first` on as close-on-exec.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: changes only a flag of the descriptors, which stay open.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    check(done).map(drop)
}

/// Closes a descriptor of another process's, of which this one has a copy since it was forked.
pub(crate) fn close(copied: RawFd) {
    // SAFETY: this process does not use it.
    unsafe { libc::close(copied) };
}

/// A descriptor that stays open for as long as this process runs.
pub(crate) fn borrowed<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: nothing of this process closes it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Closes every descriptor from the fourth on but `kept`.
pub(crate) fn close_all_but(kept: RawFd) {
    let close = |first: libc::c_uint, last: libc::c_uint| {
        if first <= last {
            // SAFETY: nothing of this process uses the descriptors later. A failure leaves them open.
            let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    let kept = libc::c_uint::try_from(kept).unwrap_or(0);
    close(3, kept.saturating_sub(1));
    close(kept.max(2) + 1, libc::c_uint::MAX);
}

/// Ignores all signals except SIGKILL, and lets the kernel reap the children.
pub(crate) fn ignore_signals() {
    let ignored = [libc::SIGCHLD, libc::SIGPIPE, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    for signal in ignored {
        // SAFETY: SIG_IGN is a valid disposition and no handler is replaced by it.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Restores the default disposition of SIGCHLD, blocks it, and returns a descriptor that reads it.
pub(crate) fn child_exits() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before use, and the descriptor is checked
    // before it is owned.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(libc::c_long::from(fd))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Asks the first process of namespaces something.
pub(crate) const QUESTION: Signal = Signal::USR1;

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on, [`QUESTION`] interrupts a wait, and [`was_asked`] tells.
pub(crate) fn note_questions() {
    extern "C" fn note(_: libc::c_int) {
        ASKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the structure is valid in zeros, without flags: a wait is not restarted. The handler only stores a flag.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = note as *const () as libc::sighandler_t;
        libc::sigaction(QUESTION.as_raw(), &raw const action, ptr::null_mut());
    }
}

/// Returns whether there was a question since the last call.
pub(crate) fn was_asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// Restores the default disposition of every signal, and unblocks all.
pub(crate) fn reset_signals() {
    const HIGHEST_SIGNAL: libc::c_int = 64;
    // The kernel's structure in zeros: SIG_DFL, no flags, no restorer, no mask.
    let default = [0u64; 4];
    // SAFETY: the kernel only reads `default` and `set`, which have the expected sizes. A raw
    // system call, because the C library refuses the two signals that it uses. For signals that
    // cannot be changed, the call fails without effect.
    unsafe {
        for signal in 1..=HIGHEST_SIGNAL {
            let old = ptr::null_mut::<u64>();
            let size = size_of::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), old, size);
        }
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &set, ptr::null_mut());
    }
}

/// One instruction of a seccomp filter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) value: u32,
}

/// `struct sock_fprog`: a filter in memory.
#[repr(C)]
pub(super) struct Program<'a> {
    len: libc::c_ushort,
    filter: *const Instruction,
    lifetime: PhantomData<&'a [Instruction]>,
}

impl<'a> Program<'a> {
    pub(super) fn new(filter: &'a [Instruction]) -> io::Result<Self> {
        let len = libc::c_ushort::try_from(filter.len())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { len, filter: filter.as_ptr(), lifetime: PhantomData })
    }
}

/// Installs a seccomp filter for this process and its descendants. Needs no-new-privileges.
pub(crate) fn install_filter(filter: &[Instruction]) -> io::Result<()> {
    let program = Program::new(filter)?;
    // SAFETY: `program` has the layout of `struct sock_fprog` and outlives the call, which copies
    // the instructions; the kernel validates them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, ptr::from_ref(&program))
    };
    check(libc::c_long::from(done)).map(drop)
}

/// `struct landlock_ruleset_attr`.
#[repr(C)]
pub(crate) struct RulesetAttr {
    pub(crate) handled_access_fs: u64,
    pub(crate) handled_access_net: u64,
    pub(crate) scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: RawFd,
}

/// The Landlock version of the kernel.
///
/// # Errors
/// The kernel has no Landlock.
pub(crate) fn landlock_abi() -> io::Result<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory and returns a number.
    let version = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<RulesetAttr>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    })?;
    u32::try_from(version).map_err(io::Error::other)
}

/// Creates a ruleset; `size` is the size of `attr` in this kernel's version.
pub(crate) fn landlock_create(attr: &RulesetAttr, size: usize) -> io::Result<OwnedFd> {
    let size = size.min(size_of::<RulesetAttr>());
    // SAFETY: `attr` is valid for `size` bytes; the result is checked before it is owned.
    unsafe {
        let fd = check(libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::from_ref(attr),
            size,
            0 as libc::c_uint,
        ))?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(io::Error::other)?))
    }
}

/// Allows `access` to and below `parent`.
pub(crate) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    access: u64,
) -> io::Result<()> {
    const LANDLOCK_RULE_PATH_BENEATH: libc::c_uint = 1;
    let attr = PathBeneathAttr { allowed_access: access, parent_fd: parent.as_raw_fd() };
    // SAFETY: `attr` has the layout of `struct landlock_path_beneath_attr` and outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            LANDLOCK_RULE_PATH_BENEATH,
            ptr::from_ref(&attr),
            0 as libc::c_uint,
        )
    };
    check(done).map(drop)
}

/// Confines this process to `ruleset`. Needs no-new-privileges.
pub(crate) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: passes a descriptor and no memory.
    let done = unsafe {
        libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0 as libc::c_uint)
    };
    check(done).map(drop)
}

pub(super) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
