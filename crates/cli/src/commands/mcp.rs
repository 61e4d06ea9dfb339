//! `agentd mcp`: lists, changes, tests and logs in at MCP servers.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use config::Resolved;
use jsonrpc::Notification;
use protocol::WarningNotification;
use protocol::mcp::{
    McpServerOauthLoginCompletedNotification, McpServerOauthLoginParams, McpServerStatusListParams,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::commands::config::{masked_value, write};
use crate::commands::local::{self, LocalServer, Observer, Signals};
use crate::commands::{eprint, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the servers of the configuration
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the entry of a server
    Get {
        name: String,
        /// Show variables and headers, which are `***` otherwise
        #[arg(long)]
        secrets: bool,
    },
    /// Add a server to your own file
    Add(AddArguments),
    /// Remove a server from your own file
    Remove { name: String },
    /// Log in at a server, in a browser on this machine
    Login {
        name: String,
        /// OAuth scopes to request, separated by commas
        #[arg(long, value_delimiter = ',')]
        scopes: Vec<String>,
    },
    /// Delete the login at a server
    Logout { name: String },
    /// Start the servers and count their tools
    Test {
        /// Only this server
        name: Option<String>,
    },
}

#[derive(clap::Args)]
struct AddArguments {
    #[arg(value_parser = server_name)]
    name: String,
    /// Address of a server over HTTP
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Environment variable with its bearer token
    #[arg(long, requires = "url")]
    bearer_token_env_var: Option<String>,
    /// Replace the entry of this name in your own file, if there is one
    #[arg(long)]
    replace: bool,
    /// Environment variable of the program, as KEY=VALUE
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Folder in which the program starts, as an absolute path
    #[arg(long, value_name = "FOLDER", conflicts_with = "url")]
    cwd: Option<PathBuf>,
    /// Confine the program: it writes nothing, or in `--cwd` and the temporary folders, and has no network
    #[arg(
        long,
        value_name = "MODE",
        conflicts_with = "url",
        requires_if("workspace-write", "cwd")
    )]
    sandbox: Option<Confinement>,
    /// Let the confined program use the network
    #[arg(long, requires = "sandbox")]
    sandbox_network: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "url")]
    command: Vec<String>,
}

/// The sandbox of a program, as `sandbox` in its entry.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Confinement {
    ReadOnly,
    WorkspaceWrite,
}

impl Confinement {
    fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
        }
    }
}

