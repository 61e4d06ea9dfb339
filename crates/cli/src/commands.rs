//! The subcommands, and how they talk to the terminal: results on standard output, everything
//! else on standard error.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub(crate) mod app_server;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod gateway;
pub(crate) mod listen;
mod local;
pub(crate) mod model_server;
pub(crate) mod proxy;
pub(crate) mod rules;
#[cfg(unix)]
pub(crate) mod sandbox;
#[cfg(not(unix))]
#[path = "commands/sandbox_elsewhere.rs"]
pub(crate) mod sandbox;
pub(crate) mod threads;
mod transcript;
mod watchdog;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use crate::environment::Environment;

/// A line for the person who started the program; nobody may be there to read it.
pub(crate) fn tell(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The configuration that the program is about to run with, with the projects of the working folder
/// or without. One that cannot be used is told with its place, and ends the program with 2.
pub(crate) fn checked(
    environment: &Environment,
    projects: bool,
) -> Result<::config::Config, ExitCode> {
    let options = environment.clone().options("cli");
    match server::configuration(&options, projects) {
        Ok(resolved) => Ok(resolved.config),
        Err(error) => {
            tell(format_args!("agentd: {}", error.diagnostic()));
            Err(ExitCode::from(2))
        }
    }
}

/// A line of the program's result.
///
/// # Errors
/// When nobody reads standard output any more.
pub(crate) fn print(line: fmt::Arguments<'_>) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Resolves when the program is asked to end: an interrupt or a termination.
#[cfg(not(unix))]
pub(crate) async fn asked_to_end() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// Resolves when the program is asked to end: an interrupt or a termination.
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
