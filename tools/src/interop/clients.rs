//! The official Python and JavaScript clients of the hosted API, as they come from their registries,
//! against `agentd gateway` with the offline model behind it, and their stream parsers against
//! `agentd model-server`; frameworks on top of that API; those of another agent server, its terminals
//! among them, against `agentd app-server` and `agentd exec`; those of the Agent Client Protocol against
//! `agentd acp`; the SDKs; a login service against `agentd login`; and the conformance suite of MCP
//! against `agentd` as a client and as a server.

mod agent;
mod gateway;
mod outcome;
mod page;
mod recorded;
mod script;
mod streams;
mod tools;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::bench::gateway::{Cores, Starter};
use outcome::Outcome;
use script::follow;
use tools::Client;
pub(super) use tools::{COLLECTOR, SKILLS, install_python};
use xtask::checkout::{agentd, target, write_page};
use xtask::steps::{self, Counts, Done, Failed};

/// The pages that `--write` writes.
const PAGE: &str = "docs/gateway-clients.md";
const FRAMEWORKS_PAGE: &str = "docs/gateway-frameworks.md";
/// Kills of the SDK's bot and its server.
const KILLS: &str = "200";

/// The clients of the hosted API. Skipped where they cannot be installed.
pub(crate) fn check(root: &Path) -> steps::Outcome {
    check_clients(root, tools::install(root, &target(root), &tools::GATEWAY), run)
}

/// The official clients of the four wires, through the gateway to a model of another wire. Skipped where they cannot be
/// installed.
pub(crate) fn check_gateway_wires(root: &Path) -> steps::Outcome {
    let python = install_python(root, &target(root), &tools::GATEWAY_WIRES);
    check_clients(root, python.map(|python| [python]), agent::run)
}

/// Terminal agents of three providers and of none, through the gateway to a model of another wire. Skipped where they
/// cannot be installed.
pub(crate) fn check_wire_clients(root: &Path) -> steps::Outcome {
    let agents = tools::install_javascript(root, &target(root), &tools::WIRE_CLIENTS);
    check_clients(root, agents.map(|agents| [agents]), agent::run)
}

/// Frameworks that speak to the hosted API. Skipped where they cannot be installed.
pub(crate) fn check_frameworks(root: &Path) -> steps::Outcome {
    check_clients(root, tools::install(root, &target(root), &tools::FRAMEWORKS), agent::run)
}

/// The clients of another agent server. Skipped where they cannot be installed.
pub(crate) fn check_agent(root: &Path) -> steps::Outcome {
    check_clients(root, tools::install(root, &target(root), &tools::AGENT), agent::run)
}

/// The terminal program of another agent server, in an old and a new version. Skipped where they cannot be
/// installed.
pub(crate) fn check_terminals(root: &Path) -> steps::Outcome {
    if !steps::Program::exists("tmux") {
        return Ok(Done::Skipped("missing on this machine: tmux".to_owned()));
    }
    let terminals = tools::install_javascript(root, &target(root), &tools::TERMINALS);
    check_clients(root, terminals.map(|terminals| [terminals]), agent::run)
}

/// The clients of the Agent Client Protocol. Skipped where they cannot be installed.
pub(crate) fn check_editors(root: &Path) -> steps::Outcome {
    check_clients(root, tools::install(root, &target(root), &tools::EDITORS), agent::run)
}

/// The types and the tests of the Python SDK. Skipped where what they need cannot be installed.
pub(crate) fn check_python_sdk(root: &Path) -> steps::Outcome {
    let python = install_python(root, &target(root), &tools::PYTHON_SDK);
    check_clients(root, python.map(|python| [python]), agent::run)
}

/// The bot of the Python SDK's examples and its server, killed at random moments. Skipped where what they need cannot be
/// installed.
pub(crate) fn check_sdk_kills(root: &Path) -> steps::Outcome {
    let python = tools::install_soak(root, &target(root), KILLS);
    check_clients(root, python.map(|python| [python]), agent::run)
}

/// The installers of packages, which are in a folder, in an empty place.
pub(super) fn check_packages(
    root: &Path,
    parts: &str,
    packages: &Path,
    place: &Path,
) -> steps::Outcome {
    check_clients(root, Ok([tools::installers(root, parts, packages, place)]), agent::run)
}

/// The Helm chart, the compose file and the alerts of the gateway. Skipped where what they need cannot be installed.
pub(crate) fn check_deployments(root: &Path) -> steps::Outcome {
    let needed = ["nginx", "pg_dump", "redis-server", "unshare"];
    if let Some(missing) = needed.into_iter().find(|program| !steps::Program::exists(program)) {
        return Ok(Done::Skipped(format!("`{missing}` is not on this machine")));
    }
    let python = install_python(root, &target(root), &tools::DEPLOYMENTS);
    check_clients(root, python.map(|python| [python]), agent::run)
}

/// The types and the tests of the TypeScript SDK. Skipped where what they need cannot be installed.
pub(crate) fn check_typescript_sdk(root: &Path) -> steps::Outcome {
    let package = tools::install_typescript_sdk(root, &target(root));
    check_clients(root, package.map(|package| [package]), agent::run)
}

