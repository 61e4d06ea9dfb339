//! `wait_agent`: returns within its time, whatever the agents do.

use std::time::Duration;

use serde_json::{Map, json};
use session::{AgentOutcome, AgentState, Id, ToolError};
use tokio::time::{Instant, timeout_at};

use super::report;
use super::{AgentCaller, Agents};

/// Interval at which the store is read for agents that are not loaded: another server may work on
/// them.
const REREAD: Duration = Duration::from_millis(500);
/// Shortest time for agents that must be read from the store first.
const LOOKUP: Duration = Duration::from_millis(40);

impl Agents {
    /// Waits until one of `targets` has ended its work, for `timeout_ms` at most.
    pub(super) async fn wait(
        &self,
        caller: &AgentCaller,
        targets: &[String],
        timeout_ms: u64,
    ) -> AgentOutcome {
        let start = Instant::now();
        let deadline = start + Duration::from_millis(timeout_ms);
        let lookup = async {
            let mut found: Vec<String> = Vec::new();
            for target in targets {
                let id = self.find(caller, target).await?;
                if !found.contains(&id) {
                    found.push(id);
                }
            }
            Ok(found)
        };
        let found = match timeout_at(deadline.max(start + LOOKUP), lookup).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return AgentOutcome::failed(error),
            Err(_) => {
                return AgentOutcome::failed(ToolError::new(
                    "the store of the agents did not answer in time; try again",
                ));
            }
        };
        let mut changes = self.forest().changes(caller.root());
        loop {
            changes.mark_unchanged();
            let states: Vec<(Id, AgentState)> =
                found.iter().map(|id| (Id::from(id.as_str()), self.state(id))).collect();
            if states.iter().any(|(_, state)| state.is_final()) {
                return outcome(states, false);
            }
            let elsewhere: Vec<&String> =
                found.iter().filter(|id| self.forest().needs_report(id).is_some()).collect();
            let until = match elsewhere.is_empty() {
                true => deadline,
                false => deadline.min(Instant::now() + REREAD),
            };
            // The sender lives as long as the forest remembers the tree.
            if matches!(timeout_at(until, changes.changed()).await, Ok(Ok(()))) {
                continue;
            }
            let reread = async {
                for id in elsewhere {
                    self.read_report(id).await?;
                }
                Ok(())
            };
            match timeout_at(deadline, reread).await {
                Ok(Err(error)) => return AgentOutcome::failed(error),
                Ok(Ok(())) if until < deadline => {}
                _ => return outcome(states, true),
            }
        }
    }
}

fn outcome(states: Vec<(Id, AgentState)>, timed_out: bool) -> AgentOutcome {
    let ended = states.iter().filter(|(_, state)| state.is_final());
    let status: Map<String, _> =
        ended.map(|(id, state)| (id.to_string(), report::for_model(state))).collect();
    AgentOutcome {
        receivers: states.iter().map(|(id, _)| id.clone()).collect(),
        spawned: None,
        states,
        model: None,
        effort: None,
        output: Ok(json!({ "status": status, "timed_out": timed_out }).to_string()),
    }
}
