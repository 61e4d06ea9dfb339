//! Forwards requests to upstreams: one pooled client, the headers and bodies in both directions,
//! and errors. It knows neither limits nor clients.

mod answer_body;
mod body;
mod failure;
mod headers;
mod redactor;

use std::borrow::Cow;
use std::time::Duration;

use http_body_util::BodyExt;
use http_client::{BodyError, HttpClient, HttpVersions, PoolOptions, TlsError};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use tokio::time::Instant;

use answer_body::AnswerError;
pub(crate) use answer_body::UpstreamBody;
pub(crate) use body::OutBody;
pub(crate) use failure::{Failure, SecretMask, too_large, too_slow};
pub(crate) use headers::{
    for_client, for_cloud, for_other_wire, for_upstream, waits, without_google,
};
pub(crate) use redactor::Redactor;

use gateway_policy::settings::{Base, KeyHeader};

const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(60),
    // Idle connections per upstream.
    max_idle_per_host: 4096,
    versions: HttpVersions::Http1,
};

/// A request to forward.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    /// The base of the backend in the region of the request.
    pub(crate) base: &'a Base,
    /// Our key.
    pub(crate) key: OutKey<'a>,
    /// The method.
    pub(crate) method: Method,
    /// The client's path and query, `/v1/…` or `/v1beta/…`.
    pub(crate) path: &'a str,
    /// The client's headers, filtered by [`for_upstream`].
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: OutBody,
}

/// The key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutKey<'a> {
    /// None, or one in a header.
    Text(Option<&'a str>, KeyHeader),
    /// That of an account of a cloud.
    OfCloud(&'a cloud::Key),
}

/// The options of a client for upstreams.
#[must_use]
pub(crate) fn pool(connect_timeout: Duration) -> PoolOptions {
    PoolOptions { connect_timeout, ..POOL }
}

/// Sends a request, and waits for the response's head and for the first piece of its body, so
/// that an earlier failure can still be reported to the client. The piece is `None` for a
/// response without a body.
///
/// # Errors
/// No connection is available, or it ends or stays silent before that.
pub(crate) async fn send(
    http: &HttpClient,
    outgoing: Outgoing<'_>,
    patience: Duration,
) -> Result<(Response<UpstreamBody>, Option<bytes::Bytes>), Failure> {
    let request = request(outgoing)?;
    let answered = async {
        let response =
            http.request(request).await.map_err(|error| Failure::from_http_error(&error))?;
        let decoded =
            http_client::decoded(response).map_err(|error| Failure::Coding(error.to_string()))?;
        let mut response = answer_body::answered(decoded);
        let first = loop {
            match response.body_mut().frame().await {
                None => break None,
                Some(Err(error @ AnswerError::Body(BodyError::Coding(_)))) => {
                    return Err(Failure::Coding(error.to_string()));
                }
                Some(Err(error)) => return Err(Failure::Cut(error.to_string())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => break Some(data),
                    _ => {}
                },
            }
        };
        Ok((response, first))
    };
    tokio::time::timeout(patience, answered).await.unwrap_or(Err(Failure::Silent))
}

/// The client for servers that are no upstreams.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: HttpClient,
}

/// Why a server did not accept posted JSON.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// The URL is invalid.
    #[error("the request cannot be sent: {0}")]
    Invalid(hyper::http::Error),
    /// There was no response.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The response is an error.
    #[error("it answered {0}")]
    Refused(StatusCode),
}

impl From<hyper::http::Error> for PostError {
    fn from(error: hyper::http::Error) -> Self {
        Self::Invalid(error)
    }
}

impl Client {
    /// Creates a client, which connects at the first request.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn new() -> Result<Self, TlsError> {
        let http = http_client::http_client(http_client::tls_config(None)?, &POOL);
        Ok(Self { http })
    }

    /// Posts JSON to a server that is not an upstream: a collector of traces, or a webhook. Redirections
    /// are not followed.
    ///
    /// # Errors
    /// The server does not accept it.
    pub(crate) async fn post_json(
        &self,
        url: &str,
        headers: HeaderMap,
        body: bytes::Bytes,
        patience: Duration,
    ) -> Result<(), PostError> {
        let json = HeaderValue::from_static("application/json");
        let mut request =
            Request::post(url).header(header::CONTENT_TYPE, json).body(OutBody::whole(body))?;
        request.headers_mut().extend(headers);
        let until = Instant::now() + patience;
        let answer = tokio::time::timeout_at(until, self.http.request(request)).await;
        let answer = answer.map_err(|_| Failure::Silent)?;
        let answer = answer.map_err(|error| Failure::from_http_error(&error))?;
        let status = answer.status();
        // Read to the end, so that the connection can be reused; the content does not matter.
        let rest = http_body_util::Limited::new(answer.into_body(), 64 << 10).collect();
        let _ = tokio::time::timeout_at(until, rest).await;
        if status.is_success() { Ok(()) } else { Err(PostError::Refused(status)) }
    }
}

