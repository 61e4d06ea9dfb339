//! The last steps before a command inside of its namespaces. They are a separate program, embedded here
//! and started from memory, because starting the whole program again takes milliseconds. The whole
//! program takes the same steps where the embedded one cannot run.

// Compiled by `build.rs`, not by this crate; declared so that rustfmt visits it.
#[cfg(false)]
#[path = "lead/main.rs"]
mod program;
mod steps;
mod syscalls;

use std::ffi::{CStr, CString, OsString, c_char};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::WaitOptions;

use crate::linux::sys;

pub(crate) use steps::{FIRST_BLOCK, NONE, NOT_STARTED, TERMINAL, is_text};

/// Compiled by `build.rs`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lead"));

/// Takes the steps in this process, with the arguments of [`steps::lead`]. Returns only after it
/// has reported a failure.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) {
    // An argument of this process has no NUL byte.
    let strings = arguments.map_while(|argument| CString::new(argument.into_vec()).ok());
    let strings: Vec<CString> = strings.collect();
    let null = std::iter::once(std::ptr::null());
    let pointers: Vec<*const c_char> = strings.iter().map(|s| s.as_ptr()).chain(null).collect();
    // The runtime ignores SIGPIPE, which the command must not ignore.
    sys::reset_signals();
    // SAFETY: both lists end with a null pointer and live until this returns; nothing changes the
    // environment of this process, which has one thread.
    #[allow(unsafe_code)]
    unsafe {
        steps::lead(steps::Strings::new(pointers.as_ptr()), libc::environ.cast_const().cast());
    }
}

/// The program in sealed memory; `None` if it cannot be executed.
pub(crate) fn load() -> Option<OwnedFd> {
    let program = write().ok()?;
    starts(&program).then_some(program)
}

fn write() -> io::Result<OwnedFd> {
    let create = |more| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | more;
        rustix::fs::memfd_create(c"agentd-lead", flags)
    };
    let program = match create(MemfdFlags::EXEC) {
        // Before Linux 6.3, all memory files were executable.
        Err(Errno::INVAL) => create(MemfdFlags::empty())?,
        created => created?,
    };
    let mut file = std::fs::File::from(program);
    file.write_all(PROGRAM)?;
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    Ok(file.into())
}

/// Returns whether the program starts, which a security module can forbid.
fn starts(program: &OwnedFd) -> bool {
    let Ok(path) = path(program) else { return false };
    // SAFETY: the caller has only one thread.
    #[allow(unsafe_code)]
    match unsafe { sys::fork() } {
        Ok(sys::Forked::Child) => {
            sys::exec(&path, &[c"lead".to_owned()], &[]);
            syscalls::exit(NOT_STARTED);
        }
        Ok(sys::Forked::Parent(child)) => {
            let ended = rustix::process::waitpid(Some(child), WaitOptions::empty());
            matches!(ended, Ok(Some((_, status))) if status.exit_status() == Some(0))
        }
        Err(_) => false,
    }
}

/// The path of an open program for the process that has it open.
pub(crate) fn path(program: &OwnedFd) -> io::Result<CString> {
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    Ok(CString::new(path)?)
}

/// Returns whether an argument is omitted.
pub(crate) fn is_left_out(argument: &std::ffi::OsStr) -> bool {
    argument.as_encoded_bytes() == CStr::to_bytes(NONE)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Runs the program outside of any namespaces.
    #[allow(clippy::disallowed_methods, reason = "it is the program under test")]
    fn lead(arguments: &[&str]) -> (Option<i32>, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("lead");
        // Copied by another process, so that no child of another test inherits a writable
        // descriptor.
        let source = concat!(env!("OUT_DIR"), "/lead");
        assert!(Command::new("cp").arg(source).arg(&program).status().unwrap().success());
        let ran = Command::new(&program).args(arguments).current_dir("/usr").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
    }

    #[test]
    fn the_lead_process_executes_the_command_or_reports_the_reason() {
        let check = |rest: &[&str], code, out: &str, error: &str| {
            let arguments = [&["x", "lead"], rest].concat();
            let (ended, stdout, stderr) = lead(&arguments);
            assert_eq!((ended, stdout.as_str()), (Some(code), out), "{rest:?}: {stderr}");
            assert_eq!(stderr, error, "{rest:?}");
        };
        check(&["-", "-", "-", "-", "-", "/bin/echo", "a", "b c"], 0, "a b c\n", "");
        check(&["-", "-", "-", "-", "0", "/bin/echo", "a"], 0, "a\n", "");
        check(&["-", "-", "-", "/usr", "-", "/bin/echo", "a"], 0, "a\n", "");
        check(&["-", "-", "-", "-", "-", "/none"], 127, "", "");
        let invalid = "preparing the command: its arguments (error 22)\n";
        check(&["-", "-", "-", "-", "-"], 127, "", invalid);
        check(&["-", "-", "3:8080,0,0", "-", "-", "/bin/echo"], 127, "", invalid);
        check(&["-", "-", "-", "-", "1"], 127, "", invalid);
        check(&["-", "-", "-", "-", "99999999999", "/bin/echo"], 127, "", invalid);
        // A descriptor that is not a root: `EBADF`.
        let unopened = "preparing the command: looking at a writable folder (error 9)\n";
        check(&["-", "-", "-", "-", "1", "77", "/tmp", "/bin/echo"], 127, "", unopened);
        // Standard input is not the mounted folder.
        let changed = "preparing the command: a writable folder changed while it was mounted \
             (error 22)\n";
        check(&["-", "-", "-", "-", "1", "0", "/tmp", "/bin/echo"], 127, "", changed);
        // Part of the folder's name, and another folder.
        let elsewhere = "preparing the command: the working folder leads elsewhere than when the \
             command was decided about (error 116)\n";
        for folder in ["/", "/us", "/usr/x"] {
            check(&["-", "-", "-", folder, "-", "/bin/echo"], 127, "", elsewhere);
        }
    }
}
