//! The parts of a provider that a realtime conversation uses: a WebSocket, and the answer to an
//! offer of a call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::time;

use super::Client;
use crate::open::{refused, unreachable};
use crate::upgrade::{NotUpgraded, WebSocket, upgrade};
use crate::{Endpoint, Failure, FailureKind, Provider, Transport};

/// Longest time for an answer to a request over HTTP.
const TIMEOUT: Duration = Duration::from_secs(15);

impl Client {
    /// Opens a WebSocket at `path` below the provider's base URL, whose messages have at most
    /// `max_message` bytes. Tries once; with fresh credentials of an account once more. Takes 30 s at
    /// most.
    ///
    /// # Errors
    /// The provider is offline, cannot be reached, or refuses.
    pub async fn web_socket(
        &self,
        provider: &Arc<Provider>,
        path: &str,
        max_message: usize,
    ) -> Result<WebSocket, Failure> {
        check_transport(provider)?;
        let open = async |provider: Arc<Provider>| {
            let endpoint = Endpoint::new(&provider, &Method::GET, path)?;
            match upgrade(&self.inner.clients.http, &provider, &endpoint, max_message).await {
                Ok((socket, _)) => Ok(socket),
                Err(problem) => Err(failure(&provider, &endpoint, problem).await),
            }
        };
        let authorized = provider.authorized().await?;
        match open(authorized.clone()).await {
            Err(failure) if failure.kind == FailureKind::Unauthorized => {
                match provider.reauthorized(&authorized).await? {
                    Some(renewed) => open(renewed).await,
                    None => Err(failure),
                }
            }
            opened => opened,
        }
    }

    /// Posts `body` to `path` below the provider's base URL. Returns the headers and the body of the
    /// answer, which has at most `max_answer` bytes. Tries once, within 15 s.
    ///
    /// # Errors
    /// The provider is offline, cannot be reached, or refuses.
    pub async fn post(
        &self,
        provider: &Arc<Provider>,
        path: &str,
        (content_type, body): (HeaderValue, Bytes),
        max_answer: usize,
    ) -> Result<(HeaderMap, Bytes), Failure> {
        check_transport(provider)?;
        let provider = provider.authorized().await?;
        let endpoint = Endpoint::new(&provider, &Method::POST, path)?;
        let mut request = endpoint.request(&Method::POST, body);
        request.headers_mut().insert(header::CONTENT_TYPE, content_type);
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        let http = self.inner.clients.http.of(&provider).await?;
        let answered = async {
            let response = http
                .request(request)
                .await
                .map_err(|error| unreachable(&provider, &endpoint.host(), &error))?;
            if !response.status().is_success() {
                return Err(refused(&provider, &endpoint, response).await);
            }
            let (head, body) = response.into_parts();
            let body = Limited::new(body, max_answer).collect().await.map_err(|error| {
                let message = format!(
                    "the answer to {} cannot be read, or has more than {max_answer} bytes: {error}",
                    endpoint.label
                );
                Failure::new(FailureKind::HttpConnectionFailed, provider.redact(&message))
            })?;
            Ok((head.headers, body.to_bytes()))
        };
        let answered = time::timeout(TIMEOUT, answered).await;
        answered.unwrap_or_else(|_| Err(silent(&endpoint, TIMEOUT)))
    }
}

fn check_transport(provider: &Provider) -> Result<(), Failure> {
    match provider.transport {
        Transport::Http => Ok(()),
        Transport::Offline => {
            let message =
                format!("model provider `{}` is offline; choose another provider", provider.id);
            Err(Failure::new(FailureKind::BadRequest, message))
        }
    }
}

fn silent(endpoint: &Endpoint, waited: Duration) -> Failure {
    let message = format!("{} has no answer after {} s", endpoint.label, waited.as_secs_f32());
    Failure::new(FailureKind::HttpConnectionFailed, message)
}

async fn failure(provider: &Provider, endpoint: &Endpoint, problem: NotUpgraded) -> Failure {
    match problem {
        NotUpgraded::Unreachable(failure) => failure,
        NotUpgraded::Silent(waited) => silent(endpoint, waited),
        NotUpgraded::NoWebSocket => {
            let message = format!(
                "{} did not switch to a WebSocket; check the `base_url` of model provider `{}`",
                endpoint.label, provider.id
            );
            Failure::new(FailureKind::HttpConnectionFailed, message)
        }
        NotUpgraded::Refused(response) if response.status().is_success() => {
            let message = format!(
                "{} answered {} in place of switching to a WebSocket; check the `base_url` of model \
                 provider `{}`, which may lack this API",
                endpoint.label,
                response.status(),
                provider.id
            );
            Failure::new(FailureKind::HttpConnectionFailed, message)
        }
        NotUpgraded::Refused(response) => {
            let read = time::timeout(TIMEOUT, refused(provider, endpoint, *response)).await;
            read.unwrap_or_else(|_| silent(endpoint, TIMEOUT))
        }
    }
}
