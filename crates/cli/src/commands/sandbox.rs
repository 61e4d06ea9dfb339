//! `agentd sandbox`: runs a command from the terminal under a sandbox policy, with the same rights as
//! a command of the model.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use config::table::SandboxMode;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox::{Control, ErrorKind, Size, Stream};
use server::ChosenPolicy;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::{asked_to_end, checked, eprint};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The policy [default: the configured one]
    #[arg(long, value_enum, conflicts_with = "permissions")]
    mode: Option<Mode>,
    /// A permission profile of the configuration
    #[arg(long, value_name = "NAME")]
    permissions: Option<String>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// No writes, no network
    ReadOnly,
    /// Writes in the working folder and the temporary folders, no network
    WorkspaceWrite,
    /// No sandbox
    DangerFullAccess,
}

/// The sandbox could not be set up.
const UNAVAILABLE: u8 = 125;
/// Exit codes of shells for programs that cannot be executed or do not exist.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs the command. Exit code: the command's as a shell reports it (128 and the signal for one
/// that a signal ended), 125 when the policy cannot be enforced here.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let config = checked(&environment, true)?;
    let wanted = match (arguments.mode, arguments.permissions) {
        (Some(Mode::ReadOnly), _) => Some(ChosenPolicy::Mode(SandboxMode::ReadOnly)),
        (Some(Mode::WorkspaceWrite), _) => Some(ChosenPolicy::Mode(SandboxMode::WorkspaceWrite)),
        (Some(Mode::DangerFullAccess), _) => {
            Some(ChosenPolicy::Mode(SandboxMode::DangerFullAccess))
        }
        (None, Some(name)) => Some(ChosenPolicy::Profile(name)),
        (None, None) => None,
    };
    let interactive = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let size = if interactive { Some(terminal_size()?) } else { None };
    let options = environment.clone().options("cli");
    let made = server::sandboxed(&options, &config, wanted.as_ref(), arguments.command, size);
    let (spawn, warnings) = match made {
        Ok(made) => made,
        Err(why) => {
            eprint(format_args!("agentd: {why}"));
            return Ok(ExitCode::from(UNAVAILABLE));
        }
    };
    for warning in warnings {
        eprint(format_args!("agentd: {warning}"));
    }
    let program = spawn.argv.first().map(PathBuf::from).unwrap_or_default();
    let mut process = match environment.sandbox().spawn(spawn).await {
        Ok(process) => process,
        Err(error) => {
            eprint(format_args!("agentd: {error}"));
            return Ok(ExitCode::from(match error.kind() {
                ErrorKind::ProgramNotFound => NOT_FOUND,
                ErrorKind::NotExecutable => NOT_EXECUTABLE,
                _ => UNAVAILABLE,
            }));
        }
    };
    let _raw = if interactive { Some(Raw::enter()?) } else { None };
    tokio::spawn(feed(process.control()));
    if interactive {
        tokio::spawn(follow_size(process.control()));
    }
    let mut end = std::pin::pin!(asked_to_end());
    loop {
        let chunk = tokio::select! {
            chunk = process.output.recv() => chunk,
            _ = &mut end => {
                process.kill();
                break;
            }
        };
        let Some(chunk) = chunk else { break };
        let written = match chunk.stream {
            Stream::Stdout => std::io::stdout().lock().write_all(&chunk.bytes),
            Stream::Stderr => std::io::stderr().lock().write_all(&chunk.bytes),
        };
        let flushed = written.and_then(|()| std::io::stdout().lock().flush());
        if flushed.is_err() {
            // The reader is gone, so the rest of the output is not needed.
            process.kill();
            break;
        }
    }
    let exit = process.wait().await;
    if let Some(error) = exit.not_executed(&program) {
        eprint(format_args!("agentd: {error}"));
        return Ok(ExitCode::from(NOT_EXECUTABLE));
    }
    if let Some(reason) = server::limit_reason(&exit) {
        eprint(format_args!("agentd: ended at a limit: {reason}"));
    }
    if exit.sandbox_failed {
        return Ok(ExitCode::from(UNAVAILABLE));
    }
    Ok(ExitCode::from(u8::try_from(exit.shell_code()).unwrap_or(u8::MAX)))
}

/// Passes standard input to the command until it ends.
async fn feed(command: Control) {
    let mut input = tokio::io::stdin();
    let mut bytes = vec![0; 16 * 1024];
    // Ends when the command has exited or closed its input.
    while let Ok(read) = input.read(&mut bytes).await
        && read > 0
    {
        if command.write_stdin(&bytes[..read]).await.is_err() {
            return;
        }
    }
    let _ = command.close_stdin().await;
}

async fn follow_size(command: Control) {
    let Ok(mut changes) = signal(SignalKind::window_change()) else { return };
    while changes.recv().await.is_some() {
        if let Ok(size) = terminal_size() {
            // The command may be gone.
            let _ = command.resize(size);
        }
    }
}

fn terminal_size() -> anyhow::Result<Size> {
    let size = tcgetwinsize(std::io::stdout()).context("cannot read the size of the terminal")?;
    Ok(Size { rows: size.ws_row.max(1), cols: size.ws_col.max(1) })
}

/// The terminal without echo and line editing of its own: the command has its own terminal.
struct Raw(Termios);

impl Raw {
    fn enter() -> anyhow::Result<Self> {
        let before =
            tcgetattr(std::io::stdin()).context("cannot read the settings of the terminal")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)
            .context("cannot change the settings of the terminal")?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A closed terminal has no settings to restore.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}
