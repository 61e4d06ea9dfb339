//! Finds out which layers work on this machine, and why the others do not.

use std::io;

use super::cgroup::CommandGroups;
use super::{landlock, notify, sys};
use crate::error::{Error, ErrorKind};
use crate::limits::LimitsBy;

/// The layers of this machine; an error says why one does not work.
#[derive(Debug)]
pub(crate) struct Detected {
    /// Namespaces, with a file system of their own.
    pub(crate) namespaces: Result<(), Error>,
    /// The version of Landlock.
    pub(crate) landlock: Result<u32, Error>,
    /// The supervisor as the one who makes changes that Landlock forbids.
    pub(crate) broker: Result<(), Error>,
    /// The folder of control groups for commands.
    pub(crate) control_groups: Result<CommandGroups, String>,
}

/// Finds out if a supervisor can answer calls of its command.
pub(crate) fn broker() -> Result<(), Error> {
    // tidy: open a file of the kernel.
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim().parse().is_ok_and(|scope: u8| scope > 1) {
        let message = "a supervisor may not read the paths in its command's system calls here \
             (`kernel.yama.ptrace_scope` is 2 or more)";
        return Err(Error::new(ErrorKind::Unavailable, message)
            .next_step("set it to 1 as an administrator"));
    }
    notify::try_out().map_err(|error| {
        let message = format!("a supervisor cannot answer system calls here ({error})");
        let hint = match error.raw_os_error() {
            Some(libc::EBUSY) => "another program around the server answers them already",
            _ => "use Linux 5.19 or later, in a container with a seccomp profile that allows `seccomp`",
        };
        Error::new(ErrorKind::Unavailable, message).next_step(hint)
    })
}

/// The control groups of commands, as far as they are wanted.
pub(crate) fn control_groups(wanted: LimitsBy) -> Result<CommandGroups, String> {
    if wanted == LimitsBy::Supervisors {
        return Err("the configuration allows supervisors only".to_owned());
    }
    let made = CommandGroups::make()?;
    match made.limits() || wanted == LimitsBy::ControlGroups {
        true => Ok(made),
        false => Err(format!(
            "the controllers `memory` and `pids` are not available ({})",
            made.describe()
        )),
    }
}

/// The version of Landlock, if it is recent enough to enforce a whole policy.
pub(crate) fn landlock() -> Result<u32, Error> {
    let unavailable = |message: String| Error::new(ErrorKind::Unavailable, message);
    match sys::landlock_abi() {
        Ok(abi) if abi >= landlock::MIN_ABI => Ok(abi),
        Ok(abi) => Err(unavailable(format!(
            "this kernel's Landlock has version {abi}, and version {} is needed",
            landlock::MIN_ABI
        ))
        .next_step("use Linux 6.2 or later")),
        Err(error) => Err(unavailable(format!("Landlock is not available ({error})")).next_step(
            "use Linux 6.2 or later with Landlock enabled (`lsm=landlock,…` on the kernel's \
             command line)",
        )),
    }
}

/// Advice for where a container around the server may be the boundary; empty elsewhere.
pub(crate) fn advice_in_container() -> &'static str {
    let marks = ["/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"];
    match marks.iter().any(|mark| std::path::Path::new(mark).exists()) {
        true => {
            ". The server seems to run in a container: if that is the boundary you rely on, a client can choose \
             the policy `externalSandbox`"
        }
        false => "",
    }
}

/// Why namespaces cannot be made.
pub(crate) fn refused(error: &io::Error) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EUSERS) => {
            "raise the number of namespaces that a user may have (`sysctl user.max_user_namespaces` and its \
             neighbours), or end other sandboxes"
        }
        _ => ALLOW_USER_NAMESPACES,
    };
    let message = format!("namespaces cannot be made here ({error})");
    Error::new(ErrorKind::Unavailable, message).next_step(hint)
}

const ALLOW_USER_NAMESPACES: &str = "user namespaces are not permitted: allow them as an administrator \
     (`sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu \
     `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for agentd, in a \
     container a seccomp profile that allows `clone` with namespaces and `mount`)";

/// Why the confinement cannot be made in namespaces, judged by what their first process printed.
pub(crate) fn explain(printed: &str) -> Error {
    let printed = printed.trim().trim_start_matches("setting up the sandbox: ");
    let hint = if printed.contains("/proc") {
        "a container around the server hides parts of /proc: run it with \
         `--security-opt systempaths=unconfined`, or choose the external sandbox policy"
    } else if printed.contains("not permitted") || printed.contains("ermission denied") {
        ALLOW_USER_NAMESPACES
    } else if printed.contains("not implemented") {
        "use Linux 5.12 or later"
    } else {
        "report it with this reason and the output of `uname -a`"
    };
    let message = match printed {
        "" => "namespaces do not work here, and nothing says why".to_owned(),
        _ => format!("namespaces do not work here ({printed})"),
    };
    Error::new(ErrorKind::Unavailable, message).next_step(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_a_next_step() {
        for (printed, part) in [
            (
                "setting up the sandbox: making /proc: Operation not permitted (os error 1)",
                "systempaths=unconfined",
            ),
            ("setting up the sandbox: user namespace: Permission denied (os error 13)", "AppArmor"),
            (
                "setting up the sandbox: copying /: Function not implemented (os error 38)",
                "Linux 5.12",
            ),
            (" \n", "nothing says why"),
        ] {
            let explained = explain(printed).to_string();
            assert!(explained.contains(part), "{explained}");
            assert!(!explained.contains("setting up"), "{explained}");
        }
        let full = refused(&io::Error::from_raw_os_error(libc::ENOSPC)).to_string();
        assert!(full.contains("user.max_user_namespaces"), "{full}");
    }
}
