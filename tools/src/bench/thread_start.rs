//! `thread/start` on a warmed-up server.

use anyhow::Result;

use super::model_server::Script;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "thread-start", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut server, _) = run.start_initialized()?;
    server.start_thread()?;
    let mut times = Vec::new();
    for _ in 0..run.repeats {
        let (_, took) = server.start_thread()?;
        times.push(milliseconds(took));
    }
    server.finish()?;
    Ok(vec![Figure { what: "`thread/start`", value: median(times), unit: "ms", goal: Some(1.0) }])
}
