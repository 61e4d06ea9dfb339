//! `agentd hooks`: lists hooks, and records which ones of a project the user trusts.

use std::process::ExitCode;

use clap::Subcommand;
use protocol::config::{ConfigValueWriteParams, MergeStrategy};
use protocol::hooks::{HookMetadata, HookTrustStatus, HooksListParams, HooksListResponse};
use serde_json::json;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::{Invalid, eprint, is_confirmed, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the hooks of the working folder, and whether each runs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust hooks of the working folder's project, in their current form
    Trust {
        /// Keys of hooks, as `agentd hooks list` shows them
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Switch hooks off
    Disable {
        /// Keys of hooks
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Switch hooks on again
    Enable {
        /// Keys of hooks
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

/// Runs the subcommand. Exit codes: 0, 1 when the user says no, 2 for a hook that does not exist.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let mut server = LocalServer::start(environment, "cli").await?;
    let params = HooksListParams::default();
    let HooksListResponse { data } =
        server.call::<protocol::HooksList>(&params, &mut Quiet).await?;
    for entry in &data {
        for error in &entry.errors {
            let (path, message) = (visible::line(&error.path), visible::line(&error.message));
            eprint(format_args!("agentd: {path}: {message}"));
        }
        for warning in &entry.warnings {
            eprint(format_args!("agentd: {}", visible::line(warning)));
        }
    }
    let are_on = data.iter().all(|entry| entry.hooks_enabled);
    let hooks: Vec<HookMetadata> = data.into_iter().flat_map(|entry| entry.hooks).collect();
    let done = match arguments.command {
        Command::List { json } => list(&hooks, are_on, json),
        Command::Trust { keys, yes } => trust(&mut server, &hooks, &keys, yes).await,
        Command::Disable { keys } => switch(&mut server, &hooks, &keys, false).await,
        Command::Enable { keys } => switch(&mut server, &hooks, &keys, true).await,
    };
    server.close().await;
    done
}

fn list(hooks: &[HookMetadata], are_on: bool, as_json: bool) -> anyhow::Result<ExitCode> {
    if as_json {
        print(format_args!("{:#}", json!(hooks)))?;
        return Ok(ExitCode::SUCCESS);
    }
    for hook in hooks {
        let state = match (hook.enabled, hook.trust_status) {
            (false, _) => "switched off",
            (true, _) if !are_on && !hook.is_managed => "does not run: hooks are off",
            (true, HookTrustStatus::Untrusted) => "does not run: not trusted",
            (true, HookTrustStatus::Modified) => "does not run: changed since it was trusted",
            (true, HookTrustStatus::Managed | HookTrustStatus::Trusted) => "runs",
        };
        print(format_args!(
            "{}  ({state})\n    {}",
            visible::exact_line(&hook.key),
            described(hook)
        ))?;
    }
    if hooks.is_empty() {
        eprint(format_args!(
            "agentd: there are no hooks; they are defined in `hooks.json`{}",
            if are_on { "" } else { ", and run with `features.codex_hooks = true`" }
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the description of a hook, on one line.
fn described(hook: &HookMetadata) -> String {
    let event = json!(hook.event_name);
    let event = event.as_str().unwrap_or_default();
    let matcher = hook.matcher.as_deref().filter(|matcher| !matcher.is_empty());
    let matcher = matcher
        .map(|matcher| format!(" of `{}`", visible::exact_line(matcher)))
        .unwrap_or_default();
    let what = match (&hook.command, &hook.prompt, &hook.server) {
        (Some(command), ..) => format!("runs: {}", visible::exact_line(command)),
        (None, Some(prompt), _) => {
            let model = hook.model.as_deref().unwrap_or("the thread's model");
            format!("asks {}: {}", visible::exact_line(model), visible::exact_line(prompt))
        }
        (None, None, server) => {
            let server = visible::exact_line(server.as_deref().unwrap_or_default());
            let tool = visible::exact_line(hook.tool.as_deref().unwrap_or_default());
            let arguments = visible::exact_line(&json!(hook.arguments).to_string());
            format!("calls `{tool}` of the MCP server `{server}` with {arguments}")
        }
    };
    let waits = if hook.is_async { "; in the background" } else { "" };
    let limit = format!(" (at most {} s{waits})", hook.timeout_sec);
    format!("at {event}{matcher}{limit} {what}")
}

async fn trust(
    server: &mut LocalServer,
    hooks: &[HookMetadata],
    keys: &[String],
    yes: bool,
) -> anyhow::Result<ExitCode> {
    let chosen = chosen(hooks, keys)?;
    for hook in &chosen {
        print(format_args!("{}\n    {}", visible::exact_line(&hook.key), described(hook)))?;
    }
    let question = "Trust these hooks in their current form?";
    if !yes && !is_confirmed(question, "add `--yes` to trust these hooks")? {
        eprint(format_args!("agentd: nothing was changed"));
        return Ok(ExitCode::FAILURE);
    }
    for hook in chosen {
        write(server, &hook.key, "trusted_hash", json!(hook.current_hash)).await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn switch(
    server: &mut LocalServer,
    hooks: &[HookMetadata],
    keys: &[String],
    on: bool,
) -> anyhow::Result<ExitCode> {
    for hook in chosen(hooks, keys)? {
        if hook.is_managed && !on {
            let key = visible::exact_line(&hook.key);
            return Err(Invalid::new(format!(
                "`{key}` is a hook of the administrator, which always runs"
            ))
            .into());
        }
        write(server, &hook.key, "enabled", json!(on)).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen<'h>(hooks: &'h [HookMetadata], keys: &[String]) -> anyhow::Result<Vec<&'h HookMetadata>> {
    let find = |key: &String| {
        let found = hooks.iter().find(|hook| hook.key == *key);
        found.ok_or_else(|| {
            let key = visible::exact_line(key);
            Invalid::new(format!("there is no hook `{key}`; `agentd hooks list` lists them")).into()
        })
    };
    keys.iter().map(find).collect()
}

async fn write(
    server: &mut LocalServer,
    key: &str,
    name: &str,
    value: serde_json::Value,
) -> anyhow::Result<()> {
    let params = ConfigValueWriteParams {
        key_path: config::dotted_key(&["hooks", "state", key, name]),
        value,
        merge_strategy: MergeStrategy::Replace,
        expected_version: None,
        file_path: None,
    };
    server.call::<protocol::ConfigValueWrite>(&params, &mut Quiet).await?;
    Ok(())
}
