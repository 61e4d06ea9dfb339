//! `agentd gateway create-key`: a key for a project, without the administration API.

use std::process::ExitCode;

use anyhow::Context;

use super::{Source, machine};
use crate::commands::{Invalid, eprint, print};

#[derive(clap::Args)]
pub(super) struct Arguments {
    // See the id of the same option of `gateway`.
    /// The configuration of the gateway; without one, the store in the agent's home
    #[arg(id = "overrides", long = "config", value_name = "FILE")]
    pub(super) config: Option<String>,
    /// The project, in the default organization; created if it does not exist
    #[arg(long, value_name = "NAME", default_value = "Default project")]
    project: String,
    /// The key's name in lists
    #[arg(long, value_name = "NAME", default_value = "Key of the command line")]
    name: String,
}

/// Prints the key alone on standard output.
pub(super) async fn run(arguments: &Arguments, source: &Source) -> anyhow::Result<ExitCode> {
    let (project, name) = (arguments.project.trim(), arguments.name.trim());
    if project.is_empty() || name.is_empty() {
        return Err(Invalid::new("--project and --name need at least a letter").into());
    }
    let settings = match source.read() {
        Ok(settings) => settings,
        Err(error) => {
            eprint(format_args!("agentd: {error}"));
            return Ok(ExitCode::from(2));
        }
    };
    let key = gateway::create_key(&settings, &machine(), project, name).await?;
    let key = key.context(
        "the default organization was deleted: create keys with the administration \
            API",
    )?;
    eprint(format_args!("A key of the project `{project}`, shown only once:"));
    print(format_args!("{key}"))?;
    Ok(ExitCode::SUCCESS)
}
