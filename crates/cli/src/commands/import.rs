//! `agentd import`: shows what other agents have, and takes over what the user agrees to.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use jsonrpc::Notification;
use protocol::ConfigWarningNotification;
use protocol::external_agent::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigImportParams,
    ExternalAgentConfigMigrationItem as Item,
};
use serde_json::json;
use serde_json::value::RawValue;

use crate::commands::local::{self, LocalServer, Observer};
use crate::commands::{Invalid, eprint, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Show what would be imported, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Import everything without asking
    #[arg(long)]
    yes: bool,
    /// Print the items as JSON; imports only with `--yes`
    #[arg(long)]
    json: bool,
    /// Also import from the working folder's project
    #[arg(long)]
    project: bool,
}

/// Runs the subcommand. Exit codes: 0, 1 when something cannot be imported, 2 when no one can be asked.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let cwd = environment.clone().options("cli").cwd;
    let mut server = LocalServer::start(environment, "cli").await?;
    let cwds = arguments.project.then(|| vec![cwd.display().to_string()]);
    let params = ExternalAgentConfigDetectParams { cwds, include_home: true };
    let found = server.call::<protocol::ExternalAgentConfigDetect>(&params, &mut Problems).await?;
    let done = match found.items.is_empty() && !arguments.json {
        true => {
            eprint(format_args!("agentd: there is nothing left to import from other agents"));
            Ok(ExitCode::SUCCESS)
        }
        false => import(&mut server, found.items, &arguments).await,
    };
    server.close().await;
    done
}

async fn import(
    server: &mut LocalServer,
    items: Vec<Item>,
    arguments: &Arguments,
) -> anyhow::Result<ExitCode> {
    if arguments.json {
        print(format_args!("{:#}", json!({ "items": items })))?;
    }
    let mut all_done = true;
    for item in items {
        if !arguments.json {
            show(&item)?;
        }
        let is_wanted = match (arguments.yes, arguments.dry_run || arguments.json) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => is_confirmed()?,
        };
        if !is_wanted {
            continue;
        }
        // One at a time, so that one that fails keeps no other from being imported.
        let params = ExternalAgentConfigImportParams { migration_items: vec![item] };
        let done = server.call::<protocol::ExternalAgentConfigImport>(&params, &mut Problems).await;
        if let Err(error) = done {
            eprint(format_args!("agentd: {error:#}"));
            all_done = false;
        }
    }
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(item: &Item) -> io::Result<()> {
    print(format_args!("{}", item.description))?;
    let details = item.details.iter().flat_map(|details| &details.sessions);
    for session in details {
        let title = session.title.as_deref().unwrap_or("(no title)");
        print(format_args!("- {}  ({})", visible::exact(title), visible::exact(&session.cwd)))?;
    }
    Ok(())
}

fn is_confirmed() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Invalid::new(
            "standard input is not a terminal, so no one can answer; add `--yes` to import \
             everything, or `--dry-run` to import nothing",
        )
        .into());
    }
    io::stderr().write_all(b"Import this? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Prints the files that cannot be used.
struct Problems;

impl Observer for Problems {
    fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        if method == protocol::ConfigWarning::NAME {
            let warning: ConfigWarningNotification = serde_json::from_str(params.get())?;
            eprint(format_args!("agentd: {}", warning.summary));
        }
        Ok(())
    }

    async fn asked(&mut self, method: &str, _: &RawValue) -> io::Result<local::Answer> {
        Ok(agentd_embed::decline(method))
    }
}
