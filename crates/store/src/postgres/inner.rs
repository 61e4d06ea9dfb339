//! The state that the operations of an open store share, and its membership, which a task renews.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::config::PostgresConfig;
use super::connection::Database;
use super::failure::Failure;
use super::node::{self, Membership};
use super::owned::OwnedThreads;
use super::schema;
use crate::StoreError;
use crate::error::Fault;

/// Time limit for connecting to a database and checking it.
pub(super) const OPENING: Duration = Duration::from_secs(10);

/// Shared by the operations.
pub(super) struct Inner {
    pub(super) database: Database,
    pub(super) tenant: String,
    pub(super) membership: Membership,
    pub(super) owned: OwnedThreads,
    holder: String,
    /// One permit an operation: one less than there are connections, so that a renewal always gets one.
    permits: Arc<Semaphore>,
    all_permits: u32,
}

impl Inner {
    /// Connects, checks the schema and registers the node.
    pub(super) async fn open(config: &PostgresConfig) -> Result<Self, StoreError> {
        let database = Database::new(config)?;
        let membership = Membership::new(&config.owner, config.lease);
        let operations = config.connections.max(2) - 1;
        let inner = Self {
            tenant: config.tenant.clone(),
            membership,
            owned: OwnedThreads::default(),
            holder: config.holder.clone(),
            permits: Arc::new(Semaphore::new(operations)),
            all_permits: u32::try_from(operations).unwrap_or(u32::MAX),
            database,
        };
        let opened = async {
            let connection = inner.database.connection().await?;
            schema::check(&connection, &inner.database, config).await?;
            node::register(&connection, &inner.membership, &inner.holder).await?;
            connection.give_back();
            Ok(())
        };
        let opened: Result<(), Failure> =
            tokio::time::timeout(OPENING, opened).await.unwrap_or(Err(Failure::Late));
        opened.map_err(|failure| inner.database.error(failure))?;
        Ok(inner)
    }

    /// Waits for a turn to run an operation.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.map_err(|_| StoreError::Closed)
    }

    /// Renews the membership until the store is closed, then leaves. `stopped` receives the channel
    /// for the end of that.
    pub(super) async fn serve(&self, mut stopped: oneshot::Receiver<oneshot::Sender<()>>) {
        let mut is_registered = true;
        let closer = loop {
            tokio::select! {
                closer = &mut stopped => break closer,
                () = tokio::time::sleep(self.membership.interval()) => {}
            }
            // An outage shows in the operations, which are refused when the lease is over.
            let renewal =
                tokio::time::timeout(self.membership.interval(), self.renew(is_registered));
            if let Ok(Ok(renewed)) = renewal.await {
                is_registered = renewed;
            }
        };
        self.finish().await;
        if let Ok(closer) = closer {
            // A caller that stopped waiting has nothing to do with it.
            let _ = closer.send(());
        }
    }

    /// Renews the lease of the node, or registers it again. Returns whether it is registered.
    async fn renew(&self, is_registered: bool) -> Result<bool, Failure> {
        let connection = self.database.connection().await?;
        let renewed = is_registered && node::renew(&connection, &self.membership).await?;
        if !renewed {
            // Its threads are free, under whatever name it comes back.
            self.owned.clear();
            node::register(&connection, &self.membership, &self.holder).await?;
        }
        connection.give_back();
        Ok(true)
    }

    /// Waits for the operations that run, and releases all threads.
    async fn finish(&self) {
        let all = self.permits.acquire_many(self.all_permits).await;
        self.permits.close();
        drop(all);
        // What cannot be released is free when the lease is over.
        let leave = async {
            let connection = self.database.connection().await?;
            node::leave(&connection, &self.membership).await?;
            connection.give_back();
            Ok::<_, Failure>(())
        };
        let _ = tokio::time::timeout(self.membership.interval(), leave).await;
    }

    /// The error of a node whose lease is over.
    pub(super) fn out_of_contact(&self) -> StoreError {
        let place = &self.database.place;
        StoreError::Unavailable(Fault::new(format!(
            "{place} has not confirmed the lease of this server in time, so that nothing is stored; \
             try again when it can be reached"
        )))
    }
}
