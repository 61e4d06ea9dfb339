//! The address and credentials of a provider. All values are resolved: callers read environment
//! variables and files.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc, time::Duration};

use http_client::{Secret, TlsFiles};

use crate::local_server::LocalServer;
use ::cloud::{AwsAuth, AwsSigner, GoogleAuth};

use crate::Failure;
use wire::{CacheMarks, Platform, Wire};

/// Default of `model_providers.<id>.stream_idle_timeout_ms`.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// A resolved model provider (configuration `model_providers.<id>`).
#[derive(Debug, Clone)]
pub struct Provider {
    pub id: String,
    /// Display name, used in messages.
    pub name: String,
    pub transport: Transport,
    /// The wire that it speaks.
    pub wire: Wire,
    /// The cloud that serves its models, if it is not their maker.
    pub platform: Platform,
    /// URL without the final `/responses` or its like; unused by the offline transport.
    pub base_url: String,
    pub api_key: KeySource,
    /// Sent with every request; an `authorization` entry takes precedence over the key.
    pub http_headers: BTreeMap<String, String>,
    pub query_params: BTreeMap<String, String>,
    /// Longest silence before and within a response.
    pub stream_idle_timeout: Duration,
    /// True if large requests are sent compressed, until the provider refuses one.
    pub compress_requests: bool,
    /// Its own authority, and the certificate that it asks for.
    pub tls: TlsFiles,
    /// True if it is tried over a WebSocket first.
    pub supports_websockets: bool,
    /// The kind of server, if it is one on the user's machine.
    pub local: Option<LocalServer>,
    /// Marks for the prompt cache, in place of those that the server and the model are known to take.
    pub cache_marks: Option<CacheMarks>,
    /// True if it takes JSON Schemas of answers; `None`: by its wire and the model.
    pub structured_output: Option<bool>,
    /// The header `traceparent` of requests over HTTP (W3C Trace Context), unless `http_headers` has one.
    pub traceparent: Option<String>,
}

/// The transport to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP or HTTPS.
    Http,
    /// The scripted model inside this process; the model's name selects the script.
    Offline,
}

/// The key of a provider.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// Sent as `Authorization: Bearer <key>`, or in the header of the provider's wire.
    Value(Secret),
    /// The account that is logged in; see [`Provider::authorized`].
    Account(Arc<dyn Credentials>),
    /// A token of that account, sent as a key is.
    Issued(Secret),
    /// Credentials of an AWS account, which sign each request. Only the client's requests over HTTP take them.
    Aws(Arc<AwsAuth>),
    /// Those credentials, as they are for one request.
    Signed(Arc<AwsSigner>),
    /// Credentials of a Google account, for which there are tokens. Only the client's requests over HTTP take them.
    Google(Arc<GoogleAuth>),
    /// A token of that account, always sent as `Authorization: Bearer <token>`.
    Bearer(Secret),
    /// A required key is missing: requests fail with these instructions before they are sent.
    Missing { instructions: String },
    /// The provider accepts requests without a key.
    NotNeeded,
}

/// Credentials that change while the program runs.
pub trait Credentials: fmt::Debug + Send + Sync {
    /// The credentials of the next request. `rejected` is the token that the provider has just refused.
    ///
    /// # Errors
    /// There are none, or they cannot be refreshed. The message is for the user.
    fn authorization(&self, rejected: Option<Secret>) -> AuthorizationFuture<'_>;
}

/// The result of [`Credentials::authorization`].
pub type AuthorizationFuture<'c> =
    Pin<Box<dyn Future<Output = Result<Authorization, Failure>> + Send + 'c>>;

/// The credentials of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    pub token: Secret,
    /// Headers that belong to the token.
    pub headers: BTreeMap<String, String>,
}

impl KeySource {
    /// Returns whether it is an account of a cloud.
    #[must_use]
    pub fn is_cloud(&self) -> bool {
        matches!(self, Self::Aws(_) | Self::Signed(_) | Self::Google(_) | Self::Bearer(_))
    }
}

impl Provider {
    /// Name of the header and prefix of the value that carry a key. Clouds take a bearer token on every wire.
    pub(crate) fn key_header(&self) -> (&'static str, &'static str) {
        match self.platform {
            Platform::Direct if !self.api_key.is_cloud() => wire::key_header(self.wire),
            _ => wire::key_header(Wire::Responses),
        }
    }

    /// This provider with the credentials of the next request in place of their source.
    ///
    /// # Errors
    /// See [`Credentials::authorization`].
    pub async fn authorized(self: &Arc<Self>) -> Result<Arc<Self>, Failure> {
        self.authorized_after(None).await
    }

