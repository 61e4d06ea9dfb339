//! Time from starting the process to the response to `initialize`, and memory at that moment.

use anyhow::Result;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "start", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

/// Fewer starts are not meaningful, because the first ones read the program from disk.
const LEAST_RUNS: usize = 20;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..run.repeats.max(LEAST_RUNS) {
        let (server, took) = run.start_initialized()?;
        memory.push(megabytes(process::resident(server.pid())?));
        times.push(milliseconds(took));
    }
    Ok(vec![
        Figure {
            what: "process start to the response to `initialize`",
            value: median(times),
            unit: "ms",
            goal: Some(5.0),
        },
        Figure {
            what: "resident memory after `initialize`",
            value: median(memory),
            unit: "MB",
            goal: Some(12.0),
        },
    ])
}
