//! Runs the command of a hook: its input goes to standard input, its answer is what it prints.

use std::time::Duration;

use hooks::HandlerResult;
use sandbox::{OutputBuffer, Process, Stream};

use crate::command_runner::{CommandLine, CommandRunner};

/// Bytes of a command's standard output that are read as its answer, and of its standard error.
const MAX_OUTPUT: usize = 1 << 20;
/// Bytes of standard output that are read at all: a check may be long-winded, and still refuse.
const MAX_DRAINED: usize = 64 << 20;

/// The end of a command.
pub(super) enum CommandEnd {
    Exited { code: Option<i32>, output: Vec<u8>, errors: Vec<u8> },
    TimedOut { seconds: u64 },
    TooMuchOutput { limit: usize },
    NotStarted { message: String },
}

/// Runs a command to its end. Whatever it started ends with it, and when this is dropped.
pub(super) async fn run(
    runner: &CommandRunner,
    line: CommandLine,
    input: &str,
    seconds: u64,
) -> CommandEnd {
    let work = async {
        let mut process = match runner.spawn(line).await {
            Ok(process) => process,
            Err(error) => return CommandEnd::NotStarted { message: error.to_string() },
        };
        let control = process.control();
        let write = async {
            // A command need not read its input.
            let _ = control.write_stdin(input.as_bytes()).await;
            let _ = control.close_stdin().await;
        };
        let read = read(&mut process);
        tokio::pin!(read);
        tokio::select! {
            end = &mut read => end,
            () = write => read.await,
        }
    };
    match tokio::time::timeout(Duration::from_secs(seconds), work).await {
        Ok(end) => end,
        Err(_) => CommandEnd::TimedOut { seconds },
    }
}

async fn read(process: &mut Process) -> CommandEnd {
    let (mut output, mut errors) = (OutputBuffer::unbounded(), OutputBuffer::new(MAX_OUTPUT));
    let mut written = 0;
    while let Some(chunk) = process.output.recv().await {
        match chunk.stream {
            Stream::Stdout => {
                written += chunk.bytes.len();
                if written > MAX_DRAINED {
                    return CommandEnd::TooMuchOutput { limit: MAX_DRAINED };
                }
                if written <= MAX_OUTPUT {
                    output.push(&chunk.bytes);
                }
            }
            Stream::Stderr => errors.push(&chunk.bytes),
        }
    }
    let exit = process.wait().await;
    if written > MAX_OUTPUT && exit.code == Some(0) {
        return CommandEnd::TooMuchOutput { limit: MAX_OUTPUT };
    }
    CommandEnd::Exited { code: exit.code, output: output.bytes(), errors: errors.bytes() }
}

impl CommandEnd {
    /// As the formats know it.
    pub(super) fn as_result(&self) -> HandlerResult<'_> {
        match self {
            Self::Exited { code: Some(code), output, errors } => {
                HandlerResult::Exited { code: *code, output, errors }
            }
            Self::Exited { code: None, errors, .. } => HandlerResult::Killed { errors },
            Self::TimedOut { seconds } => HandlerResult::TimedOut { seconds: *seconds },
            Self::TooMuchOutput { limit } => HandlerResult::TooMuchOutput { limit: *limit },
            Self::NotStarted { message } => HandlerResult::NotRun { message },
        }
    }
}
