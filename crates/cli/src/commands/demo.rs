//! `agentd demo`: the main job, shown.

use std::process::ExitCode;

use crate::world::World;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// Runs the subcommand.
pub(crate) async fn run(_arguments: Arguments, _world: World) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::FAILURE)
}
