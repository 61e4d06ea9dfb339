//! The lease of a batch and of its lines, kept while they are worked at.

use std::sync::Arc;
use std::time::Duration;

use ratelimit::Micros;

use super::LEASE;
use crate::database::DatabaseError;
use crate::records::{batch_lines, batches};
use crate::state::Gateway;

/// How often a lease is renewed.
const RENEW: Duration = Duration::from_secs(8);
/// How often that is tried while the store is away.
const RETRY: Duration = Duration::from_secs(1);
/// So long before its end a lease counts as over: clocks of nodes differ a little.
const MARGIN: Micros = 6_000_000;

/// Renews the lease, and ends when it is lost: to another node, or because the store was away for
/// too long.
pub(super) async fn keep(gateway: &Arc<Gateway>, batch: &str, mut until: Micros) {
    let mut pause = RENEW;
    loop {
        tokio::time::sleep(pause).await;
        let next = gateway.clock.now() + LEASE;
        match renew(gateway, batch, next).await {
            Ok(true) => (until, pause) = (next, RENEW),
            Ok(false) => return,
            Err(_) => pause = RETRY,
        }
        if gateway.clock.now() + MARGIN > until {
            return;
        }
    }
}

/// Gives a batch back, for any node.
///
/// # Errors
/// The store's. Then it is free when the lease is over.
pub(super) async fn give_back(gateway: &Gateway, batch: &str) -> Result<(), DatabaseError> {
    batches::renew(&gateway.database, batch, &gateway.batches.owner, 0).await.map(drop)
}

async fn renew(gateway: &Gateway, batch: &str, until: Micros) -> Result<bool, DatabaseError> {
    let (database, owner) = (&gateway.database, &*gateway.batches.owner);
    if batches::renew(database, batch, owner, until).await?.is_none() {
        return Ok(false);
    }
    batch_lines::renew(database, batch, owner, until).await?;
    Ok(true)
}
