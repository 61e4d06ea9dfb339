//! Streamable HTTP over this program's own client: its trusted roots and proxies, bounded answers, and
//! redirects only within the origin of the server, so that no credential reaches another host.

mod limit;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt, Full};
use http_client::{HttpClient, Network, PoolOptions, TlsFiles};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::{Sse, SseStream};
use url::Url;

use crate::error::{chain, quoted};
use limit::EventLimit;

/// Redirects that are followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Longest text of an answer in a message.
const MAX_DIAGNOSTIC: usize = 4 << 10;
/// Longest answer of a login service.
const MAX_LOGIN_ANSWER: usize = 1 << 20;
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
/// Headers that the transport sets, which the configuration cannot.
const RESERVED: [&str; 3] = ["accept", SESSION_ID, LAST_EVENT_ID];

const POOL: PoolOptions = PoolOptions {
    connect_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(60),
    max_idle_per_host: 4,
    http2: true,
};

/// The client of all servers over HTTP. Built when the first one is reached.
#[derive(Clone)]
pub(crate) struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    network: Network,
    client: OnceLock<Result<HttpClient<Full<Bytes>>, String>>,
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
        Self { shared: Arc::new(Shared { network, client: OnceLock::new() }) }
    }

    /// Builds the client, which reads certificates, before the first request would.
    pub(crate) async fn prepare(&self) {
        if self.shared.client.get().is_none() {
            let http = self.clone();
            // A panic shows at the first request.
            let _ = tokio::task::spawn_blocking(move || drop(http.client())).await;
        }
    }

    fn client(&self) -> Result<HttpClient<Full<Bytes>>, HttpError> {
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

fn outgoing(
    method: Method,
    url: &str,
    session: Option<&str>,
    token: Option<&str>,
    custom: HashMap<HeaderName, HeaderValue>,
) -> Result<Outgoing, Failure> {
    let url = Url::parse(url).map_err(|error| {
        HttpError(format!("`{}` is not a usable address: {error}", quoted(url)))
    })?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(BOTH));
    for (name, value) in custom {
        if RESERVED.contains(&name.as_str()) {
            return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
        }
        headers.insert(name, value);
    }
    if let Some(session) = session {
        headers.insert(HeaderName::from_static(SESSION_ID), header("session id", session)?);
    }
    if let Some(token) = token {
        let mut value = header("token", &format!("Bearer {token}"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(Outgoing { method, url, headers, body: Bytes::new() })
}

fn header(what: &str, value: &str) -> Result<HeaderValue, HttpError> {
    let unusable = |_| HttpError(format!("the {what} has characters that no header can contain"));
    HeaderValue::from_str(value).map_err(unusable)
}

impl StreamableHttpClient for Http {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (session, token) = (session_id.as_deref(), auth_header.as_deref());
        let mut request = outgoing(Method::POST, &uri, session, token, custom_headers)?;
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        request.body = serde_json::to_vec(&message)?.into();
        let response = self.send(request).await?;
        check_authorization(&response)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return refused(response, &message, session.is_some(), &limits).await;
        }
        let awaits_answer = matches!(message, JsonRpcMessage::Request(_));
        let new_session = text_header(&response, SESSION_ID);
        match media_type(&response).as_deref() {
            Some(EVENTS) => {
                let events = events(response, limits.max_sse_event_size);
                Ok(StreamableHttpPostResponse::Sse(events, new_session))
            }
            Some(JSON) => {
                let body = whole_body(response, limits.max_json_response_size).await?;
                match serde_json::from_slice(&body) {
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
                    Err(_) if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
                    Err(error) => Err(unexpected(format!(
                        "the answer is no message: {error}: {}",
                        excerpt(&body)
                    ))),
                }
            }
            _ if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
            other => Err(StreamableHttpError::UnexpectedContentType(other.map(quoted))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let (session, token) = (Some(&*session_id), auth_header.as_deref());
        let request = outgoing(Method::DELETE, &uri, session, token, custom_headers)?;
        let response = self.send(request).await?;
        check_authorization(&response)?;
        let status = response.status();
        // A server need not let clients end their sessions.
        if status.is_success() || status == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        Err(unexpected(format!("HTTP {status}")))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let limit = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            limit,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let (session, token) = (session_id.as_deref(), auth_header.as_deref());
        let mut request = outgoing(Method::GET, &uri, session, token, custom_headers)?;
        if let Some(last) = &last_event_id {
            let value = header("event id", last)?;
            request.headers.insert(HeaderName::from_static(LAST_EVENT_ID), value);
        }
        let response = self.send(request).await?;
        check_authorization(&response)?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if let Some(error) = status_error(&response) {
            return Err(error.into());
        }
        if !status.is_success() {
            return Err(unexpected(format!("HTTP {status}")));
        }
        match media_type(&response).as_deref() {
            Some(EVENTS) => Ok(events(response, max_sse_event_size)),
            other => Err(StreamableHttpError::UnexpectedContentType(other.map(quoted))),
        }
    }
}

/// A login or a wider scope that the server demands.
fn check_authorization(response: &Response<Incoming>) -> Result<(), Failure> {
    let Some(challenge) = text_header(response, WWW_AUTHENTICATE.as_str()) else { return Ok(()) };
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => {
            let scope = scope(&challenge);
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(
                challenge, scope,
            )))
        }
        _ => Ok(()),
    }
}

