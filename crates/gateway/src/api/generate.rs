//! Requests to a model: responses, chats, embeddings, images, audio, moderations. The gateway reads
//! the body, reserves the demand, forwards it with the few edits that the contract requires, and
//! reads the usage while the response passes through.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::http::request;
use hyper::{HeaderMap, Method, Request, Response};
use serde_json::json;

use super::kept::{self, Continued};
use super::models;
use super::out_request::{
    OutRequest, asks_for_usage, check_state, is_served, may_mark_cache, served_elsewhere,
    wire_of_sealed,
};
use super::relay::{self, Relayed, Whole};
use super::request_body::RequestBody;
use super::{Answered, Exchange, ResolvedModel};
use crate::account::ComesLater;
use crate::answer::{AnswerBody, Watch};
use crate::backends::{Preference, Query};
use crate::bill::End;
use crate::dispatch::{Content, Forward, Repeat};
use crate::intake;
use crate::keeper::Keeper;
use crate::later_kind::LaterKind;
use crate::object_owners::ObjectKind;
use crate::router::{Generation, InPath};
use crate::same_wire::{OwnEnd, wire_of};
use crate::translation::note_sealed;
use crate::upstream;
use gateway_body::{Calls, EventFilter, Kind, Member};
use gateway_policy::backends::sticky_key;
use gateway_policy::error::ApiError;
use gateway_policy::model_access;
use gateway_policy::plan::Demand;
use gateway_policy::price::{Asked, Quantities, Sells};
use gateway_policy::settings::{Backend, Upstream};
use gateway_store::records::responses::ObjectOwner;

/// Handles a request to a model.
pub(crate) async fn answer(
    exchange: &mut Exchange,
    generation: Generation,
    named: Option<InPath<'_>>,
    request: Request<Incoming>,
) -> Answered {
    let (head, mut incoming) = request.into_parts();
    check_stream(named, head.uri.query())?;
    let server = exchange.settings.server;
    let (most, patience) = (server.max_body_bytes, server.body_timeout);
    let taken =
        intake::read_whole(&mut incoming, most, patience, exchange.body_reservation()).await?;
    let body = taken.bytes.clone();
    let mut asked = match RequestBody::read(&body, generation, &head.headers) {
        Ok(asked) => asked,
        Err((error, model)) => return Err(shown(exchange, error, model.as_deref()).await),
    };
    let continued = match &asked {
        RequestBody::Json(Kind::Responses, scanned) => {
            kept::continued(exchange, scanned, &body).await?
        }
        _ => Continued::default(),
    };
    let body = continued.body.as_ref().map_or(body, |continued| continued.bytes.clone());
    if continued.body.is_some() {
        asked = match RequestBody::read(&body, generation, &head.headers) {
            Ok(asked) => asked,
            Err((error, model)) => return Err(shown(exchange, error, model.as_deref()).await),
        };
    }
    let headers = upstream::for_upstream(&head.headers);
    let keeper = continued.keeper;
    let called = Called { generation, named, path: path(&head), headers, keeper };
    match relayed(exchange, &asked, &body, called).await? {
        Begun::Relayed(relayed) if relayed.translation().is_some() => {
            let log = Arc::clone(&exchange.gateway.metrics.translations);
            if let Some(shown) = relayed.translation().and_then(|one| one.note(&log)) {
                exchange.headers.insert(LEFT_OUT, shown);
            }
            relayed.translated(&log, is_stream(&asked, named)).await
        }
        Begun::Relayed(relayed) => {
            if let Some(wire) = wire_of_sealed(generation.kind, &body)
                && let Some(shown) = note_sealed(wire, &exchange.gateway.metrics.translations)
            {
                exchange.headers.insert(LEFT_OUT, shown);
            }
            Ok(pass(exchange, (generation.kind, &asked), *relayed, asks_for_usage(&asked)))
        }
        Begun::Counted(tokens) => Ok(counted(generation.kind, tokens)),
    }
}

/// Names what was left out of a request.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-translation-warnings");

