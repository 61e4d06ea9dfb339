//! What all requests of a gateway share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ratelimit::{Limits, RequestId};

use crate::api::Remembered;
use crate::database::Database;
use crate::directory::Directory;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::serve::intake::Room;
use crate::settings::Settings;
use crate::spend::Spend;
use crate::traces::Traces;
use crate::upstream;
use crate::world::{Clock, Random};

/// See the module.
pub struct Gateway {
    /// The configuration in force. A request keeps the one that it began with.
    pub settings: Arc<ArcSwap<Settings>>,
    /// Who presents which key.
    pub directory: Arc<Directory>,
    /// Where organizations, keys and usage are.
    pub database: Arc<Database>,
    /// Whose the things are that model servers made.
    pub remembered: Remembered,
    /// What may be used, and what is.
    pub limits: Arc<Limits>,
    /// What was used.
    pub ledger: Ledger,
    /// Money: what the ledger knows, and who is to be told.
    pub spend: Spend,
    /// Model servers.
    pub upstreams: upstream::Client,
    /// Traces.
    pub traces: Arc<Traces>,
    /// Counters.
    pub metrics: Metrics,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Arc<dyn Random>,
    /// Memory for large bodies.
    pub room: Room,
    /// Numbers for requests.
    pub ids: Ids,
    /// Where the log goes.
    pub log: Log,
}

/// Where lines for the operator go.
#[derive(Clone)]
pub struct Log(pub Arc<dyn Fn(fmt::Arguments<'_>) + Send + Sync>);

impl Log {
    /// Writes a line.
    pub fn line(&self, line: fmt::Arguments<'_>) {
        (self.0)(line);
    }
}

/// Numbers that no other request has, on this node or on another: a number of chance for the
/// process, and a count.
#[derive(Debug)]
pub struct Ids {
    process: u64,
    next: AtomicU64,
}

impl Ids {
    /// Begins to count.
    #[must_use]
    pub fn new(random: &dyn Random) -> Self {
        let mut process = [0; 8];
        random.fill(&mut process);
        Self { process: u64::from_le_bytes(process), next: AtomicU64::new(0) }
    }

    /// What tells this process from others.
    #[must_use]
    pub fn process(&self) -> u64 {
        self.process
    }

    /// The next one.
    pub fn next(&self) -> RequestId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        (u128::from(self.process) << 64) | u128::from(count)
    }
}
