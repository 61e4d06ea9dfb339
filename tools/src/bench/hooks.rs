//! Ten command hooks at the end of a turn: what they cost above their processes.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::model_server::Script;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::{Run, Server};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "hooks", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const HOOKS: usize = 10;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(vec![]);
    }
    let (mut server, _) = run.start_initialized()?;
    let before = turns(&mut server, run.repeats)?;
    let handler = json!({ "type": "command", "command": "true" });
    let hooks = json!({ "hooks": { "Stop": [{ "hooks": vec![handler; HOOKS] }] } });
    std::fs::write(server.home().join("hooks.json"), hooks.to_string())?;
    let config = server.home().join("config.toml");
    let mut config = OpenOptions::new().create(true).append(true).open(config)?;
    config.write_all(b"\n[features]\ncodex_hooks = true\n")?;
    let after = turns(&mut server, run.repeats)?;
    let listed = server.client.request("hooks/list", json!({ "cwds": [server.work()] }))?.0;
    let count = listed["data"][0]["hooks"].as_array().map_or(0, Vec::len);
    ensure!(count == HOOKS, "{count} hooks run: {listed}");
    let own = (0..run.repeats).map(|_| own_time(&server)).collect::<Result<Vec<f64>>>()?;
    server.finish()?;
    let cost = median(after) - median(before);
    let own = median(own);
    let row = |what, value, goal| Figure { what, value, unit: "ms", goal };
    Ok(vec![
        row("a turn with ten command hooks, above one without", cost, None),
        row("the ten processes by themselves, one after the other", own, None),
        row("the hooks' cost above their processes", cost - own, Some(1.0)),
    ])
}

/// The time of the hooks' processes: the shell that the server starts, in its environment.
fn own_time(server: &Server) -> Result<f64> {
    let shell = ["/bin/bash", "/bin/sh"].into_iter().find(|shell| Path::new(shell).is_file());
    let shell = shell.context("there is no shell")?;
    let began = Instant::now();
    for _ in 0..HOOKS {
        let mut process = Command::new(shell);
        process.args(["-c", "true"]).env_clear().current_dir(server.work());
        process.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let ended = process.stdin(Stdio::null()).status().context(shell)?;
        ensure!(ended.success(), "`true` fails");
    }
    Ok(milliseconds(began.elapsed()))
}

/// Times of the turns of a thread, but for the first one.
fn turns(server: &mut Server, count: usize) -> Result<Vec<f64>> {
    let work = server.work();
    let (thread, _) = server.client.start_thread(&work)?;
    server.client.turn(&thread)?;
    (0..count).map(|_| Ok(milliseconds(server.client.turn(&thread)?))).collect()
}
