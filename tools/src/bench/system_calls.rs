//! System calls that the server makes for a `thread/start`, a turn and a streamed delta, as `strace` counts
//! them. Unlike times, they hardly depend on the machine and on what else it does.
//!
//! Each figure is the difference of two whole runs, so what a start, a handshake and an end cost drops out.
//! Both begin with some requests of each kind, until what the server does once in the background is over.

use std::path::Path;

use anyhow::{Context, Result};

use super::model_server::Script;
use super::report::Figure;
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "system_calls",
    script: Script::Deltas { count: 1, delay_ms: 0 },
    measure: calls_of_requests,
};

pub(crate) const DELTAS: Scenario = Scenario {
    name: "system_calls_delta",
    script: Script::Deltas { count: COUNTED_DELTAS, delay_ms: 0 },
    measure: calls_of_deltas,
};

/// Requests of one kind in a run.
const COUNTED: u32 = 50;
/// Requests of each kind that every such run begins with.
const BEFORE: u32 = 25;
const COUNTED_DELTAS: usize = 50_000;

fn calls_of_requests(run: &Run<'_>) -> Result<Vec<Figure>> {
    let before = calls(run, BEFORE, BEFORE)?;
    let per_request = |total: u64| total.saturating_sub(before) as f64 / f64::from(COUNTED);
    let starts = per_request(calls(run, BEFORE + COUNTED, BEFORE)?);
    let turns = per_request(calls(run, BEFORE, BEFORE + COUNTED)?);
    let row = |what, value, goal| Figure { what, value, unit: "calls", goal: Some(goal) };
    Ok(vec![
        row("system calls of a `thread/start`", starts, 60.0),
        row("system calls of a turn", turns, 80.0),
    ])
}

fn calls_of_deltas(run: &Run<'_>) -> Result<Vec<Figure>> {
    let more = calls(run, 0, 1)?.saturating_sub(calls(run, 0, 0)?);
    let value = more as f64 / COUNTED_DELTAS as f64;
    let what = "system calls of a streamed delta";
    Ok(vec![Figure { what, value, unit: "calls", goal: Some(0.05) }])
}

/// All system calls of a server that starts a thread, runs a turn in it, and then as many of each as asked.
fn calls(run: &Run<'_>, threads: u32, turns: u32) -> Result<u64> {
    let folder = tempfile::tempdir().context("a folder for the counts")?;
    let counts = folder.path().join("counts");
    let mut server = run.start_counted(&counts)?;
    let (thread, _) = server.start_thread()?;
    server.client.turn(&thread)?;
    for _ in 0..threads {
        server.start_thread()?;
    }
    for _ in 0..turns {
        server.client.turn(&thread)?;
    }
    server.finish()?;
    total(&counts)
}

/// The last line of a summary of `strace`: `  1234 total`.
pub(super) fn total(counts: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(counts).context("the summary of strace")?;
    let line = text.lines().rev().find_map(|line| line.trim().strip_suffix(" total"));
    let calls = line.and_then(|line| line.trim().parse().ok());
    calls.with_context(|| format!("no total in the summary of strace: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_number_before_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, expected) in [
            (
                "    calls syscall\n--------- ----------------\n       12 read\n      311 total\n",
                Some(311),
            ),
            ("strace: detached\n", None),
        ] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(total(file.path()).ok(), expected, "{text}");
        }
    }
}
