//! Asks a provider for the list of its models.

use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use http_client::{DecodedBody, error_chain};
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use tokio::time;

use super::Client;
use crate::catalog::{ListedModel, Listing, MAX_LISTING_BYTES, parse_listing};
use crate::http_clients::HttpClients;
use crate::open::{MAX_ERROR_BODY, unreachable};
use crate::{
    Endpoint, Failure, FailureKind, KeySource, Provider, Transport, Wire, failure_from_status,
    wires,
};

/// Longest time for the whole answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest entity tag that is kept.
const MAX_ETAG: usize = 1024;

/// A provider's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelsAnswer {
    /// The list is still that of the tag.
    Unchanged,
    /// The list, and its tag.
    Listed { models: Vec<ListedModel>, etag: Option<String> },
}

impl Provider {
    /// Returns whether it is asked for its models: so are a provider that is sent a credential, and one
    /// without a key on this machine or a private network.
    #[must_use]
    pub fn lists_models(&self) -> bool {
        let has_key = matches!(self.api_key, KeySource::Value(_) | KeySource::Account(_));
        let mut headers = self.http_headers.keys();
        let has_header = headers.any(|name| name.eq_ignore_ascii_case("authorization"));
        let is_near = matches!(self.api_key, KeySource::NotNeeded) && is_private(&self.base_url);
        let is_asked = has_key || has_header || self.local.is_some() || is_near;
        self.transport == Transport::Http && is_asked
    }
}

/// Returns whether an address is one of this machine or of a private network.
fn is_private(base_url: &str) -> bool {
    let uri = base_url.parse::<Uri>();
    let Some(host) = uri.as_ref().ok().and_then(Uri::host) else { return false };
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => host.eq_ignore_ascii_case("localhost") || host.ends_with(".localhost"),
    }
}

impl Client {
    /// The models of a provider, unless the list is still that of `etag`. Takes 15 s at most, and
    /// reads a bounded body.
    ///
    /// # Errors
    /// The provider does not answer, refuses, or answers with something else.
    pub async fn models(
        &self,
        provider: &Provider,
        etag: Option<&str>,
    ) -> Result<ModelsAnswer, Failure> {
        list(&self.inner.http, provider, etag).await
    }
}

/// See [`Client::models`].
pub(super) async fn list(
    http: &HttpClients,
    provider: &Provider,
    etag: Option<&str>,
) -> Result<ModelsAnswer, Failure> {
    let asked = async {
        let Some(server) = provider.local else {
            return ask(http, provider, wires::list_path(provider.wire), etag).await;
        };
        // Its own list is below the root of the server.
        let root = provider.base_url.trim_end_matches("/v1").to_owned();
        let at_root = Provider { base_url: root, ..provider.clone() };
        match ask(http, &at_root, server.list_path(), etag).await {
            Err(failure) if failure.http_status == Some(404) => {
                ask(http, provider, "/models", etag).await
            }
            answer => answer,
        }
    };
    let asked = time::timeout(TIMEOUT, asked);
    let mut answer = asked.await.unwrap_or_else(|_| {
        Err(failure(format!("there is no whole answer after {} s", TIMEOUT.as_secs())))
    });
    if let Err(failure) = &mut answer {
        // It may quote the provider's text, which may quote the key.
        failure.message = provider.redact(&failure.message);
    }
    answer
}

async fn ask(
    http: &HttpClients,
    provider: &Provider,
    path: &str,
    etag: Option<&str>,
) -> Result<ModelsAnswer, Failure> {
    let endpoint = Endpoint::new(provider, &Method::GET, path)?;
    let mut request = endpoint.request(&Method::GET, Bytes::new());
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if provider.wire == Wire::Messages {
        let version = HeaderValue::from_static("2023-06-01");
        headers.entry("anthropic-version").or_insert(version);
    }
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        headers.insert(header::IF_NONE_MATCH, etag);
    }
    let http = http.of(provider).await?;
    let response = http
        .request(request)
        .await
        .map_err(|error| unreachable(provider, &endpoint.host(), &error))?;
    let response = http_client::decoded(response)
        .map_err(|error| failure(format!("the answer to {}: {error}", endpoint.label)))?;
    let (head, body) = response.into_parts();
    if head.status == StatusCode::NOT_MODIFIED && etag.is_some() {
        return Ok(ModelsAnswer::Unchanged);
    }
    if head.status != StatusCode::OK {
        let text = collect(body, MAX_ERROR_BODY).await.unwrap_or_default();
        let text = wires::refusal(provider, head.status, text);
        let label = &endpoint.label;
        return Err(failure_from_status(provider, label, head.status, &head.headers, &text));
    }
    let body = collect(body, MAX_LISTING_BYTES).await?;
    let Listing { models, left_out } = read_listing(provider, &body).map_err(|problem| {
        failure(format!("the answer to {} is not a list of models: {problem}", endpoint.label))
    })?;
    if left_out > 0 {
        tracing::warn!(
            target: "model::models",
            "the provider `{}` lists {left_out} entries that are left out: those whose `id` is not a \
             name of at most 256 bytes without hidden characters, and those after the first 2000",
            provider.id
        );
    }
    let etag = head.headers.get(header::ETAG).and_then(|value| value.to_str().ok());
    let etag = etag.filter(|etag| etag.len() <= MAX_ETAG).map(str::to_owned);
    Ok(ModelsAnswer::Listed { models, etag })
}

/// Reads a list in the form of the provider.
fn read_listing(provider: &Provider, body: &[u8]) -> Result<Listing, String> {
    let translated = |answer| match provider.local {
        Some(server) => server.listing(answer),
        None => wires::listing(provider.wire, answer),
    };
    if provider.local.is_none() && matches!(provider.wire, Wire::Responses | Wire::Chat) {
        return parse_listing(body);
    }
    match serde_json::from_slice(body) {
        Ok(answer) => parse_listing(translated(answer).to_string().as_bytes()),
        // It says what is wrong.
        Err(_) => parse_listing(body),
    }
}

/// Reads a body of at most `max` bytes.
async fn collect(mut body: DecodedBody, max: usize) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| failure(format!("the answer broke: {}", error_chain(&error))))?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        if bytes.len() + data.len() > max {
            return Err(failure(format!("the answer has more than {max} bytes")));
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes.freeze())
}

fn failure(message: String) -> Failure {
    Failure::new(FailureKind::Other, message)
}
