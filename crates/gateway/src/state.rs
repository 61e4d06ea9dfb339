//! The state that all requests of a gateway share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use ratelimit::{Limits, RequestId};
use tokio::task::AbortHandle;

use crate::backends::Backends;
use crate::batch_runner::Runner;
use crate::bill::End;
use crate::calibration::Calibration;
use crate::envelope_seal::EnvelopeKey;
use crate::intake::BodyMemory;
use crate::later_poller::Poller;
use crate::metrics::Metrics;
use crate::object_owners::ObjectOwners;
use crate::spend::Spend;
use crate::traces::Traces;
use crate::upstream;
use gateway_admin::SignIns;
use gateway_body::Outcome;
use gateway_policy::environment::{Clock, ExpiryClock, Random};
use gateway_policy::settings::Settings;
use gateway_store::database::Database;
use gateway_store::directory::Directory;
use gateway_store::ledger::{Ended, Ledger};

/// A gateway.
pub struct Gateway {
    /// The active configuration. A request keeps the one that it started with.
    pub(crate) settings: Arc<ArcSwap<Settings>>,
    /// The callers of keys.
    pub(crate) directory: Arc<Directory>,
    /// The store of organizations, keys and usage.
    pub(crate) database: Arc<Database>,
    /// Owner of each upstream object, by id.
    pub(crate) object_owners: ObjectOwners,
    /// The limits and their meters.
    pub(crate) limits: Arc<Limits>,
    /// The usage ledger.
    pub(crate) ledger: Ledger,
    /// Spend meters and alerts.
    pub(crate) spend: Arc<Spend>,
    /// The task that sends alerts, once it has started.
    pub(crate) alert_sender: OnceLock<AbortHandle>,
    /// Runs batches.
    pub(crate) batches: Runner,
    /// Asks upstreams for answers that come later.
    pub(crate) poller: Poller,
    /// The backends of upstreams.
    pub(crate) backends: Arc<Backends>,
    /// The client for the collector of traces and the webhook of alerts.
    pub(crate) other_servers: upstream::Client,
    /// Spans to export.
    pub(crate) traces: Arc<Traces>,
    /// The metrics.
    pub(crate) metrics: Metrics,
    /// The address of the listener for the metrics, if they have one of their own.
    pub(crate) metrics_address: Option<SocketAddr>,
    /// Failed sign-ins.
    pub(crate) sign_ins: Arc<SignIns>,
    /// The clock for what ends or is given up at a date.
    pub(crate) expiry: ExpiryClock,
    /// The clock.
    pub(crate) clock: Arc<dyn Clock>,
    /// Randomness.
    pub(crate) random: Arc<dyn Random>,
    /// Memory for large bodies.
    pub(crate) body_memory: BodyMemory,
    /// Seals the reasoning of translated answers.
    pub(crate) envelope_key: EnvelopeKey,
    /// Ids of requests.
    pub(crate) ids: Ids,
    /// The tokens of each model's text.
    pub(crate) calibration: Calibration,
    /// True once a shutdown has begun.
    pub(crate) is_draining: AtomicBool,
    /// True once open requests are cut off by a shutdown.
    pub(crate) is_cutting: AtomicBool,
}

impl Gateway {
    /// The end of a request that was dropped, by its client or by the shutdown.
    pub(crate) fn dropped(&self, outcome: Outcome) -> End {
        match self.is_cutting.load(Ordering::Relaxed) {
            true => End::broken(Ended::Drained, "this node stopped".to_owned(), outcome),
            false => End::broken(Ended::ClientGone, "the client went away".to_owned(), outcome),
        }
    }
}

/// Unique ids on all nodes: a random number of the process, and a counter.
#[derive(Debug)]
pub(crate) struct Ids {
    process: u64,
    next: AtomicU64,
}

impl Ids {
    /// Starts the counter.
    #[must_use]
    pub(crate) fn new(random: &dyn Random) -> Self {
        let mut process = [0; 8];
        random.fill(&mut process);
        Self { process: u64::from_le_bytes(process), next: AtomicU64::new(0) }
    }

    /// The random number of this process.
    #[must_use]
    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    /// The next id.
    pub(crate) fn next(&self) -> RequestId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        (u128::from(self.process) << 64) | u128::from(count)
    }
}
