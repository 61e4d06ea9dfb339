//! Finds out which layers work on this machine, and why the others do not.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{landlock, sys};
use crate::error::{Error, ErrorKind};

/// The layers of this machine; an error says why one does not work.
#[derive(Clone, Debug)]
pub(crate) struct Detected {
    pub(crate) bubblewrap: Result<PathBuf, Error>,
    /// The version of Landlock.
    pub(crate) landlock: Result<u32, Error>,
}

/// Finds `bwrap` in the absolute folders of `search_path`. A file that everybody can write is
/// skipped.
pub(crate) fn find_bubblewrap(search_path: &[PathBuf]) -> Result<PathBuf, Error> {
    let candidates = search_path.iter().filter(|folder| folder.is_absolute());
    for candidate in candidates.map(|folder| folder.join("bwrap")) {
        let Ok(program) = candidate.canonicalize() else { continue };
        if is_trusted_program(&program) {
            return Ok(program);
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "bubblewrap (`bwrap`) is not installed")
        .next_step("install the package `bubblewrap` of your system"))
}

fn is_trusted_program(program: &Path) -> bool {
    const EXECUTABLE: u32 = 0o111;
    const WRITABLE_BY_ALL: u32 = 0o002;
    fs::metadata(program).is_ok_and(|meta| {
        let mode = meta.permissions().mode();
        meta.is_file() && mode & EXECUTABLE != 0 && mode & WRITABLE_BY_ALL == 0
    })
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

/// Why bubblewrap does not run, judged by what it printed.
pub(crate) fn explain(program: &Path, printed: &str) -> Error {
    let printed = printed.trim();
    let hint = if printed.contains("namespace") || printed.contains("uid map") {
        "user namespaces are not permitted: allow them as an administrator \
         (`sysctl kernel.unprivileged_userns_clone=1`, or on Ubuntu \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap)"
    } else if printed.contains("proc") {
        "a container around the server hides parts of /proc: run it with \
         `--security-opt systempaths=unconfined`, or choose the external sandbox policy"
    } else {
        "run it by hand to see the reason"
    };
    let program = program.display();
    let message = match printed {
        "" => format!("{program} does not work here and prints no reason"),
        _ => format!("{program} does not work here ({printed})"),
    };
    Error::new(ErrorKind::Unavailable, message).next_step(hint)
}

/// A command that proves that bubblewrap and namespaces work: bubblewrap itself.
pub(crate) fn probe_argv(program: &Path) -> Vec<OsString> {
    vec![program.into(), "--version".into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_a_program_that_prints_nothing() {
        let explained = |printed| explain(Path::new("/bin/bwrap"), printed).to_string();
        assert_eq!(
            explained(" \n"),
            "/bin/bwrap does not work here and prints no reason; run it by hand to see the reason"
        );
        let explanation = explained("setting up uid map: Permission denied");
        assert!(
            explanation.contains("(setting up uid map: Permission denied); user namespaces"),
            "{explanation}"
        );
    }
}
