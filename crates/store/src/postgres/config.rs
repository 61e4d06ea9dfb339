//! The options of a store in PostgreSQL.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

/// A store in a schema of a PostgreSQL database, which several nodes can have open.
#[derive(Clone)]
pub struct PostgresConfig {
    /// `postgres://USER@HOST/DATABASE`, also with a list of hosts, of which the one that can be written is
    /// used. With `tls`, connections to hosts are encrypted unless `sslmode=disable` is given, and the
    /// certificate of the server is verified.
    pub url: String,
    /// The user's password, in place of one in the URL.
    pub password: Option<String>,
    /// The schema of the tables, which [`crate::migrate`] creates.
    pub schema: String,
    /// Roots and identity for TLS; `None` refuses a URL that requires TLS. Sockets of this machine use
    /// none.
    pub tls: Option<Arc<ClientConfig>>,
    /// A unique name of this open store, such as a UUID. The leases of threads are taken under it.
    pub owner: String,
    /// Describes this node in the messages of others, such as `process 12 on build-3`.
    pub holder: String,
    /// Separates the threads of several users of one schema.
    pub tenant: String,
    /// Statements are prepared once a connection, which saves the server about a millisecond for each
    /// append. Must be off where a pool of transactions is between, such as PgBouncer's.
    pub prepares: bool,
    /// Largest number of connections; at least 3: for reads, writes and renewals of the lease.
    pub connections: usize,
    /// Time after its last renewal at which other nodes may take the threads of this one. It is
    /// renewed four times in this time.
    pub lease: Duration,
}

impl PostgresConfig {
    /// The default options.
    pub fn new(url: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            schema: "agentd".to_owned(),
            tls: None,
            owner: owner.into(),
            holder: format!("process {}", std::process::id()),
            tenant: "default".to_owned(),
            prepares: false,
            connections: 8,
            lease: Duration::from_secs(8),
        }
    }

    /// Largest number of connections that is used.
    pub(super) fn connections(&self) -> usize {
        self.connections.max(3)
    }
}

/// Without the password and the URL, which can contain one.
impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("schema", &self.schema)
            .field("owner", &self.owner)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}
