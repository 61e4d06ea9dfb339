//! Clouds that serve models of other makers: where the credentials of an account come from, the cache of those that are
//! temporary, the signature of a request, and the form of Bedrock's answers. The agent's model client and the gateway
//! share it. It knows neither providers nor upstreams.
//!
//! Each cloud is a feature of the build, `bedrock` and `vertex`; without it, what needs it fails with a message that says
//! so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use http_client::Network;
use hyper::Request;
use tokio::sync::Mutex as AsyncMutex;

mod account;
#[cfg(feature = "bedrock")]
mod aws;
mod connections;
mod environment;
#[cfg(any(feature = "bedrock", feature = "vertex"))]
mod excerpt;
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

pub use account::{Account, AwsAuth, AwsContainer, AwsKeys, AwsSigner, GoogleAuth, Key};
use connections::Connections;
pub use fetched::CloudError;
use fetched::Fetched;
#[cfg(feature = "bedrock")]
pub use frames::{FrameError, FrameReader, MAX_FRAME};
pub use refusal::{clock, refusal};

/// Most accounts whose credentials are kept. Beyond it all are fetched again.
const MAX_ACCOUNTS: usize = 32;

/// True if this build signs requests to Amazon Bedrock.
pub const HAS_BEDROCK: bool = cfg!(feature = "bedrock");
/// True if this build gets tokens of Google accounts.
pub const HAS_VERTEX: bool = cfg!(feature = "vertex");

/// An account with a place for what it gave.
type Slot = Arc<AsyncMutex<Option<Fetched>>>;

/// The credentials of accounts that are in use.
pub struct Credentials {
    connections: Connections,
    known: Mutex<Vec<(Account, Slot)>>,
}

impl Credentials {
    /// `network` is the way to services that issue tokens; those of the machine itself are reached without a proxy.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self { connections: Connections::new(network), known: Mutex::default() }
    }

    /// The key of an account, fetched if it is not known or ends soon. `user` names who uses it, for the log.
    ///
    /// # Errors
    /// There are no credentials. The message lists where they were looked up.
    pub async fn key(&self, account: &Account, user: &str) -> Result<Key, CloudError> {
        let slot = self.slot(account);
        // Held while they are fetched, so that concurrent requests share one fetch.
        let mut slot = slot.lock().await;
        let now = SystemTime::now();
        if let Some(kept) = slot.as_ref().filter(|kept| kept.is_fresh(now)) {
            return Ok(kept.key.clone());
        }
        match account.fetch(&self.connections, now).await {
            Ok(fetched) => {
                let key = fetched.key.clone();
                *slot = Some(fetched);
                Ok(key)
            }
            Err(error) => match slot.as_ref().filter(|kept| error.passes && kept.is_valid(now)) {
                Some(kept) => {
                    tracing::warn!(
                        target: "model::cloud",
                        "{user}: its credentials cannot be renewed yet: {}", error.message
                    );
                    Ok(kept.key.clone())
                }
                None => Err(error),
            },
        }
    }

    /// [`Credentials::key`] after the key `refused` was refused; `None` if there is no other.
    ///
    /// # Errors
    /// See [`Credentials::key`].
    pub async fn renewed(
        &self,
        account: &Account,
        refused: &Key,
        user: &str,
    ) -> Result<Option<Key>, CloudError> {
        let slot = self.slot(account);
        slot.lock().await.take_if(|kept| kept.key.is_same(refused));
        let renewed = self.key(account, user).await?;
        Ok(Some(renewed).filter(|renewed| !renewed.is_same(refused)))
    }

    fn slot(&self, account: &Account) -> Slot {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = known.iter().find(|(known, _)| known == account) {
            return Arc::clone(slot);
        }
        if known.len() >= MAX_ACCOUNTS {
            known.clear();
        }
        let slot = Slot::default();
        known.push((account.clone(), Arc::clone(&slot)));
        slot
    }
}

impl Account {
    async fn fetch(
        &self,
        connections: &Connections,
        now: SystemTime,
    ) -> Result<Fetched, CloudError> {
        match self {
            #[cfg(feature = "bedrock")]
            Self::Aws(auth) => aws::fetch(auth, connections).await,
            #[cfg(feature = "vertex")]
            Self::Google(auth) => google::fetch(auth, connections, now).await,
            #[cfg(not(all(feature = "bedrock", feature = "vertex")))]
            _ => {
                let _ = (connections, now);
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

/// Signs a request with `body`.
///
/// # Errors
/// The request cannot be signed, or this build signs none.
pub fn sign<B>(
    signer: &AwsSigner,
    request: &mut Request<B>,
    body: &[u8],
) -> Result<(), CloudError> {
    #[cfg(feature = "bedrock")]
    {
        sign::sign(signer, request, body, SystemTime::now()).map_err(CloudError::permanent)
    }
    #[cfg(not(feature = "bedrock"))]
    {
        let _ = (signer, request, body);
        let message = "this build cannot sign requests; build agentd with `--features bedrock`";
        Err(CloudError::permanent(message))
    }
}
