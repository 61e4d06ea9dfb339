//! Providers that are clouds: the credentials of their accounts, by the crate `cloud`, and what the user can do about a
//! refusal.

use std::sync::Arc;
use std::time::SystemTime;

use ::cloud::{Account, CloudError, Credentials, Key, clock};
use http_client::Network;
use hyper::{HeaderMap, Request};

use crate::{Failure, FailureKind, KeySource, Provider, Retry};

pub(crate) use ::cloud::refusal;

/// The credentials of clouds that are in use.
pub(crate) struct CloudCredentials(Credentials);

fn account(provider: &Provider) -> Option<Account> {
    match &provider.api_key {
        KeySource::Aws(auth) => Some(Account::Aws(Arc::clone(auth))),
        KeySource::Google(auth) => Some(Account::Google(Arc::clone(auth))),
        _ => None,
    }
}

impl CloudCredentials {
    pub(crate) fn new(network: Network) -> Self {
        Self(Credentials::new(network))
    }

    /// `provider` with the credentials of its cloud in place of their source; `None` if it has no such source.
    ///
    /// # Errors
    /// There are no credentials. The message lists where they were looked up.
    pub(crate) async fn authorized(
        &self,
        provider: &Provider,
    ) -> Result<Option<Provider>, Failure> {
        let Some(account) = account(provider) else { return Ok(None) };
        match self.0.key(&account, &user(provider)).await {
            Ok(key) => Ok(Some(with(provider, key))),
            Err(error) => Err(failure(provider, error)),
        }
    }

    /// [`CloudCredentials::authorized`] after the provider refused the credentials of `refused`; `None` if there are
    /// no others.
    ///
    /// # Errors
    /// See [`CloudCredentials::authorized`].
    pub(crate) async fn reauthorized(
        &self,
        provider: &Provider,
        refused: &Provider,
    ) -> Result<Option<Provider>, Failure> {
        let Some(account) = account(provider) else { return Ok(None) };
        let refused = match &refused.api_key {
            KeySource::Signed(signer) => Key::Signed(Arc::clone(signer)),
            KeySource::Bearer(token) => Key::Bearer(token.clone()),
            _ => return self.authorized(provider).await,
        };
        let renewed = self.0.renewed(&account, &refused, &user(provider)).await;
        let renewed = renewed.map_err(|error| failure(provider, error))?;
        Ok(renewed.map(|key| with(provider, key)))
    }
}

fn user(provider: &Provider) -> String {
    format!("model provider `{}`", provider.id)
}

fn with(provider: &Provider, key: Key) -> Provider {
    let api_key = match key {
        Key::Signed(signer) => KeySource::Signed(signer),
        Key::Bearer(token) => KeySource::Bearer(token),
    };
    Provider { api_key, ..provider.clone() }
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
    ::cloud::sign(signer, request, body).map_err(|error| failure(provider, error))
}

/// Appends advice to a refusal with status 401 or 403, if credentials of a cloud were sent.
pub(crate) fn advise(provider: &Provider, headers: &HeaderMap, failure: &mut Failure) {
    if !matches!(failure.http_status, Some(401 | 403)) {
        return;
    }
    let id = &provider.id;
    let advice = match &provider.api_key {
        KeySource::Signed(signer) => format!(
            "; check the AWS credentials of model provider `{id}`, their permission \
             `bedrock:InvokeModelWithResponseStream`, and the region `{}`",
            signer.region
        ),
        KeySource::Bearer(_) => format!(
            "; check the Google credentials of model provider `{id}` and their role \
             `roles/aiplatform.user`"
        ),
        _ => return,
    };
    failure.message.push_str(&clock(headers, SystemTime::now()).unwrap_or(advice));
}
