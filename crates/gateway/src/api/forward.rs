//! Requests without a model: forwarded to the upstream that has the objects concerned, or to the
//! default one. Keys, request limits and the ownership of objects are checked.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header;
use hyper::http::{request, response};
use hyper::{Method, Request, Response};
use serde_json::Value;

use super::owned::not_found;
use super::relay::{self, Relayed};
use super::request_body::form_error;
use super::training;
use super::{Answered, Exchange, ResolvedModel};
use crate::answer::{AnswerBody, Watch};
use crate::backends::{Preference, Query};
use crate::dispatch::{Content, Forward, Repeat};
use crate::intake;
use crate::later::{self, Follow, Source};
use crate::object_owners::ObjectKind;
use crate::router::{self, Api};
use crate::upstream::{self, OutBody, too_large};
use gateway_body::{Edits, Form, FormIds, Kind, boundary, scan};
use gateway_policy::announce::DEPRECATION;
use gateway_policy::error::ApiError;
use gateway_policy::model_access;
use gateway_policy::plan::Demand;
use gateway_policy::settings::Model;
use gateway_policy::tenants::{Caller, ProjectLimits};
use gateway_store::ledger::Endpoint;
use gateway_store::records::owned_objects;
use gateway_store::records::responses::ObjectOwner;

/// Longer lists cannot be filtered by ownership.
const MAX_LIST: usize = 16 << 20;

/// Forwards a request.
pub(crate) async fn answer(
    exchange: &mut Exchange,
    api: Api<'_>,
    request: Request<Incoming>,
) -> Answered {
    let (head, incoming) = request.into_parts();
    pass(exchange, api, head, Given::Client(incoming)).await
}

impl Exchange {
    /// Checks that a path whose cost is not known may be passed on: the operator has named it, or no limit of
    /// spend or tokens applies.
    ///
    /// # Errors
    /// 404 `path_not_open`.
    fn check_open(&self, api: Api<'_>, method: &Method, path: &str) -> Result<(), ApiError> {
        let is_named = self.settings.pass_through.iter().any(|named| named.contains(path));
        let costs_nothing = match api {
            Api::Unlisted => !self.has_limits(),
            Api::Remix => !self.counts_money(),
            _ => false,
        };
        if is_named || costs_nothing {
            return Ok(());
        }
        let why = match api {
            Api::Minting => "it makes keys that reach the model server without this gateway",
            Api::MessageBatches => "its requests would run outside of the gateway's limits",
            _ => "its cost is not known",
        };
        let message = format!(
            "{method} {path} is not served, because {why}. The gateway's operator can open it with \
             `[server] pass_through`."
        );
        Err(ApiError::not_found("path_not_open", message))
    }

    /// Returns whether a limit of spend applies to requests of the caller.
    pub(super) fn counts_money(&self) -> bool {
        let Caller { organization, project, .. } = &*self.caller;
        let has_hard_limit = organization.spend.hard.is_some() || project.spend.hard.is_some();
        self.settings.counts_money || has_hard_limit
    }

    /// Returns whether a limit of spend or tokens applies to any request of the caller.
    pub(super) fn has_limits(&self) -> bool {
        let Caller { organization, project, .. } = &*self.caller;
        let limited = |model: &Arc<Model>| {
            let limits = model.limits(organization.tier);
            model.is_priced()
                || [limits.tpm, limits.tpd, limits.long_context_tpm].iter().any(Option::is_some)
        };
        let of_project = |limits: &ProjectLimits| limits.max_tokens_per_1_minute.is_some();
        organization.spend.hard.is_some()
            || project.spend.hard.is_some()
            || project.limits.values().any(of_project)
            || self.settings.catalog.models().any(limited)
    }
}

/// The body of a forwarded request.
pub(super) enum Given {
    /// As received from the client.
    Client(Incoming),
    /// Already read and checked.
    Ready(OutBody),
}

