//! What all requests of a gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ratelimit::{Limits, RequestId};

use crate::batch::Runner;
use crate::metrics::Metrics;
use crate::object_owners::ObjectOwners;
use crate::serve::intake::BodyMemory;
use crate::spend::Spend;
use crate::traces::Traces;
use crate::upstream;
use gateway_policy::environment::{Clock, Random};
use gateway_policy::settings::Settings;
use gateway_store::database::Database;
use gateway_store::directory::Directory;
use gateway_store::ledger::Ledger;

/// See the module.
pub struct Gateway {
    /// The configuration in force. A request keeps the one that it began with.
    pub(crate) settings: Arc<ArcSwap<Settings>>,
    /// Who presents which key.
    pub(crate) directory: Arc<Directory>,
    /// Where organizations, keys and usage are.
    pub(crate) database: Arc<Database>,
    /// Owner of each upstream object, by id.
    pub(crate) object_owners: ObjectOwners,
    /// What may be used, and what is.
    pub(crate) limits: Arc<Limits>,
    /// What was used.
    pub(crate) ledger: Ledger,
    /// Money: what the ledger knows, and who is to be told.
    pub(crate) spend: Arc<Spend>,
    /// What runs batches.
    pub(crate) batches: Runner,
    /// Model servers.
    pub(crate) upstreams: upstream::Client,
    /// Traces.
    pub(crate) traces: Arc<Traces>,
    /// Counters.
    pub(crate) metrics: Metrics,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Chance.
    pub(crate) random: Arc<dyn Random>,
    /// Memory for large bodies.
    pub(crate) body_memory: BodyMemory,
    /// Numbers for requests.
    pub(crate) ids: Ids,
}

/// Numbers that no other request has, on this node or on another: a number of chance for the
/// process, and a count.
#[derive(Debug)]
pub(crate) struct Ids {
    process: u64,
    next: AtomicU64,
}

impl Ids {
    /// Begins to count.
    #[must_use]
    pub(crate) fn new(random: &dyn Random) -> Self {
        let mut process = [0; 8];
        random.fill(&mut process);
        Self { process: u64::from_le_bytes(process), next: AtomicU64::new(0) }
    }

    /// What tells this process from others.
    #[must_use]
    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    /// The next one.
    pub(crate) fn next(&self) -> RequestId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        (u128::from(self.process) << 64) | u128::from(count)
    }
}
