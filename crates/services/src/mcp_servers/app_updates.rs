//! The apps of loaded threads, and `app/list/updated` for clients whose apps have changed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use config::Config;
use mcp::{Held, HeldServers};
use protocol::AppListUpdated;
use protocol::app::{AppInfo, AppListUpdatedNotification};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::apps::{Apps, KnownTools};
use crate::configurations::{ConfigurationOrigin, Configurations};
use crate::error::Error;
use crate::loaded_threads::LoadedThreads;
use crate::peer::{ConnectionId, Peer};

/// Apps of a notification; `app/list` has all of them.
const MAX_SENT: usize = 1_000;

/// The apps of loaded threads, and their clients' updates.
pub(super) struct AppUpdates {
    shared: Arc<Shared>,
    /// Begins with the first thread that has servers.
    watch: OnceLock<Watch>,
}

/// Reports that apps may have changed. Reports that come before the last one was handled are merged.
#[derive(Clone, Default)]
pub(super) struct Change(Arc<Notify>);

/// The configuration that decides about the apps of a thread.
#[derive(Clone)]
pub(super) struct AppConfiguration {
    cwd: PathBuf,
    config: Arc<Config>,
    origin: ConfigurationOrigin,
}

struct Shared {
    change: Change,
    threads: Arc<LoadedThreads>,
    configurations: Arc<Configurations>,
    by_thread: Mutex<HashMap<String, ThreadApps>>,
}

#[derive(Clone)]
struct ThreadApps {
    servers: HeldServers,
    configuration: AppConfiguration,
}

/// Ends the watching with its owner.
struct Watch(AbortHandle);

/// The digest of the list that each client has, if that is not empty.
type Sent = HashMap<ConnectionId, (Weak<Peer>, [u8; 32])>;

impl Change {
    /// The apps may have changed.
    pub(super) fn look_again(&self) {
        self.0.notify_one();
    }
}

impl AppConfiguration {
    pub(super) fn new(cwd: &Path, config: &Arc<Config>, origin: &ConfigurationOrigin) -> Self {
        Self { cwd: cwd.to_owned(), config: config.clone(), origin: origin.clone() }
    }
}

impl AppUpdates {
    pub(super) fn new(
        change: Change,
        threads: Arc<LoadedThreads>,
        configurations: Arc<Configurations>,
    ) -> Self {
        let shared = Shared { change, threads, configurations, by_thread: Mutex::default() };
        Self { shared: Arc::new(shared), watch: OnceLock::new() }
    }

    /// A thread has this configuration from now on.
    pub(super) fn set(&self, thread: &str, held: &Held, configuration: AppConfiguration) {
        if configuration.config.mcp_servers.is_empty() {
            return self.forget(thread);
        }
        self.watch.get_or_init(|| {
            let shared = self.shared.clone();
            Watch(tokio::spawn(async move { shared.watch().await }).abort_handle())
        });
        let apps = ThreadApps { servers: held.view(), configuration };
        self.shared.lock().insert(thread.to_owned(), apps);
        self.look_again();
    }

    /// A thread is unloaded, or has no servers.
    pub(super) fn forget(&self, thread: &str) {
        if self.shared.lock().remove(thread).is_some() {
            self.look_again();
        }
    }

    /// The apps may have changed.
    pub(super) fn look_again(&self) {
        self.shared.change.look_again();
    }