/// Forwards a request whose body has been checked.
pub(super) async fn pass(
    exchange: &mut Exchange,
    api: Api<'_>,
    head: request::Parts,
    given: Given,
) -> Answered {
    let path = head.uri.path().to_owned();
    let segments = router::segments(&path)?;
    let is_unlisted = matches!(api, Api::Unlisted | Api::Minting | Api::MessageBatches);
    if is_unlisted || api == Api::Remix {
        exchange.check_open(api, &head.method, &path)?;
    }
    let mut resolved = exchange.without_model()?;
    let checked = checked(exchange, api, &segments, &mut resolved, (&head, given)).await;
    let (touched, body) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            exchange.show_limits(&resolved).await;
            return Err(error);
        }
    };
    let job = match permitted(exchange, api, &resolved, (&head.method, &path, &segments)) {
        Ok(job) => job,
        Err(error) => {
            exchange.show_limits(&resolved).await;
            return Err(error);
        }
    };
    if let Api::Ingest(store) = api {
        resolved.plan = resolved.plan.with_ingestion(store).into();
    }
    let cost = job.as_ref().map_or(0, |job| job.cost);
    let demand = Demand { tokens: 1, cost, ..Demand::default() };
    let endpoint = match segments.first() {
        Some(&"vector_stores") => Endpoint::VectorStores,
        _ => Endpoint::Other,
    };
    if api == Api::Remix {
        remix_is_deprecated(exchange);
    }
    let mut account = exchange.reserve(&resolved, demand, endpoint, 1).await?;
    let is_charged = job.is_some();
    if let Some(job) = job {
        job.describe(&mut account, exchange.data_region());
    }
    let forward = Forward {
        query: Query {
            upstream: &resolved.model.upstream,
            region: exchange.data_region(),
            model: &resolved.model.upstream_model,
            requester: exchange.requester(),
            pinned: touched.backend.as_deref(),
            preference: Preference::First,
        },
        method: head.method.clone(),
        path: head.uri.path_and_query().map_or("/", |path| path.as_str()),
        headers: upstream::for_upstream(&head.headers),
        body: Content::Fixed(body),
        repeat: match head.method {
            Method::GET | Method::HEAD => Repeat::Unanswered,
            _ => Repeat::Unsent,
        },
        first_byte_timeout: resolved.model.first_byte_timeout,
    };
    let follows = followed(api, &head.method, &segments);
    let last_look = match (follows, &head.method) {
        (Some(id), &Method::DELETE) => later::look_before_delete(&exchange.gateway, id).await,
        _ => None,
    };
    let relayed = relay::send(exchange, &forward, account).await?;
    if let Some(last_look) = last_look {
        last_look.settle(&exchange.gateway).await;
    }
    if let (&Method::DELETE, Some(id)) = (&head.method, touched.whole) {
        exchange.forget(touched.what, id);
    }
    if let (Some(id), Some(reader)) = (follows, relayed.reader()) {
        let source = if relayed.is_events() { Source::Replay } else { Source::Object };
        let follow = Follow::fetched(&exchange.gateway, id, source);
        return Ok(relayed.into_response(Watch::Following(reader, follow), None));
    }
    let collection = Collection::of_path(&segments);
    let is_list = head.method == Method::GET && segments.len() == collection.depth;
    if is_list && (relayed.is_json() || collection.is_strict) {
        return narrowed(exchange, relayed, collection.is_strict).await;
    }
    let made = head.method == Method::POST && relayed.is_json();
    if made && matches!(*segments, ["uploads", _, "complete"]) {
        return uploaded(exchange, relayed).await;
    }
    let on_object_id = made.then(|| exchange.remembers(ObjectKind::Object, relayed.backend()));
    // Whatever reports a usage has used it.
    let changes = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
    let watch = match relayed.reader() {
        Some(reader) if changes || is_unlisted || is_charged => Watch::Usage(reader),
        _ => Watch::Nothing,
    };
    Ok(relayed.into_response(watch, on_object_id))
}

/// Checks that the caller may use the model. Returns the fine-tuning job that the request creates, if it is charged.
fn permitted(
    exchange: &Exchange,
    api: Api<'_>,
    resolved: &ResolvedModel,
    (method, path, segments): (&Method, &str, &[&str]),
) -> Result<Option<training::Job>, ApiError> {
    // A response that the project created belongs to it, whichever models it may use now.
    if !matches!(api, Api::Response(_)) {
        model_access::check(&exchange.caller, &resolved.model, &resolved.name)?;
    }
    match creates_job(method, segments) {
        true => training::job(exchange, resolved, path),
        false => Ok(None),
    }
}

