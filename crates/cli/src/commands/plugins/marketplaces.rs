//! `agentd plugins marketplace`.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use protocol::{MarketplaceAddParams, MarketplaceRemoveParams, MarketplaceUpgradeParams};
use serde_json::json;

use super::{listed, print_errors};
use crate::commands::local::{LocalServer, Quiet};
use crate::commands::{eprint, print};

#[derive(Subcommand)]
pub(super) enum Command {
    /// Add a marketplace: a git repository, `OWNER/NAME` on GitHub, or a folder
    Add {
        source: String,
        /// Branch, tag or commit
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// Check out only this folder; can be repeated
        #[arg(long, value_name = "FOLDER")]
        sparse: Vec<String>,
    },
    /// Remove a marketplace; plugins installed from it stay
    Remove { name: String },
    /// Fetch the current marketplaces; installed plugins stay unchanged
    Upgrade {
        /// Only this marketplace
        name: Option<String>,
    },
    /// List the marketplaces
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(command: Command, server: &mut LocalServer) -> anyhow::Result<ExitCode> {
    match command {
        Command::Add { source, reference, sparse } => {
            let sparse_paths = Some(sparse).filter(|sparse| !sparse.is_empty());
            let params = MarketplaceAddParams { source, ref_name: reference, sparse_paths };
            let added = server.call::<protocol::MarketplaceAdd>(&params, &mut Quiet).await?;
            let name = visible::line(&added.marketplace_name);
            let what = if added.already_added { "was already added" } else { "was added" };
            print(format_args!("{name} {what}: {}", added.installed_root))?;
            print_errors(&listed(server).await?, Some(Path::new(&added.installed_root)));
        }
        Command::Remove { name } => {
            let params = MarketplaceRemoveParams { marketplace_name: name };
            let removed = server.call::<protocol::MarketplaceRemove>(&params, &mut Quiet).await?;
            print(format_args!("{} is removed", visible::line(&removed.marketplace_name)))?;
            if !removed.installed_plugin_ids.is_empty() {
                eprint(format_args!(
                    "agentd: these plugins from it stay installed and in use: {}; `agentd plugins uninstall` \
                     removes them",
                    visible::line(&removed.installed_plugin_ids.join(", "))
                ));
            }
        }
        Command::Upgrade { name } => {
            let params = MarketplaceUpgradeParams { marketplace_name: name };
            let done = server.call::<protocol::MarketplaceUpgrade>(&params, &mut Quiet).await?;
            for root in &done.upgraded_roots {
                print(format_args!("upgraded {root}"))?;
            }
            for error in &done.errors {
                let name = visible::line(&error.marketplace_name);
                eprint(format_args!("agentd: {name}: {}", visible::line(&error.message)));
            }
            if !done.errors.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
            if done.upgraded_roots.is_empty() {
                print(format_args!("nothing has changed"))?;
            }
        }
        Command::List { json } => {
            let response = listed(server).await?;
            print_errors(&response, None);
            let marketplaces = response.marketplaces;
            if json {
                print(format_args!("{:#}", json!(marketplaces)))?;
                return Ok(ExitCode::SUCCESS);
            }
            // Of those without a path, only installed plugins are left.
            for marketplace in marketplaces.iter().filter(|one| one.path.is_some()) {
                let name = visible::line(&marketplace.name);
                let count = marketplace.plugins.len();
                let path = marketplace.path.as_deref().unwrap_or_default();
                print(format_args!("{name}  {count} plugins  {path}"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
