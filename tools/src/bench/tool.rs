//! One sandboxed command (`true`) in a turn: the difference between a turn with and without it.

use anyhow::Result;

use super::model_server::Script;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "tool", script: Script::ToolThenNone, measure };

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut server, _) = run.start_initialized()?;
    let (thread, _) = server.start_thread()?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // The first pair warms up.
    for round in 0..=run.repeats {
        let (long, short) = (server.client.turn(&thread)?, server.client.turn(&thread)?);
        if round > 0 {
            with.push(milliseconds(long));
            without.push(milliseconds(short));
        }
    }
    server.finish()?;
    Ok(vec![Figure {
        what: "one tool call in a turn (`true`, sandboxed)",
        value: median(with) - median(without),
        unit: "ms",
        goal: Some(8.0),
    }])
}
