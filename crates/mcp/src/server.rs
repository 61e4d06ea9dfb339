//! A server: its state, and requests to it. Cheap to clone; clones are the same server.

pub(crate) mod lists;
pub(crate) mod pages;
mod questions;
pub(crate) mod requests;
pub(crate) mod skills;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{Implementation, JsonObject, ListRootsResult, Root, ServerCapabilities};
use rmcp::service::Peer;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::calls::Calls;
use crate::catalog::Catalog;
use crate::definition::Definition;
use crate::digest::Digest;
use crate::end_reason::EndReason;
use crate::error::Error;
use crate::port::Audience;
use crate::reports::ReportSender;
use crate::skills::Skill;
use lists::{List, Lists, MAX_AGE};
use questions::Questions;

/// The last generation of a list of tools.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Maximum wait of a call for a changed list of tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// A handle of a server.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

/// Where a server is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Starting,
    Ready(Arc<Catalog>),
    /// It is started again after a while, or when it is next needed.
    Failed(Error),
    /// Its configuration changed, or no holder wants it now.
    Cancelled,
}

/// A call of a tool.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Who calls: its clients are asked what the server asks.
    pub holder: Option<String>,
    /// The turn of the call.
    pub turn: Option<String>,
    pub tool: String,
    /// The definition that was offered: a call of a tool that has changed since is refused.
    pub digest: Option<Digest>,
    pub arguments: Option<JsonObject>,
    /// The same as text, which is sent as it is.
    pub exact_arguments: Option<Box<RawValue>>,
    pub meta: Option<JsonObject>,
    pub progress: Option<ReportSender>,
}

/// The state that is shared by the handles of a server, its task and the handler of its messages.
pub(crate) struct Shared {
    pub(crate) definition: Arc<Definition>,
    pub(crate) identity: Implementation,
    pub(crate) audience: Arc<dyn Audience>,
    pub(crate) state: watch::Sender<State>,
    pub(crate) calls: Calls,
    stop: watch::Sender<Stop>,
    /// Uses of the server that it does not end during, unless the program does.
    uses: watch::Sender<usize>,
    /// A failed server is needed again.
    pub(crate) wake: Notify,
    /// The list of tools changed.
    pub(crate) refresh: Notify,
    /// The folders of the holders changed.
    pub(crate) roots_changed: Notify,
    /// The server must reconnect.
    pub(crate) reconnect: Notify,
    /// The last demand for a login.
    challenge: Mutex<Option<String>>,
    live: Mutex<Option<Live>>,
    /// Who shares the server, each with its folder.
    holders: Mutex<BTreeMap<String, PathBuf>>,
    /// The tools that it had when it was last ready.
    known: Mutex<Option<Arc<Catalog>>>,
    /// When a failed server is started again by itself.
    next_start: Mutex<Option<Instant>>,
    /// Changes of the list of tools that the server has reported, and those that were listed since.
    tool_changes: AtomicU64,
    listed_changes: watch::Sender<u64>,
    questions: Questions,
    pub(crate) lists: Lists,
    /// Held while the list of tools is requested again.
    pub(crate) listing: tokio::sync::Mutex<()>,
    /// When the list of tools is to be requested again, where the server limits its age.
    tools_until: Mutex<Option<Instant>>,
}

/// A request to end a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    /// When it is no longer in use.
    WhenIdle,
    Now,
}

/// A use of a server: one that is no longer wanted ends when its last use has.
pub struct InUse(watch::Sender<usize>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.send_modify(|uses| *uses -= 1);
    }
}

/// A connection that is established.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) capabilities: ServerCapabilities,
    /// Set when the connection ends by itself.
    pub(crate) end: EndReason,
}