/// Checks that a stream of Gemini is one of events: one JSON array looks like an answer that broke off.
fn check_stream(named: Option<InPath<'_>>, query: Option<&str>) -> Result<(), ApiError> {
    let is_sse = query.is_some_and(|query| query.split('&').any(|one| one == "alt=sse"));
    if named.is_some_and(|named| named.is_stream) && !is_sse {
        let message = "Streams are sent as events only: add `?alt=sse` to the path.";
        return Err(ApiError::invalid_value("alt", message));
    }
    Ok(())
}

fn is_stream(asked: &RequestBody, named: Option<InPath<'_>>) -> bool {
    named.map_or_else(|| asked.streams(), |named| named.is_stream)
}

/// The gateway's own count of the tokens of an input.
fn counted(kind: Kind, tokens: u64) -> Response<AnswerBody> {
    models::json(&match kind {
        Kind::MessageTokens => json!({ "input_tokens": tokens }),
        Kind::GeminiTokens => json!({ "totalTokens": tokens }),
        _ => json!({ "object": "response.input_tokens", "input_tokens": tokens }),
    })
}

/// A request of a client, besides its body.
struct Called<'a> {
    generation: Generation,
    named: Option<InPath<'a>>,
    path: &'a str,
    headers: HeaderMap,
    keeper: Option<Arc<Keeper>>,
}

/// The answer to a request, as far as it has begun.
enum Begun {
    Relayed(Box<Relayed>),
    /// The estimate of its tokens.
    Counted(u64),
}

/// The same for a line of a batch: returns the upstream's whole response.
///
/// # Errors
/// The same as for a client's request.
pub(super) async fn whole(
    exchange: &mut Exchange,
    generation: Generation,
    path: &str,
    body: Bytes,
) -> Result<Whole, ApiError> {
    let headers = HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    )]);
    let asked = RequestBody::read(&body, generation, &headers).map_err(|(error, _)| error)?;
    let called = Called { generation, named: None, path, headers, keeper: None };
    let Begun::Relayed(relayed) = relayed(exchange, &asked, &body, called).await? else {
        return Err(served_elsewhere("Batches count no tokens."));
    };
    let on_object_id = (generation.kind == Kind::Responses && relayed.translation().is_none())
        .then(|| exchange.remembers(ObjectKind::Response, relayed.backend()));
    let log = Arc::clone(&exchange.gateway.metrics.translations);
    if let Some(translation) = relayed.translation() {
        translation.note(&log);
    } else if let Some(wire) = wire_of_sealed(generation.kind, &body) {
        note_sealed(wire, &log);
    }
    relayed.whole(&log, on_object_id).await
}

