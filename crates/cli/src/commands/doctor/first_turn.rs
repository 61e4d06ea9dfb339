//! The part of the page that says whether a first turn would work: provider, key, model, MCP servers, git,
//! and what the turn would do.

use std::path::Path;
use std::sync::Arc;

use config::Config;
use protocol::AskForApproval;
use server::{AvailableProvider, FirstTurn, ListedModels, McpServerCheck, Options, ProviderCheck};

use super::Page;
use crate::commands::transcript::sandbox_name;
use crate::environment::Environment;

/// Models that a row names.
const NAMED: usize = 5;

/// Adds the rows. What a turn needs is asked at the same time, so that the slowest one is waited for alone.
pub(super) async fn examine(page: &mut Page, environment: &Environment, config: &Config) {
    let options = Arc::new(environment.clone().options("cli"));
    let (provider, servers) = tokio::join!(
        server::check_provider(&options, config),
        server::check_mcp_servers(&options, environment.sandbox(), config)
    );
    let mut obstacles = Vec::new();
    match &provider {
        Ok(check) => obstacles.extend(provider_rows(page, check)),
        Err(error) => {
            page.bad("model", format_args!("{error}"));
            page.next("Correct the file, or remove `model_catalog_json` from the configuration.");
            obstacles.push("the catalog of models cannot be read".to_owned());
        }
    }
    other_keys(page, &options, config);
    obstacles.extend(server_rows(page, &servers));
    git(page, environment);
    let turn = server::first_turn(&options, config);
    for problem in &turn.problems {
        page.bad("instructions", format_args!("{problem}"));
        page.next("Correct or remove the file: the model works without it.");
    }
    match (obstacles.as_slice(), &provider) {
        ([], Ok(provider)) => would_do(page, provider, &turn, config, &options),
        (obstacles, _) => {
            page.bad("first turn", format_args!("it fails: {}", obstacles.join("; ")));
            page.next("Do what the rows above say.");
        }
    }
}

/// The rows about provider, key and model. Returns what a turn fails at.
fn provider_rows(page: &mut Page, check: &ProviderCheck) -> Option<String> {
    let ProviderCheck { id, address, key, listed, model } = check;
    let Some(address) = address else {
        page.good("provider", format_args!("`{id}`, which answers by a script, without a network"));
        page.good("model", format_args!("`{model}`"));
        return None;
    };
    let address = redact::redact(address).text;
    let key = match key {
        Ok(source) => source,
        Err(why) => {
            page.good("provider", format_args!("`{id}` at {address}; not contacted without a key"));
            page.bad("key", format_args!("there is none for `{id}`"));
            page.next(&format!("{}.", upper_first(why).trim_end_matches('.')));
            return Some(format!("there is no key for the provider `{id}`"));
        }
    };
    match listed {
        ListedModels::Refused(why) => {
            page.good("provider", format_args!("`{id}` at {address} answers"));
            page.bad("key", format_args!("{key}: the provider does not accept it: {why}"));
            page.next("Replace the key (`agentd login --with-api-key`, or its variable), or log in again (`agentd login`).");
            Some(format!("the provider `{id}` does not accept the key"))
        }
        ListedModels::Failed(why) => {
            page.bad("provider", format_args!("`{id}` at {address}: {why}"));
            page.next(&format!(
                "Check that the server runs, the network and the proxy variables, and {}.",
                address_key(id)
            ));
            page.good("key", format_args!("{key}"));
            Some(format!("the provider `{id}` cannot be used"))
        }
        ListedModels::NotAsked => {
            let row = "not contacted, because a cloud has its lists of models elsewhere";
            page.good("provider", format_args!("`{id}` at {address}; {row}"));
            page.good("key", format_args!("{key}; its permissions were not tried"));
            model_row(page, id, model, None)
        }
        ListedModels::NoList(_) => {
            page.good("provider", format_args!("`{id}` at {address} answers; it lists no models"));
            page.good("key", format_args!("{key}; not tried"));
            model_row(page, id, model, None)
        }
        ListedModels::Listed(models) => {
            let count = models.len();
            page.good(
                "provider",
                format_args!("`{id}` at {address} answers; it lists {count} models"),
            );
            page.good("key", format_args!("{key}"));
            model_row(page, id, model, Some(models.as_slice()))
        }
    }
}

/// Keys of the environment that no provider of the configuration uses.
fn other_keys(page: &mut Page, options: &Options, config: &Config) {
    for provider in server::available_providers(options, config) {
        let AvailableProvider { id, name, base_url, wire, env_key } = provider;
        page.good(
            "key",
            format_args!("{env_key} is set, and no provider uses it: it could be that of {name}"),
        );
        page.next(&format!(
            "`/login` in `agentd` offers it. In config.toml: `[model_providers.{id}]` with \
             `base_url = \"{base_url}\"`, `env_key = \"{env_key}\"` and `wire_api = \"{wire}\"`, and \
             `model_provider = \"{id}\"`."
        ));
    }
}