impl Server {
    pub(crate) fn new(
        definition: Arc<Definition>,
        identity: Implementation,
        audience: Arc<dyn Audience>,
    ) -> Self {
        let shared = Shared {
            definition,
            identity,
            audience,
            state: watch::Sender::new(State::Starting),
            calls: Calls::default(),
            stop: watch::Sender::new(Stop::No),
            uses: watch::Sender::new(0),
            wake: Notify::new(),
            refresh: Notify::new(),
            roots_changed: Notify::new(),
            reconnect: Notify::new(),
            challenge: Mutex::default(),
            live: Mutex::default(),
            holders: Mutex::default(),
            known: Mutex::default(),
            next_start: Mutex::default(),
            tool_changes: AtomicU64::new(0),
            listed_changes: watch::Sender::new(0),
            questions: Questions::default(),
            lists: Lists::default(),
            listing: tokio::sync::Mutex::default(),
            tools_until: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The name in the configuration.
    pub fn name(&self) -> &str {
        &self.shared.definition.name
    }

    pub fn definition(&self) -> &Definition {
        &self.shared.definition
    }

    pub fn state(&self) -> State {
        self.shared.refresh_if_stale();
        self.shared.state.borrow().clone()
    }

    /// The tools of the server; while it is started again, and when it has failed, those that it had when
    /// it was last ready. `None` when it never was.
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.shared.refresh_if_stale();
        lock(&self.shared.known).clone()
    }

    /// In how long a failed server is started again by itself; `None` when only a wish for it does that.
    pub fn next_start(&self) -> Option<Duration> {
        lock(&self.shared.next_start).map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Begins a use of the server.
    pub fn in_use(&self) -> InUse {
        self.shared.in_use()
    }

    /// Waits until the server is ready or has failed. A failed one is started again.
    ///
    /// # Errors
    /// Why it failed.
    pub async fn ready(&self) -> Result<Arc<Catalog>, Error> {
        self.shared.refresh_if_stale();
        let mut state = self.shared.state.subscribe();
        if matches!(*state.borrow_and_update(), State::Failed(_)) {
            self.shared.wake.notify_one();
            // The task takes the server out of this state at once.
            if state.changed().await.is_err() {
                return Err(Error::ended());
            }
        }
        let settled = state.wait_for(|state| !matches!(state, State::Starting)).await;
        match settled.as_deref() {
            Ok(State::Ready(catalog)) => Ok(catalog.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            _ => Err(Error::ended()),
        }
    }

    /// Reconnects with the present login.
    pub(crate) fn reconnect(&self) {
        match *self.shared.state.borrow() {
            State::Failed(_) => self.shared.wake.notify_one(),
            _ => self.shared.reconnect.notify_one(),
        }
    }

    /// Tries a failed server again at once.
    pub fn retry(&self) {
        if matches!(*self.shared.state.borrow(), State::Failed(_)) {
            self.shared.wake.notify_one();
        }
    }
}

impl Shared {
    /// Ends the server at once.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(Stop::Now);
    }

    /// Ends the server when it is no longer in use.
    pub(crate) fn retire(&self) {
        self.stop.send_if_modified(|stop| {
            let is_first = *stop == Stop::No;
            if is_first {
                *stop = Stop::WhenIdle;
            }
            is_first
        });
    }

    /// Resolves when the server is to end.
    pub(crate) async fn stopped(&self) {
        let (mut stop, mut uses) = (self.stop.subscribe(), self.uses.subscribe());
        // The senders live as long as `self`.
        let _ = stop.wait_for(|stop| *stop != Stop::No).await;
        tokio::select! {
            _ = stop.wait_for(|stop| *stop == Stop::Now) => {}
            _ = uses.wait_for(|uses| *uses == 0) => {}
        }
    }

    pub(crate) fn in_use(&self) -> InUse {
        self.uses.send_modify(|uses| *uses += 1);
        InUse(self.uses.clone())
    }

    pub(crate) fn set_next_start(&self, at: Option<Instant>) {
        *lock(&self.next_start) = at;
    }

    pub(crate) fn set_state(&self, state: State) {
        self.remember(&state);
        self.state.send_replace(state.clone());
        self.audience.state_changed(&self.holders(), &self.definition.name, &state);
    }

    /// The skills that the server had when they were last listed.
    pub(crate) fn known_skills(&self) -> Vec<Arc<Skill>> {
        lock(&self.known).as_ref().map(|known| known.skills.clone()).unwrap_or_default()
    }

    fn remember(&self, state: &State) {
        if let State::Ready(catalog) = state {
            *lock(&self.known) = Some(catalog.clone());
        }
    }

    pub(crate) fn set_challenge(&self, challenge: &str) {
        *lock(&self.challenge) = Some(challenge.to_owned());
    }

    pub(crate) fn challenge(&self) -> Option<String> {
        lock(&self.challenge).clone()
    }

    /// Replaces the tools of a server that stays ready.
    pub(crate) fn replace_catalog(&self, catalog: Arc<Catalog>) {
        let state = State::Ready(catalog);
        // A server that has ended meanwhile has no tools.
        let is_replaced = self.state.send_if_modified(|now| {
            let is_ready = matches!(now, State::Ready(_));
            if is_ready {
                *now = state.clone();
            }
            is_ready
        });
        if !is_replaced {
            return;
        }
        self.remember(&state);
        self.audience.tools_changed(&self.holders(), &self.definition.name, &state);
    }

    /// Limits the age of the tools; zero: until the server reports a change.
    pub(crate) fn set_tools_age(&self, age: Duration) {
        let until = (!age.is_zero()).then(|| Instant::now() + age.min(MAX_AGE));
        *lock(&self.tools_until) = until;
    }

    /// Has tools that are too old listed again, in the background.
    fn refresh_if_stale(&self) {
        let mut until = lock(&self.tools_until);
        if until.is_some_and(|until| Instant::now() >= until) {
            *until = None;
            self.refresh.notify_one();
        }
    }

    pub(crate) fn set_live(&self, live: Option<Live>) {
        self.lists.forget(&[List::Resources, List::ResourceTemplates, List::Prompts]);
        *lock(&self.live) = live;
    }

    pub(crate) fn live(&self) -> Option<Live> {
        lock(&self.live).clone()
    }

    /// The server reports a change of its tools, before whatever it sends next.
    pub(crate) fn note_tool_change(&self) {
        self.tool_changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tool_changes(&self) -> u64 {
        self.tool_changes.load(Ordering::Relaxed)
    }

    /// The tools were listed after this many changes.
    pub(crate) fn set_listed_changes(&self, changes: u64) {
        self.listed_changes.send_replace(changes);
    }

    /// Waits until the changes of the tools that were reported until now are listed, for 2 s at
    /// most.
    pub(crate) async fn tools_listed(&self) {
        let (reported, mut listed) = (self.tool_changes(), self.listed_changes.subscribe());
        let up_to_date = listed.wait_for(|listed| *listed >= reported);
        // The connection may have ended meanwhile.
        let _ = timeout(LIST_TIMEOUT, up_to_date).await;
    }

    /// A generation that no list of any server had: one server can take the place of another.
    pub(crate) fn next_generation(&self) -> u64 {
        GENERATION.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn holders(&self) -> Vec<String> {
        lock(&self.holders).keys().cloned().collect()
    }

    /// Adds a holder, or changes its folder.
    pub(crate) fn hold(&self, holder: &str, folder: &Path) {
        let before = lock(&self.holders).insert(holder.to_owned(), folder.to_owned());
        if before.as_deref() != Some(folder) {
            self.roots_changed.notify_one();
        }
    }

    /// Removes a holder; returns whether none is left.
    pub(crate) fn release(&self, holder: &str) -> bool {
        let mut holders = lock(&self.holders);
        if holders.remove(holder).is_some() {
            self.roots_changed.notify_one();
        }
        holders.is_empty()
    }

    /// The folders of all holders.
    pub(crate) fn roots(&self) -> ListRootsResult {
        let mut folders: Vec<PathBuf> = lock(&self.holders).values().cloned().collect();
        folders.sort();
        folders.dedup();
        let roots = folders.iter().filter_map(|folder| url::Url::from_directory_path(folder).ok());
        ListRootsResult::new(
            roots.map(|root| Root::new(root.as_str().trim_end_matches('/'))).collect(),
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
