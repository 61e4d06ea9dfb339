//! `check_for_update_on_startup`: news of a later version, once a version, from the feed that the user
//! configured. Nothing waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::Config;
use files::Pool;
use http_client::Network;
use serde::{Deserialize, Serialize};

use crate::connections::Connections;
use crate::options::Options;
use crate::warnings;

/// The file of the remembered state, in the home.
const STATE: &str = "updates.json";
/// Largest such file.
const MAX_STATE: u64 = 4 << 10;
/// A feed is asked once in so many milliseconds.
const INTERVAL_MS: i64 = 24 * 60 * 60 * 1000;

/// The news of later versions.
pub struct Updates {
    options: Arc<Options>,
    network: Network,
    files: Pool,
    connections: Arc<Connections>,
    has_begun: AtomicBool,
}

/// The remembered state. A file that cannot be read is as good as none: the feed is asked once
/// more.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    feed: String,
    /// When the feed was asked last, in milliseconds of Unix time.
    checked_ms: i64,
    /// The version that clients were informed of.
    announced: Option<String>,
}

impl Updates {
    pub fn new(
        options: &Arc<Options>,
        network: &Network,
        files: &Pool,
        connections: &Arc<Connections>,
    ) -> Arc<Self> {
        Arc::new(Self {
            options: options.clone(),
            network: network.clone(),
            files: files.clone(),
            connections: connections.clone(),
            has_begun: AtomicBool::default(),
        })
    }

    /// Looks for a later version, unless this server has done so.
    pub fn begin(self: &Arc<Self>, config: &Config) {
        let Some(feed) = &config.update_feed else { return };
        if !config.check_for_update_on_startup || self.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let (updates, feed) = (self.clone(), feed.to_string());
        tokio::spawn(async move {
            if let Err(why) = updates.look(feed).await {
                tracing::info!(target: "server::updates", "no news from `update_feed`: {why}");
            }
        });
    }

    async fn look(&self, feed: String) -> Result<(), String> {
        let (path, now) = (self.path(), self.options.clock.now_ms());
        let read = move || files::read(&path, MAX_STATE).ok();
        let bytes = self.files.run(&self.options.home, read).await;
        let bytes = bytes.map_err(|error| error.to_string())?;
        let known: State =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        // Even after the clock was set back.
        let is_recent = (0..INTERVAL_MS).contains(&now.saturating_sub(known.checked_ms));
        if known.feed == feed && is_recent {
            return Ok(());
        }
        let version = &self.options.version;
        let agent = format!("agentd/{version}");
        let release = updates::fetch(&feed, self.network.clone(), &agent).await;
        let release = release.map_err(|error| error.to_string())?;
        let mut announced = known.announced;
        let latest = release.version();
        if let Some(notice) =
            release.notice(version).filter(|_| announced.as_ref() != Some(&latest))
        {
            tracing::info!(target: "server::updates", "{notice}");
            let clients = self.connections.all();
            clients.iter().for_each(|peer| warnings::send_warning(peer, notice.clone()));
            if !clients.is_empty() {
                announced = Some(latest);
            }
        }
        self.remember(State { feed, checked_ms: now, announced }).await
    }

    async fn remember(&self, state: State) -> Result<(), String> {
        let bytes = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
        let path = self.path();
        let write = move || filesystem::write(&path, &bytes).map_err(|error| error.to_string());
        let written = self.files.run(&self.options.home, write).await;
        written.map_err(|error| error.to_string())?
    }

    fn path(&self) -> PathBuf {
        self.options.home.join(STATE)
    }
}
