//! A thread's calls that concern other agents, and what the tree of agents learns of the thread.

use std::collections::HashMap;
use std::sync::Arc;

use session::{AgentJob, AgentRequest, Event, Id, Item, Prepared, ToolError};
use tokio::sync::{oneshot, watch};

use crate::agents::{AgentCaller, Agents, CallItem, CallSenders, CallTask, QueuedCall};
use services::allowed::{MachineInput, ThreadAbove};
use services::error::Error;
use services::panics::{self, Panic};
use services::peer::{ConnectionId, Peer};
use services::thread_port::{AgentIdentity, Command};

/// A thread's calls that concern other agents.
pub struct AgentCalls {
    thread: Id,
    agents: Arc<Agents>,
    senders: CallSenders,
    /// Calls that are being carried out, by the session's number; bounded by the tool calls of a
    /// response.
    running: HashMap<u64, CallTask>,
    /// Resolves when the last report of a job's result has its outcome.
    last_report: Option<oneshot::Receiver<()>>,
    /// The root of the tree, when the thread is an agent.
    root: Option<String>,
    /// The user's messages in the root's thread, when the thread is an agent.
    root_words: Option<watch::Receiver<Option<Arc<str>>>>,
    /// The thread is a root that has called other agents, which follow what its user writes.
    publishes_words: bool,
    /// The thread was loaded from the store, which may have agents of it.
    is_stored: bool,
    /// The agent's last message of the running turn.
    last_message: Option<String>,
}

impl AgentCalls {
    pub fn new(
        thread: Id,
        agents: Arc<Agents>,
        senders: CallSenders,
        (identity, is_stored): (Option<&AgentIdentity>, bool),
    ) -> Self {
        if let Some(identity) = identity {
            agents.loaded(&thread, identity);
        }
        let root = identity.map(|identity| identity.root.clone());
        let root_words = root.as_ref().map(|root| agents.words().follow(root));
        Self {
            thread,
            agents,
            senders,
            running: HashMap::new(),
            last_report: None,
            root,
            root_words,
            publishes_words: false,
            is_stored,
            last_message: None,
        }
    }

    /// The root of the tree, when the thread is an agent.
    pub(super) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Carries a call out. Reports of a job's result take place in the order of the calls: the first
    /// is the one that counts.
    pub(super) fn call(
        &mut self,
        number: u64,
        request: AgentRequest,
        caller: AgentCaller,
        item: CallItem,
    ) {
        self.running.retain(|_, task| !task.is_finished());
        let (agents, senders) = (self.agents.clone(), self.senders.clone());
        let place = matches!(request, AgentRequest::ReportJobResult(_)).then(|| {
            let (ended, after) = oneshot::channel();
            QueuedCall { before: self.last_report.replace(after), _ended: ended }
        });
        let task = CallTask::start(agents, caller, (number, item, request), senders, place);
        self.running.insert(number, task);
    }

    /// Looks at where a job would write its results.
    pub(super) fn plan_job(&self, call: u64, job: AgentJob, caller: AgentCaller) {
        let (agents, sender) = (self.agents.clone(), self.senders.commands.clone());
        tokio::spawn(async move {
            let planned = panics::catch(agents.plan_job(&caller, &job)).await;
            let planned = planned.unwrap_or_else(|Panic(panic)| {
                tracing::error!(target: "server::agents", "the plan of a job panicked: {panic}");
                Err(ToolError::new(format!("an error in the server ended the call ({panic})")))
            });
            let outcome = Prepared::JobOutput(planned);
            // A thread that has ended needs no result.
            let _ = sender.send(Command::Input(MachineInput::Prepared { call, outcome })).await;
        });
    }

    /// The answer to a call is no longer wanted: what it waits for is interrupted.
    pub(super) fn cancel(&mut self, number: u64) {
        self.running.remove(&number);
    }

    /// Publishes what the user wrote in a root for the reviewers of its agents. `is_calling`: the
    /// root calls another agent; from then on, what the user adds is published too, and in any case
    /// while an agent follows it.
    pub(super) fn publish_words(
        &mut self,
        is_calling: bool,
        words: impl FnOnce() -> Option<Arc<str>>,
    ) {
        if self.root.is_some() {
            return;
        }
        self.publishes_words |= is_calling;
        if (self.publishes_words || self.agents.words().is_followed(&self.thread))
            && let Some(words) = words()
        {
            self.agents.words().publish(&self.thread, words);
        }
    }

    /// Reads what the user wrote in the root's thread, when no loaded root publishes it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn read_root_words(&self) -> Result<(), Error> {
        match &self.root {
            Some(root) => self.agents.read_words(root).await,
            None => Ok(()),
        }
    }

    /// Returns the user's messages in the root's thread, if they are news to an agent.
    pub(super) fn new_root_words(&mut self) -> Option<Arc<str>> {
        let words = self.root_words.as_mut()?;
        let is_new = words.has_changed().unwrap_or(false);
        is_new.then(|| words.borrow_and_update().clone()).flatten()
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

    /// Returns whether the store may have agents of the thread's tree that no call has named since
    /// the start of the server.
    pub(super) fn may_have_stored_agents(&self) -> bool {
        self.is_stored || self.root.is_some()
    }

    /// A client has left the thread: its agents no longer count on that client for answers.
    pub(super) fn client_left(&self, connection: ConnectionId) {
        if self.root.is_none() {
            self.agents.root_client_left(&self.thread, connection);
        }
    }

    /// Returns whether agents that the thread started are working.
    pub(super) fn are_working(&self) -> bool {
        self.agents.has_working_descendants(&self.thread)
    }

    /// Returns the stored policies of threads above that are not loaded.
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

    /// Returns for each thread that this one works for whether it has open prompts outside the
    /// server.
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

    /// Returns the clean-up after the actor has ended, in whatever way.
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