/// The stream parsers of the clients of the hosted API. Skipped where they cannot be installed.
pub(crate) fn check_streams(root: &Path) -> steps::Outcome {
    check_clients(root, tools::install(root, &target(root), &tools::STREAMS), streams::run)
}

/// The clients of three wires, which speak to the scripted model. Skipped where they cannot be installed.
pub(crate) fn check_model_wires(root: &Path) -> steps::Outcome {
    let python = install_python(root, &target(root), &tools::MODEL_WIRES);
    check_clients(root, python.map(|python| [python]), agent::run)
}

/// A login service of others. Skipped where it cannot be installed.
pub(crate) fn check_login(root: &Path) -> steps::Outcome {
    let service = tools::install_javascript(root, &target(root), &tools::LOGIN);
    check_clients(root, service.map(|service| [service]), agent::run)
}

/// The official conformance suite of MCP, against the client and the server. Skipped where it cannot be
/// installed.
pub(crate) fn check_mcp(root: &Path) -> steps::Outcome {
    let suite = |kit| tools::install_javascript(root, &target(root), kit);
    check_clients(root, suite(&tools::MCP).map(|suite| [suite]), |root, clients| {
        let mut outcomes = agent::run(root, clients)?;
        // The scripts share a folder, in which the second replaces the first.
        outcomes.extend(agent::run(root, &[suite(&tools::MCP_SERVER)?])?);
        Ok(outcomes)
    })
}

/// MCP servers of other people in turns.
pub(crate) fn check_mcp_servers(root: &Path) -> steps::Outcome {
    let servers = tools::install_servers(root, &target(root), &tools::MCP_SERVERS);
    check_clients(root, servers.map(|servers| [servers]), agent::run)
}

/// The web client in a browser, under a checker of accessibility. Skipped where they are missing.
pub(crate) fn check_web_client(root: &Path) -> steps::Outcome {
    if !steps::Program::exists("chromium") {
        return Ok(Done::Skipped("missing on this machine: chromium".to_owned()));
    }
    let checker = tools::install_javascript(root, &target(root), &tools::WEB_CLIENT);
    check_clients(root, checker.map(|checker| [checker]), agent::run)
}

fn check_clients<const N: usize>(
    root: &Path,
    installed: Result<[Client; N]>,
    run: impl Fn(&Path, &[Client]) -> Result<Vec<Outcome>>,
) -> steps::Outcome {
    let clients = match installed {
        Ok(clients) => clients,
        Err(error) => return Ok(Done::Skipped(format!("{error:#}"))),
    };
    let outcomes = run(root, &clients)?;
    let failed: usize = outcomes.iter().map(Outcome::failed).sum();
    let passed = outcomes.iter().map(|outcome| outcome.checks.len()).sum::<usize>() - failed;
    let counts = Counts { passed, failed, skipped: 0 };
    match failed {
        0 => Ok(Done::Tests(counts)),
        _ => Err(Failed {
            message: format!("{failed} checks failed: see the lines above that begin with FAIL"),
            counts,
        }),
    }
}

/// Runs the clients, and writes the page that shows what they did, when every check passed.
pub(crate) fn write(root: &Path) -> Result<()> {
    let outcomes = run(root, &tools::install(root, &target(root), &tools::GATEWAY)?)?;
    ensure_passed(&outcomes)?;
    write_page(root, PAGE, &page::page(page::CLIENTS, &outcomes))
}

/// As [`write`], for the frameworks.
pub(crate) fn write_frameworks(root: &Path) -> Result<()> {
    let frameworks = tools::install(root, &target(root), &tools::FRAMEWORKS)?;
    let outcomes = agent::run(root, &frameworks)?;
    ensure_passed(&outcomes)?;
    write_page(root, FRAMEWORKS_PAGE, &page::page(page::FRAMEWORKS, &outcomes))
}

fn ensure_passed(outcomes: &[Outcome]) -> Result<()> {
    let failed: usize = outcomes.iter().map(Outcome::failed).sum();
    ensure!(failed == 0, "{failed} checks failed: see the lines above that begin with FAIL");
    Ok(())
}

fn run(root: &Path, clients: &[Client]) -> Result<Vec<Outcome>> {
    let agentd = agentd(root)?;
    let starter = Starter { parts: std::env::current_exe().context("this program's own path")? };
    let mut outcomes = Vec::new();
    for client in clients {
        println!("── {}", client.language);
        let outcome = try_client(&starter, root, &agentd, client);
        outcomes.push(outcome.with_context(|| format!("the {} client", client.language))?);
    }
    println!("\n{}", page::summary(&outcomes));
    Ok(outcomes)
}

/// One client against a gateway of its own: what the other did counts for nothing.
fn try_client(starter: &Starter, root: &Path, agentd: &Path, client: &Client) -> Result<Outcome> {
    let mut gateway = gateway::start(starter, root, agentd)?;
    let mut command = client.command();
    command.env("GATEWAY_URL", &gateway.url).env("GATEWAY_ADMIN_TOKEN", gateway::TOKEN);
    let outcome = follow(starter.start(Cores::All, &command)?, client.language)?;
    gateway.end()?;
    Ok(outcome)
}
