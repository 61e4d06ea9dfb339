//! Allows any program that links this crate to be its own launcher, by checking the arguments
//! before `main`. For test binaries, whose `main` is the test harness.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::program::SUPERVISE_ARGUMENT;

/// Called by the C library before `main`, with the arguments of `main`.
// SAFETY: the section contains function pointers of this type, and the function does not need the
// initialised runtime of Rust.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: unsafe extern "C" fn(c_int, *const *const c_char) = before_main;

/// # Safety
/// `arguments` has `count` strings that live as long as the program.
unsafe extern "C" fn before_main(count: c_int, arguments: *const *const c_char) {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller guarantees it for every index below `count`.
    let argument = |at: usize| unsafe { CStr::from_ptr(*arguments.add(at)) };
    if count < 2 || argument(1).to_bytes() != SUPERVISE_ARGUMENT.as_bytes() {
        return;
    }
    let rest = (2..count).map(|at| OsStr::from_bytes(argument(at).to_bytes()).to_owned());
    super::supervisor_main(rest);
}
