//! Sub-agents: a turn that starts 20 or 100 of them at once and waits for each, against plain turns.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::{Run, Server};

/// Agents of each root, in the order in which the scenario runs the roots: the model counts
/// conversations.
const ROOTS: &[usize] = &[20, 20, 20, 100];
/// Plain threads, for comparison.
const PLAIN: usize = 20;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "agents", script: Script::Agents { roots: ROOTS }, measure };

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(vec![]);
    }
    let (mut server, _) = run.start_initialized()?;
    let mut of_20 = Vec::new();
    let mut of_100 = None;
    for &agents in ROOTS {
        let cost = run_root(&mut server, agents)?;
        match agents {
            20 => of_20.push(cost),
            _ => of_100 = Some(cost),
        }
    }
    let of_100 = of_100.context("a root with 100 agents")?;
    let threads: Vec<String> =
        (0..PLAIN).map(|_| Ok(server.start_thread()?.0)).collect::<Result<_>>()?;
    let before = process::cpu(server.pid())?;
    for thread in &threads {
        server.client.turn(thread)?;
    }
    let used = process::cpu(server.pid())?.saturating_sub(before);
    let plain = milliseconds(used) / PLAIN as f64;
    server.finish()?;

    // The first root also pays for what a new process does once.
    let warm = of_20.split_off(1);
    let cpu = median(warm.iter().map(|cost| milliseconds(cost.cpu) / 20.0).collect());
    let spawned = median(warm.iter().map(|cost| milliseconds(cost.spawned)).collect());
    let memory = median(warm.iter().map(|cost| megabytes(cost.memory) / 20.0).collect());
    let row = |what, value, unit, goal| Figure { what, value, unit, goal: Some(goal) };
    Ok(vec![
        row("20 sub-agents at once: until all are started", spawned, "ms", 20.0),
        row("the same, server CPU of each over a plain turn", cpu - plain, "ms", 1.0),
        row("the same, private memory of each", memory, "MB", 0.4),
        row(
            "100 sub-agents at once: until all are started",
            milliseconds(of_100.spawned),
            "ms",
            100.0,
        ),
        row(
            "the same, server CPU of each over a plain turn",
            milliseconds(of_100.cpu) / 100.0 - plain,
            "ms",
            1.0,
        ),
        row("the same, private memory of each", megabytes(of_100.memory) / 100.0, "MB", 0.4),
    ])
}

/// The cost of a turn with agents.
struct Cost {
    /// From the first call to the last agent that was started.
    spawned: Duration,
    cpu: Duration,
    /// Growth of the private memory, in bytes.
    memory: u64,
}

fn run_root(server: &mut Server, agents: usize) -> Result<Cost> {
    let names: Vec<String> = (0..agents).map(Script::agent_name).collect();
    let worker = json!({ "nickname_candidates": names });
    let config = json!({ "agents": { "max_threads": agents, "worker": worker } });
    let params = json!({ "cwd": server.work(), "config": config });
    let (started, _) = server.client.request("thread/start", params)?;
    let thread = started["thread"]["id"].as_str().context("a thread has an id")?.to_owned();
    let pid = server.pid();
    let (cpu, memory) = (process::cpu(pid)?, process::private(pid)?);
    let turn = server.client.start_turn(&thread)?;
    let spawned = server.client.spawned(agents)?;
    server.client.completed(&turn)?;
    Ok(Cost {
        spawned,
        cpu: process::cpu(pid)?.saturating_sub(cpu),
        memory: process::private(pid)?.saturating_sub(memory),
    })
}