/// Returns whether a request creates a fine-tuning job.
fn creates_job(method: &Method, segments: &[&str]) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    !reads && matches!(segments, ["fine_tuning", "jobs"])
}

/// The id of an answer that comes later, if the response may show its end.
fn followed<'a>(api: Api<'_>, method: &Method, segments: &[&'a str]) -> Option<&'a str> {
    match (api, method, segments) {
        (Api::Response(_), &Method::GET | &Method::DELETE, ["responses", id]) => Some(id),
        (Api::Response(_), &Method::POST, ["responses", id, "cancel"]) => Some(id),
        (Api::PassThrough, &Method::GET, ["fine_tuning", "jobs", id])
        | (Api::PassThrough, &Method::POST, ["fine_tuning", "jobs", id, "cancel"]) => Some(id),
        (Api::PassThrough, &Method::GET | &Method::DELETE, ["videos", id]) => Some(id),
        _ => None,
    }
}

/// All checks before the request counts.
async fn checked<'a>(
    exchange: &mut Exchange,
    api: Api<'_>,
    segments: &'a [&'a str],
    resolved: &mut ResolvedModel,
    (head, given): (&request::Parts, Given),
) -> Result<(Touched<'a>, OutBody), ApiError> {
    let mut touched = touched(exchange, api, segments).await?;
    let (named, body) = match given {
        Given::Client(incoming) => body(exchange, (head, segments), incoming, resolved).await?,
        Given::Ready(body) => (None, body),
    };
    if let Some(upstream) = &touched.upstream {
        resolved.model = at_upstream(exchange, &resolved.model, upstream);
    } else if let Some(place) = named
        && place.upstream == resolved.model.upstream.name
    {
        touched.backend = Some(place.backend);
    }
    exchange.check_region(&resolved.model.upstream, touched.backend.as_deref())?;
    Ok((touched, body))
}

/// The objects that a path names.
struct Touched<'a> {
    what: ObjectKind,
    /// The id of the object itself, which a `DELETE` removes.
    whole: Option<&'a str>,
    /// The upstream that has it.
    upstream: Option<Box<str>>,
    /// The backend that has it, or that has an object which the body names.
    backend: Option<Box<str>>,
}

/// Checks that the project owns the objects in a path.
async fn touched<'a>(
    exchange: &Exchange,
    api: Api<'_>,
    segments: &'a [&'a str],
) -> Result<Touched<'a>, ApiError> {
    let what =
        if matches!(api, Api::Response(_)) { ObjectKind::Response } else { ObjectKind::Object };
    let mut touched = Touched { what, whole: None, upstream: None, backend: None };
    let collection = Collection::of_path(segments);
    // `/v1/{collection}/{id}/…`: an unknown segment may be a word such as `search`.
    for (at, segment) in segments.iter().enumerate().skip(collection.depth) {
        let place = exchange.owner(what, segment).await?;
        if place.is_none() && at == collection.depth && collection.is_strict {
            return Err(not_found(segment));
        }
        if let Some(place) = place {
            touched.upstream = Some(place.upstream);
            touched.backend = Some(place.backend);
            if segments.len() == collection.depth + 1 {
                touched.whole = Some(segment);
            }
        }
    }
    Ok(touched)
}

/// The beginning of a path, before an id.
struct Collection {
    /// Number of segments.
    depth: usize,
    /// True if every object that a project may see was created through the gateway. (Stored chats
    /// are not recorded: no project can see them.)
    is_strict: bool,
}

impl Collection {
    fn of_path(segments: &[&str]) -> Self {
        let (depth, is_strict) = match segments {
            ["chat", "completions", ..]
            | ["fine_tuning", "jobs", ..]
            | ["messages", "batches", ..] => (2, true),
            ["responses" | "files" | "vector_stores" | "conversations", ..] => (1, true),
            _ => (1, false),
        };
        Self { depth, is_strict }
    }
}

/// The entry for requests without a model, at another upstream.
fn at_upstream(exchange: &Exchange, model: &Arc<Model>, name: &str) -> Arc<Model> {
    let known = exchange.settings.upstreams.iter().find(|upstream| *upstream.name == *name);
    match known {
        Some(upstream) if !Arc::ptr_eq(upstream, &model.upstream) => model.at(upstream).into(),
        // An upstream that was removed from the configuration has no objects; the default one
        // returns the error.
        _ => Arc::clone(model),
    }
}

