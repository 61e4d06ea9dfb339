//! A server: its state, and requests to it. Cheap to clone; clones are the same server.

pub(crate) mod lists;
mod questions;
pub(crate) mod requests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{Implementation, JsonObject, ListRootsResult, Root, ServerCapabilities};
use rmcp::service::Peer;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::calls::{Calls, Progress};
use crate::catalog::{Catalog, Digest};
use crate::definition::Definition;
use crate::error::Error;
use crate::port::Audience;
use crate::run::refresh;
use lists::{List, Lists, MAX_AGE};
use questions::Questions;

/// See the module.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

/// Where a server is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Starting,
    Ready(Arc<Catalog>),
    /// It is started again after a while, or when it is wanted anew.
    Failed(Error),
    /// Its configuration changed, or no holder wants it any longer.
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
    pub meta: Option<JsonObject>,
    pub progress: Option<mpsc::Sender<Progress>>,
}

/// What the handles of a server, its task and the handler of its messages share.
pub(crate) struct Shared {
    pub(crate) definition: Arc<Definition>,
    pub(crate) identity: Implementation,
    pub(crate) audience: Arc<dyn Audience>,
    pub(crate) state: watch::Sender<State>,
    pub(crate) calls: Calls,
    /// Set when the server is to end.
    pub(crate) stop: watch::Sender<bool>,
    /// A failed server is wanted anew.
    pub(crate) wake: Notify,
    /// The list of tools changed.
    pub(crate) refresh: Notify,
    /// The folders of the holders changed.
    pub(crate) roots_changed: Notify,
    /// The connection is to be made anew.
    pub(crate) reconnect: Notify,
    /// The last demand for a login.
    challenge: Mutex<Option<String>>,
    live: Mutex<Option<Live>>,
    /// Who shares the server, each with its folder.
    holders: Mutex<BTreeMap<String, PathBuf>>,
    generation: AtomicU64,
    questions: Questions,
    pub(crate) lists: Lists,
    /// Held while the list of tools is requested again.
    pub(crate) listing: tokio::sync::Mutex<()>,
    /// When the list of tools is to be requested again, where the server limits its age.
    tools_until: Mutex<Option<Instant>>,
}

/// A connection that is established.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) capabilities: ServerCapabilities,
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
            stop: watch::Sender::new(false),
            wake: Notify::new(),
            refresh: Notify::new(),
            roots_changed: Notify::new(),
            reconnect: Notify::new(),
            challenge: Mutex::default(),
            live: Mutex::default(),
            holders: Mutex::default(),
            generation: AtomicU64::new(0),
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

    /// Waits until the server is ready or has failed. A failed one is started anew.
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

    /// As [`Server::ready`], with the tools requested again.
    ///
    /// # Errors
    /// Why it failed, or why the list cannot be read.
    pub async fn refetch(&self) -> Result<Arc<Catalog>, Error> {
        self.ready().await?;
        if let Some(live) = self.shared.live() {
            refresh(&self.shared, &live).await?;
        }
        self.ready().await
    }

    /// Connects anew, with the login that there is now.
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
    pub(crate) fn set_state(&self, state: State) {
        self.state.send_replace(state.clone());
        self.audience.state_changed(&self.holders(), &self.definition.name, &state);
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

    /// A generation that no list of this server had.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
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
