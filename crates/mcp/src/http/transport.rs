//! The transport of the protocol over [`Http`]: its requests, with their session and token.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use url::Url;

use crate::encode::encoded;
use crate::error::quoted;
use crate::http::answers::{
    check_authorization, events, excerpt, media_type, refused, status_error, text_header,
    unexpected, whole_body,
};
use crate::http::{Failure, Http, HttpError, JSON, Outgoing, probing};
use crate::probe;
use crate::results;

const EVENTS: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
/// Headers that the transport sets, which the configuration cannot.
const RESERVED: [&str; 3] = ["accept", SESSION_ID, LAST_EVENT_ID];

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
        let probe = self.probe.as_ref().filter(|_| session_id.is_none());
        let probed = probe.and_then(|probe| Some((probe, probe::request_id(&message)?)));
        let posted = self.post(uri, message, session_id, auth_header, custom_headers, limits);
        match probed {
            Some((failed, id)) => probing::bounded(posted, id, failed).await,
            None => posted.await,
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
            Some(EVENTS) => Ok(events(response, max_sse_event_size, self.intake.clone(), None)),
            other => Err(StreamableHttpError::UnexpectedContentType(other.map(quoted))),
        }
    }
}

impl Http {
    async fn post(
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
        request.body = encoded(&message)?.into();
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
                let max = limits.max_sse_event_size;
                let request = match &message {
                    JsonRpcMessage::Request(request) => Some(request.id.clone()),
                    _ => None,
                };
                let events = events(response, max, self.intake.clone(), request);
                Ok(StreamableHttpPostResponse::Sse(events, new_session))
            }
            Some(JSON) => {
                let body = whole_body(response, limits.max_json_response_size).await?;
                let body = results::mended(&body).unwrap_or(body);
                match serde_json::from_slice(&body) {
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
                    Err(_) if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
                    Err(error) => Err(unexpected(format!(
                        "the answer is not a message: {error}: {}",
                        excerpt(&body)
                    ))),
                }
            }
            _ if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
            other => Err(StreamableHttpError::UnexpectedContentType(other.map(quoted))),
        }
    }
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
