//! Streamable HTTP over this program's own client: its trusted roots and proxies, bounded answers, and
//! redirects only within the origin of the server, so that no credential reaches another host.

mod answers;
mod fields;
mod limit;
mod probing;
mod transport;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use http_client::{HttpClient, HttpVersions, Network, PoolOptions, TlsFiles};
use hyper::body::Incoming;
use hyper::header::LOCATION;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use url::Url;

use crate::error::{chain, quoted};
use crate::intake::Intake;
use crate::probe::FailedStart;
use answers::whole_body;

/// Redirects that are followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Longest answer of a login service.
const MAX_LOGIN_ANSWER: usize = 1 << 20;
const JSON: &str = "application/json";

const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(60),
    max_idle_per_host: 4,
    versions: HttpVersions::Any,
};

/// The client of all servers over HTTP. Built when the first one is reached.
#[derive(Clone)]
pub(crate) struct Http {
    shared: Arc<Shared>,
    /// Of the connection whose streams these are.
    intake: Intake,
    /// Present while the era of the server is not known.
    probe: Option<FailedStart>,
}

struct Shared {
    network: Network,
    client: OnceLock<Result<HttpClient, String>>,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct HttpError(String);

impl std::fmt::Display for HttpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HttpError {}

type Failure = StreamableHttpError<HttpError>;

impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        Self::Client(error)
    }
}

/// A request, which a redirect may repeat.
struct Outgoing {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl Http {
    pub(crate) fn new(network: Network) -> Self {
        let shared = Arc::new(Shared { network, client: OnceLock::new() });
        Self { shared, intake: Intake::default(), probe: None }
    }

    /// The client for one connection. With a `probe`, the connection begins with one for the era.
    pub(crate) fn of_connection(&self, intake: Intake, probe: Option<FailedStart>) -> Self {
        Self { shared: self.shared.clone(), intake, probe }
    }

    /// Builds the client, which reads certificates, before the first request would.
    pub(crate) async fn prepare(&self) {
        if self.shared.client.get().is_none() {
            let http = self.clone();
            // A panic shows at the first request.
            let _ = tokio::task::spawn_blocking(move || drop(http.client())).await;
        }
    }

    fn client(&self) -> Result<HttpClient, HttpError> {
        let shared = &self.shared;
        let build = || {
            let files = TlsFiles::default();
            shared.network.client(&files, &POOL).map_err(|error| error.to_string())
        };
        shared.client.get_or_init(build).clone().map_err(HttpError)
    }

    /// Sends a request of a login and reads its whole answer, without following a redirect.
    pub(crate) async fn plain(
        &self,
        method: Method,
        uri: hyper::Uri,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Failure> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        let origin = uri.authority().map_or_else(String::new, ToString::to_string);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let response = self.client()?.request(request).await.map_err(|error| {
            let advice = http_client::permanent_problem(&error).unwrap_or_default();
            HttpError(format!("{} cannot be reached: {}{advice}", quoted(&origin), chain(&error)))
        })?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = whole_body(response, MAX_LOGIN_ANSWER).await?;
        Ok((status, headers, body))
    }

    /// Sends a request and follows redirects within its origin.
    async fn send(&self, mut request: Outgoing) -> Result<Response<Incoming>, Failure> {
        let client = self.client()?;
        for _ in 0..=MAX_REDIRECTS {
            let mut sent = Request::new(Full::new(request.body.clone()));
            *sent.method_mut() = request.method.clone();
            *sent.uri_mut() = request.url.as_str().parse().map_err(|_| {
                HttpError(format!("`{}` is not a usable address", quoted(request.url.as_str())))
            })?;
            *sent.headers_mut() = request.headers.clone();
            let response = client.request(sent).await.map_err(|error| {
                let advice = http_client::permanent_problem(&error).unwrap_or_default();
                let origin = request.url.origin().ascii_serialization();
                HttpError(format!("{origin} cannot be reached: {}{advice}", chain(&error)))
            })?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            request.url = redirect(&request, &response)?;
        }
        Err(HttpError(format!("the server redirects more than {MAX_REDIRECTS} times")).into())
    }
}

/// Where a redirect leads.
fn redirect(request: &Outgoing, response: &Response<Incoming>) -> Result<Url, HttpError> {
    let status = response.status();
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let target = location.and_then(|location| request.url.join(location).ok());
    let Some(target) = target else {
        return Err(HttpError(format!(
            "the server redirects with HTTP {status}, but not where to"
        )));
    };
    let shown = quoted(target.as_str());
    if target.origin() != request.url.origin() {
        return Err(HttpError(format!(
            "the server redirects to `{shown}`, which is another origin and gets no request; set \
             `url` to that address if it is right"
        )));
    }
    let keeps_method =
        matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if request.method == Method::POST && !keeps_method {
        return Err(HttpError(format!(
            "the server redirects a POST to `{shown}` with HTTP {status}, which would lose its \
             content; set `url` to that address if it is right"
        )));
    }
    Ok(target)
}
