//! A turn with logs, traces and metrics exported to a collector on this machine, against the same turn on a
//! server that exports nothing: turn by turn in one run.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result};

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::{Run, Server};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "telemetry", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

/// Turns a run: their difference is a small part of them.
const TURNS: usize = 10;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(vec![]);
    }
    let (mut plain, _) = run.start_initialized()?;
    let (mut exporting, _) = run.start_initialized()?;
    let to = format!("{{ otlp-http = {{ endpoint = \"http://{}\" }} }}", collector()?);
    let keys = ["exporter", "trace_exporter", "metrics_exporter"];
    let keys: String = keys.iter().map(|key| format!("{key} = {to}\n")).collect();
    let config = exporting.home().join("config.toml");
    let mut config = OpenOptions::new().create(true).append(true).open(config)?;
    write!(config, "\n[otel]\nlog_user_prompt = true\n{keys}")?;
    let threads = [thread(&mut plain)?, thread(&mut exporting)?];
    let cpu = [process::cpu(plain.pid())?, process::cpu(exporting.pid())?];
    let turns = run.repeats * TURNS;
    let (mut without, mut with, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..turns {
        let one = milliseconds(plain.client.turn(&threads[0])?);
        let other = milliseconds(exporting.client.turn(&threads[1])?);
        without.push(one);
        with.push(other);
        more.push(other - one);
    }
    let used = |server: &Server, before| -> Result<f64> {
        let used = process::cpu(server.pid())?.saturating_sub(before);
        Ok(milliseconds(used) / turns as f64)
    };
    let more_cpu = used(&exporting, cpu[1])? - used(&plain, cpu[0])?;
    plain.finish()?;
    exporting.finish()?;
    let row = |what, value, goal| Figure { what, value, unit: "ms", goal };
    Ok(vec![
        row("a turn with telemetry, above one without (median of pairs)", median(more), Some(0.2)),
        row("the same, difference of the medians", median(with) - median(without), Some(0.2)),
        row("the same, server CPU, with what is sent in the background", more_cpu, None),
    ])
}

/// A thread that has had its first turn.
fn thread(server: &mut Server) -> Result<String> {
    let work = server.work();
    let (thread, _) = server.client.start_thread(&work)?;
    server.client.turn(&thread)?;
    Ok(thread)
}

/// The address of a collector that accepts everything, until the process ends.
fn collector() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a port for the collector")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// Answers the requests of a connection. The server under test closes it.
fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
