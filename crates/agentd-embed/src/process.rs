//! A server that this process starts, and its last words.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonrpc::{Connection, Limits};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::Error;

/// The program that is looked for in `PATH`.
const DEFAULT: &str = "agentd";
/// The variable that names another.
const VARIABLE: &str = "AGENTD_PATH";
/// Lines of the server's standard error that an error repeats.
const LAST_LINES: usize = 20;
/// Longest of them, in bytes; what follows is not kept.
const LINE_BYTES: u64 = 2_000;
/// Time for the server to exit: after its input was closed, and again after it was signalled.
const GRACE: Duration = Duration::from_secs(5);

/// The program to start.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) path: Option<PathBuf>,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) variables: Vec<(OsString, OsString)>,
}

/// A server that was started. Dropping it does not end the server: the end of its input does.
pub(crate) struct Process {
    /// `None` while it runs; then how it ended.
    ended: watch::Receiver<Option<String>>,
    last_lines: LastLines,
    /// To what owns the process, which alone knows whether its number still is its own.
    tell: mpsc::Sender<Tell>,
}

/// The signal that ends a server that stays.
#[derive(Clone, Copy)]
enum Tell {
    Terminate,
    Kill,
}

type LastLines = Arc<Mutex<VecDeque<String>>>;

impl Program {
    /// Starts it. Must be called within a tokio runtime.
    pub(crate) fn start(self, limits: Limits) -> Result<(Process, Connection), Error> {
        let named = self.path.or_else(path_from_environment);
        let path = named.clone().unwrap_or_else(|| DEFAULT.into());
        // The server is this process's own choice, not one of an agent, so it needs no sandbox.
        #[expect(clippy::disallowed_methods, reason = "the embedding program starts a server")]
        let mut command = Command::new(path);
        command.arg("app-server").args(self.arguments).envs(self.variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let not_started = |error| match &self.cwd {
            // The system's error is the same as for a program that is missing.
            Some(cwd) if !cwd.is_dir() => no_folder(cwd),
            _ => not_started(named.as_deref(), &error),
        };
        let mut child = command.spawn().map_err(not_started)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::ProgramNotFound("the server has no standard streams".to_owned()));
        };
        let last_lines = LastLines::default();
        let (sender, ended) = watch::channel(None);
        let (tell, told) = mpsc::channel(2);
        let reading = tokio::spawn(keep_last_lines(stderr, last_lines.clone()));
        tokio::spawn(async move {
            let how = wait(&mut child, told).await;
            // A process that the server left behind can hold the stream open.
            let _ = timeout(GRACE, reading).await;
            let _ = sender.send(Some(how));
        });
        let process = Process { ended, last_lines, tell };
        // A server that works does not always read: the wait for it is not bounded here.
        let connection = Connection::over(stdout, stdin, Limits { stall: None, ..limits });
        Ok((process, connection))
    }
}

fn no_folder(cwd: &Path) -> Error {
    Error::FolderNotFound(format!(
        "the working folder {} is not there, or is not a folder; create it, or give another `cwd`",
        cwd.display()
    ))
}

/// `named` is the program that was chosen, if one was.
fn not_started(named: Option<&Path>, error: &io::Error) -> Error {
    let why = match named {
        None if error.kind() == io::ErrorKind::NotFound => format!(
            "no program `{DEFAULT}` was found: `program` of the builder and the variable {VARIABLE} are not set, and \
             PATH has none; install it, or set one of the two to the program"
        ),
        _ => format!(
            "{} cannot be started: {error}; set `program` of the builder or {VARIABLE} to the program",
            named.unwrap_or_else(|| Path::new(DEFAULT)).display()
        ),
    };
    Error::ProgramNotFound(why)
}

/// The program that the user of the embedding program chose, as for the SDKs of other languages.
#[expect(clippy::disallowed_methods, reason = "a documented setting of every SDK")]
fn path_from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

async fn wait(child: &mut Child, mut told: mpsc::Receiver<Tell>) -> String {
    let status = loop {
        let what = tokio::select! {
            status = child.wait() => break status,
            Some(what) = told.recv() => what,
        };
        end(child, what);
    };
    match status {
        Ok(status) => match status.code() {
            Some(code) => format!("the server ended with {code}"),
            None => format!("the server ended with {status}"),
        },
        Err(error) => format!("the end of the server is unknown: {error}"),
    }
}

/// An error of either means that the process has just ended.
fn end(child: &mut Child, what: Tell) {
    #[cfg(unix)]
    if let Tell::Terminate = what {
        use rustix::process::{Pid, Signal, kill_process};

        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        return;
    }
    // Other systems have no milder way.
    let _ = (what, child.start_kill());
}

async fn keep_last_lines(stream: impl AsyncRead + Unpin, kept: LastLines) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        // What cannot be read is not worth an error of its own: it only explains others.
        match (&mut reader).take(LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut lines = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
    }
}

impl Process {
    /// Why the connection ended, with what the server said last.
    pub(crate) async fn last_words(&self) -> String {
        let mut ended = self.ended.clone();
        let how = match timeout(GRACE, ended.wait_for(Option::is_some)).await {
            Ok(Ok(how)) => how.clone().unwrap_or_default(),
            Ok(Err(_)) | Err(_) => "the server closed its output".to_owned(),
        };
        let lines = self.last_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let said: String = lines.iter().map(|line| format!("\n  {line}")).collect();
        if said.is_empty() { how } else { format!("{how}; it said:{said}") }
    }

    /// Ends the server at once; its end is not awaited.
    pub(crate) fn kill(&self) {
        // The other side is gone when the process has ended.
        let _ = self.tell.try_send(Tell::Kill);
    }

    /// Waits for the end of a server whose input is closed, and ends one that stays.
    pub(crate) async fn end(&self) {
        for tell in [None, Some(Tell::Terminate), Some(Tell::Kill)] {
            if let Some(tell) = tell {
                // The other side is gone when the process has ended.
                let _ = self.tell.try_send(tell);
            }
            let mut ended = self.ended.clone();
            if timeout(GRACE, ended.wait_for(Option::is_some)).await.is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_the_program_was_looked_for() {
        for (named, kind, expected) in [
            (
                None,
                io::ErrorKind::NotFound,
                "no program `agentd` was found: `program` of the builder and the variable",
            ),
            (None, io::ErrorKind::PermissionDenied, "agentd cannot be started: permission denied"),
            (Some("/a/b"), io::ErrorKind::NotFound, "/a/b cannot be started: entity not found"),
        ] {
            let error = not_started(named.map(Path::new), &kind.into());
            let Error::ProgramNotFound(why) = &error else { panic!("{error}") };
            assert!(why.starts_with(expected) && why.contains("AGENTD_PATH"), "{why}");
        }
    }
}
