//! The gateway's configuration: one validated and resolved TOML file. All values that requests need
//! are computed in advance; a reload creates new [`Settings`] and replaces the old ones as a whole.

mod address;
mod alerts;
mod batches;
mod catalog;
mod clouds;
mod context;
mod date;
mod error;
mod file;
mod metrics;
mod models;
mod pass_through;
mod price;
mod price_check;
mod resolve;
mod resolve_upstreams;
mod responses;
mod secret_file;
mod stores;
mod trusted_proxies;
mod upstreams;
mod wire;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use alerts::Webhook;
pub use batches::Batches;
pub use catalog::{Catalog, DatedPrice, LimitSet, Model, NO_MODEL, Shutdown, TierSettings};
pub use context::LoadContext;
pub use error::{Error, ErrorKind};
use hyper::Uri;
use hyper::header::HeaderValue;
pub use metrics::Metrics;
pub use pass_through::PassThrough;
pub use responses::Responses;
pub use trusted_proxies::{Client, TrustedProxies};
pub use upstreams::{Backend, BackendNetwork, HealthCheck, KeySource, Upstream};
pub use wire::{DropMembers, KeyHeader, Wires};

use crate::tenants::Tier;

/// The resolved configuration.
#[derive(Debug)]
pub struct Settings {
    /// `host:port`; port 0 selects a free one. `systemd://` is the socket that a service manager passed.
    pub listen: String,
    /// The bearer token of the administration API; without it, that API is closed.
    pub admin_token: Option<Secret>,
    /// Warnings for the operator about a valid configuration.
    pub warnings: Vec<String>,
    /// The store of organizations, keys and usage.
    pub store: StoreUrl,
    /// The store of the limits' counters.
    pub limits: LimitsUrl,
    /// The folder of this node's own files; without it, that of the store's file or of the configuration.
    pub state_folder: Option<PathBuf>,
    /// Bounds on clients.
    pub server: Server,
    /// Paths that are open although their cost is not known.
    pub pass_through: Vec<PassThrough>,
    /// The proxies that name the client of a request.
    pub trusted_proxies: TrustedProxies,
    /// Settings of batches.
    pub batches: Batches,
    /// Settings of kept responses.
    pub responses: Responses,
    /// The receiver of spend alerts.
    pub webhook: Option<Webhook>,
    /// Settings of the metrics.
    pub metrics: Metrics,
    /// The upstreams.
    pub upstreams: Vec<Arc<Upstream>>,
    /// The upstream of requests without a model; `None`: there are several and none is the default.
    pub default_upstream: Option<Arc<Upstream>>,
    /// Models and their limits.
    pub catalog: Catalog,
    /// True if money counts: a model has a price, or the file sets a monthly limit of a tier.
    pub counts_money: bool,
    /// By [`Tier`].
    pub tiers: [TierSettings; 6],
    /// First labels of host names that select a region, in lower case.
    pub regions: Vec<Box<str>>,
    /// The model of moderations that name none.
    pub moderation_model: Option<Box<str>>,
    /// Receiver of traces: the base URL of an OTLP/HTTP collector.
    pub otlp_endpoint: Option<String>,
    /// Unique to each loaded file: the version of values that are derived from settings.
    pub version: u64,
}

impl Settings {
    /// The settings of a tier.
    #[must_use]
    pub fn tier(&self, tier: Tier) -> &TierSettings {
        &self.tiers[tier as usize]
    }

    /// The highest tier that the paid amount qualifies for.
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
    /// `memory:`, with a state file next to the store.
    Memory,
    /// `redis://…`.
    Redis {
        /// The URL, which may contain a password.
        url: String,
        /// Duration of a node's leases.
        lease: Duration,
        /// True if the operator guarantees that a restart of the store loses nothing.
        durable: bool,
    },
    /// `off:`, to measure the cost of limits.
    Off,
}

/// `[server]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Largest request body, in bytes.
    pub max_body_bytes: u64,
    /// Time limit for receiving a body.
    pub body_timeout: Duration,
    /// Time limit for receiving a request's head.
    pub header_timeout: Duration,
    /// Time limit for open requests at shutdown.
    pub drain: Duration,
    /// Time at shutdown in which requests are still accepted, although `/readyz` fails.
    pub drain_delay: Duration,
    /// Longest time between two requests of a connection at shutdown.
    pub drain_idle: Duration,
    /// Time from a request in the background until its answer is settled, even if its end was not seen.
    pub background_expiry: Duration,
}

/// The base URL of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Scheme and authority.
    pub origin: Uri,
    /// The value of `Host`.
    pub host: HeaderValue,
    /// The prefix of request paths in place of `/v1`, such as `/v1`.
    pub path: Box<str>,
}

/// A secret, which its `Debug` output hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
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