    /// [`Provider::authorized`] after the provider refused the credentials of `refused`; `None` if no
    /// other ones are available.
    ///
    /// # Errors
    /// See [`Credentials::authorization`].
    pub async fn reauthorized(
        self: &Arc<Self>,
        refused: &Self,
    ) -> Result<Option<Arc<Self>>, Failure> {
        let (KeySource::Account(_), KeySource::Issued(token)) = (&self.api_key, &refused.api_key)
        else {
            return Ok(None);
        };
        let renewed = self.authorized_after(Some(token.clone())).await?;
        let is_other = !matches!(&renewed.api_key, KeySource::Issued(new) if new == token);
        Ok(is_other.then_some(renewed))
    }

    async fn authorized_after(
        self: &Arc<Self>,
        rejected: Option<Secret>,
    ) -> Result<Arc<Self>, Failure> {
        let KeySource::Account(account) = &self.api_key else { return Ok(self.clone()) };
        let authorization = account.authorization(rejected).await.map_err(|mut failure| {
            failure.message = format!("model provider `{}`: {}", self.id, failure.message);
            failure
        })?;
        let mut provider = Self::clone(self);
        provider.api_key = KeySource::Issued(authorization.token);
        // A configured header takes precedence.
        for (name, value) in authorization.headers {
            provider.http_headers.entry(name).or_insert(value);
        }
        Ok(Arc::new(provider))
    }

    /// Base URL of the built-in `default` provider.
    pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

    /// A provider over HTTP with default limits and no key.
    pub fn http(id: impl Into<String>, base_url: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            transport: Transport::Http,
            wire: Wire::Responses,
            platform: Platform::Direct,
            base_url: base_url.into(),
            api_key: KeySource::NotNeeded,
            http_headers: BTreeMap::new(),
            query_params: BTreeMap::new(),
            stream_idle_timeout: STREAM_IDLE_TIMEOUT,
            compress_requests: false,
            tls: TlsFiles::default(),
            supports_websockets: false,
            local: None,
            cache_marks: None,
            structured_output: None,
            traceparent: None,
        }
    }

    /// The built-in provider `default`; `base_url` overrides [`Self::DEFAULT_BASE_URL`]
    /// (configuration `default_provider_base_url`).
    #[must_use]
    pub fn built_in(api_key: Option<Secret>, base_url: Option<String>) -> Self {
        let base_url = base_url.unwrap_or_else(|| Self::DEFAULT_BASE_URL.to_owned());
        let api_key = api_key.map_or_else(
            || KeySource::Missing {
                instructions: "set AGENT_API_KEY or OPENAI_API_KEY in the environment, choose \
                               another `model_provider` in config.toml, or use \
                               `model_provider = \"offline\"` to go without a network"
                    .to_owned(),
            },
            KeySource::Value,
        );
        Self { api_key, name: "Default".to_owned(), ..Self::http("default", base_url) }
    }

    /// The built-in provider `offline`: the scripted model inside this process.
    #[must_use]
    pub fn offline() -> Self {
        Self {
            name: "Offline (scripted)".to_owned(),
            transport: Transport::Offline,
            ..Self::http("offline", String::new())
        }
    }

    /// Values that must not appear in a message or a recording: the key and the header values.
    /// Values under 6 bytes are excluded, because replacing them would garble unrelated text.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let (key, token) = match &self.api_key {
            KeySource::Value(key) | KeySource::Issued(key) | KeySource::Bearer(key) => {
                (Some(key.expose()), None)
            }
            KeySource::Signed(signer) => {
                let token = signer.keys.session_token.as_ref().map(Secret::expose);
                (Some(signer.keys.secret.expose()), token)
            }
            KeySource::Account(_)
            | KeySource::Aws(_)
            | KeySource::Google(_)
            | KeySource::Missing { .. }
            | KeySource::NotNeeded => (None, None),
        };
        let headers = self.http_headers.values().map(String::as_str);
        let params = self.query_params.values().map(String::as_str);
        key.into_iter().chain(token).chain(headers).chain(params).filter(|value| value.len() >= 6)
    }

    /// `text` with every secret of this provider replaced by `***`.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.secrets().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_show_neither_in_debug_output_nor_after_redaction() {
        let mut provider = Provider::built_in(Some(Secret::new("sk-secret-1")), None);
        assert!(!format!("{provider:?}").contains("sk-secret"));
        provider.http_headers.insert("x-team".into(), "team-token".into());
        assert_eq!(provider.redact("sk-secret-1 and team-token"), "*** and ***");
    }
}
