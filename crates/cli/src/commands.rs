//! The subcommands. Results go to standard output, everything else to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub(crate) mod acp;
pub(crate) mod app_server;
pub(crate) mod completions;
pub(crate) mod config;
mod connect;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod gateway;
pub(crate) mod hooks;
pub(crate) mod import;
pub(crate) mod listen;
mod local;
mod local_provider;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod mcp_server;
pub(crate) mod model_server;
pub(crate) mod output;
pub(crate) mod plugins;
pub(crate) mod proxy;
pub(crate) mod review;
pub(crate) mod rules;
#[cfg(unix)]
pub(crate) mod sandbox;
#[cfg(not(unix))]
#[path = "commands/sandbox_elsewhere.rs"]
pub(crate) mod sandbox;
pub(crate) mod skills;
pub(crate) mod store;
pub(crate) mod terminal;
pub(crate) mod threads;
mod transcript;
mod watchdog;
pub(crate) mod web;
pub(crate) mod worktree;

use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::environment::Environment;

/// Prints a line to standard error. Ignores errors: standard error may be closed.
pub(crate) fn eprint(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Invalid arguments or an invalid configuration: exit code 2.
#[derive(Debug)]
pub(crate) struct Invalid(String);

impl Invalid {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The error with its causes.
impl From<anyhow::Error> for Invalid {
    fn from(error: anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// The exit code of a program that ends with this error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<Invalid>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// The configuration to run with, with or without the projects of the working folder.
///
/// # Errors
/// An invalid configuration.
pub(crate) fn checked(
    environment: &Environment,
    projects: bool,
) -> Result<::config::Config, Invalid> {
    let options = environment.clone().options("cli");
    let resolved = server::configuration(&options, projects);
    Ok(resolved.map_err(|error| Invalid::new(error.diagnostic()))?.config)
}

/// Asks a question that `y` or `yes` confirms. `otherwise`: what to do without a terminal.
///
/// # Errors
/// Standard input is no terminal.
pub(crate) fn is_confirmed(question: &str, otherwise: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message =
            format!("standard input is not a terminal, so no one can answer; {otherwise}");
        return Err(Invalid::new(message).into());
    }
    write!(std::io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Prints a line of the result to standard output.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(line: fmt::Arguments<'_>) -> std::io::Result<()> {
    let mut out = output::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Resolves on SIGINT or SIGTERM.
#[cfg(not(unix))]
pub(crate) async fn asked_to_end() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// Resolves on SIGINT or SIGTERM.
#[cfg(unix)]
pub(crate) async fn asked_to_end() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
