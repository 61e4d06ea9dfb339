//! `agentd sandbox` on systems where no layer of ours works: it says so.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::commands::eprint;
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The sandbox could not be set up.
const UNAVAILABLE: u8 = 125;

/// Refuses.
#[allow(clippy::unused_async, reason = "as on other systems")]
pub(crate) async fn run(arguments: Arguments, _world: Environment) -> anyhow::Result<ExitCode> {
    eprint(format_args!(
        "agentd: {} was not run: commands can be confined only on Linux; run it there or in a \
         Linux container",
        arguments.command.join(" ".as_ref()).display()
    ));
    Ok(ExitCode::from(UNAVAILABLE))
}
