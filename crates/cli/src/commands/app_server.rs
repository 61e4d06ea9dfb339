//! `agentd app-server`: serves the protocol, or writes its schemas.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use jsonrpc::{Connection, Limits};
use protocol::artifacts::{Artifact, json_schema, typescript};
use server::Server;

use crate::commands::{asked_to_end, checked, print};
use crate::world::World;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where clients connect: `stdio://` (this program's standard input and output) or `off`
    #[arg(long, value_name = "URL", default_value = "stdio://")]
    listen: String,
    /// What threads started over this server are listed as: `editor`, `cli`, `exec`, `appServer`,
    /// or a name of your own
    #[arg(long, value_name = "NAME", default_value = "editor")]
    session_source: String,
    /// Longest line that a client may send, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().line_bytes)]
    max_line_bytes: usize,
    #[command(subcommand)]
    generate: Option<Generate>,
}

#[derive(Subcommand)]
enum Generate {
    /// Write the protocol's TypeScript declarations
    GenerateTs(GenerateArguments),
    /// Write the protocol's JSON Schema
    GenerateJsonSchema(GenerateArguments),
}

#[derive(clap::Args)]
struct GenerateArguments {
    /// The folder to write into; made when it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Also what needs the `experimentalApi` capability
    #[arg(long)]
    experimental: bool,
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    world: impl FnOnce() -> anyhow::Result<World>,
) -> anyhow::Result<ExitCode> {
    match &arguments.generate {
        Some(Generate::GenerateTs(to)) => write(&to.out, typescript(to.experimental))?,
        Some(Generate::GenerateJsonSchema(to)) => write(&to.out, json_schema(to.experimental))?,
        None => {
            let world = world()?;
            if let Err(code) = checked(&world, false) {
                return Ok(code);
            }
            serve(arguments, world).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve(arguments: Arguments, world: World) -> anyhow::Result<()> {
    let is_stdio = match arguments.listen.as_str() {
        "stdio://" => true,
        "off" => false,
        other if other.starts_with("ws://") || other.starts_with("unix://") => {
            bail!("--listen {other}: this version serves `stdio://` only")
        }
        other => bail!("--listen {other}: unknown transport; use `stdio://` or `off`"),
    };
    let sandbox = world.sandbox();
    let server = Server::start(world.options(&arguments.session_source), sandbox)?;
    if !is_stdio {
        asked_to_end().await?;
        server.shutdown().await;
        return Ok(());
    }
    let limits = Limits { line_bytes: arguments.max_line_bytes.max(1024), ..Limits::default() };
    let connection =
        Connection::stdio(limits).context("standard input and output cannot be served")?;
    let (ending, outbox) = (server.clone(), connection.outbox.clone());
    let ended = outbox.clone();
    tokio::spawn(async move {
        // Without signal handling the server still ends with its input.
        if asked_to_end().await.is_ok() {
            // The client is told how its turns end before it is told that nothing follows.
            ending.shutdown().await;
            outbox.close(jsonrpc::CloseReason::Shutdown);
        }
    });
    server.serve_only(connection).await;
    match ended.close_reason() {
        Some(reason) if !reason.is_orderly() => bail!("the client was cut off: {reason}"),
        _ => Ok(()),
    }
}

fn write(out: &Path, files: &[Artifact]) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    for (name, contents) in files {
        let path = out.join(name);
        std::fs::write(&path, contents)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        print(format_args!("{}", path.display()))?;
    }
    Ok(())
}
