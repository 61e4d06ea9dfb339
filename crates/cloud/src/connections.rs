//! The means of requests for credentials: clients for the services of this machine and for those that issue tokens, and
//! the work on files. Each is made when it is first needed.

#[cfg(any(feature = "bedrock", feature = "vertex"))]
use std::sync::OnceLock;
#[cfg(any(feature = "bedrock", feature = "vertex"))]
use std::time::Duration;

use http_client::Network;
#[cfg(any(feature = "bedrock", feature = "vertex"))]
use http_client::{HttpClient, HttpVersions, PoolOptions, TlsFiles};
#[cfg(feature = "vertex")]
use tokio::sync::OnceCell;

#[cfg(any(feature = "bedrock", feature = "vertex"))]
use crate::fetched::CloudError;

#[cfg(any(feature = "bedrock", feature = "vertex"))]
const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(15),
    idle_timeout: Duration::from_secs(90),
    max_idle_per_host: 4,
    versions: HttpVersions::Any,
};

pub(crate) struct Connections {
    #[cfg_attr(not(feature = "vertex"), allow(dead_code))]
    network: Network,
    #[cfg(any(feature = "bedrock", feature = "vertex"))]
    files: files::Pool,
    #[cfg(any(feature = "bedrock", feature = "vertex"))]
    direct: OnceLock<HttpClient>,
    #[cfg(feature = "vertex")]
    tokens: OnceCell<HttpClient>,
}

impl Connections {
    pub(crate) fn new(network: Network) -> Self {
        Self {
            network,
            #[cfg(any(feature = "bedrock", feature = "vertex"))]
            files: files::Pool::default(),
            #[cfg(any(feature = "bedrock", feature = "vertex"))]
            direct: OnceLock::new(),
            #[cfg(feature = "vertex")]
            tokens: OnceCell::new(),
        }
    }

    /// Work on files with credentials.
    #[cfg(any(feature = "bedrock", feature = "vertex"))]
    pub(crate) fn files(&self) -> &files::Pool {
        &self.files
    }

    /// The client for services of this machine and its network, which no proxy reaches.
    #[cfg(any(feature = "bedrock", feature = "vertex"))]
    pub(crate) fn direct(&self) -> Result<&HttpClient, CloudError> {
        if let Some(direct) = self.direct.get() {
            return Ok(direct);
        }
        let built = client(&Network::default())?;
        Ok(self.direct.get_or_init(|| built))
    }

    /// The client for services that issue tokens. An error is not kept: the next request tries again.
    #[cfg(feature = "vertex")]
    pub(crate) async fn of_tokens(&self) -> Result<HttpClient, CloudError> {
        let build = async || {
            let network = self.network.clone();
            // It reads certificates, for some milliseconds.
            let built = tokio::task::spawn_blocking(move || client(&network)).await;
            built.unwrap_or_else(|_| {
                Err(CloudError::permanent("setting up TLS ended unexpectedly; this is a defect"))
            })
        };
        self.tokens.get_or_try_init(build).await.cloned()
    }
}

#[cfg(any(feature = "bedrock", feature = "vertex"))]
fn client(network: &Network) -> Result<HttpClient, CloudError> {
    network
        .client(&TlsFiles::default(), &POOL)
        .map_err(|error| CloudError::permanent(format!("cannot set up the network: {error}")))
}