/// A successful response that has started.
async fn relayed(
    exchange: &mut Exchange,
    asked: &RequestBody,
    body: &Bytes,
    Called { generation, named, path, headers, keeper }: Called<'_>,
) -> Result<Begun, ApiError> {
    let mut resolved = match named {
        Some(named) => exchange.resolve_model(&models::decoded(named.model))?,
        None => resolve_model(exchange, generation.kind, asked, body)?,
    };
    if let Err(error) = model_access::check(&exchange.caller, &resolved.model, &resolved.name) {
        return Err(shown(exchange, error, Some(&resolved.name)).await);
    }
    let place = match check(exchange, asked, body, &resolved).await {
        Ok(place) => place.filter(|place| place.upstream == resolved.model.upstream.name),
        Err(error) => return Err(shown(exchange, error, Some(&resolved.name)).await),
    };
    if counts_tokens(generation.kind) {
        // A request, but no model processes the tokens.
        resolved.price = None;
        resolved.plan = resolved.plan.without_money().into();
    }
    let bound = Bound::of_request(generation.kind, asked, body, &resolved);
    if !counts_tokens(generation.kind)
        && let Err(error) = check_price(exchange, asked, &resolved, &bound)
    {
        return Err(shown(exchange, error, Some(&resolved.name)).await);
    }
    let demand = demand(generation.kind, asked, &resolved, &bound);
    if let Err(error) =
        exchange.check_region(&resolved.model.upstream, place.as_ref().map(|place| &*place.backend))
    {
        return Err(shown(exchange, error, Some(&resolved.name)).await);
    }
    let input = if counts_tokens(generation.kind) { 0 } else { asked.input_estimate() };
    let mut account = exchange.reserve(&resolved, demand, generation.endpoint, input).await?;
    if counts_tokens(generation.kind) && !is_served(generation.kind, &resolved.model.upstream) {
        account.close(End::served());
        return Ok(Begun::Counted(asked.input_estimate()));
    }
    let most_output = asked.most_output(resolved.model.max_output_tokens);
    if generation.kind == Kind::Responses && asked.is_in_background() {
        let region = exchange.data_region().map(Into::into);
        account.comes_later(ComesLater { kind: LaterKind::Response, region }, most_output);
    } else if generation.kind == Kind::VideoEdits && is_by_unit(&resolved, &bound.asked) {
        let region = exchange.data_region().map(Into::into);
        account.comes_later(ComesLater { kind: LaterKind::Video, region }, 0);
    } else if hides_output(&resolved, &bound.asked) {
        account.hides_output(most_output);
    }
    account.asks(bound.asked, bound.quantities);
    let request = OutRequest {
        exchange: &*exchange,
        asked,
        resolved: &resolved,
        body,
        named,
        headers: &headers,
        keeper: keeper.as_ref(),
    };
    let write = |backend: &Backend, retention: bool| request.write(backend, retention);
    let content = Content::Written { write: &write, adds_retention: adds_retention(asked) };
    let forward = Forward {
        query: query(exchange, asked, &resolved, body, place.as_ref()),
        method: Method::POST,
        path,
        headers: headers.clone(),
        body: content,
        repeat: repeat(generation.kind, asked, &resolved.model.upstream),
        first_byte_timeout: resolved.model.first_byte_timeout,
    };
    Ok(Begun::Relayed(Box::new(relay::send(exchange, &forward, account).await?)))
}

/// The backends that may serve a request: that of an object which it names, or else any.
fn query<'a>(
    exchange: &'a Exchange,
    asked: &RequestBody,
    resolved: &'a ResolvedModel,
    body: &Bytes,
    place: Option<&'a ObjectOwner>,
) -> Query<'a> {
    let preference = asked.prompt_cache_key(body).map_or(Preference::Balanced, |key| {
        Preference::Sticky(sticky_key(&exchange.caller.project.id, &key))
    });
    Query {
        upstream: &resolved.model.upstream,
        region: exchange.data_region(),
        model: &resolved.model.upstream_model,
        requester: exchange.requester(),
        pinned: place.map(|place| &*place.backend),
        preference,
    }
}

/// A model's answer that never came is lost with its connection, so that asking another backend does no harm: it costs
/// the model server's time twice, and the caller once. Objects that go on to exist or to run would exist twice.
fn repeat(kind: Kind, asked: &RequestBody, upstream: &Upstream) -> Repeat {
    let creates = kind == Kind::VideoEdits || asked.is_in_background() || asked.is_kept();
    match upstream.retry_unanswered && !creates {
        true => Repeat::Unanswered,
        false => Repeat::Unsent,
    }
}

/// Adds the headers of the limits to an error, if the request's model can be resolved.
async fn shown(exchange: &mut Exchange, error: ApiError, model: Option<&str>) -> ApiError {
    if let Some(Ok(resolved)) = model.map(|name| exchange.resolve_model(name)) {
        exchange.show_limits(&resolved).await;
    }
    error
}

fn resolve_model(
    exchange: &mut Exchange,
    kind: Kind,
    asked: &RequestBody,
    body: &Bytes,
) -> Result<ResolvedModel, ApiError> {
    if let Some(name) = asked.model(body) {
        return exchange.resolve_model(&name);
    }
    let default = exchange.settings.moderation_model.clone();
    match (kind, default) {
        (Kind::Moderations, Some(name)) => exchange.resolve_model(&name),
        (Kind::VideoEdits, _) => exchange.without_model(),
        _ => {
            let message = "You must provide a `model`.";
            Err(ApiError::bad_request("missing_required_parameter", message).param("model"))
        }
    }
}

