//! Sub-agents (specification: `features.multi_agent`): carries out what the model of one thread asks
//! of other agents. An agent is an ordinary thread; here is only who started whom, what each is
//! doing, and how many may work at once.
//!
//! [`Forest`] holds that in memory; an agent's thread and its result are in the store.

mod calls;
mod close;
mod forest;
mod input;
mod jobs;
mod nicknames;
mod report;
mod spawn;
mod start_agents;
mod start_error;
mod target;
mod wait;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use config::Config;
use files::Pool;
use session::{AgentState, Id, Settings, TurnView};
use telemetry::TraceContext;
use tokio::sync::watch;

use services::allowed::{Allowed, ThreadAbove};
use services::budget::TurnBudget;
use services::configurations::ConfigurationOrigin;
use services::convert;
use services::error::Error;
use services::image_reader::ImageReader;
use services::loaded_threads::LoadedThreads;
use services::options::Options;
use services::peer::{ConnectionId, Peer};
use services::thread_port::{AgentIdentity, Command, Extra};
use services::thread_store::ThreadStore;

pub use calls::CallSenders;
pub(crate) use calls::{CallTask, QueuedCall};
use forest::Forest;
use jobs::{Claims, EphemeralJobs, OpenRows};
pub use start_agents::Starting;
pub(crate) use start_agents::{AgentThread, StartAgents};
pub(crate) use words::WordsOfRoots;

/// The sub-agents of all threads.
pub struct Agents {
    forest: Mutex<Forest>,
    threads: Arc<LoadedThreads>,
    store: Arc<ThreadStore>,
    images: Arc<ImageReader>,
    options: Arc<Options>,
    /// For the files of jobs.
    files: Pool,
    /// Weak, because the threads that it starts hold this.
    loader: Weak<dyn StartAgents>,
    /// The rows that workers of jobs have.
    rows: OpenRows,
    /// The jobs that are being run.
    claims: Claims,
    /// The unfinished jobs of ephemeral threads.
    ephemeral_jobs: EphemeralJobs,
    words: WordsOfRoots,
}

/// The thread whose model calls, as it is at that moment.
pub(crate) struct AgentCaller {
    pub id: String,
    pub session_id: String,
    pub git_info: Option<String>,
    pub ephemeral: bool,
    pub settings: Allowed<Settings>,
    pub config: Arc<Config>,
    pub origin: ConfigurationOrigin,
    pub extra: Extra,
    /// True if the store may have agents of its tree.
    pub(crate) may_have_stored_agents: bool,
    /// For the turns that it starts.
    pub budget: TurnBudget,
    /// The position of its call in a trace.
    pub trace: Option<TraceContext>,
}

/// The item of a call.
#[derive(Clone)]
pub(crate) struct CallItem {
    pub turn: Id,
    pub item: Id,
}

impl AgentCaller {
    /// The root of its tree: itself, unless it is an agent.
    fn root(&self) -> &str {
        self.extra.agent.as_ref().map_or(&self.id, |agent| &agent.root)
    }

    /// The threads above an agent that it starts, the root first.
    fn line(&self) -> Vec<String> {
        let above = self.extra.agent.as_ref().map(AgentIdentity::above).unwrap_or_default();
        above.into_iter().chain([self.id.as_str()]).map(str::to_owned).collect()
    }

    /// Its distance from the root.
    fn depth(&self) -> u32 {
        self.extra.agent.as_ref().map_or(0, |agent| agent.depth)
    }
}

impl Agents {
    pub fn new(
        loader: Weak<dyn StartAgents>,
        threads: Arc<LoadedThreads>,
        store: Arc<ThreadStore>,
        images: Arc<ImageReader>,
        options: Arc<Options>,
        files: Pool,
    ) -> Self {
        Self {
            forest: Mutex::default(),
            threads,
            store,
            images,
            options,
            files,
            loader,
            rows: OpenRows::default(),
            claims: Claims::default(),
            ephemeral_jobs: EphemeralJobs::default(),
            words: WordsOfRoots::default(),
        }
    }