/// Reads a body for the objects that it refers to, whatever its content type; only the parts of an upload pass
/// unread. If it names a known model, the request draws on that model. Returns the place of the first object too.
async fn body(
    exchange: &mut Exchange,
    (head, segments): (&request::Parts, &[&str]),
    mut incoming: Incoming,
    resolved: &mut ResolvedModel,
) -> Result<(Option<ObjectOwner>, OutBody), ApiError> {
    let server = exchange.settings.server;
    if incoming.is_end_stream() {
        return Ok((None, OutBody::empty()));
    }
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given_type = content_type.unwrap_or("application/json");
    let content_type = given_type.trim().to_ascii_lowercase();
    let is_form = content_type.starts_with("multipart/form-data");
    // A part is bytes of a file, however large, and refers to nothing.
    if is_form && matches!(segments, ["uploads", _, "parts"]) {
        if incoming.size_hint().lower() > server.max_body_bytes {
            return Err(too_large());
        }
        let stream = OutBody::stream(incoming, server.max_body_bytes, server.body_timeout);
        return Ok((None, stream));
    }
    let (most, patience) = (server.max_body_bytes, server.body_timeout);
    let taken =
        intake::read_whole(&mut incoming, most, patience, exchange.body_reservation()).await?;
    let body = taken.bytes;
    if body.is_empty() {
        return Ok((None, OutBody::empty()));
    }
    if is_form {
        return form(exchange, given_type, body, resolved).await;
    }
    let scanned = match scan(&body, Kind::Other) {
        Ok(scanned) => scanned,
        Err(_) if content_type.starts_with("application/x-www-form-urlencoded") => {
            let place = exchange.place_of(FormIds::of_urlencoded(&body)).await?;
            return Ok((place, OutBody::whole(body)));
        }
        Err(_) if !may_be_json(&body, &content_type) => return Ok((None, OutBody::whole(body))),
        Err(invalid) => return Err(ApiError::bad_request(invalid.code(), invalid.to_string())),
    };
    let ids = scanned.file_ids.iter().map(|id| (ObjectKind::Object, id.read(&body).into_owned()));
    let ids: Vec<_> = ids.collect();
    let place = exchange.owns_all(&ids).await?;
    let ids = scanned.other_ids.iter().map(|id| id.read(&body).into_owned());
    let place = place.or(exchange.may_use(ids.collect()).await?);
    let called = scanned.model.map(|name| name.read(&body));
    let known = called.filter(|called| exchange.settings.catalog.find(called).is_some());
    if let Some(called) = &known {
        *resolved = exchange.resolve_model(called)?;
    }
    let model = &resolved.model;
    let mut edits = Edits::new();
    let dropped = &model.upstream.drop_members;
    edits.remove_members(&scanned, &body, |name| dropped.contains(name));
    if let (Some(name), Some(called)) = (scanned.model, known)
        && called != *model.upstream_model
    {
        edits.set_text(name, &model.upstream_model);
    }
    let body = match edits.is_empty() {
        true => OutBody::whole(body),
        false => OutBody::Pieces(edits.apply(&body).pieces.into()),
    };
    Ok((place, body))
}

/// The same for a form.
async fn form(
    exchange: &mut Exchange,
    content_type: &str,
    body: Bytes,
    resolved: &mut ResolvedModel,
) -> Result<(Option<ObjectOwner>, OutBody), ApiError> {
    let boundary = boundary(content_type).map_err(|error| form_error(&error))?;
    let form = Form::read(&body, boundary.unwrap_or_default());
    let form = form.map_err(|error| form_error(&error))?;
    let place = exchange.place_of(form.ids).await?;
    let mut edits = Edits::new();
    if let Some(called) = &form.model
        && exchange.settings.catalog.find(&called.text).is_some()
    {
        *resolved = exchange.resolve_model(&called.text)?;
        edits.set_raw(called.span, &resolved.model.upstream_model);
    }
    let dropped = &resolved.model.upstream.drop_members;
    for (_, span) in form.parts.iter().filter(|(name, _)| dropped.contains(name)) {
        edits.remove(*span);
    }
    let body = match edits.is_empty() {
        true => OutBody::whole(body),
        false => OutBody::Pieces(edits.apply(&body).pieces.into()),
    };
    Ok((place, body))
}

