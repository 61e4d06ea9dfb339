//! MCP servers: what slow ones do to the start of a thread, how many processes many threads have, and
//! what a call of a tool costs. The servers are shell scripts, whose own time is measured separately.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::{Run, Server};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "mcp", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

/// A server with one tool; each start adds a line to a file.
const SERVER: &str = r#"echo started >>"$1"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"done"}]}';;
  *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}';;
  *'"method":"server/discover"'*) result='{}';;
  *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":1},"name":"echo","arguments":{}}}"#;
/// Threads, and servers that they share.
const THREADS: usize = 50;
const SERVERS: usize = 5;
/// Calls after which memory is compared, and those before it.
const CALLS: usize = 10_000;
const WARM: usize = 1_000;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(vec![]);
    }
    let starts = slow_servers(run)?;
    let (mut server, _) = run.start_initialized()?;
    let log = server.work().join("log");
    let servers: serde_json::Map<String, Value> =
        (0..SERVERS).map(|number| (format!("s{number}"), entry(&log))).collect();
    let config = json!({ "mcp_servers": servers });
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        threads.push(start(&mut server, &config)?.0);
    }
    for thread in &threads {
        for number in 0..SERVERS {
            call(&mut server, thread, number)?;
        }
    }
    let started = std::fs::read_to_string(&log)?.lines().count();
    let thread = threads.first().context("a thread was started")?;
    let mut times = Vec::new();
    for _ in 0..WARM {
        let began = Instant::now();
        times.push(milliseconds(call(&mut server, thread, 0)?.duration_since(began)));
    }
    let memory = process::private(server.pid())?;
    for _ in 0..CALLS {
        call(&mut server, thread, 0)?;
    }
    let growth = process::private(server.pid())?.saturating_sub(memory);
    server.finish()?;
    let own = own_time(&log)?;
    let row = |what, value, unit, goal| Figure { what, value, unit, goal: Some(goal) };
    Ok(vec![
        row("`thread/start` with three servers that take 20 s", median(starts), "ms", 2.0),
        row("processes of 5 servers in 50 threads", started as f64, "", SERVERS as f64),
        row("a call, above the server's own time", median(times) - own, "ms", 1.0),
        row("growth of the private memory in 10,000 calls", megabytes(growth), "MB", 1.0),
    ])
}

/// Measures `thread/start` with servers that are not ready for 20 s.
fn slow_servers(run: &Run<'_>) -> Result<Vec<f64>> {
    let (mut server, _) = run.start_initialized()?;
    let slow = json!({ "command": "sleep", "args": ["20"], "startup_timeout_sec": 30 });
    let config = json!({ "mcp_servers": { "a": slow, "b": slow, "c": slow } });
    start(&mut server, &json!({}))?;
    let times = (0..run.repeats).map(|_| start(&mut server, &config).map(|(_, took)| took));
    let times = times.collect::<Result<_>>()?;
    server.finish()?;
    Ok(times)
}

fn entry(log: &Path) -> Value {
    json!({ "command": "sh", "args": ["-c", SERVER, "server", log] })
}

fn start(server: &mut Server, config: &Value) -> Result<(String, f64)> {
    let params = json!({ "cwd": server.work(), "config": config });
    let began = Instant::now();
    let (started, at) = server.client.request("thread/start", params)?;
    let thread = started["thread"]["id"].as_str().context("a thread has an id")?;
    Ok((thread.to_owned(), milliseconds(at.duration_since(began))))
}

/// Calls the tool of a server; returns when the answer was read.
fn call(server: &mut Server, thread: &str, number: usize) -> Result<Instant> {
    let params = json!({ "threadId": thread, "server": format!("s{number}"), "tool": "echo",
        "arguments": {} });
    let (answer, at) = server.client.request("mcpServer/tool/call", params)?;
    ensure!(answer["content"][0]["text"] == "done", "an unexpected answer: {answer}");
    Ok(at)
}

/// Returns the server's own time for a call.
fn own_time(log: &Path) -> Result<f64> {
    let mut child = Command::new("sh")
        .args(["-c", SERVER, "server"])
        .arg(log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("its input")?;
    let mut output = BufReader::new(child.stdout.take().context("its output")?);
    let mut times = Vec::new();
    for _ in 0..WARM {
        let began = Instant::now();
        writeln!(input, "{CALL}")?;
        output.read_line(&mut String::new())?;
        times.push(milliseconds(began.elapsed()));
    }
    drop(input);
    child.wait()?;
    Ok(median(times))
}
