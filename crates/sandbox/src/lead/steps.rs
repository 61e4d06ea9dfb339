//! Prepares a command inside of its namespaces and becomes it. Needs neither the standard library nor
//! an allocator: it runs in a separate program (`main.rs`), and in the whole program if that one
//! cannot be started.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

use super::syscalls::{self, Errno};

/// The exit code of a process that could not become the command.
pub(crate) const NOT_STARTED: i32 = 127;

/// The second argument: standard input is a terminal.
pub(crate) const TERMINAL: &CStr = c"terminal";
/// Stands for an omitted argument.
pub(crate) const NONE: &CStr = c"-";

/// The access that Landlock denies: all that changes contents, names and folders.
const WRITE: u64 = ((1 << 15) - 1) & !(1 | 1 << 2 | 1 << 3);
/// The part of it that applies to files: writing and truncating.
const WRITE_FILE: u64 = 1 << 1 | 1 << 14;

/// Bytes of the longest path, with its end.
const MAX_PATH: usize = 4096;

/// A list of strings that ends with a null pointer.
#[derive(Clone, Copy)]
pub(super) struct Strings(*const *const c_char);

impl Strings {
    /// # Safety
    /// `first` points to such a list, which lives as long as the program.
    pub(super) const unsafe fn new(first: *const *const c_char) -> Self {
        Self(first)
    }

    pub(super) fn skip(mut self, count: usize) -> Self {
        for _ in 0..count {
            let _ = self.next();
        }
        self
    }

    fn next(&mut self) -> Option<&'static CStr> {
        // SAFETY: the caller of `new` guarantees a list, and this never goes beyond its end.
        unsafe {
            let string = *self.0;
            if string.is_null() {
                return None;
            }
            self.0 = self.0.add(1);
            Some(CStr::from_ptr(string))
        }
    }
}

/// Becomes the leader of a session with the terminal, restricts writing to the folders that were
/// opened before they were mounted, then becomes the command. Returns only after it has
/// reported a failure. Arguments: the descriptor for reports, [`TERMINAL`] or [`NONE`], a managed
/// network (always [`NONE`] here), the real path of the working folder or [`NONE`], the number of
/// folders or [`NONE`], for each folder its descriptor and path, then the program and its arguments.
///
/// # Safety
/// `environment` is a list as in [`Strings`].
pub(super) unsafe fn lead(mut arguments: Strings, environment: *const *const c_char) {
    let report = arguments.next().and_then(number);
    let failed = match prepare(&mut arguments) {
        Err((step, errno)) => {
            explain(step, errno);
            0
        }
        // SAFETY: the caller guarantees it.
        Ok(program) => unsafe { become_command(program, arguments, environment).0 },
    };
    if let Some(report) = report {
        syscalls::write(report, &failed.to_le_bytes());
    }
}

type Failed = (&'static str, Errno);

fn prepare(arguments: &mut Strings) -> Result<&'static CStr, Failed> {
    let invalid = ("its arguments", Errno::INVALID);
    let terminal = arguments.next().ok_or(invalid)?;
    let egress = arguments.next().ok_or(invalid)?;
    if egress != NONE {
        return Err(invalid);
    }
    if terminal == TERMINAL {
        syscalls::new_session().map_err(|errno| ("starting a session", errno))?;
        syscalls::take_terminal().map_err(|errno| ("taking the terminal", errno))?;
    }
    let folder = arguments.next().ok_or(invalid)?;
    if folder != NONE {
        check_folder(folder)?;
    }
    let folders = arguments.next().ok_or(invalid)?;
    if folders != NONE {
        narrow(number(folders).ok_or(invalid)?, arguments)?;
    }
    syscalls::close_on_exec().map_err(|errno| ("closing descriptors", errno))?;
    // The program's name is its first argument.
    let mut rest = *arguments;
    rest.next().ok_or(invalid)
}

/// Checks that the way to the working folder had no link: the kernel names the folder by
/// its real path.
fn check_folder(expected: &CStr) -> Result<(), Failed> {
    let mut path = [0; MAX_PATH];
    let length = syscalls::working_folder(&mut path)
        .map_err(|errno| ("looking at the working folder", errno))?;
    if path.get(..length) == Some(expected.to_bytes_with_nul()) {
        return Ok(());
    }
    let step = "the working folder leads elsewhere than when the command was decided about";
    Err((step, Errno::STALE))
}

