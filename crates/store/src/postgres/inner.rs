//! The state that the operations of an open store share, and its membership, which a task renews.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::config::PostgresConfig;
use super::connection::Database;
use super::failure::Failure;
use super::node::{self, Membership};
use super::owned::OwnedThreads;
use super::permits::{self, Permit, Permits, Use};
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
    permits: Permits,
}

impl Inner {
    /// Connects, checks the schema and registers the node.
    pub(super) async fn open(config: &PostgresConfig) -> Result<Self, StoreError> {
        let database = Database::new(config)?;
        let membership = Membership::new(&config.owner, config.lease);
        let inner = Self {
            tenant: config.tenant.clone(),
            membership,
            owned: OwnedThreads::default(),
            holder: config.holder.clone(),
            permits: Permits::new(config.connections(), permits::MAX_WAIT),
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
    pub(super) async fn permit(&self, of: Use) -> Result<Permit, StoreError> {
        self.permits.acquire(of).await.map_err(|failure| self.database.error(failure))
    }

    /// Renews the membership until the store is closed and its operations have ended, then leaves.
    /// `stopped` receives the channel for the end of that.
    pub(super) async fn serve(&self, stopped: oneshot::Receiver<oneshot::Sender<()>>) {
        let closer = {
            let mut renewals = std::pin::pin!(self.renew_forever());
            let closer = tokio::select! {
                closer = stopped => closer,
                never = &mut renewals => match never {},
            };
            // All operations end before that, unless the server has failed.
            let ended =
                tokio::time::timeout(self.membership.patience(), self.permits.wait_for_all());
            tokio::select! {
                _ = ended => {}
                never = &mut renewals => match never {},
            }
            closer
        };
        self.permits.close();
        self.leave().await;
        if let Ok(closer) = closer {
            // A caller that stopped waiting has nothing to do with it.
            let _ = closer.send(());
        }
    }

    async fn renew_forever(&self) -> Infallible {
        let mut is_registered = true;
        let mut next = Instant::now() + self.membership.interval();
        loop {
            tokio::time::sleep_until(next.into()).await;
            let began = Instant::now();
            let renewal =
                tokio::time::timeout(self.membership.interval(), self.renew(is_registered));
            // An outage shows in the operations, which are refused when the lease is over.
            let renewed = renewal.await.ok().and_then(Result::ok);
            match renewed {
                Some(renewed) => is_registered = renewed,
                // The next one needs a connection to a server that lives.
                None => self.database.close_idle(),
            }
            next = self.membership.next_renewal(began, Instant::now(), renewed.is_some());
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

    /// Releases all threads.
    async fn leave(&self) {
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
