//! One request: routing, the parts that all responses share, and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request;
use hyper::{HeaderMap, Request, Response, StatusCode};
use ratelimit::{Micros, RequestId, SteadyTime};

use super::authenticate;
use super::pages::Pages;
use crate::account::{Traced, request_id};
use crate::answer::AnswerBody;
use crate::api::{self, Exchange};
use crate::metrics::Answered;
use crate::metrics_page;
use crate::router::{self, Api, Page, Route};
use crate::state::Gateway;
use crate::traces;
use gateway_admin::Surface;
use gateway_policy::error::ApiError;
use gateway_policy::headers::LimitHeaders;
use gateway_store::database::Statement;
use wire::Wire;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same of Messages.
const MESSAGE_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const ORGANIZATION: HeaderName = HeaderName::from_static("openai-organization");
const PROCESSING: HeaderName = HeaderName::from_static("openai-processing-ms");

/// Answers any request.
pub(super) async fn answer(
    gateway: Arc<Gateway>,
    pages: Pages,
    request: Request<Incoming>,
    slot: u32,
) -> Response<AnswerBody> {
    let path = request.uri().path().to_owned();
    let mut segments = Vec::new();
    match router::find((request.method(), request.headers()), &path, &mut segments) {
        Ok(Route::Health) => text(StatusCode::OK, "ok\n"),
        Ok(Route::Ready) => ready(&gateway).await,
        Ok(Route::Metrics) => {
            metrics(&gateway, request.headers(), &pages).unwrap_or_else(ApiError::into_response)
        }
        Ok(Route::Dashboard) => pages.answer(request).await,
        route => answer_api(gateway, pages, request, route, slot).await,
    }
}

async fn answer_api(
    gateway: Arc<Gateway>,
    pages: Pages,
    request: Request<Incoming>,
    route: Result<Route<'_>, ApiError>,
    slot: u32,
) -> Response<AnswerBody> {
    let (now, began) = (gateway.clock.now(), gateway.clock.steady());
    let method = request.method().clone();
    let path = tracing::enabled!(tracing::Level::DEBUG).then(|| request.uri().path().to_owned());
    let number = gateway.ids.next();
    let mut seen = Seen::default();
    let (head, body) = request.into_parts();
    let wire = router::wire_of_request(&head);
    let request = Request::from_parts(head, body);
    let answered =
        dispatch(&gateway, pages, request, route, (number, (now, began), slot), &mut seen);
    let answered = Box::pin(answered).await;
    let mut response = answered.unwrap_or_else(|error| match wire {
        Wire::Messages => error.for_messages(&request_id(number)).into_response(),
        Wire::Gemini => error.for_gemini().into_response(),
        Wire::Responses | Wire::Chat => error.into_response(),
    });
    let headers = response.headers_mut();
    headers.extend(std::mem::take(&mut seen.headers));
    headers.insert(REQUEST_ID, text_value(&request_id(number)));
    let took = gateway.clock.steady().since(began);
    match wire {
        Wire::Messages => {
            seen.shown.put_for_messages(headers, now);
            headers.insert(MESSAGE_REQUEST_ID, text_value(&request_id(number)));
        }
        // Its own API has no headers for these; clients of it may read those of others.
        Wire::Gemini => seen.shown.put(headers),
        Wire::Responses | Wire::Chat => {
            seen.shown.put(headers);
            if let Some(organization) = &seen.organization {
                headers.insert(ORGANIZATION, text_value(organization));
            }
            headers.insert(PROCESSING, HeaderValue::from(took / 1000));
        }
    }
    let status = response.status().as_u16();
    if let Some(traced) = seen.trace {
        gateway.traces.record(traced.without_usage(status, gateway.clock.steady()));
    }
    tracing::debug!(request = %request_id(number), %method, path, status, micros = took, "answered");
    match response.body_mut() {
        AnswerBody::Forwarded(answer) => answer.count_at_end(seen.model, &gateway.metrics),
        _ => {
            let label = Answered { model: seen.model, status };
            gateway.metrics.requests.get_or_create(&label).inc();
        }
    }
    response
}

/// The facts about a request after its response.
#[derive(Default)]
struct Seen {
    organization: Option<Box<str>>,
    model: String,
    headers: HeaderMap,
    shown: LimitHeaders,
    /// Its span, unless an account has it.
    trace: Option<Traced>,
}