/// Checks the rules of the contract, and the ownership of objects. Returns the place of the first one.
async fn check(
    exchange: &Exchange,
    asked: &RequestBody,
    body: &Bytes,
    resolved: &ResolvedModel,
) -> Result<Option<ObjectOwner>, ApiError> {
    if let Some(member) = asked.other_models()
        && !resolved.model.upstream.drop_members.contains(member)
        && (exchange.has_limits() || model_access::is_restricted(&exchange.caller))
    {
        let message = format!(
            "`{member}` is not served where limits apply: the request is reserved and charged as \
             one of its `model`. Please send another request if it fails."
        );
        return Err(ApiError::bad_request("other_models_not_supported", message).param(member));
    }
    if asked.is_transparent_jpeg(body) {
        let message = "A transparent background needs an `output_format` of png or webp; jpeg has \
                       no transparency.";
        return Err(ApiError::invalid_value("background", message));
    }
    let zero_retention = exchange.caller.organization.zero_data_retention;
    if zero_retention && asked.prompt_cache_retention(body).as_deref() == Some("24h") {
        let message = "This organization has zero data retention: prompts can only be cached \
                       `in_memory`.";
        return Err(ApiError::invalid_value("prompt_cache_retention", message));
    }
    check_state(asked, body, &resolved.model.upstream, exchange.settings.responses.keep)?;
    let place = exchange.owns_all(&asked.references(body)).await?;
    let other = exchange.may_use(asked.other_references(body)).await?;
    Ok(place.or(other))
}

/// Returns whether a request only counts the tokens of its input.
fn counts_tokens(kind: Kind) -> bool {
    matches!(kind, Kind::InputTokens | Kind::MessageTokens | Kind::GeminiTokens)
}

/// The most that a request may use, and what its price depends on.
struct Bound {
    asked: Asked,
    quantities: Quantities,
}

impl Bound {
    fn of_request(kind: Kind, asked: &RequestBody, body: &Bytes, resolved: &ResolvedModel) -> Self {
        let mut facts = asked.asked(kind, body);
        facts.marks_cache |= may_mark_cache(kind, &resolved.model.upstream);
        let most_output = asked.most_output(resolved.model.max_output_tokens);
        let quantities = asked.bound(&facts, asked.input_estimate(), most_output);
        Self { asked: facts, quantities }
    }
}

/// Refuses a request that would pass the limits of spend: it has no price, or no maximum.
///
/// # Errors
/// 400 `price_missing` or `invalid_value`.
fn check_price(
    exchange: &Exchange,
    asked: &RequestBody,
    resolved: &ResolvedModel,
    bound: &Bound,
) -> Result<(), ApiError> {
    let ResolvedModel { name, model, plan, price } = resolved;
    let calls = asked.calls();
    let Some(price) = price else {
        return match exchange.counts_money() && !model.is_free {
            true => Err(no_price(name, None)),
            false => Ok(()),
        };
    };
    if let Some(key) = price.missing(&bound.asked, &calls.map(|calls| calls != Calls::Absent)) {
        return Err(no_price(name, Some(&key)));
    }
    let costs = price.calls.map(|price| price > Some(0));
    let is_endless =
        calls.iter().zip(costs).any(|(calls, costs)| costs && *calls == Calls::Unbounded);
    if plan.has_hard_limit && is_endless {
        let message = "The server's own tools need a maximum, because a hard spend limit applies: \
                       `max_tool_calls` of responses, or `max_uses` of a tool of Messages.";
        return Err(ApiError::invalid_value("tools", message));
    }
    Ok(())
}