/// Returns whether an upstream might read the body as JSON, in any encoding: then it must be valid
/// JSON, so that the gateway sees the same references.
fn may_be_json(body: &[u8], content_type: &str) -> bool {
    let first = body.trim_ascii_start().first();
    content_type.contains("json")
        || first.is_none_or(|first| matches!(first, b'{' | b'[' | 0 | 0xEF | 0xFE | 0xFF))
}

/// `POST /v1/videos/{id}/remix` was replaced on 2026-03-12, to be deprecated after six months
/// (specification: Versioning, item 4).
fn remix_is_deprecated(exchange: &mut Exchange) {
    const SINCE: &str = "@1789171200";
    let headers = &mut exchange.headers;
    headers.insert(DEPRECATION, header::HeaderValue::from_static(SINCE));
    let link = header::HeaderValue::from_static("</v1/videos/edits>; rel=\"successor-version\"");
    headers.append(header::LINK, link);
}

/// Removes other projects' objects from an upstream's list.
async fn narrowed(exchange: &Exchange, relayed: Relayed, strict: bool) -> Answered {
    let (mut head, whole) = gathered(relayed).await?;
    let body = narrow(exchange, whole, strict).await?;
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, AnswerBody::from(body)))
}

/// The end of an upload in parts, whose response contains the new file.
async fn uploaded(exchange: &Exchange, relayed: Relayed) -> Answered {
    let remembers = exchange.remembers(ObjectKind::Object, relayed.backend());
    let (head, whole) = gathered(relayed).await?;
    let upload = serde_json::from_slice::<Value>(&whole).unwrap_or_default();
    if let Some(file) = upload.pointer("/file/id").and_then(Value::as_str) {
        remembers(file);
    }
    Ok(Response::from_parts(head, AnswerBody::from(whole)))
}

/// A response that must be complete before any of it is passed on.
async fn gathered(relayed: Relayed) -> Result<(response::Parts, Bytes), ApiError> {
    let response = relayed.into_response(Watch::Nothing, None);
    let (head, mut body) = response.into_parts();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let cut =
            || relay::bad_gateway("The model server's answer is incomplete. Please try again.");
        if let Ok(data) = frame.map_err(|_| cut())?.into_data() {
            if whole.len() + data.len() > MAX_LIST {
                return Err(relay::bad_gateway(
                    "The list is too long. Please request fewer entries.",
                ));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok((head, whole.freeze()))
}

async fn narrow(exchange: &Exchange, whole: Bytes, strict: bool) -> Result<Bytes, ApiError> {
    let mut list = serde_json::from_slice::<Value>(&whole).unwrap_or_default();
    let entries = match list.get_mut("data").and_then(Value::as_array_mut) {
        Some(entries) => entries,
        None if !strict => return Ok(whole),
        None => return Err(relay::bad_gateway("The model server's list is not valid.")),
    };
    let id_of = |entry: &Value| entry.get("id").and_then(Value::as_str).map(str::to_owned);
    let mut kept = Vec::with_capacity(entries.len());
    for chunk in entries.chunks(500) {
        let ids: Vec<String> = chunk.iter().filter_map(id_of).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let (project, database) = (&exchange.caller.project.id, &exchange.gateway.database);
        let away = |_| ApiError::store_unavailable();
        let ours = owned_objects::owned(database, project, &ids).await.map_err(away)?;
        for entry in chunk {
            let id = id_of(entry);
            let is_ours = |id: &str| ours.iter().any(|ours| **ours == *id);
            let may_be_seen = match &id {
                None => !strict,
                Some(id) if is_ours(id) || exchange.made_lately(id) => true,
                Some(_) if strict => false,
                Some(id) => exchange.owner(ObjectKind::Object, id).await.is_ok(),
            };
            if may_be_seen {
                kept.push(entry.clone());
            }
        }
    }
    for (key, entry) in [("first_id", kept.first()), ("last_id", kept.last())] {
        let id = entry.and_then(id_of);
        if let Some(place) = list.get_mut(key) {
            *place = id.map_or(Value::Null, Value::String);
        }
    }
    list["data"] = Value::Array(kept);
    Ok(serde_json::to_vec(&list).map_or(whole, Bytes::from))
}
