//! A thread's calls that concern other agents, and what the tree of agents learns of the thread.

use std::collections::HashMap;
use std::sync::Arc;

use crate::agents::{AgentCaller, AgentIdentity, Agents, CallSenders, CallTask};
use crate::connection::Peer;
use session::{AgentRequest, Event, Id, Item};

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
    /// The agent's last message of the running turn.
    last_message: Option<String>,
}

impl AgentCalls {
    pub(crate) fn new(
        thread: Id,
        agents: Arc<Agents>,
        senders: CallSenders,
        identity: Option<&AgentIdentity>,
    ) -> Self {
        if let Some(identity) = identity {
            agents.loaded(&thread, identity);
        }
        let root = identity.map(|identity| identity.root.clone());
        Self { thread, agents, senders, running: HashMap::new(), root, last_message: None }
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

    /// Whether agents that the thread started are working.
    pub(super) fn are_working(&self) -> bool {
        self.agents.has_working_descendants(&self.thread)
    }

    /// The clients of the thread at the root, when the thread is an agent.
    pub(super) fn root_clients(&self) -> Vec<Arc<Peer>> {
        self.root.as_ref().map(|root| self.agents.root_clients(root)).unwrap_or_default()
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
        tokio::spawn(async move { agents.close_orphaned(&thread).await });
    }
}
