//! Finds out, once and only when first needed, which layers work on this machine, and says in
//! words why one does not.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{landlock, sys};

/// What works here; an error is what to tell the user.
#[derive(Clone, Debug)]
pub(crate) struct Detected {
    pub(crate) bubblewrap: Result<PathBuf, String>,
    pub(crate) landlock: Result<u32, String>,
}

/// Looks for `bwrap` in the absolute folders of `search_path`. A file that everybody can write,
/// or a folder that is not absolute, is not trusted.
pub(crate) fn find_bubblewrap(search_path: &[PathBuf]) -> Result<PathBuf, String> {
    let candidates = search_path.iter().filter(|folder| folder.is_absolute());
    for candidate in candidates.map(|folder| folder.join("bwrap")) {
        let Ok(program) = candidate.canonicalize() else { continue };
        if is_trusted_program(&program) {
            return Ok(program);
        }
    }
    Err("bubblewrap (`bwrap`) is not installed; install the package `bubblewrap` of your system"
        .to_owned())
}

fn is_trusted_program(program: &Path) -> bool {
    const EXECUTABLE: u32 = 0o111;
    const WRITABLE_BY_ALL: u32 = 0o002;
    fs::metadata(program).is_ok_and(|meta| {
        let mode = meta.permissions().mode();
        meta.is_file() && mode & EXECUTABLE != 0 && mode & WRITABLE_BY_ALL == 0
    })
}

/// The Landlock version, when it is recent enough to enforce a whole policy.
pub(crate) fn landlock() -> Result<u32, String> {
    match sys::landlock_abi() {
        Ok(abi) if abi >= landlock::MIN_ABI => Ok(abi),
        Ok(abi) => Err(format!(
            "Landlock version {abi} of this kernel is too old (version {} needed: Linux 6.2 or \
             later)",
            landlock::MIN_ABI
        )),
        Err(error) => Err(format!(
            "Landlock is not available ({error}); it needs Linux 6.2 or later with Landlock \
             enabled (`lsm=landlock,…` on the kernel's command line)"
        )),
    }
}

/// What to tell of a bubblewrap that does not run, from what it printed.
pub(crate) fn explain(program: &Path, printed: &str) -> String {
    let printed = printed.trim();
    let hint = if printed.contains("namespace") || printed.contains("uid map") {
        "user namespaces are not permitted: as an administrator allow them \
         (`sysctl kernel.unprivileged_userns_clone=1`, or on Ubuntu \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for bwrap)"
    } else if printed.contains("proc") {
        "a container around the server hides parts of /proc: run it with \
         `--security-opt systempaths=unconfined`, or choose the external sandbox policy"
    } else {
        "run it by hand to see why"
    };
    let program = program.display();
    match printed {
        "" => format!("{program} does not work here and does not say why; {hint}"),
        _ => format!("{program} does not work here ({printed}); {hint}"),
    }
}

/// A command that proves bubblewrap and namespaces to work: bubblewrap in bubblewrap's place.
pub(crate) fn probe_argv(program: &Path) -> Vec<OsString> {
    vec![program.into(), "--version".into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_says_nothing_leaves_no_gap() {
        let explained = |printed| explain(Path::new("/bin/bwrap"), printed);
        assert_eq!(
            explained(" \n"),
            "/bin/bwrap does not work here and does not say why; run it by hand to see why"
        );
        let told = explained("setting up uid map: Permission denied");
        assert!(
            told.contains("(setting up uid map: Permission denied); user namespaces"),
            "{told}"
        );
    }
}
