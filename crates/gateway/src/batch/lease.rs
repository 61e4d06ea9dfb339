//! Keeps the lease of a batch and of its lines.

use std::sync::Arc;
use std::time::Duration;

use ratelimit::{Micros, SteadyTime};

use crate::batch_runner::LEASE;
use crate::state::Gateway;
use gateway_store::records::{batch_lines, batches};

/// Interval of renewals.
const RENEW: Duration = Duration::from_secs(8);
/// Interval of retries while the store is unreachable.
const RETRY: Duration = Duration::from_secs(1);
/// A lease counts as expired this long before its end, because the nodes' clocks differ.
const MARGIN: Micros = 6_000_000;

/// A leased batch, and the owner of the lease.
pub(super) struct Lease {
    pub(super) gateway: Arc<Gateway>,
    pub(super) batch: Box<str>,
    pub(super) owner: Box<str>,
    /// Its end on this node's monotonic clock.
    pub(super) until: SteadyTime,
}

impl Lease {
    /// Renews the lease. Returns when it is lost: to another node, or because the store was
    /// unreachable for too long.
    pub(super) async fn keep(&self) {
        let (clock, mut until, mut pause) = (&self.gateway.clock, self.until, RENEW);
        loop {
            tokio::time::sleep(pause).await;
            let next = clock.steady().after(LEASE);
            match self.renew(clock.now() + LEASE).await {
                Ok(true) => (until, pause) = (next, RENEW),
                Ok(false) => return,
                Err(_) => pause = RETRY,
            }
            if clock.steady().after(MARGIN) > until {
                return;
            }
        }
    }

    async fn renew(&self, until: Micros) -> Result<bool, gateway_store::Error> {
        let database = &self.gateway.database;
        if batches::renew(database, &self.batch, &self.owner, until).await?.is_none() {
            return Ok(false);
        }
        batch_lines::renew(database, &self.batch, &self.owner, until).await?;
        Ok(true)
    }
}

/// Releases a validated batch to any node that runs it.
pub(crate) async fn hand_over(gateway: &Gateway, batch: &str, owner: &str) {
    if let Err(error) = batches::renew(&gateway.database, batch, owner, 0).await {
        tracing::warn!("{batch} was not released and becomes free when its lease expires: {error}");
    }
    gateway.batches.wake();
}