/// Restricts writing to the folders, and to the devices and processes of the sandbox.
fn narrow(count: i32, arguments: &mut Strings) -> Result<(), Failed> {
    let at = |step: &'static str| move |errno: Errno| (step, errno);
    let invalid = ("its arguments", Errno::INVALID);
    let ruleset = syscalls::ruleset(WRITE).map_err(at("Landlock"))?;
    for _ in 0..count {
        let opened = arguments.next().and_then(number).ok_or(invalid)?;
        let path = arguments.next().ok_or(invalid)?;
        let found = syscalls::file(opened).map_err(at("looking at a writable folder"))?;
        let mounted = syscalls::file_at(path).map_err(at("looking at a mounted folder"))?;
        if !found.is(mounted) {
            return Err(("a writable folder changed while it was mounted", Errno::INVALID));
        }
        allow(ruleset, opened, found.mode)?;
    }
    for own in [c"/dev", c"/proc"] {
        let opened = syscalls::open_path(own).map_err(at("opening /dev and /proc"))?;
        let found = syscalls::file(opened).map_err(at("looking at /dev and /proc"))?;
        allow(ruleset, opened, found.mode)?;
    }
    syscalls::restrict(ruleset).map_err(at("applying Landlock"))
}

fn allow(ruleset: i32, opened: i32, mode: u16) -> Result<(), Failed> {
    const KIND: u16 = 0o170_000;
    const FOLDER: u16 = 0o040_000;
    const LINK: u16 = 0o120_000;
    let access = match mode & KIND {
        LINK => return Ok(()),
        FOLDER => WRITE,
        _ => WRITE_FILE,
    };
    syscalls::allow(ruleset, opened, access).map_err(|errno| ("allowing a folder", errno))
}

/// # Safety
/// As for [`lead`].
unsafe fn become_command(
    program: &CStr,
    arguments: Strings,
    environment: *const *const c_char,
) -> Errno {
    /// Largest number of arguments of a script.
    const MAX_ARGUMENTS: usize = 1 << 12;
    // SAFETY: the caller guarantees both lists.
    let failed = unsafe { syscalls::execute(program, arguments.0, environment) };
    if failed != Errno::NOT_EXECUTABLE || !is_script(program) {
        return failed;
    }
    // A script without an interpreter line runs in the shell, as from any shell.
    let mut shell = [core::ptr::null(); MAX_ARGUMENTS];
    shell[0] = c"sh".as_ptr();
    shell[1] = program.as_ptr();
    let mut rest = arguments.skip(1);
    let mut at = 2;
    while let Some(argument) = rest.next() {
        let Some(place) = shell.get_mut(at).filter(|_| at + 1 < MAX_ARGUMENTS) else {
            return failed;
        };
        *place = argument.as_ptr();
        at += 1;
    }
    // SAFETY: the array ends with a null pointer, because its last element is never set.
    unsafe { syscalls::execute(c"/bin/sh", shell.as_ptr(), environment) }
}

/// Returns whether a file that the kernel does not execute can be a script, that is text.
fn is_script(program: &CStr) -> bool {
    let mut block = [0; FIRST_BLOCK];
    match syscalls::read_start(program, &mut block) {
        Ok(count) => is_text(block.get(..count).unwrap_or_default()),
        Err(_) => false,
    }
}

/// Bytes of a file that determine whether it is text.
pub(crate) const FIRST_BLOCK: usize = 512;

/// Returns whether a file that starts with `block` can be a script.
pub(crate) fn is_text(block: &[u8]) -> bool {
    // `contains` would need symbols of the standard library.
    !block.starts_with(b"\x7fELF") && block.iter().all(|byte| *byte != 0)
}

fn number(text: &CStr) -> Option<i32> {
    let digits = text.to_bytes();
    let digit = |value: i32, digit: &u8| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(i32::from(digit))
    };
    (!digits.is_empty()).then_some(())?;
    digits.iter().try_fold(0, digit)
}

/// Reports a failure on standard error, like the command.
fn explain(step: &str, errno: Errno) {
    const STANDARD_ERROR: i32 = 2;
    let mut digits = [b'0'; 10];
    let mut rest = errno.0.unsigned_abs();
    let mut first = digits.len();
    while first == digits.len() || rest > 0 {
        first -= 1;
        if let Some(digit) = digits.get_mut(first) {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        }
        rest /= 10;
    }
    let number = digits.get(first..).unwrap_or_default();
    for part in [b"preparing the command: ", step.as_bytes(), b" (error ", number, b")\n"] {
        syscalls::write(STANDARD_ERROR, part);
    }
}
