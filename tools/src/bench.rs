//! `cargo xtask bench`: measures a server of this protocol from a client's side, next to other
//! servers. It drives each over stdio with a scripted model, so that only the server's own cost
//! remains, and agentd with many clients over WebSocket too. It prints goals next to the figures,
//! without a verdict.

mod agents;
mod client;
mod config_read;
mod delta;
mod disk;
mod dist;
mod exec;
pub(crate) mod gateway;
mod hooks;
mod idle_clients;
mod load;
mod long_request;
mod long_thread;
mod mcp;
pub(crate) mod model_server;
mod options;
mod overload;
mod process;
mod report;
mod requests;
mod scenario;
mod search;
mod search_tree;
mod skills;
mod slow_readers;
mod socket;
mod stalled_client;
mod start;
mod stored;
mod streams;
mod system_calls;
pub(crate) mod target;
mod telemetry;
pub(crate) mod terminal;
mod thread_start;
mod tool;
mod turn;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use dist::dist_build;
use model_server::ModelServer;
use options::Options;
use report::Column;
use scenario::Scenario;
use target::{Run, Target};

const SCENARIOS: &[Scenario] = &[
    start::SCENARIO,
    thread_start::SCENARIO,
    turn::SCENARIO,
    system_calls::SCENARIO,
    system_calls::DELTAS,
    delta::SCENARIO,
    tool::SCENARIO,
    agents::SCENARIO,
    mcp::SCENARIO,
    hooks::SCENARIO,
    skills::SCENARIO,
    telemetry::SCENARIO,
    search::SCENARIO,
    exec::SCENARIO,
    exec::SOAK,
    streams::SCENARIO,
    disk::SCENARIO,
    config_read::SCENARIO,
    terminal::SCENARIO,
    terminal::STREAM,
    terminal::BURST,
    terminal::PICKER,
    stored::SCENARIO,
    long_thread::SCENARIO,
    long_request::SCENARIO,
    idle_clients::SCENARIO,
    requests::SCENARIO,
    stalled_client::SCENARIO,
    overload::SCENARIO,
];

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Measure the gateway against nginx and LiteLLM, on two cores that nothing else uses
    Gateway(gateway::Options),
    /// A process of the gateway's benchmark, which starts it
    #[command(hide = true, subcommand)]
    GatewayPart(gateway::Part),
}

pub(crate) fn run(root: &Path, arguments: Arguments) -> Result<()> {
    match arguments.command {
        Some(Command::Gateway(options)) => gateway::run(root, &options),
        Some(Command::GatewayPart(part)) => gateway::run_part(part),
        None => run_servers(root, &arguments.options),
    }
}

/// Returns the arguments after `cargo xtask bench`, unchanged.
fn given_arguments() -> Vec<String> {
    std::env::args().skip(2).collect()
}

fn run_servers(root: &Path, options: &Options) -> Result<()> {
    let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    options.check_scenarios(&names)?;
    let agentd = own_binary(root, options)?;
    let mut targets = vec![match &options.server {
        Some(server) => server.clone(),
        None => Target::new("agentd", agentd.clone(), "AGENT_HOME"),
    }];
    targets.extend(options.peers.clone());
    for target in &targets {
        ensure!(target.binary.is_file(), "{}: no such program", target.binary.display());
    }
    let mut columns: Vec<Column> = targets
        .iter()
        .map(|target| Column { name: target.name.clone(), figures: vec![] })
        .collect();
    for scenario in SCENARIOS.iter().filter(|scenario| options.includes(scenario.name)) {
        let model = ModelServer::start(&agentd, &scenario.script)
            .with_context(|| format!("{}: the scripted model", scenario.name))?;
        for (target, column) in targets.iter().zip(&mut columns) {
            eprintln!("{}: {}", scenario.name, target.name);
            let run = Run {
                root,
                target,
                model: &model,
                repeats: options.runs as usize,
                time: options.time,
            };
            let figures = (scenario.measure)(&run);
            column
                .figures
                .extend(figures.with_context(|| format!("{}: {}", scenario.name, target.name))?);
        }
    }
    publish(root, options, &columns)
}

fn publish(root: &Path, options: &Options, columns: &[Column]) -> Result<()> {
    let table = report::table(columns);
    println!("{table}");
    let Some(file) = &options.write else { return Ok(()) };
    let page =
        report::page(&table, &process::machine(), &options::command_line(&given_arguments()));
    let file = root.join(file);
    std::fs::write(&file, page).with_context(|| file.display().to_string())?;
    println!("written to {}", file.display());
    Ok(())
}

/// Returns the `dist` build of this checkout: the default server, and always the scripted model.
fn own_binary(root: &Path, options: &Options) -> Result<std::path::PathBuf> {
    if let Some(binary) = &options.model_server {
        return Ok(binary.clone());
    }
    dist_build(root, "cli", "agentd")
}
