//! Finds the agents that a call names. A call reaches the agents that its thread started, directly
//! or not, and no others: so agents cannot wait for each other in a circle, and none gives input
//! to a thread of the user.

use session::{AgentState, ToolError};
use store::ListQuery;

use super::forest::{Forest, MAX_REMEMBERED};
use super::{AgentCaller, Agents, report};
use services::convert::agent::SPAWNED_SOURCE;
use services::error::Error;
use services::thread_port::Extra;

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
        let id = match self.known(caller, target) {
            Some(id) => id,
            None => self.read_named(caller, target).await?,
        };
        if self.forest().descends(&id, &caller.id) != Some(true) {
            return Err(self.not_below(caller, &id));
        }
        self.read_report(&id).await?;
        Ok(id)
    }

    /// The agent that the forest knows by that id or nickname.
    fn known(&self, caller: &AgentCaller, target: &str) -> Option<String> {
        let forest = self.forest();
        match forest.identity(target) {
            Some(_) => Some(target.to_owned()),
            None => forest.named(caller.root(), target),
        }
    }

    /// Reads how the last turn of an agent ended, unless that is known. The thread of an agent that
    /// is closed may have been taken over by another server.
    pub(super) async fn read_report(&self, id: &str) -> Result<(), ToolError> {
        let Some(version) = self.forest().needs_report(id) else { return Ok(()) };
        let read = async {
            let store = self.store.get().await?;
            if store.thread(id).await?.is_none() {
                return Ok(None);
            }
            if report::of_stored(store, id).await? == Some(AgentState::Running) {
                // Its server may have died.
                self.store.close_orphans().await?;
            }
            Ok(Some(report::of_stored(store, id).await?))
        };
        let found = read.await.map_err(|error| unreadable(id, &error))?;
        if let Some(state) = found.ok_or_else(|| deleted(id))? {
            self.forest().set_last(id, version, state);
        }
        Ok(())
    }

    /// Refuses to close an agent that another server has loaded.
    pub(super) async fn check_is_not_elsewhere(&self, id: &str) -> Result<(), ToolError> {
        let _lock = self.threads.lock(id).await;
        let is_loaded = self.threads.get(id).is_some();
        if is_loaded || self.forest().needs_report(id).is_none() {
            return Ok(());
        }
        self.store
            .open_thread(id)
            .await
            .map_err(|error| ToolError::new(format!("agent {id} cannot be closed: {error}")))?;
        self.store.release(id).await;
        Ok(())
    }

    /// The id of a stored agent, which is in the forest from then on.
    async fn read_named(&self, caller: &AgentCaller, target: &str) -> Result<String, ToolError> {
        let store = self.store.get().await.map_err(|error| unreadable(target, &error))?;
        let found = store.thread(target).await;
        let found = found.map_err(|error| unreadable(target, &error.into()))?;
        if let Some(found) = found {
            let extra = Extra::read(&found.record).map_err(|error| unreadable(target, &error))?;
            let Some(identity) = extra.agent else {
                return Err(self.not_below(caller, target));
            };
            let is_closed = self.threads.get(target).is_none();
            self.forest().remember(target, &identity, is_closed);
            return Ok(target.to_owned());
        }
        self.read_tree(caller).await?;
        self.known(caller, target).ok_or_else(|| self.unknown(caller, target))
    }

    /// Reads the stored agents of a caller's tree into the forest, once: their nicknames are theirs.
    pub(super) async fn read_tree(&self, caller: &AgentCaller) -> Result<(), ToolError> {
        let root = caller.root();
        if self.forest().is_read(root) {
            return Ok(());
        }
        if !caller.may_have_stored_agents {
            self.forest().set_read(root);
            return Ok(());
        }
        let query = ListQuery {
            limit: u32::try_from(MAX_REMEMBERED).unwrap_or(u32::MAX),
            sources: vec![SPAWNED_SOURCE.to_owned()],
            sessions: vec![caller.session_id.clone()],
            ..ListQuery::default()
        };
        let read = async { Ok(self.store.get().await?.threads(query).await?) };
        let page = read.await.map_err(|error| unreadable(root, &error))?;
        let mut forest = self.forest();
        // Oldest first, as they came.
        for found in page.rows.iter().rev() {
            let id = &found.record.id;
            let identity = match Extra::read(&found.record) {
                Ok(extra) => extra.agent,
                // The others can be named all the same. Naming this one reports the error.
                Err(error) => {
                    tracing::warn!(target: "server::store", "{error}");
                    None
                }
            };
            if let Some(identity) = identity
                && identity.root == root
            {
                forest.remember(id, &identity, self.threads.get(id).is_none());
            }
        }
        forest.set_read(root);
        Ok(())
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

/// The error about an agent whose thread a client deleted.
fn deleted(id: &str) -> ToolError {
    ToolError::new(format!(
        "the thread of agent {id} was deleted, and its result with it; start another agent \
         (`spawn_agent`) if the work is still needed"
    ))
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