fn server_name(name: &str) -> Result<String, String> {
    match !name.is_empty()
        && !name.chars().any(|letter| letter.is_control() || visible::is_hidden(letter))
    {
        true => Ok(name.to_owned()),
        false => Err("a name needs at least one character, and no hidden ones".to_owned()),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// Runs the subcommand. Exit codes: 0, 1 where something failed or no such server exists, 2 for a
/// configuration that cannot be used.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let options = environment.clone().options("cli");
    let file = environment.home.join(config::CONFIG_FILE);
    match arguments.command {
        Command::Add(added) => {
            let key = key(&added.name);
            if !added.replace {
                let (resolved, _) = match server::configuration_here(&options) {
                    Ok(loaded) => loaded,
                    Err(error) => return Ok(unusable(&error)),
                };
                if entries(&resolved).contains_key(&added.name) {
                    return Ok(known(&added.name));
                }
            }
            return write(&file, &key, entry(added), &options);
        }
        Command::Remove { name } => {
            // A configuration that cannot be read may be what the removal mends.
            let resolved = server::configuration_here(&options).map(|(resolved, _)| resolved);
            if resolved.is_ok_and(|resolved| !entries(&resolved).contains_key(&name)) {
                return Ok(unknown(&name));
            }
            return write(&file, &key(&name), Value::Null, &options);
        }
        _ => {}
    }
    let resolved = match server::configuration_here(&options) {
        Ok((resolved, _)) => resolved,
        Err(error) => return Ok(unusable(&error)),
    };
    let entries = entries(&resolved);
    match arguments.command {
        Command::List { json } => list(&entries, json),
        Command::Get { name, secrets } => get(&entries, &name, secrets),
        Command::Login { name, scopes } => log_in(environment, name, scopes).await,
        Command::Logout { name } if !entries.contains_key(&name) => Ok(unknown(&name)),
        Command::Logout { name } => {
            let done = server::log_out_of_mcp_server(&options, &resolved.config, &name).await?;
            print(format_args!("{}", if done { "Logged out" } else { "Not logged in" }))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Test { name } => test(environment, name.as_deref()).await,
        Command::Add(_) | Command::Remove { .. } => Ok(ExitCode::SUCCESS),
    }
}

fn key(name: &str) -> String {
    config::dotted_key(&["mcp_servers".to_owned(), name.to_owned()])
}

fn entry(added: AddArguments) -> Value {
    let mut entry = Map::new();
    if let Some(url) = added.url {
        entry.insert("url".to_owned(), url.into());
    }
    if let Some(variable) = added.bearer_token_env_var {
        entry.insert("bearer_token_env_var".to_owned(), variable.into());
    }
    let mut command = added.command.into_iter();
    if let Some(program) = command.next() {
        entry.insert("command".to_owned(), program.into());
        let args: Vec<String> = command.collect();
        if !args.is_empty() {
            entry.insert("args".to_owned(), args.into());
        }
    }
    if !added.env.is_empty() {
        let env: BTreeMap<String, String> = added.env.into_iter().collect();
        entry.insert("env".to_owned(), json!(env));
    }
    if let Some(folder) = added.cwd {
        entry.insert("cwd".to_owned(), json!(folder));
    }
    if let Some(sandbox) = added.sandbox {
        entry.insert("sandbox".to_owned(), sandbox.name().into());
    }
    if added.sandbox_network {
        entry.insert("sandbox_network".to_owned(), true.into());
    }
    entry.into()
}

/// The entries of the configuration, as they are written.
fn entries(resolved: &Resolved) -> BTreeMap<String, Value> {
    match resolved.value("mcp_servers") {
        Some((Value::Object(entries), _)) => entries.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}

fn list(entries: &BTreeMap<String, Value>, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        let shown: BTreeMap<_, _> = entries
            .iter()
            .map(|(name, entry)| (name, masked_value("mcp_servers", entry.clone(), false)))
            .collect();
        print(format_args!("{:#}", json!(shown)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        eprint(format_args!("agentd: the configuration has no MCP servers"));
    }
    for (name, entry) in entries {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let target = text("command").or_else(|| text("url")).unwrap_or("(nothing)");
        let is = |key: &str, default| entry.get(key).and_then(Value::as_bool).unwrap_or(default);
        let state = match (is("enabled", true), is("required", false)) {
            (false, _) => "  (disabled)",
            (true, true) => "  (required)",
            (true, false) => "",
        };
        let confined = match (text("sandbox"), is("sandbox_network", false)) {
            (None, _) => String::new(),
            (Some(mode), false) => format!("  (sandbox: {})", visible::text(mode)),
            (Some(mode), true) => format!("  (sandbox: {}, with network)", visible::text(mode)),
        };
        let (name, target) = (visible::text(name), visible::text(target));
        print(format_args!("{name}  {target}{confined}{state}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn get(entries: &BTreeMap<String, Value>, name: &str, secrets: bool) -> anyhow::Result<ExitCode> {
    let Some(entry) = entries.get(name) else { return Ok(unknown(name)) };
    print(format_args!("{:#}", masked_value("mcp_servers", entry.clone(), secrets)))?;
    Ok(ExitCode::SUCCESS)
}

fn unusable(error: &config::Error) -> ExitCode {
    eprint(format_args!("agentd: {}", error.diagnostic()));
    ExitCode::from(2)
}

fn known(name: &str) -> ExitCode {
    let name = visible::text(name);
    eprint(format_args!(
        "agentd: the configuration already has an MCP server `{name}` (see `agentd mcp get {name}`); \
         nothing was changed; `--replace` replaces it in your own file"
    ));
    ExitCode::FAILURE
}

fn unknown(name: &str) -> ExitCode {
    eprint(format_args!("agentd: the configuration has no MCP server `{}`", visible::text(name)));
    ExitCode::FAILURE
}

/// Keeps what the server reports.
#[derive(Default)]
struct Reports {
    warnings: Vec<String>,
    login: Option<McpServerOauthLoginCompletedNotification>,
}

impl Observer for Reports {
    fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        match method {
            protocol::Warning::NAME => {
                let warning: WarningNotification = serde_json::from_str(params.get())?;
                self.warnings.push(warning.message);
            }
            protocol::McpServerOauthLoginCompleted::NAME => {
                self.login = Some(serde_json::from_str(params.get())?);
            }
            _ => {}
        }
        Ok(())
    }

    async fn asked(&mut self, method: &str, _: &RawValue) -> io::Result<local::Answer> {
        Ok(agentd_embed::decline(method))
    }
}

async fn log_in(
    environment: Environment,
    name: String,
    scopes: Vec<String>,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    let mut server = LocalServer::start(environment, "cli").await?;
    let mut reports = Reports::default();
    let scopes = Some(scopes).filter(|scopes| !scopes.is_empty());
    let params = McpServerOauthLoginParams { name, scopes, timeout_secs: None, thread_id: None };
    let begun = server.call::<protocol::McpServerOauthLogin>(&params, &mut reports).await?;
    eprint(format_args!("agentd: open this address in a browser on this machine:"));
    print(format_args!("{}", begun.authorization_url))?;
    let ended = tokio::select! {
        waited = server.until(&mut reports, |reports| reports.login.is_some()) => {
            waited?;
            reports.login.take()
        }
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    server.close().await;
    match ended.and_then(|ended| ended.error) {
        None => {
            print(format_args!("Logged in"))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(error) => anyhow::bail!("{error}"),
    }
}

async fn test(environment: Environment, name: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut server = LocalServer::start(environment, "cli").await?;
    let mut reports = Reports::default();
    let mut params =
        McpServerStatusListParams { start: Some(true), ..McpServerStatusListParams::default() };
    let mut rows = Vec::new();
    loop {
        let page = server.call::<protocol::McpServerStatusList>(&params, &mut reports).await?;
        rows.extend(page.data);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    server.close().await;
    rows.retain(|row| name.is_none_or(|name| row.name == name));
    if let (Some(name), true) = (name, rows.is_empty()) {
        return Ok(unknown(name));
    }
    let mut has_failed = false;
    for row in rows {
        let shown = visible::text(&row.name);
        let count = row.tools.len();
        // What is left out of a list that can be read.
        let lists = format!("the server `{}` lists ", row.name);
        let place = format!("the MCP server `{}`: ", row.name);
        let mut notes: Vec<&String> = reports
            .warnings
            .iter()
            .filter(|one| one.starts_with(&lists) || one.starts_with(&place))
            .collect();
        notes.dedup();
        match row.error {
            None => print(format_args!("{shown}  ok, {count} tools"))?,
            Some(error) => {
                has_failed = true;
                print(format_args!("{shown}  failed: {error}"))?;
            }
        }
        for note in notes {
            eprint(format_args!("agentd: warning: {note}"));
        }
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
