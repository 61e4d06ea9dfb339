//! One request: where it goes, what every answer has, and what is counted.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use super::answer::AnswerBody;
use super::route::{self, Route};
use super::{authenticate, connections::Pages};
use crate::account::{Traced, request_id};
use crate::api::{self, Exchange};
use crate::metrics::Answered;
use crate::state::Gateway;
use crate::traces;
use gateway_policy::error::ApiError;
use gateway_policy::headers::Shown;
use gateway_store::database::Statement;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROCESSING: HeaderName = HeaderName::from_static("openai-processing-ms");

/// Answers a request, whatever it is.
pub(super) async fn answer(
    gateway: Arc<Gateway>,
    pages: Pages,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let path = request.uri().path();
    let route = match (request.method(), path) {
        (&Method::GET | &Method::HEAD, "/healthz") => Route::Health,
        (&Method::GET | &Method::HEAD, "/readyz") => Route::Ready,
        (&Method::GET | &Method::HEAD, "/metrics") => Route::Metrics,
        (_, "/dashboard") => Route::Dashboard,
        _ if path.starts_with("/dashboard/") => Route::Dashboard,
        _ => return answer_v1(gateway, pages, request).await,
    };
    match route {
        Route::Health => text(StatusCode::OK, "ok\n"),
        Route::Ready => ready(&gateway).await,
        Route::Metrics => metrics(&gateway),
        _ => pages.answer(request).await,
    }
}

async fn answer_v1(
    gateway: Arc<Gateway>,
    pages: Pages,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let began = gateway.clock.now();
    let number = gateway.ids.next();
    let mut seen = Seen::default();
    let answered = Box::pin(dispatch(&gateway, pages, request, number, began, &mut seen)).await;
    let mut response = answered.unwrap_or_else(ApiError::into_response);
    let headers = response.headers_mut();
    seen.shown.put(headers);
    headers.extend(std::mem::take(&mut seen.headers));
    headers.insert(REQUEST_ID, text_value(&request_id(number)));
    if let Some(organization) = &seen.organization {
        headers.insert(ORGANIZATION, text_value(organization));
    }
    let took = gateway.clock.now().saturating_sub(began);
    headers.insert(PROCESSING, HeaderValue::from(took / 1000));
    let status = response.status().as_u16();
    if let Some(traced) = seen.trace {
        gateway.traces.record(traced.refused(status, gateway.clock.now()));
    }
    gateway.metrics.requests.get_or_create(&Answered { model: seen.model, status }).inc();
    response
}

/// What is known of a request when it has been answered.
#[derive(Default)]
struct Seen {
    organization: Option<Box<str>>,
    model: String,
    headers: HeaderMap,
    shown: Shown,
    /// Its part of a trace, unless an account has it.
    trace: Option<Traced>,
}

async fn dispatch(
    gateway: &Arc<Gateway>,
    pages: Pages,
    request: Request<Incoming>,
    number: ratelimit::RequestId,
    now: ratelimit::Micros,
    seen: &mut Seen,
) -> api::Answered {
    let path = request.uri().path().to_owned();
    if !path.starts_with("/v1/") {
        let message = format!("There is nothing at {} {path}.", request.method());
        return Err(ApiError::not_found("not_found", message));
    }
    let segments = route::segments(&path)?;
    let Route::Api(api) = route::api(request.method(), &segments) else {
        return Ok(pages.answer(request).await);
    };
    let settings = gateway.settings.load_full();
    let (head, body) = request.into_parts();
    let caller = authenticate::caller(gateway, &head.headers).await?;
    seen.organization = Some(caller.organization.id.clone());
    let region = authenticate::region(&settings, &head);
    authenticate::check_region(&caller, region.as_deref())?;
    let mut exchange = Exchange {
        gateway: Arc::clone(gateway),
        settings,
        caller,
        request: number,
        now,
        region,
        model: None,
        trace: traced(gateway, &head, &path, now),
        headers: HeaderMap::new(),
        shown: Shown::default(),
        batch: false,
    };
    let answered = api::answer(&mut exchange, api, Request::from_parts(head, body)).await;
    seen.headers = exchange.headers;
    seen.shown = exchange.shown;
    seen.trace = exchange.trace;
    if let Some(model) = &exchange.model {
        seen.model = model.name.to_string();
    }
    answered
}

/// Its part of a trace, if there is a collector for it. Ids of things are no part of the name.
fn traced(
    gateway: &Gateway,
    head: &request::Parts,
    path: &str,
    began: ratelimit::Micros,
) -> Option<Traced> {
    gateway.settings.load().otlp_endpoint.as_ref()?;
    let place = traces::Place::of(&head.headers, &*gateway.random)?;
    let words =
        path.split('/').take(4).map(|word| match word.bytes().any(|b| b.is_ascii_digit()) {
            true if word != "v1" => "{id}",
            _ => word,
        });
    let path = words.collect::<Vec<_>>().join("/");
    Some(Traced { place, name: format!("{} {path}", head.method), began })
}

async fn ready(gateway: &Gateway) -> Response<AnswerBody> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if !gateway.limits.is_available() {
        return text(unavailable, "the store of the limits does not answer\n");
    }
    match gateway.database.query(Statement::new("SELECT 1", [])).await {
        Ok(_) => text(StatusCode::OK, "ready\n"),
        Err(_) => text(unavailable, "the store does not answer\n"),
    }
}

fn metrics(gateway: &Gateway) -> Response<AnswerBody> {
    let page = gateway.metrics.page(gateway);
    let mut response = Response::new(AnswerBody::from(bytes::Bytes::from(page)));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn text(status: StatusCode, text: &'static str) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(bytes::Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn text_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
