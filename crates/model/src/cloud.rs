//! Clouds that serve models of other makers: where their credentials come from, and the cache of those that are
//! temporary. Each cloud is a feature of the build; without it, a request that needs it fails with a message that says
//! so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use hyper::Request;
use tokio::sync::Mutex as AsyncMutex;

use crate::http_clients::HttpClients;
use account::{AwsAuth, GoogleAuth};
use fetched::{CloudError, Fetched};

use crate::{Failure, FailureKind, KeySource, Provider, Retry};

pub(crate) mod account;
#[cfg(feature = "bedrock")]
mod aws;
#[cfg(any(feature = "bedrock", feature = "vertex"))]
mod fetch;
mod fetched;
#[cfg(feature = "bedrock")]
mod frames;
#[cfg(feature = "vertex")]
mod google;
#[cfg(feature = "bedrock")]
mod profile;
mod refusal;
#[cfg(feature = "bedrock")]
mod sign;

#[cfg(feature = "bedrock")]
pub use frames::{FrameError, FrameReader, MAX_FRAME};
pub(crate) use refusal::{advise, refusal};

/// Most sources whose credentials are kept. Beyond it all are fetched again.
const MAX_SOURCES: usize = 32;

/// A source with a place for what it gave.
type Slot = Arc<AsyncMutex<Option<Fetched>>>;

/// The credentials of clouds that are in use.
#[derive(Default)]
pub(crate) struct CloudCredentials {
    known: Mutex<Vec<(Source, Slot)>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Aws(Arc<AwsAuth>),
    Google(Arc<GoogleAuth>),
}

impl Source {
    fn of(provider: &Provider) -> Option<Self> {
        match &provider.api_key {
            KeySource::Aws(auth) => Some(Self::Aws(Arc::clone(auth))),
            KeySource::Google(auth) => Some(Self::Google(Arc::clone(auth))),
            _ => None,
        }
    }

    async fn fetch(&self, clients: &HttpClients, now: SystemTime) -> Result<Fetched, CloudError> {
        match self {
            #[cfg(feature = "bedrock")]
            Self::Aws(auth) => aws::fetch(auth, clients).await,
            #[cfg(feature = "vertex")]
            Self::Google(auth) => google::fetch(auth, clients, now).await,
            #[cfg(not(all(feature = "bedrock", feature = "vertex")))]
            _ => {
                let _ = (clients, now);
                Err(CloudError::permanent(self.missing_feature()))
            }
        }
    }

    #[cfg(not(all(feature = "bedrock", feature = "vertex")))]
    fn missing_feature(&self) -> String {
        let feature = match self {
            Self::Aws(_) => "bedrock",
            Self::Google(_) => "vertex",
        };
        format!(
            "this build has no support for this cloud; build agentd with `--features {feature}`"
        )
    }
}

impl CloudCredentials {
    /// `provider` with the credentials of its cloud in place of their source; `None` if it has no such source.
    ///
    /// # Errors
    /// There are no credentials. The message lists where they were looked up.
    pub(crate) async fn authorized(
        &self,
        clients: &HttpClients,
        provider: &Provider,
    ) -> Result<Option<Provider>, Failure> {
        let Some(source) = Source::of(provider) else { return Ok(None) };
        let slot = self.slot(&source);
        // Held while they are fetched, so that concurrent requests share one fetch.
        let mut slot = slot.lock().await;
        let now = SystemTime::now();
        if let Some(kept) = slot.as_ref().filter(|kept| kept.is_fresh(now)) {
            return Ok(Some(with(provider, kept.key.clone())));
        }
        match source.fetch(clients, now).await {
            Ok(fetched) => {
                let key = fetched.key.clone();
                *slot = Some(fetched);
                Ok(Some(with(provider, key)))
            }
            Err(error) => match slot.as_ref().filter(|kept| error.passes && kept.is_valid(now)) {
                Some(kept) => {
                    tracing::warn!(
                        target: "model::cloud",
                        "model provider `{}`: its credentials cannot be renewed yet: {}",
                        provider.id, error.message
                    );
                    Ok(Some(with(provider, kept.key.clone())))
                }
                None => Err(failure(provider, error)),
            },
        }
    }

    /// [`CloudCredentials::authorized`] after the provider refused the credentials of `refused`; `None` if there are
    /// no others.
    ///
    /// # Errors
    /// See [`CloudCredentials::authorized`].
    pub(crate) async fn reauthorized(
        &self,
        clients: &HttpClients,
        provider: &Provider,
        refused: &Provider,
    ) -> Result<Option<Provider>, Failure> {
        let Some(source) = Source::of(provider) else { return Ok(None) };
        let slot = self.slot(&source);
        slot.lock().await.take_if(|kept| same(&kept.key, &refused.api_key));
        let renewed = self.authorized(clients, provider).await?;
        Ok(renewed.filter(|renewed| !same(&renewed.api_key, &refused.api_key)))
    }

    fn slot(&self, source: &Source) -> Slot {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = known.iter().find(|(known, _)| known == source) {
            return Arc::clone(slot);
        }
        if known.len() >= MAX_SOURCES {
            known.clear();
        }
        let slot = Slot::default();
        known.push((source.clone(), Arc::clone(&slot)));
        slot
    }
}

fn with(provider: &Provider, api_key: KeySource) -> Provider {
    Provider { api_key, ..provider.clone() }
}

fn same(one: &KeySource, other: &KeySource) -> bool {
    match (one, other) {
        (KeySource::Signed(one), KeySource::Signed(other)) => one.keys == other.keys,
        (KeySource::Bearer(one), KeySource::Bearer(other)) => one == other,
        _ => false,
    }
}

fn failure(provider: &Provider, error: CloudError) -> Failure {
    let message = format!("model provider `{}`: {}", provider.id, error.message);
    let (kind, retry) = match error.passes {
        true => (FailureKind::ResponseStreamConnectionFailed, Retry::Request),
        false => (FailureKind::Unauthorized, Retry::Never),
    };
    Failure { retry, ..Failure::new(kind, message) }
}

/// Signs a request with `body`, if the provider's credentials do that.
///
/// # Errors
/// The request cannot be signed.
pub(crate) fn sign<B>(
    provider: &Provider,
    request: &mut Request<B>,
    body: &[u8],
) -> Result<(), Failure> {
    let KeySource::Signed(signer) = &provider.api_key else { return Ok(()) };
    #[cfg(feature = "bedrock")]
    {
        sign::sign(signer, request, body, SystemTime::now())
            .map_err(|problem| failure(provider, CloudError::permanent(problem)))
    }
    #[cfg(not(feature = "bedrock"))]
    {
        let _ = (signer, request, body);
        let message = "this build cannot sign requests; build agentd with `--features bedrock`";
        Err(failure(provider, CloudError::permanent(message)))
    }
}
