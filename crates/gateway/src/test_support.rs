//! Access to a gateway's internals for tests in the same process.

use std::net::SocketAddr;
use std::sync::Arc;

use gateway_policy::environment::{Clock, Random};
use gateway_store::database::Database;
use gateway_store::directory::Directory;
use gateway_store::ledger::Ledger;
use gateway_store::records::audit::Act;
use ratelimit::{Limits, RequestId};

use crate::state::Gateway;

#[allow(missing_docs, reason = "accessors of the services that a gateway is made of")]
impl Gateway {
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub fn random(&self) -> &dyn Random {
        &*self.random
    }

    /// An act of the gateway itself, for changes of records.
    pub fn act(&self) -> Act {
        Act::of_gateway(self.clock.now(), &*self.random)
    }

    /// An unused request id.
    pub fn next_request(&self) -> RequestId {
        self.ids.next()
    }

    /// The address of the listener for the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Number of open requests.
    pub fn open_requests(&self) -> i64 {
        self.metrics.open.get()
    }

    /// Stops asking for answers that come later as a crash does: other nodes ask once the claims have lapsed.
    pub fn crash_poller(&self) {
        self.poller.abort();
    }

    /// Has it ask for answers that are due now.
    pub fn wake_poller(&self) {
        self.poller.wake();
    }

    /// Has it send the messages that are due now.
    pub fn wake_alerts(&self) {
        self.spend.raised().notify_one();
    }

    /// Stops running batches as a crash does: other nodes continue once the leases have expired.
    pub fn crash_batches(&self) {
        self.batches.abort();
    }
}