/// The key of the configuration with the address of a provider.
fn address_key(id: &str) -> String {
    match id {
        "default" => "`default_provider_base_url` in config.toml".to_owned(),
        "ollama" | "lmstudio" => "the variables AGENT_OSS_BASE_URL and AGENT_OSS_PORT".to_owned(),
        _ => format!("`model_providers.{id}.base_url` in config.toml"),
    }
}

fn model_row(
    page: &mut Page,
    provider: &str,
    model: &str,
    listed: Option<&[String]>,
) -> Option<String> {
    let named = listed.map_or_else(String::new, names);
    if model.is_empty() {
        page.bad(
            "model",
            format_args!("none is chosen, and the provider `{provider}` has no default"),
        );
        page.next(&format!("Set `model` in config.toml{named}."));
        return Some("no model is chosen".to_owned());
    }
    match listed {
        Some(models) if !models.iter().any(|id| id == model) => {
            page.bad("model", format_args!("the provider `{provider}` does not list `{model}`"));
            page.next(&format!("Set `model` in config.toml to a model of the provider{named}."));
            Some(format!("the provider `{provider}` does not list the model `{model}`"))
        }
        Some(_) => {
            page.good("model", format_args!("`{model}`, which the provider lists"));
            None
        }
        None => {
            page.good(
                "model",
                format_args!("`{model}`; the provider has no list to compare it with"),
            );
            None
        }
    }
}

/// The first of some models, as the end of a sentence.
fn names(models: &[String]) -> String {
    if models.is_empty() {
        return String::new();
    }
    let shown: Vec<String> =
        models.iter().take(NAMED).map(|id| format!("`{}`", visible::text(id))).collect();
    let more = match models.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", such as {}{more}", shown.join(", "))
}

/// The rows about MCP servers. Returns what no turn starts without.
fn server_rows(page: &mut Page, servers: &[McpServerCheck]) -> Vec<String> {
    if servers.is_empty() {
        page.good("MCP", format_args!("no servers"));
    }
    let mut obstacles = Vec::new();
    for McpServerCheck { name, is_required, tools } in servers {
        let shown = visible::text(name);
        match tools {
            Ok(count) => page.good("MCP", format_args!("{shown}: {count} tools")),
            Err(why) => {
                page.bad("MCP", format_args!("{shown}: {why}"));
                page.next(&format!(
                    "`agentd mcp get {shown}` shows its entry, `agentd mcp login {shown}` logs in; \
                     `mcp_servers.{shown}.enabled = false` disables it."
                ));
                if *is_required {
                    obstacles.push(format!("the required MCP server `{shown}` does not start"));
                }
            }
        }
    }
    obstacles
}

/// Git itself, and the repository of the working folder.
fn git(page: &mut Page, environment: &Environment) {
    let path = environment.variable("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("git"));
    let program = programs.find(|path| is_executable(path));
    let Some(program) = program else {
        page.bad("git", format_args!("there is no `git` on the PATH"));
        page.next("Install git: reviews, worktrees and plugins need it.");
        return;
    };
    let (program, cwd) = (program.display(), environment.cwd.display());
    match server::git_info(&environment.cwd) {
        Some(info) => {
            let branch = info.branch.map_or_else(
                || "no branch".to_owned(),
                |branch| format!("branch {}", visible::text(&branch)),
            );
            page.good("git", format_args!("{program}; {cwd} is in a repository, {branch}"));
        }
        None => page.good("git", format_args!("{program}; {cwd} is not in a repository")),
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.with_extension("exe").is_file()
}

fn would_do(
    page: &mut Page,
    provider: &ProviderCheck,
    turn: &FirstTurn,
    config: &Config,
    options: &Options,
) {
    let (cwd, model, id) = (options.cwd.display(), &provider.model, &provider.id);
    page.good("first turn", format_args!("asks `{model}` of `{id}`, in {cwd}"));
    let sandbox = sandbox_name(&turn.sandbox);
    let asks = match &turn.approval {
        AskForApproval::UnlessTrusted => "before all but harmless commands",
        AskForApproval::OnFailure => "when a sandboxed command failed",
        AskForApproval::OnRequest => "when the sandbox is not enough",
        AskForApproval::Never => "never",
        AskForApproval::Granular(_) => "what `approval_policy` lists",
    };
    page.next(&format!("sandbox: {sandbox}; asks for approval: {asks}"));
    let trust = match config.trusted {
        true => "the folder is trusted: its settings, rules, hooks and skills apply",
        false => "the folder is not trusted: its settings, rules, hooks and skills do not apply",
    };
    page.next(trust);
    let instructions: Vec<String> =
        turn.instructions.iter().map(|path| path.display().to_string()).collect();
    page.next(&match instructions.as_slice() {
        [] => "instructions: none (`/init` in `agentd` writes an AGENTS.md)".to_owned(),
        files => format!("instructions: {}", files.join(", ")),
    });
}

fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
