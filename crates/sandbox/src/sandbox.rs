//! Starts commands: picks the layer that can enforce a policy here, prepares it, and hands the
//! command to a supervisor. Refuses rather than run a command with less than its policy asks for.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::policy::Policy;
use crate::pty::Size;

/// The first argument with which the program that embeds this crate is started as the process
/// that starts commands: it must call [`crate::supervisor_main`] then, and do nothing else.
pub const SUPERVISE_ARGUMENT: &str = "__supervise";

/// The running program, for [`Config::supervisor`]; also after its file was replaced by an update.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// What a [`Sandbox`] is made of. Nothing is looked up in the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program that starts commands, given [`SUPERVISE_ARGUMENT`]: [`THIS_PROGRAM`], or
    /// another that calls [`crate::supervisor_main`].
    pub supervisor: PathBuf,
    /// Where `bwrap` is looked for; folders that are not absolute are passed over.
    pub search_path: Vec<PathBuf>,
    pub layer: Layer,
    /// The (soft) limit of open files that commands begin with; `None`: that of this process.
    pub descriptors: Option<u64>,
}

/// Which layer confines commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Bubblewrap where it works, else Landlock.
    #[default]
    Auto,
    Bubblewrap,
    /// Stricter than the policy inside writable roots: see the crate's documentation.
    Landlock,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The program, looked up in the `PATH` of `env` when it has no `/`, and its arguments.
    pub argv: Vec<OsString>,
    /// Absolute.
    pub cwd: PathBuf,
    /// The complete environment: nothing is inherited. `TMPDIR` in it is the temporary folder
    /// that [`Policy::WorkspaceWrite`] speaks of.
    pub env: Vec<(OsString, OsString)>,
    pub policy: Policy,
    /// Folders whose protected names must not change either, where they lie in a writable root: those
    /// whose files configure a later command.
    pub guarded: Vec<PathBuf>,
    /// Run on a terminal of this size, its output and errors in one stream. `stdin` is then the
    /// terminal.
    pub tty: Option<Size>,
    pub stdin: Stdin,
    /// The one way to the network, whatever `policy` says of it. Needs a policy that confines.
    pub egress: Option<std::sync::Arc<crate::egress::Egress>>,
}

/// Standard input of a command without a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// At its end from the start.
    #[default]
    Null,
    /// Written with [`crate::Process::write_stdin`].
    Pipe,
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("the command is empty: give at least a program")]
    Empty,
    #[error("a command, folder or variable holds a NUL byte, which no program can be given")]
    NulByte,
    #[error("program `{}` was not found{}", .program.display(), if *.searched { " in the command's PATH" } else { "" })]
    ProgramNotFound { program: PathBuf, searched: bool },
    #[error("program `{}` cannot be executed: {reason}", .program.display())]
    NotExecutable { program: PathBuf, reason: String },
    #[error(
        "{0}: a program is given at most 128 KiB in one argument or variable, and 2 MiB in all"
    )]
    TooLong(String),
    #[error("the working folder {} cannot be used: {reason}", .path.display())]
    BadCwd { path: PathBuf, reason: String },
    /// The policy cannot be enforced here; the message says what is missing and what to do.
    #[error("the sandbox is not available: {0}")]
    Unavailable(String),
    #[error("{context}: {source}")]
    Io { context: String, source: io::Error },
}

/// `ENOEXEC`, of a file whose format the kernel does not know.
const NOT_EXECUTABLE: i32 = 8;

/// What an `exec` that failed says of the program.
pub(crate) fn exec_error(program: &Path, error: &io::Error) -> SpawnError {
    let reason = match error.kind() {
        io::ErrorKind::ArgumentListTooLong => return SpawnError::TooLong(error.to_string()),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => format!(
            "{error}: it, the interpreter that its first line names, or its loader is not there for \
             the command"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{error}: the sandbox policy or the file's permissions do not let it run")
        }
        // Scripts run without an interpreter line as well: what is left is no text.
        _ if error.raw_os_error() == Some(NOT_EXECUTABLE) => {
            format!("{error}: it is neither a program for this machine nor a script")
        }
        _ => error.to_string(),
    };
    SpawnError::NotExecutable { program: program.to_owned(), reason }
}

/// Whether one layer works on this machine, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerStatus {
    /// `bubblewrap`, `landlock`, `seccomp`.
    pub layer: &'static str,
    pub usable: bool,
    /// What was found, or why it does not work and what to do.
    pub detail: String,
}

/// The file that `program` names for a command with this folder and `PATH`, not resolving
/// symbolic links: some programs look at the name they were started under.
pub fn find_program(
    program: &OsStr,
    cwd: &Path,
    env: &[(OsString, OsString)],
) -> Result<PathBuf, SpawnError> {
    const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
    let path = Path::new(program);
    let searched = !program.as_encoded_bytes().contains(&b'/');
    let not_found = || SpawnError::ProgramNotFound { program: path.to_owned(), searched };
    if program.is_empty() {
        return Err(SpawnError::Empty);
    }
    if !searched {
        let path = cwd.join(path);
        let reason = match path.metadata() {
            Err(_) => return Err(not_found()),
            Ok(meta) if meta.is_dir() => "it is a folder",
            Ok(_) if is_executable(&path) => return Ok(path),
            Ok(_) => "it is no executable file",
        };
        return Err(SpawnError::NotExecutable { program: path, reason: reason.to_owned() });
    }
    let search = env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let search = search.unwrap_or(OsStr::new(DEFAULT_PATH));
    // An empty entry means the folder itself, as it does everywhere.
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

#[cfg(target_os = "linux")]
pub use on_linux::Sandbox;

#[cfg(target_os = "linux")]
#[path = "sandbox/on_linux.rs"]
mod on_linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Sandbox;

#[cfg(not(target_os = "linux"))]
#[path = "sandbox/elsewhere.rs"]
mod elsewhere;

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