    /// The configuration that the next turn of a thread has; `None` when it has no servers.
    ///
    /// # Errors
    /// A file system that does not answer.
    pub(super) async fn configuration(&self, thread: &str) -> Result<Option<Arc<Config>>, Error> {
        let Some(apps) = self.shared.get(thread) else { return Ok(None) };
        self.shared.reloaded(thread, apps.configuration).await.map(Some)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    async fn watch(&self) {
        let mut changes = self.configurations.source().changes();
        let mut sent = Sent::new();
        loop {
            tokio::select! {
                () = self.change.0.notified() => {}
                Ok(()) = changes.changed() => {}
            }
            self.send_changes(&mut sent).await;
        }
    }

    /// Sends each client the apps of its threads, if they are others than those that it was sent.
    async fn send_changes(&self, sent: &mut Sent) {
        let mut by_client: BTreeMap<ConnectionId, (Arc<Peer>, BTreeMap<String, AppInfo>)> =
            BTreeMap::new();
        let threads: Vec<String> = self.lock().keys().cloned().collect();
        for thread in threads {
            let clients = self.threads.get(&thread).map(|handle| handle.clients());
            let clients = clients.unwrap_or_default();
            let Some(apps) = self.get(&thread).filter(|_| !clients.is_empty()) else { continue };
            let apps = self.apps(&thread, apps).await;
            for peer in clients {
                let (_, list) = by_client.entry(peer.id).or_insert((peer, BTreeMap::new()));
                for app in &apps {
                    // Threads can differ: one that has the app on counts.
                    let known = list.entry(app.id.clone()).or_insert_with(|| app.clone());
                    known.is_enabled |= app.is_enabled;
                }
            }
            // Many threads with many tools take a while.
            tokio::task::yield_now().await;
        }
        by_client.retain(|_, (_, list)| !list.is_empty());
        sent.retain(|client, (peer, _)| {
            let has_apps = by_client.contains_key(client);
            if let Some(peer) = peer.upgrade().filter(|_| !has_apps) {
                peer.notify::<AppListUpdated>(&AppListUpdatedNotification { data: Vec::new() });
            }
            has_apps
        });
        for (id, (peer, list)) in by_client {
            let data: Vec<AppInfo> = list.into_values().take(MAX_SENT).collect();
            let digest = Sha256::digest(json!(data).to_string()).into();
            let before = sent.insert(id, (Arc::downgrade(&peer), digest));
            if before.is_none_or(|(_, before)| before != digest) {
                peer.notify::<AppListUpdated>(&AppListUpdatedNotification { data });
            }
        }
    }

    /// The apps of the servers of a thread, as far as they are known.
    async fn apps(&self, thread: &str, apps: ThreadApps) -> Vec<AppInfo> {
        let ThreadApps { servers, configuration } = apps;
        let in_force = configuration.config.clone();
        let is_current =
            configuration.origin.generation == self.configurations.source().generation();
        let config = match is_current {
            true => in_force,
            false => self.reloaded(thread, configuration).await.unwrap_or_else(|error| {
                tracing::debug!(target: "server::mcp", "the apps of {thread}: {error}");
                in_force
            }),
        };
        if !config.features.apps {
            return Vec::new();
        }
        let known = servers
            .servers()
            .into_iter()
            .filter_map(|server| Some((server.name().to_owned(), KnownTools::of(&server)?)));
        let known: BTreeMap<String, KnownTools> = known.collect();
        Apps::new(&config).list(known.values())
    }

    /// The configuration as the files are now; what cannot be used changes nothing.
    async fn reloaded(&self, thread: &str, before: AppConfiguration) -> Result<Arc<Config>, Error> {
        let AppConfiguration { cwd, config, origin } = before;
        let reload = self.configurations.reload(&config, &origin, &cwd, true).await?;
        let Some((generation, loaded)) = reload.loaded else { return Ok(config) };
        let config = match loaded {
            Ok(loaded) => Arc::new(loaded.resolved.config),
            // The thread and the watch of the files report it.
            Err(_) => config,
        };
        if let Some(apps) = self.lock().get_mut(thread) {
            let known = &mut apps.configuration;
            if known.origin.generation < generation {
                known.origin.generation = generation;
                known.config = config.clone();
            }
        }
        Ok(config)
    }

    fn get(&self, thread: &str) -> Option<ThreadApps> {
        self.lock().get(thread).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ThreadApps>> {
        self.by_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
