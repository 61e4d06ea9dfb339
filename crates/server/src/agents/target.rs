//! Finds the agents that a call names. A call reaches the agents that its thread started, directly
//! or not, and no others: so agents cannot wait for each other in a circle, and none gives input
//! to a thread of the user.

use session::ToolError;

use super::forest::Forest;
use super::report;
use super::{AgentCaller, Agents};
use crate::error::Error;
use crate::thread::Extra;

/// Agents that an error lists.
const MAX_LISTED: usize = 20;

impl Agents {
    /// The id of the agent that `target` names. The store is read for one that the forest does not
    /// know.
    pub(super) async fn find(
        &self,
        caller: &AgentCaller,
        target: &str,
    ) -> Result<String, ToolError> {
        if target == caller.id {
            return Err(ToolError::new(format!(
                "{target} is this agent itself; name an agent that you started"
            )));
        }
        let known = {
            let forest = self.forest();
            let id = match forest.identity(target) {
                Some(_) => Some(target.to_owned()),
                None => forest.named(caller.root(), target),
            };
            id.map(|id| (forest.descends(&id, &caller.id), id))
        };
        let (descends, id) = match known {
            Some((Some(descends), id)) => (descends, id),
            Some((None, id)) => (self.read_parents(caller, &id).await?, id),
            None => (self.read_parents(caller, target).await?, target.to_owned()),
        };
        if !descends {
            return Err(self.not_below(caller, &id));
        }
        self.read_report(&id).await?;
        Ok(id)
    }

    /// Reads how the last turn of an agent ended, unless that is known.
    pub(super) async fn read_report(&self, id: &str) -> Result<(), ToolError> {
        if !self.forest().lacks_report(id) {
            return Ok(());
        }
        let read = async { report::of_stored(self.store.get().await?, id).await };
        let read = read.await.map_err(|error| unreadable(id, &error))?;
        if let Some(state) = read {
            self.forest().set_last(id, state);
        }
        Ok(())
    }

    /// Reads a stored agent and its parents into the forest, up to those that are there already.
    /// Returns whether the caller started it, directly or not.
    async fn read_parents(&self, caller: &AgentCaller, id: &str) -> Result<bool, ToolError> {
        let mut at = id.to_owned();
        loop {
            let store = self.store.get().await.map_err(|error| unreadable(id, &error))?;
            let found = store.thread(&at).await.map_err(|error| unreadable(id, &error.into()))?;
            let Some(found) = found else {
                return Err(match at == id {
                    true => self.unknown(caller, id),
                    false => ToolError::new(format!(
                        "agent {id} belongs to the deleted thread {at}, so it cannot be reached"
                    )),
                });
            };
            let Some(identity) = Extra::read(&found.record).agent else {
                return Err(self.not_below(caller, id));
            };
            let closed = self.threads.get(&at).is_none();
            let mut forest = self.forest();
            forest.remember(&at, &identity, closed);
            if let Some(descends) = forest.descends(id, &caller.id) {
                return Ok(descends);
            }
            drop(forest);
            at = identity.parent;
        }
    }

    fn unknown(&self, caller: &AgentCaller, target: &str) -> ToolError {
        let yours = listed(&self.forest(), &caller.id);
        ToolError::new(format!("there is no agent `{target}`; {yours}"))
    }

    fn not_below(&self, caller: &AgentCaller, target: &str) -> ToolError {
        let forest = self.forest();
        let yours = listed(&forest, &caller.id);
        let is_above = target == caller.root() || forest.descends(&caller.id, target) == Some(true);
        let why = match forest.identity(target) {
            _ if is_above => "is above this agent in the tree, and waits for it in turn",
            Some(identity) if identity.root == caller.root() => "was started by another agent",
            Some(_) => "belongs to the tree of another thread",
            None => "is not an agent that this thread started",
        };
        ToolError::new(format!("`{target}` {why}; {yours}"))
    }
}

fn unreadable(id: &str, error: &Error) -> ToolError {
    ToolError::new(format!("the store of agent {id} cannot be read: {error}"))
}

/// The agents that a thread can name, for an error.
fn listed(forest: &Forest, thread: &str) -> String {
    let children = forest.children(thread);
    if children.is_empty() {
        return "you have started no agent (`spawn_agent`)".to_owned();
    }
    let shown: Vec<String> = children
        .iter()
        .rev()
        .take(MAX_LISTED)
        .map(|(id, nickname)| format!("{nickname} ({id})"))
        .collect();
    format!("your agents are {}", shown.join(", "))
}