    /// The thread of an agent was loaded.
    pub fn loaded(&self, id: &str, identity: &AgentIdentity) {
        self.forest().loaded(id, identity);
    }

    /// A turn of an agent began.
    pub(crate) fn turn_started(&self, id: &str, turn: &Id) {
        self.forest().turn_started(id, turn);
    }

    /// A turn of an agent ended, and its end is stored. `message` is the last one of the agent.
    pub(crate) fn turn_ended(&self, id: &str, view: &TurnView, message: Option<String>) {
        // Before those that wait for the agent are woken.
        self.rows.turn_ended(id, view.error.as_ref().map(|error| error.kind));
        self.forest().turn_ended(id, &view.id, report::of_turn(view, message));
    }

    /// The actor of a thread has ended, in whatever way.
    pub(crate) fn thread_ended(&self, id: &str) {
        self.ephemeral_jobs.forget(id);
        self.words.forget(id);
        self.forest().thread_ended(id);
    }

    /// Returns the stored policies of threads above an agent.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) async fn read_above(&self, ids: Vec<String>) -> Result<Vec<ThreadAbove>, Error> {
        self.store.threads_above(ids).await
    }

    /// Returns the users' messages in the threads at the roots.
    pub fn words(&self) -> &WordsOfRoots {
        &self.words
    }

    /// Reads what the user wrote in the thread at a root, unless its loaded thread publishes that.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn read_words(&self, root: &str) -> Result<(), Error> {
        if !self.words.needs_stored(root) {
            return Ok(());
        }
        let store = self.store.get().await?;
        // A root that was deleted, or is ephemeral, has no stored words.
        let Some(found) = store.thread(root).await? else { return Ok(()) };
        let history = convert::thread::fragments(store.history(root).await?);
        let goal = Extra::read(&found.record)?.goal.map(|goal| goal.objective);
        self.words.publish_stored(root, session::user_words(&history, goal.as_deref()));
        Ok(())
    }

    /// Returns whether an agent that a thread started, directly or not, is working.
    pub(crate) fn has_working_descendants(&self, id: &str) -> bool {
        self.forest().has_working_descendants(id)
    }

    /// The clients of the thread at the root of an agent's tree.
    pub(crate) fn root_clients(&self, root: &str) -> Vec<Arc<Peer>> {
        self.threads.get(root).map(|handle| handle.clients()).unwrap_or_default()
    }

    /// Returns for each loaded thread above an agent whether it has open prompts outside the
    /// server.
    pub(crate) fn pauses_above(&self, id: &str) -> Vec<watch::Receiver<bool>> {
        let identity = self.forest().identity(id).cloned();
        let above = identity.as_ref().map(AgentIdentity::above).unwrap_or_default();
        let loaded = above.into_iter().filter_map(|id| self.threads.get(id));
        loaded.map(|handle| handle.paused()).collect()
    }

    /// Re-sends the agents' open questions to a client that just subscribed to the root.
    pub(crate) fn show_questions(&self, root: &str, peer: &Arc<Peer>) {
        for id in self.forest().of_root(root) {
            let Some(handle) = self.threads.get(&id) else { continue };
            let peer = peer.clone();
            // Not in the root's actor: a busy agent must not delay it.
            tokio::spawn(async move { handle.send(Command::ShowQuestions { peer }).await });
        }
    }

    /// A client has left the thread at the root: its agents look again at who can answer them.
    pub(crate) fn root_client_left(&self, root: &str, connection: ConnectionId) {
        for id in self.forest().of_root(root) {
            let Some(handle) = self.threads.get(&id) else { continue };
            // Not in the root's actor: a busy agent must not delay it.
            tokio::spawn(async move { handle.send(Command::RootClientLeft { connection }).await });
        }
    }

    fn forest(&self) -> MutexGuard<'_, Forest> {
        self.forest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of an agent that is in the forest.
    fn state(&self, id: &str) -> AgentState {
        self.forest().state(id)
    }
}
