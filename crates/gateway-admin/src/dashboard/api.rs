//! The administration API as the dashboard uses it: each change and each list of the audit log is a
//! request to its router inside of this program, with the reader's authority. So a form can do what
//! the API can, with its validation, its refusals and its row in the audit log, and nothing else.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::MethodRouter;
use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::admin::authority::Authority;
use gateway_store::records::conditions::Conditions;

/// Largest response that is read, in bytes: a page of the audit log with long values.
const MOST: usize = 16 << 20;

/// The router of the API.
#[derive(Clone)]
pub(super) struct Api(MethodRouter);

/// A request to the API.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    /// Null: without a body.
    pub(super) body: Value,
}

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: Value::Null }
    }

    pub(super) fn post(path: String, body: Value) -> Self {
        Self { method: Method::POST, path, body }
    }

    pub(super) fn delete(path: String) -> Self {
        Self { method: Method::DELETE, path, body: Value::Null }
    }
}

/// A refusal by the API.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
    /// The parameter at fault.
    pub(super) param: Option<String>,
}

impl Api {
    pub(super) fn new(router: axum::Router) -> Self {
        Self(axum::routing::any_service(router))
    }

    /// Sends a request about an organization, and returns the JSON of its response.
    ///
    /// # Errors
    /// The API refuses it.
    pub(super) async fn call(
        &self,
        authority: Authority,
        organization: &str,
        call: Call,
        conditions: Conditions,
    ) -> Result<Value, Refusal> {
        let response = self.send(authority, organization, call, conditions).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), MOST).await.unwrap_or_default();
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() && !json.is_null() {
            return Ok(json);
        }
        let text = |name: &str| json["error"][name].as_str().map(ToOwned::to_owned);
        Err(Refusal {
            status: if status.is_success() { StatusCode::INTERNAL_SERVER_ERROR } else { status },
            code: text("code").unwrap_or_default(),
            message: text("message").unwrap_or_else(|| "The response cannot be read.".to_owned()),
            param: text("param"),
        })
    }

    /// The same for a response that is passed on as it is.
    pub(super) async fn send(
        &self,
        authority: Authority,
        organization: &str,
        call: Call,
        conditions: Conditions,
    ) -> Response {
        let body = if call.body.is_null() { Body::empty() } else { call.body.to_string().into() };
        let request = Request::builder().method(call.method).uri(call.path);
        let request = match organization {
            "" => request,
            id => request.header("openai-organization", id),
        };
        match request.body(body) {
            Ok(mut request) => {
                request.extensions_mut().insert(authority);
                request.extensions_mut().insert(conditions);
                Handler::call(self.0.clone(), request, ()).await
            }
            // The address had an id that no organization has.
            Err(_) => axum::response::IntoResponse::into_response(StatusCode::NOT_FOUND),
        }
    }
}
