//! Runs tests of this program again, in a process where something is missing.
#![allow(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set when a layer is missing.
pub(crate) const MISSING: &str = "AGENTD_TEST_LAYER_MISSING";

/// Runs tests of this program in a process that `prepare` has modified.
pub(crate) fn again(tests: &[&str], prepare: impl Fn(&mut Command)) {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("again");
    // Copied by another process: a descriptor of this one that writes to the file could be
    // inherited by a process that another test starts, and the file would be busy.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    for test in tests {
        let mut command = Command::new(&program);
        command.args(["--exact", test, "--nocapture"]).current_dir("/");
        prepare(&mut command);
        let ran = command.output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && text.contains("1 passed"), "{test}: {ran:?}");
    }
}

const NAMESPACES: u32 = (libc::CLONE_NEWNS | libc::CLONE_NEWUSER).cast_unsigned();

/// The calls that make namespaces.
pub(crate) const NAMESPACE_CALLS: [FailingCall; 3] = [
    FailingCall::call(libc::SYS_unshare, libc::EPERM),
    FailingCall::call(libc::SYS_clone3, libc::ENOSYS),
    FailingCall { bits: Some(NAMESPACES), ..FailingCall::call(libc::SYS_clone, libc::EPERM) },
];

/// A system call that fails, always or only with the given first argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailingCall {
    call: u32,
    error: u32,
    bits: Option<u32>,
    equals: Option<u32>,
}

impl FailingCall {
    pub(crate) const fn call(call: i64, error: i32) -> Self {
        let call = call.cast_unsigned() as u32;
        Self { call, error: error.cast_unsigned(), bits: None, equals: None }
    }

    /// Fails only with this first argument.
    pub(crate) const fn with(call: i64, argument: u32, error: i32) -> Self {
        Self { equals: Some(argument), ..Self::call(call, error) }
    }
}

/// Runs `test` in a process where those calls fail.
pub(crate) fn without(missing: &[FailingCall], test: &str) {
    let filter = filter(missing);
    again(&[test], |command| {
        command.env(MISSING, "1");
        let filter = filter.clone();
        // SAFETY: between fork and exec the closure makes only two system calls.
        unsafe {
            command.pre_exec(move || {
                let program = libc::sock_fprog {
                    len: u16::try_from(filter.len()).unwrap_or(0),
                    filter: filter.as_ptr().cast_mut(),
                };
                let set = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                    && libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program) == 0;
                if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
    });
}

/// A seccomp filter that makes those calls fail.
fn filter(missing: &[FailingCall]) -> Vec<libc::sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const ANY_BIT: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut filter = Vec::new();
    for call in missing {
        filter.push(step(LOAD, 0, 0, 0));
        match (call.bits, call.equals) {
            (None, None) => filter.push(step(EQUAL, call.call, 0, 1)),
            (bits, equals) => {
                filter.push(step(EQUAL, call.call, 0, 3));
                filter.push(step(LOAD, 16, 0, 0));
                let code = if bits.is_some() { ANY_BIT } else { EQUAL };
                filter.push(step(code, bits.or(equals).unwrap(), 0, 1));
            }
        }
        filter.push(step(RETURN, ERROR | call.error, 0, 0));
    }
    filter.push(step(RETURN, ALLOW, 0, 0));
    filter
}
