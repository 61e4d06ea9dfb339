//! Errors as clients see them: a status, headers, and the body
//! `{"error":{"message","type","param","code"}}`. Every error of the gateway becomes a response
//! here.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use serde::Serialize;

/// An error to answer with. Boxed: it is what seldom happens.
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
    /// A body of somebody else's making, which stands for all of it.
    #[serde(skip)]
    passed: Option<Bytes>,
}

impl ApiError {
    /// An error of that status; its type follows from it.
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
            passed: None,
        }))
    }

    /// An error of a model server that passes with its own JSON body.
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

    /// 400 `invalid_value` for a parameter.
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

    /// 503 `store_unavailable`: nothing is known about keys now.
    #[must_use]
    pub fn store_unavailable() -> Self {
        let message = "The gateway's store does not answer. Please try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// 503 `limits_unavailable`: the limits cannot be checked now.
    #[must_use]
    pub fn limits_unavailable() -> Self {
        let message = "The limits cannot be checked at the moment. Please try again in a second.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "limits_unavailable", message)
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The parameter that it is about.
    #[must_use]
    pub fn param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    /// Another type than the status implies.
    #[must_use]
    pub fn kind(mut self, r#type: &'static str) -> Self {
        self.0.r#type = r#type;
        self
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// More headers, such as those of the limits.
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

    /// A header that was added.
    #[must_use]
    pub fn find_header(&self, name: HeaderName) -> Option<&HeaderValue> {
        self.0.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The body alone.
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

    /// The whole answer.
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
