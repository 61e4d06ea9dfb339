//! A thread's calls that concern other agents, and what the tree of agents learns of the thread.

use std::collections::HashMap;
use std::sync::Arc;

use session::{AgentRequest, Event, Id, Item};
use tokio::sync::watch;

use crate::agents::{AgentCaller, AgentIdentity, Agents, CallSenders, CallTask};
use crate::allowed::ThreadAbove;
use crate::connection::{ConnectionId, Peer};
use crate::error::Error;

/// See the module.
pub(crate) struct AgentCalls {
    thread: Id,
    agents: Arc<Agents>,
    senders: CallSenders,
    /// Calls that are being carried out, by the session's number; bounded by the tool calls of a
    /// response.
    running: HashMap<u64, CallTask>,
    /// The root of the tree, when the thread is an agent.
    root: Option<String>,
    /// The thread was loaded from the store, which may have agents of it.
    is_stored: bool,
    /// The agent's last message of the running turn.
    last_message: Option<String>,
}

impl AgentCalls {
    pub(crate) fn new(
        thread: Id,
        agents: Arc<Agents>,
        senders: CallSenders,
        (identity, is_stored): (Option<&AgentIdentity>, bool),
    ) -> Self {
        if let Some(identity) = identity {
            agents.loaded(&thread, identity);
        }
        let root = identity.map(|identity| identity.root.clone());
        let running = HashMap::new();
        Self { thread, agents, senders, running, root, is_stored, last_message: None }
    }

    /// Carries a call out.
    pub(super) fn call(&mut self, number: u64, request: AgentRequest, caller: AgentCaller) {
        self.running.retain(|_, task| !task.is_finished());
        let (agents, senders) = (self.agents.clone(), self.senders.clone());
        let task = CallTask::start(agents, caller, (number, request), senders);
        self.running.insert(number, task);
    }

    /// The answer to a call is no longer wanted: what it waits for is interrupted.
    pub(super) fn cancel(&mut self, number: u64) {
        self.running.remove(&number);
    }

    /// Observes an event that was sent to clients, of a thread that is an agent.
    pub(super) fn observe(&mut self, event: &Event) {
        if self.root.is_none() {
            return;
        }
        match event {
            Event::TurnStarted(view) => self.agents.turn_started(&self.thread, &view.id),
            Event::ItemCompleted { item: Item::AgentMessage { text, .. }, .. } => {
                self.last_message = Some(text.clone());
            }
            Event::TurnCompleted(view) => {
                self.agents.turn_ended(&self.thread, view, self.last_message.clone());
            }
            Event::StatusChanged(session::Status::Idle | session::Status::SystemError) => {
                self.last_message = None;
            }
            _ => {}
        }
    }

    /// Whether the store may have agents of the thread's tree that nobody has named since the start
    /// of the server.
    pub(super) fn may_have_stored_agents(&self) -> bool {
        self.is_stored || self.root.is_some()
    }

    /// A client has left the thread: its agents no longer count on that client for answers.
    pub(super) fn client_left(&self, connection: ConnectionId) {
        if self.root.is_none() {
            self.agents.root_client_left(&self.thread, connection);
        }
    }

    /// Whether agents that the thread started are working.
    pub(super) fn are_working(&self) -> bool {
        self.agents.has_working_descendants(&self.thread)
    }

    /// What the store has of threads above that are not loaded.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn read_above(
        &self,
        unloaded: Vec<String>,
    ) -> Result<Vec<ThreadAbove>, Error> {
        self.agents.read_above(unloaded).await
    }

    /// The clients of the thread at the root, when the thread is an agent.
    pub(super) fn root_clients(&self) -> Vec<Arc<Peer>> {
        self.root.as_ref().map(|root| self.agents.root_clients(root)).unwrap_or_default()
    }

    /// Whether prompts are open outside the server on the threads that this one works for.
    pub(super) fn pauses_above(&self) -> Vec<watch::Receiver<bool>> {
        match self.root {
            Some(_) => self.agents.pauses_above(&self.thread),
            None => Vec::new(),
        }
    }

    /// Has the agents of the thread send what they ask to a client that subscribes to the thread.
    pub(super) fn show_questions(&self, peer: &Arc<Peer>) {
        self.agents.show_questions(&self.thread, peer);
    }

    /// What to do when the actor has ended, in whatever way.
    pub(super) fn at_end(&self) -> impl FnOnce() + Send + use<> {
        let (agents, thread) = (self.agents.clone(), self.thread.clone());
        move || agents.thread_ended(&thread)
    }

    /// Ends the agents that the thread started, after a failure of its actor.
    pub(super) fn close_all(&mut self) {
        self.running.clear();
        let (agents, thread) = (self.agents.clone(), self.thread.clone());
        tokio::spawn(async move { agents.close_children(&thread).await });
    }
}
