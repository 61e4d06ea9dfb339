//! CPU time of the server for one streamed delta, over 50,000 in one message.

use anyhow::{Result, ensure};

use super::model_server::Script;
use super::process;
use super::report::{Figure, median};
use super::scenario::Scenario;
use super::target::Run;

const DELTAS: usize = 50_000;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "delta", script: Script::Deltas { count: DELTAS, delay_ms: 0 }, measure };

/// One message takes seconds on some servers; a median of three is enough for so many deltas.
const RUNS: usize = 3;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let mut costs = Vec::new();
    for _ in 0..RUNS.min(run.repeats) {
        let (mut server, _) = run.start_initialized()?;
        let (thread, _) = server.start_thread()?;
        let before = process::cpu(server.pid())?;
        server.client.turn(&thread)?;
        let used = process::cpu(server.pid())?.saturating_sub(before);
        // A server may merge deltas; the cost is still computed per delta of the model.
        ensure!(server.client.deltas() > 0, "the turn ended without a single delta");
        costs.push(used.as_secs_f64() * 1e6 / DELTAS as f64);
        server.finish()?;
    }
    Ok(vec![Figure {
        what: "CPU for one streamed delta, 50,000 in a row",
        value: median(costs),
        unit: "µs",
        goal: Some(5.0),
    }])
}
