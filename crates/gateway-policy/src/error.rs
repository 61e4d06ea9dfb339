//! Errors as clients see them: a status, headers, and the body
//! `{"error":{"message","type","param","code"}}`, with `resets_at` for a used-up spend limit. All errors of the gateway become responses here.
//! This is data of the wire; the error of this crate is [`crate::Error`].

mod gemini;
mod messages;

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use serde::Serialize;

/// An error response. Boxed, because errors are rare and results should stay small.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Parts>);

#[derive(Clone, Debug, Serialize)]
struct Parts {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    headers: Vec<(HeaderName, HeaderValue)>,
    message: Cow<'static, str>,
    r#type: &'static str,
    param: Option<Cow<'static, str>>,
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<i64>,
    /// A body from an upstream, which replaces the other fields.
    #[serde(skip)]
    passed: Option<Bytes>,
}

impl ApiError {
    /// Creates an error of that status, which determines its type.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let r#type = match status.as_u16() {
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        Self(Box::new(Parts {
            status,
            headers: Vec::new(),
            message: message.into(),
            r#type,
            param: None,
            code: Some(code),
            resets_at: None,
            passed: None,
        }))
    }

    /// An error of an upstream, passed on with its own JSON body.
    #[must_use]
    pub fn passed(status: StatusCode, body: Vec<u8>) -> Self {
        let message = "The model server answered with an error.";
        let mut error = Self::new(status, "upstream_error", message);
        error.0.passed = Some(body.into());
        error
    }

    /// 400.
    pub fn bad_request(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 400 `invalid_value`, for a parameter.
    pub fn invalid_value(
        param: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::bad_request("invalid_value", message).param(param)
    }

    /// 404.
    pub fn not_found(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// 401, with the challenge.
    pub fn unauthorized(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
            .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 503 `store_unavailable`: keys cannot be checked.
    #[must_use]
    pub fn store_unavailable() -> Self {
        let message = "The gateway's store does not answer. Please try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// 503 `limits_unavailable`: limits cannot be checked.
    #[must_use]
    pub fn limits_unavailable() -> Self {
        let message = "The limits cannot be checked at the moment. Please try again in a second.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "limits_unavailable", message)
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// Sets the parameter at fault.
    #[must_use]
    pub fn param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    /// Replaces the type that the status implies.
    #[must_use]
    pub fn kind(mut self, r#type: &'static str) -> Self {
        self.0.r#type = r#type;
        self
    }

    /// Sets when a used-up limit is available again, in seconds since the Unix epoch.
    #[must_use]
    pub fn resets_at(mut self, moment: i64) -> Self {
        self.0.resets_at = Some(moment);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// Adds headers, such as those of the limits.
    #[must_use]
    pub fn headers(mut self, headers: &HeaderMap) -> Self {
        let more = headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        self.0.headers.extend(more);
        self
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        self.0.code
    }

    /// The type.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        self.0.r#type
    }

    /// The value of an added header.
    #[must_use]
    pub fn find_header(&self, name: HeaderName) -> Option<&HeaderValue> {
        self.0.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The JSON body.
    #[must_use]
    pub fn body(&self) -> Bytes {
        if let Some(passed) = &self.0.passed {
            return passed.clone();
        }
        #[derive(Serialize)]
        struct Body<'a> {
            error: &'a Parts,
        }
        serde_json::to_vec(&Body { error: &self.0 }).unwrap_or_default().into()
    }

    /// Builds the response.
    pub fn into_response<B: From<Bytes>>(self) -> Response<B> {
        let mut response = Response::new(B::from(self.body()));
        *response.status_mut() = self.0.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.0.headers {
            headers.append(name, value);
        }
        response
    }
}

impl axum::response::IntoResponse for ApiError {
    fn into_response(self) -> axum::response::Response {
        self.into_response()
    }
}
