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
mod slot;

pub use account::{Account, AwsAuth, AwsContainer, AwsKeys, AwsSigner, GoogleAuth, Key};
use connections::Connections;
pub use fetched::CloudError;
use fetched::Fetched;
#[cfg(feature = "bedrock")]
pub use frames::{FrameError, FrameReader, MAX_FRAME};
pub use refusal::{clock, is_of_key, refusal};
use slot::Slot;

/// Most accounts whose credentials are kept. Beyond it all are fetched again.
const MAX_ACCOUNTS: usize = 32;

/// True if this build signs requests to Amazon Bedrock.
pub const HAS_BEDROCK: bool = cfg!(feature = "bedrock");
/// True if this build gets tokens of Google accounts.
pub const HAS_VERTEX: bool = cfg!(feature = "vertex");

/// The credentials of accounts that are in use.
pub struct Credentials {
    connections: Arc<Connections>,
    known: Mutex<Vec<(Account, Arc<Slot>)>>,
}

impl Credentials {
    /// `network` is the way to services that issue tokens; those of the machine itself are reached without a proxy.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self { connections: Arc::new(Connections::new(network)), known: Mutex::default() }
    }

    /// The key of an account, fetched if there is no valid one. One that ends soon is renewed apart from the requests,
    /// which it serves until then. `user` names who uses it, for the log.
    ///
    /// # Errors
    /// There are no credentials. The message lists where they were looked up.
    pub async fn key(&self, account: &Account, user: &str) -> Result<Key, CloudError> {
        let now = SystemTime::now();
        self.slot(account).key(now, user, || self.fetch(account, now)).await
    }

    /// Another key of an account after the key `refused` was refused; `None` if there is no other, or it was asked for
    /// one because of a refusal within the last minute. Until there is another, [`Credentials::key`] gives the same.
    ///
    /// # Errors
    /// See [`Credentials::key`].
    pub async fn renewed(
        &self,
        account: &Account,
        refused: &Key,
        user: &str,
    ) -> Result<Option<Key>, CloudError> {
        let now = SystemTime::now();
        self.slot(account).renewed(refused, now, user, || self.fetch(account, now)).await
    }

    fn fetch(
        &self,
        account: &Account,
        now: SystemTime,
    ) -> impl Future<Output = Result<Fetched, CloudError>> + Send + use<> {
        let (account, connections) = (account.clone(), Arc::clone(&self.connections));
        async move { account.fetch(&connections, now).await }
    }

    fn slot(&self, account: &Account) -> Arc<Slot> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = known.iter().find(|(known, _)| known == account) {
            return Arc::clone(slot);
        }
        if known.len() >= MAX_ACCOUNTS {
            known.clear();
        }
        let slot = Arc::<Slot>::default();
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