fn request(outgoing: Outgoing<'_>) -> Result<Request<OutBody>, Failure> {
    let Outgoing { base, key, method, path, headers, body } = outgoing;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri(base, path).map_err(|error| Failure::Unsendable(error.to_string()))?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(header::HOST, base.host.clone());
    // The gateway reads the usage in the response. Without this header the upstream may choose a coding.
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(header::ACCEPT_ENCODING, identity);
    match key {
        OutKey::Text(None, _) => {}
        OutKey::Text(Some(key), header) => add_key(&mut request, key, header)?,
        OutKey::OfCloud(cloud::Key::Bearer(token)) => {
            add_key(&mut request, token.expose(), KeyHeader::Authorization)?;
        }
        OutKey::OfCloud(cloud::Key::Signed(signer)) => sign(&mut request, signer)?,
    }
    Ok(request)
}

fn add_key(
    request: &mut Request<OutBody>,
    key: &str,
    key_header: KeyHeader,
) -> Result<(), Failure> {
    let (name, text) = match key_header {
        KeyHeader::Authorization => (header::AUTHORIZATION, Cow::Owned(format!("Bearer {key}"))),
        KeyHeader::XApiKey => (HeaderName::from_static("x-api-key"), Cow::Borrowed(key)),
        KeyHeader::ApiKey => (HeaderName::from_static("api-key"), Cow::Borrowed(key)),
        KeyHeader::XGoogApiKey => (HeaderName::from_static("x-goog-api-key"), Cow::Borrowed(key)),
    };
    let value = HeaderValue::from_str(&text);
    let mut value = value.map_err(|error| Failure::Unsendable(error.to_string()))?;
    value.set_sensitive(true);
    request.headers_mut().insert(name, value);
    Ok(())
}

/// Signs a request with its body, all of which is in memory.
fn sign(request: &mut Request<OutBody>, signer: &cloud::AwsSigner) -> Result<(), Failure> {
    let Some(body) = request.body().bytes() else {
        return Err(Failure::Unsignable);
    };
    cloud::sign(signer, request, &body).map_err(|error| Failure::Unsendable(error.message))
}

/// `/v1/chat/completions?x` at `https://host/api/v1` is `https://host/api/v1/chat/completions?x`.
fn uri(base: &Base, path: &str) -> Result<Uri, hyper::http::Error> {
    let path = headers::path_for_upstream(path);
    let (is_beta, rest) = match path.strip_prefix("/v1beta/") {
        Some(_) => (true, &path["/v1beta".len()..]),
        None => (false, path.strip_prefix("/v1").unwrap_or(&path)),
    };
    let path: PathAndQuery = match &*base.path {
        "/v1" if !is_beta => path.parse()?,
        prefix => format!("{prefix}{rest}").parse()?,
    };
    let mut parts = base.origin.clone().into_parts();
    parts.path_and_query = Some(path);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn posting_ends_at_the_latest_after_its_patience() {
        let client = Client::new().unwrap();
        for (answer, is_accepted) in [
            ("", false),
            ("HTTP/1.1 2", false),
            ("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", false),
            ("HTTP/1.1 307 Elsewhere\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n", false),
            ("HTTP/1.1 204 Yes\r\n\r\n", true),
            // The rest never comes.
            ("HTTP/1.1 200 Yes\r\ncontent-length: 100\r\n\r\nabc", true),
            ("HTTP/1.1 200 Yes\r\ntransfer-encoding: chunked\r\n\r\n", true),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/hook", listener.local_addr().unwrap());
            let serving = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut received = [0; 4096];
                let _ = stream.read(&mut received).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            });
            let patience = Duration::from_secs(1);
            let began = Instant::now();
            let posted = client.post_json(&url, HeaderMap::new(), "{}".into(), patience).await;
            assert_eq!(posted.is_ok(), is_accepted, "{answer}: {posted:?}");
            assert!(began.elapsed() < Duration::from_secs(5), "{answer}");
            serving.abort();
        }
    }
}
