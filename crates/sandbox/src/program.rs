//! Programs: the file that a name means, the errors of starting it, and this program as a supervisor.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// First argument of the program that embeds this crate when it is started as a supervisor, the
/// process that starts commands: it must then call [`crate::supervisor_main`] and nothing else.
pub const SUPERVISE_ARGUMENT: &str = "__supervise";

/// The running program, for [`crate::Config::supervisor`]; stays valid when an update replaces the file.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// The file that `program` names for a command with this folder and `PATH`. Symbolic links are not
/// resolved, because some programs act by the name under which they were started.
///
/// # Errors
/// [`ErrorKind::ProgramNotFound`], [`ErrorKind::NotExecutable`], or an empty name.
pub fn find_program(
    program: &OsStr,
    cwd: &Path,
    env: &[(OsString, OsString)],
) -> Result<PathBuf, Error> {
    const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
    let path = Path::new(program);
    let searched = !program.as_encoded_bytes().contains(&b'/');
    let not_found = || {
        let place = if searched { " in the command's PATH" } else { "" };
        let message = format!("program `{}` was not found{place}", path.display());
        Error::new(ErrorKind::ProgramNotFound, message)
    };
    if program.is_empty() {
        return Err(empty_command());
    }
    if !searched {
        let path = cwd.join(path);
        let reason = match path.metadata() {
            Err(_) => return Err(not_found()),
            Ok(meta) if meta.is_dir() => "it is a folder",
            Ok(_) if is_executable(&path) => return Ok(path),
            Ok(_) => "it is not an executable file",
        };
        return Err(not_executable(&path, reason));
    }
    let search = env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let search = search.unwrap_or(OsStr::new(DEFAULT_PATH));
    // An empty entry means the folder itself, as in every shell.
    let candidates = std::env::split_paths(search).map(|folder| cwd.join(folder).join(path));
    candidates.into_iter().find(|candidate| is_executable(candidate)).ok_or_else(not_found)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// `ENOEXEC`, of a file whose format the kernel does not know.
const NOT_EXECUTABLE: i32 = 8;

/// Why `exec` of `program` failed.
pub(crate) fn exec_error(program: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::ArgumentListTooLong => return too_long(&error.to_string()),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => format!(
            "{error}: the command cannot see it, the interpreter that its first line names, or its \
             loader"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{error}: the sandbox policy or the file's permissions forbid it")
        }
        // Scripts without an interpreter line run in a shell, so this file is not text.
        _ if error.raw_os_error() == Some(NOT_EXECUTABLE) => {
            format!("{error}: it is neither a program for this machine nor a script")
        }
        _ => error.to_string(),
    };
    not_executable(program, &reason)
}

fn not_executable(program: &Path, reason: &str) -> Error {
    let message = format!("program `{}` cannot be executed: {reason}", program.display());
    Error::new(ErrorKind::NotExecutable, message)
}

pub(crate) fn too_long(what: &str) -> Error {
    Error::new(ErrorKind::InvalidCommand, what)
        .next_step("an argument or a variable can have at most 128 KiB, all of them together 2 MiB")
}

pub(crate) fn empty_command() -> Error {
    Error::new(ErrorKind::InvalidCommand, "the command is empty")
        .next_step("give at least a program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        for (name, mode) in [("bin/tool", 0o755), ("bin/data", 0o644), ("local", 0o755)] {
            fs::write(dir.path().join(name), "").unwrap();
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let check = |program: &str, path: &str, expect: Option<&str>| {
            let env = [("PATH".into(), path.into())];
            let found = find_program(program.as_ref(), dir.path(), &env).ok();
            assert_eq!(found, expect.map(|name| dir.path().join(name)), "{program} in {path}");
        };
        check("tool", "/nowhere:bin", Some("bin/tool"));
        check("data", "bin", None);
        check("local", "bin", None);
        check("./local", "bin", Some("./local"));
        check("missing", "bin", None);
        check("./missing", "bin", None);
        check("", "bin", None);
        assert!(find_program("sh".as_ref(), dir.path(), &[]).is_ok());
    }
}