async fn dispatch(
    gateway: &Arc<Gateway>,
    pages: Pages,
    request: Request<Incoming>,
    route: Result<Route<'_>, ApiError>,
    (number, (now, began), slot): (RequestId, (Micros, SteadyTime), u32),
    seen: &mut Seen,
) -> api::Answered {
    let Route::Api(api) = route? else { return Ok(pages.answer(request).await) };
    let settings = gateway.settings.load_full();
    let (head, body) = request.into_parts();
    let caller = authenticate::caller(gateway, &head).await.inspect_err(|error| {
        if error.status() == StatusCode::UNAUTHORIZED {
            let reason = authenticate::reason(&head, error);
            gateway.sign_ins.failed(Surface::Api, reason, pages.client(), began);
        }
    })?;
    // Without this header the upstream would take it for a usual request. An offer of another version of HTTP
    // (`h2c`), which some clients make with each request, is one.
    if asks_for_websocket(&head.headers) {
        let message = "This gateway does not pass on WebSockets. Please send the request without an Upgrade header; \
                       answers are streamed with `stream`.";
        let status = StatusCode::NOT_IMPLEMENTED;
        return Err(ApiError::new(status, "upgrade_not_supported", message));
    }
    seen.organization = Some(caller.organization.id.clone());
    let region = authenticate::region(&settings, &head);
    authenticate::check_region(&caller, region.as_deref())?;
    let mut exchange = Exchange {
        gateway: Arc::clone(gateway),
        settings,
        caller,
        request: number,
        slot,
        address: pages.client(),
        now,
        began,
        region,
        model: None,
        trace: traced(gateway, &head, (now, began)),
        headers: HeaderMap::new(),
        shown: LimitHeaders::default(),
        batch: false,
    };
    let answered = handle(&mut exchange, api, Request::from_parts(head, body)).await;
    seen.headers = exchange.headers;
    seen.shown = exchange.shown;
    seen.trace = exchange.trace;
    if let Some(model) = &exchange.model {
        seen.model = model.name.to_string();
    }
    answered
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::UPGRADE).iter().filter_map(|value| value.to_str().ok());
    let mut protocols = values.flat_map(|value| value.split(',').map(str::trim));
    protocols.any(|protocol| protocol.eq_ignore_ascii_case("websocket"))
}

/// Calls the handler of a route.
async fn handle(
    exchange: &mut Exchange,
    route: Api<'_>,
    request: Request<Incoming>,
) -> api::Answered {
    match route {
        Api::Generate(generation) => {
            api::generate::answer(exchange, generation, None, request).await
        }
        Api::Gemini(generation, named) => {
            api::generate::answer(exchange, generation, Some(named), request).await
        }
        Api::Page(Page::Models) => Ok(api::models::list(exchange)),
        Api::Page(Page::GeminiModels) => Ok(api::models::list_for_gemini(exchange)),
        Api::Page(Page::MessagesModels) => Ok(api::models::list_for_messages(exchange)),
        Api::MessagesModel(name) => api::models::get_for_messages(exchange, name).await,
        Api::GeminiModel(name) => api::models::get_for_gemini(exchange, name).await,
        Api::Page(Page::FineTuningLimits) => Ok(api::models::fine_tuning_limits(exchange)),
        Api::Model(name) => api::models::get(exchange, name).await,
        Api::WrongMethod(allowed) => Err(api::refused::method(request.method(), allowed)),
        Api::Retired => Err(api::refused::retired(request.uri().path())),
        Api::Files(rest) => api::files::answer(exchange, rest, request).await,
        Api::Batches(rest) => api::batches::answer(exchange, rest, request).await,
        Api::Response(id) => api::kept::answer(exchange, id, request).await,
        Api::Ingest(_)
        | Api::Remix
        | Api::PassThrough
        | Api::Unlisted
        | Api::Minting
        | Api::MessageBatches => api::forward::answer(exchange, route, request).await,
    }
}

/// The trace of a request, if there is a collector. Its name omits ids.
fn traced(
    gateway: &Gateway,
    head: &request::Parts,
    (received, began): (Micros, SteadyTime),
) -> Option<Traced> {
    gateway.settings.load().otlp_endpoint.as_ref()?;
    let context = traces::TraceContext::of_request(&head.headers, &*gateway.random)?;
    let words = head.uri.path().split('/').take(4).map(|word| {
        match word.bytes().any(|b| b.is_ascii_digit()) {
            true if word != "v1" => "{id}",
            _ => word,
        }
    });
    let path = words.collect::<Vec<_>>().join("/");
    Some(Traced { context, name: format!("{} {path}", head.method), received, began })
}

async fn ready(gateway: &Gateway) -> Response<AnswerBody> {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    if gateway.is_draining.load(Ordering::Relaxed) {
        return text(unavailable, "this node is stopping\n");
    }
    let problem = gateway.limits.problem();
    let problem = problem.as_ref().map(ratelimit::Error::summary);
    if !gateway.limits.is_available() {
        let problem = problem.unwrap_or("the store of the limits does not answer");
        return text(unavailable, format!("{problem}\n"));
    }
    match gateway.database.query(Statement::new("SELECT 1", [])).await {
        Ok(_) => match problem {
            // It still decides: taking all nodes out of service would be worse.
            Some(problem) => text(StatusCode::OK, format!("ready, but {problem}\n")),
            None => text(StatusCode::OK, "ready\n"),
        },
        Err(_) => text(unavailable, "the store does not answer\n"),
    }
}

fn metrics(
    gateway: &Gateway,
    headers: &HeaderMap,
    pages: &Pages,
) -> Result<Response<AnswerBody>, ApiError> {
    match gateway.metrics_address {
        None => metrics_page::answer(gateway, headers, pages.client()),
        Some(_) => {
            let message = "The metrics are served on the address of [metrics] listen.";
            Err(ApiError::not_found("not_found", message))
        }
    }
}

fn text(status: StatusCode, text: impl Into<bytes::Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(text.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn text_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
