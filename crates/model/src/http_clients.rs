//! The HTTP clients of a program: one for each set of TLS files in use, built at the first request that
//! needs it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_client::{HttpClient, HttpVersions, Network, PoolOptions, TlsFiles};
use tokio::sync::OnceCell;

use crate::{Failure, FailureKind, Provider};

/// Most HTTP clients that are kept. Beyond it all are built again.
const MAX_CLIENTS: usize = 32;

const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(15),
    idle_timeout: Duration::from_secs(90),
    max_idle_per_host: 16,
    versions: HttpVersions::Any,
};

type Http = HttpClient;
type Key = (TlsFiles, HttpVersions);

/// Builds the pooled HTTP client for requests to a provider with `files`. Blocks while it reads
/// certificates, for some milliseconds.
///
/// # Errors
/// A certificate or a proxy of the environment cannot be used.
pub fn connect(network: &Network, files: &TlsFiles) -> Result<Http, Failure> {
    build(network, files, &POOL)
}

fn build(network: &Network, files: &TlsFiles, pool: &PoolOptions) -> Result<Http, Failure> {
    network.client(files, pool).map_err(|error| {
        Failure::new(FailureKind::Other, format!("cannot set up the network: {error}"))
    })
}

/// The HTTP clients of a program.
pub(crate) struct HttpClients {
    network: Network,
    known: Mutex<HashMap<Key, Arc<OnceCell<Http>>>>,
}

impl HttpClients {
    pub(crate) fn new(network: Network) -> Self {
        Self { network, known: Mutex::default() }
    }

    /// The client for requests to `provider`. An error is not kept: the next request tries again.
    pub(crate) async fn of(&self, provider: &Provider) -> Result<Http, Failure> {
        self.get(&provider.tls, HttpVersions::Any).await
    }

    /// A client that never speaks HTTP/2, for upgrades to another protocol.
    pub(crate) async fn for_upgrades(&self, provider: &Provider) -> Result<Http, Failure> {
        self.get(&provider.tls, HttpVersions::Http1).await
    }

    async fn get(&self, files: &TlsFiles, versions: HttpVersions) -> Result<Http, Failure> {
        let key = (files.clone(), versions);
        let cell = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MAX_CLIENTS && !known.contains_key(&key) {
                known.clear();
            }
            Arc::clone(known.entry(key).or_default())
        };
        let build = async || {
            let (network, files) = (self.network.clone(), files.clone());
            let pool = PoolOptions { versions, ..POOL };
            let built = tokio::task::spawn_blocking(move || build(&network, &files, &pool)).await;
            built.unwrap_or_else(|_| {
                let message = "setting up TLS ended unexpectedly; this is a defect";
                Err(Failure::new(FailureKind::InternalServerError, message))
            })
        };
        cell.get_or_try_init(build).await.cloned()
    }
}
