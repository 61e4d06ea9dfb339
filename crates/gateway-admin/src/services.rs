//! The services of the gateway that the administration uses.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use gateway_policy::environment::{Clock, Random};
use gateway_policy::error::ApiError;
use gateway_policy::settings::Settings;
use gateway_store::database::Database;
use gateway_store::directory::Directory;
use gateway_store::ledger::Ledger;
use ratelimit::Limits;

use crate::SignIns;

/// Maximum wait of a query of the ledger for rows that are not written yet.
const LEDGER_PATIENCE: Duration = Duration::from_secs(5);

/// The services that the administration uses.
#[derive(Clone)]
pub struct Services {
    /// The store.
    pub database: Arc<Database>,
    /// This node's cache of keys, which applies a change before the response is sent.
    pub directory: Arc<Directory>,
    /// This node's writer of the ledger.
    pub ledger: Ledger,
    /// The active configuration: the admin token, tiers, models, regions.
    pub settings: Arc<ArcSwap<Settings>>,
    /// The counters of limits, which the dashboard shows.
    pub limits: Arc<Limits>,
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and keys.
    pub random: Arc<dyn Random>,
    /// Failed sign-ins.
    pub sign_ins: Arc<SignIns>,
}

impl Services {
    /// Applies a change on this node before the response is sent. If the store becomes unreachable
    /// in between, the change takes effect here once it is back, as on all other nodes.
    pub(crate) async fn apply_changes(&self) {
        // `Directory::is_in_touch` reports the error; the next poll is a quarter of a second away.
        let _ = self.directory.catch_up().await;
    }

    /// Waits until the ledger has every request that this node has served, so that sums include
    /// a request that was answered just before.
    ///
    /// # Errors
    /// 503 `store_unavailable`: they could not be written in time.
    pub(crate) async fn write_ledger(&self) -> Result<(), ApiError> {
        self.ledger.flush(LEDGER_PATIENCE).await.map_err(|_| ApiError::store_unavailable())
    }
}

/// The address of a request's client, among the extensions of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Marks a request whose client uses https, as a trusted proxy says, among the extensions of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverHttps;
