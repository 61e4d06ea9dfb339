//! The means of requests: HTTP clients, and the credentials that clouds gave.

use std::sync::Arc;

use http_client::Network;

use crate::cloud::CloudCredentials;
use crate::http_clients::HttpClients;
use crate::{Failure, Provider};

/// HTTP clients, and the credentials of clouds.
pub(crate) struct Clients {
    pub(crate) http: HttpClients,
    cloud: CloudCredentials,
}

impl Clients {
    pub(crate) fn new(network: Network) -> Self {
        let cloud = CloudCredentials::new(network.clone());
        Self { http: HttpClients::new(network), cloud }
    }

    /// [`Provider::authorized`], and with the credentials of its cloud.
    ///
    /// # Errors
    /// There are no credentials.
    pub(crate) async fn authorized(
        &self,
        provider: &Arc<Provider>,
    ) -> Result<Arc<Provider>, Failure> {
        match self.of_cloud(provider).await? {
            Some(authorized) => Ok(Arc::new(authorized)),
            None => provider.authorized().await,
        }
    }

    /// `provider` with the credentials of its cloud; `None` if it needs none.
    ///
    /// # Errors
    /// There are no credentials.
    pub(crate) async fn of_cloud(&self, provider: &Provider) -> Result<Option<Provider>, Failure> {
        self.cloud.authorized(provider).await
    }

    /// [`Provider::reauthorized`], and with other credentials of its cloud.
    ///
    /// # Errors
    /// There are no credentials.
    pub(crate) async fn reauthorized(
        &self,
        provider: &Arc<Provider>,
        refused: &Provider,
    ) -> Result<Option<Arc<Provider>>, Failure> {
        match self.cloud.reauthorized(provider, refused).await? {
            Some(renewed) => Ok(Some(Arc::new(renewed))),
            None => provider.reauthorized(refused).await,
        }
    }
}
