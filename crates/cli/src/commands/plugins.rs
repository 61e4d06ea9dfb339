//! `agentd plugins`: adds marketplaces, and shows, installs and removes their plugins. What a plugin could do
//! is shown before the user is asked whether it is installed.

mod marketplaces;
mod shown;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use protocol::config::{ConfigValueWriteParams, MergeStrategy};
use protocol::{
    PluginDetail, PluginInstallParams, PluginInstallPolicy, PluginListParams, PluginListResponse,
    PluginMarketplaceEntry, PluginReadParams, PluginSummary, PluginUninstallParams,
};
use serde_json::json;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::{Invalid, eprint, is_confirmed, print};
use crate::environment::Environment;
use shown::{flat, show, state};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Add, remove, upgrade and list marketplaces
    #[command(subcommand)]
    Marketplace(marketplaces::Command),
    /// List the plugins of all marketplaces
    List {
        /// Only installed plugins
        #[arg(long)]
        installed: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a plugin: its skills, hooks, MCP servers and apps, and what would run
    Show {
        /// NAME@MARKETPLACE
        plugin: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Install a plugin, after showing what it could do
    Install {
        /// NAME@MARKETPLACE
        plugin: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Remove an installed plugin
    Uninstall {
        /// NAME@MARKETPLACE
        plugin: String,
    },
    /// Upgrade installed plugins to the marketplaces' current versions, after showing what changes
    Upgrade {
        /// NAME@MARKETPLACE; all installed plugins when absent
        plugins: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Switch installed plugins off
    Disable {
        /// NAME@MARKETPLACE
        #[arg(required = true)]
        plugins: Vec<String>,
    },
    /// Switch installed plugins on again
    Enable {
        /// NAME@MARKETPLACE
        #[arg(required = true)]
        plugins: Vec<String>,
    },
}

/// Runs the subcommand. Exit codes: 0, 1 when something fails or the user says no, 2 for a plugin that does not
/// exist.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let mut server = LocalServer::start(environment, "cli").await?;
    let done = carry_out(arguments.command, &mut server).await;
    server.close().await;
    done
}

async fn carry_out(command: Command, server: &mut LocalServer) -> anyhow::Result<ExitCode> {
    match command {
        Command::Marketplace(command) => marketplaces::run(command, server).await,
        Command::List { installed, json } => list(server, installed, json).await,
        Command::Show { plugin, json } => {
            let detail = read_to_show(server, &plugin).await?;
            match json {
                true => print(format_args!("{:#}", json!(detail)))?,
                false => show(&detail)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Install { plugin, yes } => {
            let found = read(server, &plugin).await?;
            show(&found.detail)?;
            install(server, found, "Install this plugin?", yes).await
        }
        Command::Uninstall { plugin } => {
            let params = PluginUninstallParams { plugin_id: plugin.clone() };
            server.call::<protocol::PluginUninstall>(&params, &mut Quiet).await?;
            print(format_args!("{} is removed", visible::line(&plugin)))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Upgrade { plugins, yes } => upgrade(server, plugins, yes).await,
        Command::Disable { plugins } => switch(server, &plugins, false).await,
        Command::Enable { plugins } => switch(server, &plugins, true).await,
    }
}

/// A plugin as its marketplace has it.
struct Found {
    detail: PluginDetail,
    /// The parameters with which it is installed.
    params: PluginInstallParams,
}

/// The marketplaces of the home, and that of the working folder's project, if it is trusted.
async fn listed(server: &mut LocalServer) -> anyhow::Result<PluginListResponse> {
    let cwds = server.cwd.to_str().map(|cwd| vec![cwd.to_owned()]);
    let params = PluginListParams { cwds, ..PluginListParams::default() };
    server.call::<protocol::PluginList>(&params, &mut Quiet).await
}

/// Prints what is wrong with marketplaces: with that in the folder `of`, or with all.
fn print_errors(listed: &PluginListResponse, of: Option<&Path>) {
    for error in &listed.marketplace_load_errors {
        let path = &error.marketplace_path;
        if of.is_none_or(|root| Path::new(path).starts_with(root)) {
            eprint(format_args!(
                "agentd: {}: {}",
                visible::line(path),
                visible::line(&error.message)
            ));
        }
    }
}

/// The folder of a marketplace whose list is in `file`.
fn folder_of(file: &str) -> &Path {
    let file = Path::new(file);
    let depth = if file.ends_with(".claude-plugin/marketplace.json") { 2 } else { 3 };
    file.ancestors().nth(depth).unwrap_or(file)
}

async fn list(server: &mut LocalServer, installed: bool, json: bool) -> anyhow::Result<ExitCode> {
    let response = listed(server).await?;
    print_errors(&response, None);
    let plugins = response.marketplaces.into_iter().flat_map(|marketplace| {
        let is_there = marketplace.path.is_some();
        marketplace.plugins.into_iter().map(move |plugin| (plugin, is_there))
    });
    let plugins: Vec<(PluginSummary, bool)> =
        plugins.filter(|(plugin, _)| plugin.installed || !installed).collect();
    if json {
        let plugins: Vec<&PluginSummary> = plugins.iter().map(|(plugin, _)| plugin).collect();
        print(format_args!("{:#}", json!(plugins)))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (plugin, is_there) in &plugins {
        let note = if *is_there { "" } else { "  (its marketplace no longer exists)" };
        print(format_args!("{}{}{note}", visible::line(&plugin.id), state(plugin)))?;
        let interface = plugin.interface.as_ref();
        if let Some(text) = interface.and_then(|interface| interface.short_description.as_ref()) {
            print(format_args!("    {}", flat(text)))?;
        }
    }
    if plugins.is_empty() {
        eprint(format_args!(
            "agentd: there are no plugins; `agentd plugins marketplace add SOURCE` adds a marketplace"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the plugin `NAME@MARKETPLACE` as its marketplace has it, and prints what is wrong with the
/// marketplace.
async fn read(server: &mut LocalServer, id: &str) -> anyhow::Result<Found> {
    let response = listed(server).await?;
    let (plugin, marketplace) = find(&response, id)?;
    let Some(path) = &marketplace.path else {
        let message = format!(
            "the marketplace `{}` no longer exists: its installed plugins can be shown, used, disabled and \
             uninstalled; to upgrade them, add it with `agentd plugins marketplace add`",
            visible::line(&marketplace.name)
        );
        return Err(Invalid::new(message).into());
    };
    print_errors(&response, Some(folder_of(path)));
    let (plugin_name, marketplace_path) = (plugin.name.clone(), Some(path.clone()));
    let params = PluginReadParams {
        plugin_name: plugin_name.clone(),
        marketplace_path: marketplace_path.clone(),
        remote_marketplace_name: None,
    };
    let detail = server.call::<protocol::PluginRead>(&params, &mut Quiet).await?.plugin;
    let params =
        PluginInstallParams { plugin_name, marketplace_path, remote_marketplace_name: None };
    Ok(Found { detail, params })
}

/// Reads a plugin to show it: an installed one that no marketplace offers as it is installed.
async fn read_to_show(server: &mut LocalServer, id: &str) -> anyhow::Result<PluginDetail> {
    let response = listed(server).await?;
    let (plugin, _) = find(&response, id)?;
    if !plugin.installed || plugin.install_policy != PluginInstallPolicy::NotAvailable {
        return Ok(read(server, id).await?.detail);
    }
    let params = PluginReadParams {
        plugin_name: id.to_owned(),
        marketplace_path: None,
        remote_marketplace_name: None,
    };
    Ok(server.call::<protocol::PluginRead>(&params, &mut Quiet).await?.plugin)
}

/// A plugin in a list. What is wrong with marketplaces is printed if there is none: it can be the reason.
fn find<'l>(
    response: &'l PluginListResponse,
    id: &str,
) -> anyhow::Result<(&'l PluginSummary, &'l PluginMarketplaceEntry)> {
    let found = response.marketplaces.iter().find_map(|marketplace| {
        let plugin = marketplace.plugins.iter().find(|plugin| plugin.id == id)?;
        Some((plugin, marketplace))
    });
    found.ok_or_else(|| {
        print_errors(response, None);
        let id = visible::line(id);
        Invalid::new(format!("there is no plugin `{id}`; `agentd plugins list` lists them")).into()
    })
}

/// Installs a plugin that was shown, if the user agrees.
async fn install(
    server: &mut LocalServer,
    found: Found,
    question: &str,
    yes: bool,
) -> anyhow::Result<ExitCode> {
    if !yes && !is_confirmed(question, "add `--yes` to install the plugin")? {
        eprint(format_args!("agentd: nothing was installed"));
        return Ok(ExitCode::FAILURE);
    }
    server.call::<protocol::PluginInstall>(&found.params, &mut Quiet).await?;
    print(format_args!("{} is installed", visible::line(&found.detail.summary.id)))?;
    if !found.detail.hooks.is_empty() {
        eprint(format_args!(
            "agentd: its hooks run after you trust them: see `agentd hooks list` and `agentd hooks trust`"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The installed plugins, except those that no marketplace has now.
async fn upgradable(server: &mut LocalServer) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    for marketplace in listed(server).await?.marketplaces {
        for plugin in marketplace.plugins.into_iter().filter(|plugin| plugin.installed) {
            if plugin.install_policy != PluginInstallPolicy::NotAvailable {
                ids.push(plugin.id);
                continue;
            }
            let id = visible::line(&plugin.id);
            eprint(format_args!("agentd: {id} was not upgraded: no marketplace offers it"));
        }
    }
    Ok(ids)
}

async fn upgrade(
    server: &mut LocalServer,
    plugins: Vec<String>,
    yes: bool,
) -> anyhow::Result<ExitCode> {
    let plugins = match plugins.is_empty() {
        false => plugins,
        true => upgradable(server).await?,
    };
    let mut code = ExitCode::SUCCESS;
    for id in plugins {
        let found = read(server, &id).await?;
        let shown = visible::line(&id);
        match found.detail.changes.as_deref() {
            None => {
                let message =
                    format!("`{shown}` is not installed; `agentd plugins install` installs it");
                return Err(Invalid::new(message).into());
            }
            Some([]) => print(format_args!("{shown} is up to date"))?,
            Some(changes) => {
                print(format_args!("{shown} changes:"))?;
                for change in changes {
                    print(format_args!("    {}", visible::line(change)))?;
                }
                let done = install(server, found, "Install these changes?", yes).await?;
                if done != ExitCode::SUCCESS {
                    code = done;
                }
            }
        }
    }
    Ok(code)
}

async fn switch(
    server: &mut LocalServer,
    plugins: &[String],
    on: bool,
) -> anyhow::Result<ExitCode> {
    let all = listed(server).await?.marketplaces.into_iter();
    let all: Vec<PluginSummary> = all.flat_map(|marketplace| marketplace.plugins).collect();
    for id in plugins {
        if !all.iter().any(|plugin| plugin.id == *id && plugin.installed) {
            let message = format!("the plugin `{}` is not installed", visible::line(id));
            return Err(Invalid::new(message).into());
        }
        let params = ConfigValueWriteParams {
            key_path: format!("plugins.{}.enabled", json!(id)),
            value: json!(on),
            merge_strategy: MergeStrategy::Replace,
            expected_version: None,
            file_path: None,
        };
        server.call::<protocol::ConfigValueWrite>(&params, &mut Quiet).await?;
    }
    Ok(ExitCode::SUCCESS)
}
