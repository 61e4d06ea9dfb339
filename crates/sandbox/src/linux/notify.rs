//! System calls of a confined command that its supervisor answers (seccomp's user notifications): the filter stops
//! the call, and the calling thread waits for the answer.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::sys::{self, Instruction};

const SECCOMP_SET_MODE_FILTER: libc::c_uint = 1;
const NEW_LISTENER: libc::c_uint = 1 << 3;
/// From the moment in which the supervisor has read a call, only a fatal signal interrupts it: what was done for it is
/// never done twice.
const WAIT_KILLABLE_RECV: libc::c_uint = 1 << 5;

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;
const ADD_DESCRIPTOR: libc::c_ulong = 0x4018_2103;
/// The kernel continues with the call as it was made.
const CONTINUE: u32 = 1;
/// The number of the descriptor is the answer.
const ADD_AND_SEND: u32 = 1 << 1;

/// `struct seccomp_notif`, with its `struct seccomp_data`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    id: u64,
    /// The calling thread, in the supervisor's process namespace.
    pub(crate) thread: u32,
    flags: u32,
    pub(crate) number: i32,
    arch: u32,
    instruction: u64,
    pub(crate) arguments: [u64; 6],
}

#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddDescriptor {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// Receives the calls.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// The next call; `None` if its thread has ended meanwhile.
    ///
    /// # Errors
    /// No process with the filter is left.
    pub(crate) fn receive(&self) -> io::Result<Option<Call>> {
        // The kernel requires zeros.
        let mut call = Call::default();
        match self.control(RECEIVE, ptr::from_mut(&mut call).cast()) {
            Ok(()) => Ok(Some(call)),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(None),
            // The thread was killed before its call was read.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the thread still waits: then what was read from its files in `/proc` is its own.
    pub(crate) fn is_waiting(&self, call: &Call) -> bool {
        let mut id = call.id;
        self.control(IS_VALID, ptr::from_mut(&mut id).cast()).is_ok()
    }

    /// Lets the kernel go on with the call, under all other layers.
    pub(crate) fn let_continue(&self, call: &Call) {
        self.send(Answer { id: call.id, value: 0, error: 0, flags: CONTINUE });
    }

    /// Ends the call with a value, or with an error number.
    pub(crate) fn answer(&self, call: &Call, result: Result<i64, i32>) {
        let (value, error) = match result {
            Ok(value) => (value, 0),
            Err(error) => (0, -error),
        };
        self.send(Answer { id: call.id, value, error, flags: 0 });
    }

    /// Ends the call with a new descriptor of `file` in the calling process.
    pub(crate) fn answer_with(&self, call: &Call, file: BorrowedFd<'_>, close_on_exec: bool) {
        let target_flags = if close_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 };
        let mut add = AddDescriptor {
            id: call.id,
            flags: ADD_AND_SEND,
            source: file.as_raw_fd().unsigned_abs(),
            target: 0,
            target_flags,
        };
        if let Err(error) = self.control(ADD_DESCRIPTOR, ptr::from_mut(&mut add).cast()) {
            self.answer(call, Err(error.raw_os_error().unwrap_or(libc::EMFILE)));
        }
    }

    /// A failure means that the thread was killed.
    fn send(&self, mut answer: Answer) {
        let _ = self.control(SEND, ptr::from_mut(&mut answer).cast());
    }

    fn control(&self, request: libc::c_ulong, argument: *mut libc::c_void) -> io::Result<()> {
        // SAFETY: each request is passed the structure that it reads or writes.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) };
        sys::check(done.into()).map(drop)
    }
}

/// Installs a filter, and returns what receives its calls. Needs no-new-privileges.
///
/// # Errors
/// The kernel does not know it, or this process runs under such a filter already.
pub(crate) fn install(filter: &[Instruction]) -> io::Result<Listener> {
    let program = sys::Program::new(filter)?;
    // SAFETY: the program has the layout of `struct sock_fprog` and outlives the call, which copies the instructions;
    // the descriptor is checked before it is owned.
    unsafe {
        let fd = sys::check(libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            NEW_LISTENER | WAIT_KILLABLE_RECV,
            ptr::from_ref(&program),
        ))?;
        let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
        Ok(Listener(OwnedFd::from_raw_fd(fd)))
    }
}

/// Finds out whether [`install`] works, in a thread that ends with it.
///
/// # Errors
/// As for [`install`].
pub(crate) fn try_out() -> io::Result<()> {
    let attempt = || {
        rustix::thread::set_no_new_privs(true)?;
        install(&[super::seccomp::allow_all()]).map(drop)
    };
    let thread = std::thread::Builder::new().spawn(attempt)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the attempt ended early")))
}
