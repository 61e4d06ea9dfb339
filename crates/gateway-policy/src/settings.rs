//! The gateway's configuration: one TOML file, checked and worked out. What a request needs to know
//! of it is ready-made here; reading it again gives another [`Settings`], never a half new one.

mod batches;
mod catalog;
mod error;
mod file;
mod models;
mod resolve;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use batches::Batches;
pub use catalog::{Catalog, LimitSet, Model, NO_MODEL, Price, Shutdown, TierSettings};
pub use error::SettingsError;
use hyper::Uri;
use hyper::header::HeaderValue;
pub use resolve::LoadContext;

use crate::tenants::Tier;

/// See the module.
#[derive(Debug)]
pub struct Settings {
    /// `host:port`; port 0 takes a free one.
    pub listen: String,
    /// The bearer token of the admin API; without one it is closed.
    pub admin_token: Option<Secret>,
    /// What the operator should know, though the configuration can be used.
    pub warnings: Vec<String>,
    /// Where organizations, keys and usage are.
    pub store: StoreUrl,
    /// Where limits are counted.
    pub limits: LimitsUrl,
    /// Bounds of what clients may do.
    pub server: Server,
    /// How batches are run.
    pub batches: Batches,
    /// Model servers.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Which of them serves requests without a model; `None`: there are several and none is named.
    pub default_upstream: Option<Arc<Upstream>>,
    /// Models and their limits.
    pub catalog: Catalog,
    /// By [`Tier`].
    pub tiers: [TierSettings; 6],
    /// First labels of hosts that name a region, in lower case.
    pub regions: Vec<Box<str>>,
    /// For moderations without a model.
    pub moderation_model: Option<Box<str>>,
    /// Where traces go: the base URL of an OTLP/HTTP collector.
    pub otlp_endpoint: Option<String>,
    /// Another one for each loaded file: what is derived from settings is kept under it.
    pub version: u64,
}

impl Settings {
    /// What a tier may do.
    #[must_use]
    pub fn tier(&self, tier: Tier) -> &TierSettings {
        &self.tiers[tier as usize]
    }

    /// The highest tier that so much paid qualifies for.
    #[must_use]
    pub fn tier_for(&self, paid_cents: u64) -> Tier {
        let qualifies = |tier: &Tier| paid_cents >= self.tier(*tier).paid_usd.saturating_mul(100);
        Tier::ALL.into_iter().rev().find(qualifies).unwrap_or_default()
    }
}

/// `[store] url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// `sqlite:///path/gateway.db`.
    Sqlite(PathBuf),
    /// `postgres://…`.
    Postgres(String),
}

/// `[limits] url`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitsUrl {
    /// `memory:`, with its state in a file beside the store.
    Memory,
    /// `redis://…`.
    Redis {
        /// The URL, which may hold a password.
        url: String,
        /// How long what a node has leased stays its own.
        lease: Duration,
        /// The operator promises that a restart of the store loses nothing.
        durable: bool,
    },
    /// `off:`, for measuring what limits cost.
    Off,
}

/// `[server]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Largest request body.
    pub max_body_bytes: u64,
    /// How long a body may take to come.
    pub body_timeout: Duration,
    /// How long a request's head may take to come.
    pub header_timeout: Duration,
    /// How long requests under way may still take when the gateway ends.
    pub drain: Duration,
}

/// A model server.
#[derive(Debug)]
pub struct Upstream {
    /// Its name in the file.
    pub name: Box<str>,
    /// `https://host/v1`, without a slash at the end.
    pub base: Base,
    /// The same, of its regions.
    pub regions: Vec<(Box<str>, Base)>,
    /// What it lets us in with.
    pub key: Option<Secret>,
    /// How long its answer's first byte may take.
    pub timeout: Duration,
    /// How long it may be silent in an answer.
    pub idle_timeout: Duration,
}

/// Where a model server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Scheme and authority.
    pub origin: Uri,
    /// What `Host` says.
    pub host: HeaderValue,
    /// What stands before the path of a request without its `/v1`, such as `/v1`.
    pub path: Box<str>,
}

/// A text that no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Hides it.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Shows it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
#[path = "settings/settings_tests.rs"]
mod tests;
