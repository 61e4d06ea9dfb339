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
use crate::clients::Clients;
use crate::open::{MAX_ERROR_BODY, unreachable};
use crate::{
    Endpoint, Failure, FailureKind, KeySource, Platform, Provider, Transport, Wire, cloud,
    failure_from_status, wire_listing, wires,
};

/// Longest time for the whole answer.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest entity tag that is kept.
const MAX_ETAG: usize = 1024;
/// Most pages of a list that are asked for. Beyond it the list is used without the rest.
const MAX_PAGES: usize = 20;

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
        let has_key = matches!(self.api_key, KeySource::Value(_) | KeySource::Account(_))
            || self.api_key.is_cloud();
        let mut headers = self.http_headers.keys();
        let has_header = headers.any(|name| name.eq_ignore_ascii_case("authorization"));
        let is_near = matches!(self.api_key, KeySource::NotNeeded) && is_private(&self.base_url);
        let is_asked = has_key || has_header || self.local.is_some() || is_near;
        // The lists of clouds are at other addresses.
        self.transport == Transport::Http && self.platform == Platform::Direct && is_asked
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
        list(&self.inner.clients, provider, etag).await
    }
}

impl Client {
    /// Looks up the credentials of a provider's account at a cloud, if it has one.
    ///
    /// # Errors
    /// There are none.
    pub async fn check_account(&self, provider: &Provider) -> Result<(), Failure> {
        self.inner.clients.of_cloud(provider).await.map(drop)
    }

    /// Returns whether a server has the path of its provider's wire: it answers an empty request, which no model sees,
    /// with anything but that there is no such path.
    ///
    /// # Errors
    /// The provider cannot be reached, or does not answer within 15 s.
    pub async fn speaks(&self, provider: &Provider) -> Result<bool, Failure> {
        let path = match provider.wire {
            Wire::Responses => "/responses",
            Wire::Chat => "/chat/completions",
            Wire::Messages => "/v1/messages",
            Wire::Gemini => "/v1beta/models/none:generateContent",
        };
        let endpoint = Endpoint::new(provider, &Method::POST, path)?;
        let http = self.inner.clients.http.of(provider).await?;
        let answer = http.request(endpoint.request(&Method::POST, Bytes::from_static(b"{}")));
        let answer = time::timeout(TIMEOUT, answer)
            .await
            .map_err(|_| failure(format!("there is no answer after {} s", TIMEOUT.as_secs())))?;
        let answer = answer.map_err(|error| unreachable(provider, &endpoint.host(), &error))?;
        let lacks_path = [
            StatusCode::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::GONE,
            StatusCode::NOT_IMPLEMENTED,
        ];
        Ok(!lacks_path.contains(&answer.status()))
    }
}

/// See [`Client::models`].
pub(super) async fn list(
    clients: &Clients,
    provider: &Provider,
    etag: Option<&str>,
) -> Result<ModelsAnswer, Failure> {
    let asked = async {
        let Some(server) = provider.local else {
            return ask_pages(clients, provider, etag).await;
        };
        // Its own list is below the root of the server.
        let root = provider.base_url.trim_end_matches("/v1").to_owned();
        let at_root = Provider { base_url: root, ..provider.clone() };
        match ask(clients, &at_root, server.list_path(), etag).await {
            Err(failure) if failure.http_status == Some(404) => {
                ask(clients, provider, "/models", etag).await.map(|(answer, _)| answer)
            }
            answer => answer.map(|(answer, _)| answer),
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

/// Asks for all pages of a list. The tag is that of a list of one page: it says nothing about others.
async fn ask_pages(
    clients: &Clients,
    provider: &Provider,
    etag: Option<&str>,
) -> Result<ModelsAnswer, Failure> {
    let path = wire_listing::path(provider.wire);
    let (first, mut next) = ask(clients, provider, path, etag).await?;
    let ModelsAnswer::Listed { mut models, etag } = first else { return Ok(first) };
    if next.is_none() {
        return Ok(ModelsAnswer::Listed { models, etag });
    }
    for _ in 1..MAX_PAGES {
        let Some(more) = next.take() else { break };
        let path = format!("{path}{more}");
        let (page, after) = ask(clients, provider, &path, None).await?;
        if let ModelsAnswer::Listed { models: page, .. } = page {
            let is_new = |model: &ListedModel| !models.iter().any(|known| known.id == model.id);
            let page: Vec<ListedModel> = page.into_iter().filter(is_new).collect();
            // A server that ignores the cursor answers with the first page again.
            if page.is_empty() {
                break;
            }
            models.extend(page);
        }
        next = after;
    }
    Ok(ModelsAnswer::Listed { models, etag: None })
}

/// Asks for one page. The second value is the query of the next one.
async fn ask(
    clients: &Clients,
    provider: &Provider,
    path: &str,
    etag: Option<&str>,
) -> Result<(ModelsAnswer, Option<String>), Failure> {
    let authorized = clients.of_cloud(provider).await?;
    let provider = authorized.as_ref().unwrap_or(provider);
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
    cloud::sign(provider, &mut request, &[])?;
    let http = clients.http.of(provider).await?;
    let response = http
        .request(request)
        .await
        .map_err(|error| unreachable(provider, &endpoint.host(), &error))?;
    let response = http_client::decoded(response)
        .map_err(|error| failure(format!("the answer to {}: {error}", endpoint.label)))?;
    let (head, body) = response.into_parts();
    if head.status == StatusCode::NOT_MODIFIED && etag.is_some() {
        return Ok((ModelsAnswer::Unchanged, None));
    }
    if head.status != StatusCode::OK {
        let text = collect(body, MAX_ERROR_BODY).await.unwrap_or_default();
        let text = wires::refusal(provider, &head, text);
        let label = &endpoint.label;
        let mut failure = failure_from_status(provider, label, head.status, &head.headers, &text);
        cloud::advise(provider, &head.headers, &mut failure);
        return Err(failure);
    }
    let body = collect(body, MAX_LISTING_BYTES).await?;
    let (Listing { models, left_out }, next) =
        read_listing(provider, &body).map_err(|problem| {
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
    Ok((ModelsAnswer::Listed { models, etag }, next))
}

/// Reads a list in the form of the provider. The second value is the query of the next page.
fn read_listing(provider: &Provider, body: &[u8]) -> Result<(Listing, Option<String>), String> {
    let is_plain = matches!(provider.wire, Wire::Responses | Wire::Chat);
    if provider.local.is_none() && is_plain {
        return parse_listing(body).map(|listing| (listing, None));
    }
    let Ok(answer) = serde_json::from_slice(body) else {
        // It says what is wrong.
        return parse_listing(body).map(|listing| (listing, None));
    };
    let next = wire_listing::next_page(provider.wire, &answer);
    let answer = match provider.local {
        Some(server) => server.listing(answer),
        None => wire_listing::translated(provider.wire, answer),
    };
    parse_listing(answer.to_string().as_bytes()).map(|listing| (listing, next))
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