/// The `scope` of a challenge.
fn scope(challenge: &str) -> Option<String> {
    let at = challenge.to_ascii_lowercase().find("scope=")? + "scope=".len();
    let rest = challenge.get(at..)?;
    let scope = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ';', ' ']).next()?,
    };
    (!scope.is_empty()).then(|| scope.to_owned())
}

/// An answer that is no success: an error of the protocol, the rejection of a probe for the era, or a
/// failure.
async fn refused(
    response: Response<Incoming>,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    limits: &StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let failure = status_error(&response);
    let is_json = media_type(&response).as_deref() == Some(JSON);
    let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let body = if is_json && !is_login && status != StatusCode::TOO_MANY_REQUESTS {
        whole_body(response, limits.max_json_response_size).await?
    } else {
        start_of_body(response).await
    };
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) if is_json && !is_login => Some(error),
        _ => None,
    };
    // A server of the earlier era refuses the probe in its own way, often without the id.
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::DiscoverRequest(_) = &request.request
        && status.is_client_error()
        && !is_login
        && !in_session
    {
        let error = error.map_or_else(
            || ErrorData::invalid_request(format!("HTTP {status}: {}", excerpt(&body)), None),
            |error| error.error,
        );
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match (error, failure) {
        (Some(error), _) => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None))
        }
        (None, Some(failure)) => Err(failure.into()),
        (None, None) => Err(unexpected(format!("HTTP {status}: {}", excerpt(&body)))),
    }
}

/// A failure of the server itself, or a request to come later.
fn status_error(response: &Response<Incoming>) -> Option<HttpStatusError> {
    let status = response.status();
    let is_failure = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    is_failure
        .then(|| HttpStatusError::new(status.as_u16(), text_header(response, RETRY_AFTER.as_str())))
}

fn text_header(response: &Response<Incoming>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// The type of an answer in lower case, without its parameters.
fn media_type(response: &Response<Incoming>) -> Option<String> {
    let value = text_header(response, CONTENT_TYPE.as_str())?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

fn events(
    response: Response<Incoming>,
    max_event: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let body = EventLimit::new(response.into_body().into_data_stream(), max_event);
    SseStream::from_bytes_stream(body).boxed()
}

async fn whole_body(response: Response<Incoming>, max: usize) -> Result<Vec<u8>, Failure> {
    let too_large = || StreamableHttpError::ResponseBodyTooLarge { max_size: max };
    let length = text_header(&response, CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok());
    if length.is_some_and(|length: usize| length > max) {
        return Err(too_large());
    }
    let mut stream = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| HttpError(format!("the answer broke off: {error}")))?;
        if body.len() + chunk.len() > max {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Enough of a body for a message; the rest is not read.
async fn start_of_body(response: Response<Incoming>) -> Vec<u8> {
    let mut stream = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        let room = MAX_DIAGNOSTIC - body.len();
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if body.len() >= MAX_DIAGNOSTIC {
            break;
        }
    }
    body
}

fn excerpt(body: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(body.get(..MAX_DIAGNOSTIC).unwrap_or(body)))
}

fn unexpected(text: String) -> Failure {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_of_a_challenge() {
        let check = |challenge: &str, expect: Option<&str>| {
            assert_eq!(scope(challenge).as_deref(), expect, "{challenge}");
        };
        check("Bearer", None);
        check("Bearer error=\"x\", scope=\"a b\"", Some("a b"));
        check("Bearer Scope=a, realm=x", Some("a"));
        check("Bearer scope=\"\"", None);
    }
}