/// 400 `price_missing`: the model, or the price of `key` in it, is not in the configuration.
fn no_price(model: &str, key: Option<&str>) -> ApiError {
    let what = match key {
        Some(key) => format!("for this request: `{key}` is missing in its prices"),
        None => "at this time".to_owned(),
    };
    let message = format!(
        "The model `{model}` has no price {what}. It is not served without one, because spend is \
         limited. Please ask the gateway's operator to add the price."
    );
    let param = match key {
        Some(key) if key.starts_with("tool_calls") => "tools",
        Some(key) if key.starts_with("service_tiers") => "service_tier",
        _ => "model",
    };
    ApiError::bad_request("price_missing", message).param(param)
}

/// The token estimate and the other amounts (specification: What the service does, item 6).
fn demand(kind: Kind, asked: &RequestBody, resolved: &ResolvedModel, bound: &Bound) -> Demand {
    if counts_tokens(kind) {
        return Demand::default();
    }
    let (model, plan) = (&resolved.model, &resolved.plan);
    let input = asked.input_estimate();
    let explicit = asked.max_tokens().unwrap_or(0);
    // The context is long by its input, however much output the request allows.
    let long_context = model.long_context_tokens.is_some_and(|most| input > most);
    // A default is capped at the limit, so that it can fit; a requested amount is not.
    let capped = input.min(plan.most_tokens(long_context));
    let price = resolved.price.as_ref();
    let cost = price.map_or(0, |price| price.most(&bound.quantities, &bound.asked));
    Demand {
        tokens: capped.max(explicit).max(1),
        long_context,
        images: asked.images(),
        audio_milliseconds: bound.quantities.audio_milliseconds,
        cost,
    }
}

/// Returns whether what the request makes has a price of its own, in place of output tokens.
fn is_by_unit(resolved: &ResolvedModel, asked: &Asked) -> bool {
    resolved.price.as_ref().is_some_and(|price| price.is_by_unit(asked.sells))
}

/// Returns whether output that has a price by the token does not show in the text of the answer: it is not text.
fn hides_output(resolved: &ResolvedModel, asked: &Asked) -> bool {
    let is_no_text = matches!(asked.sells, Sells::Images | Sells::Speech | Sells::Video);
    let has_tokens = resolved.price.as_ref().is_some_and(|price| price.sells_output);
    is_no_text && has_tokens && !is_by_unit(resolved, asked)
}

/// Returns whether `prompt_cache_retention` is added for backends that take it.
fn adds_retention(asked: &RequestBody) -> bool {
    let RequestBody::Json(kind, scanned) = asked else { return false };
    let caches = matches!(kind, Kind::Responses | Kind::Chat);
    caches && !matches!(scanned.prompt_cache_retention_member, Member::Value(_))
}

fn pass(
    exchange: &Exchange,
    (kind, asked): (Kind, &RequestBody),
    relayed: Relayed,
    removes_usage: bool,
) -> Response<AnswerBody> {
    let is_events = relayed.is_events();
    // What is wrong with the stream of an answer that comes later says nothing about that answer.
    let wire = wire_of(kind).filter(|_| !asked.is_in_background());
    let watch = match relayed.reader() {
        _ if counts_tokens(kind) => Watch::Nothing,
        Some(_) if is_events && (wire.is_some() || removes_usage) => {
            let (request, now) = (exchange.request, exchange.now / 1_000_000);
            let own = wire.map(|wire| OwnEnd::new(wire, relayed.model(), request, now));
            Watch::Events(EventFilter::new(removes_usage, wire.map(|_| kind)), own)
        }
        Some(reader) => Watch::Usage(reader),
        None => Watch::Nothing,
    };
    let made = match kind {
        Kind::Responses => Some(ObjectKind::Response),
        Kind::Messages if asked.is_kept() => Some(ObjectKind::Object),
        Kind::VideoEdits => Some(ObjectKind::Object),
        _ => None,
    };
    let on_object_id = made.map(|made| exchange.remembers(made, relayed.backend()));
    relayed.into_response(watch, on_object_id)
}

fn path(head: &request::Parts) -> &str {
    head.uri.path_and_query().map_or("/", |path| path.as_str())
}
