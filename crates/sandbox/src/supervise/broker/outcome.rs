//! Ends of calls.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// The end of a call.
pub(super) enum Outcome {
    /// The kernel goes on with it, under Landlock.
    Continue,
    Value(i64),
    Open {
        file: OwnedFd,
        close_on_exec: bool,
    },
    /// Opening it waits for another process.
    OpenLater {
        open: Box<dyn FnOnce() -> Result<OwnedFd, Errno> + Send>,
        close_on_exec: bool,
    },
}

/// The lower half of a register, as the kernel reads a descriptor.
pub(super) fn int(register: u64) -> i32 {
    u32::try_from(register & 0xffff_ffff).unwrap_or(0).cast_signed()
}
