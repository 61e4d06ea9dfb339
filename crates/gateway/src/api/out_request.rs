//! A request to a model as a backend gets it: with the few edits that the contract requires, in the wire that the
//! backend speaks.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use wire::{Platform, SealedPart, Target, Wire};

use super::kept;
use super::request_body::RequestBody;
use super::{Exchange, ResolvedModel};
use crate::account::request_id;
use crate::dispatch::{Expected, Prepared};
use crate::envelope_seal::may_hold_sealed;
use crate::keeper::Keeper;
use crate::router::InPath;
use crate::same_wire::wire_of;
use crate::translation::{self, Source};
use crate::upstream::{OutBody, for_other_wire, without_google};
use gateway_body::{Edits, Kind, Scanned, Span};
use gateway_policy::error::ApiError;
use gateway_policy::settings::{Backend, Model, Upstream};

/// A request, before it is written for a backend.
pub(super) struct OutRequest<'a> {
    pub(super) exchange: &'a Exchange,
    pub(super) asked: &'a RequestBody,
    pub(super) resolved: &'a ResolvedModel,
    pub(super) body: &'a Bytes,
    pub(super) named: Option<InPath<'a>>,
    /// The client's, as far as they are forwarded.
    pub(super) headers: &'a HeaderMap,
    /// Keeps the response, if the backend does not.
    pub(super) keeper: Option<&'a Arc<Keeper>>,
}

/// The changes that depend on the backend.
#[derive(Clone, Copy, Default)]
struct Changes<'c> {
    /// Adds `prompt_cache_retention`.
    retention: bool,
    /// A translation follows, which does what servers of the same wire need.
    is_translated: bool,
    /// A cloud has the model in the path, and gets in a body of Messages what others get in headers.
    platform: Platform,
    /// `anthropic_beta`, as a JSON array.
    betas: Option<&'c str>,
    /// Reasoning of other models, which this one cannot read.
    sealed: &'c [SealedPart],
}

/// Names of interfaces of Messages that are not final.
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// The wires in which a kind of request can be served.
enum Needs {
    /// Any: a model generates output.
    Any(Wire),
    /// This one alone.
    Only(Wire),
    /// One of those that have OpenAI's other interfaces.
    OpenAi,
}

fn needs(kind: Kind) -> Needs {
    match kind {
        Kind::Responses => Needs::Any(Wire::Responses),
        Kind::Chat => Needs::Any(Wire::Chat),
        Kind::Messages => Needs::Any(Wire::Messages),
        Kind::Gemini => Needs::Any(Wire::Gemini),
        Kind::Compact | Kind::InputTokens => Needs::Only(Wire::Responses),
        Kind::MessageTokens => Needs::Only(Wire::Messages),
        Kind::GeminiTokens => Needs::Only(Wire::Gemini),
        _ => Needs::OpenAi,
    }
}

/// Returns whether a backend of the upstream serves this kind of request.
pub(super) fn is_served(kind: Kind, upstream: &Upstream) -> bool {
    upstream.backends.iter().any(|backend| serves(kind, backend))
}

fn serves(kind: Kind, backend: &Backend) -> bool {
    match needs(kind) {
        Needs::Any(_) => true,
        Needs::Only(wire) => backend.wires.contains(wire) && backend.platform == Platform::Direct,
        Needs::OpenAi => backend.wires.is_openai(),
    }
}

/// Returns whether a translation may mark a request's prompt for the cache, which Messages alone asks for.
pub(super) fn may_mark_cache(kind: Kind, upstream: &Upstream) -> bool {
    let Needs::Any(caller) = needs(kind) else { return false };
    let is_marked = |backend: &Arc<Backend>| backend.wires.for_request(caller) == Wire::Messages;
    caller != Wire::Messages && upstream.backends.iter().any(is_marked)
}

/// Checks that a request names no earlier response where no backend of the upstream keeps any.
///
/// # Errors
/// 400 `unsupported_parameter`, or `previous_response_not_found` where the gateway keeps responses.
pub(super) fn check_state(
    asked: &RequestBody,
    body: &Bytes,
    upstream: &Upstream,
    is_kept_here: bool,
) -> Result<(), ApiError> {
    let keeps = |backend: &Arc<Backend>| backend.wires.contains(Wire::Responses);
    if asked.kind() != Kind::Responses || upstream.backends.iter().any(keeps) {
        return Ok(());
    }
    let Some((member, id)) = asked.state_member(body) else { return Ok(()) };
    if member == "conversation" {
        let message = "This model's server keeps no conversations, and neither does the gateway. Send the earlier items \
                       in `input`.";
        return Err(ApiError::bad_request("unsupported_parameter", message).param(member));
    }
    if is_kept_here {
        return Err(kept::not_found(&id));
    }
    let message = format!(
        "This model's server keeps no responses, so `{member}` names nothing there. Send the earlier items in `input`."
    );
    Err(ApiError::bad_request("unsupported_parameter", message).param(member))
}

/// Returns the wire of a request with reasoning that a server of this wire cannot read, and does not get.
pub(super) fn wire_of_sealed(kind: Kind, body: &[u8]) -> Option<Wire> {
    let (Needs::Any(wire) | Needs::Only(wire)) = needs(kind) else { return None };
    let is_sealed =
        may_hold_sealed(body, wire) && !wire::sealed_parts(wire, body, false).is_empty();
    is_sealed.then_some(wire)
}

/// 400 `wire_not_supported`.
pub(super) fn served_elsewhere(message: &'static str) -> ApiError {
    ApiError::bad_request("wire_not_supported", message)
}

impl OutRequest<'_> {
    /// Writes the request for a backend, with `prompt_cache_retention` or without it.
    ///
    /// # Errors
    /// 400 or 413: the backend cannot serve it.
    pub(super) fn write(&self, backend: &Backend, retention: bool) -> Result<Prepared, ApiError> {
        let kind = self.asked.kind();
        if !serves(kind, backend) {
            let message = "This model's server does not have this interface: it serves requests that generate text alone.";
            return Err(served_elsewhere(message));
        }
        if let Needs::Any(caller) = needs(kind) {
            let to = backend.wires.for_request(caller);
            if to != caller {
                return self.translated(caller, to, backend);
            }
        }
        let sealed = &*self.sealed(backend);
        if kind == Kind::Messages && backend.platform != Platform::Direct {
            return self.at_cloud(backend.platform, sealed);
        }
        let pieces = edited(self, Changes { retention, sealed, ..Changes::default() });
        let body = OutBody::Pieces(pieces.into());
        let expected = wire_of(kind).map(|wire| Expected { wire, is_stream: self.is_stream() });
        let Some(InPath { verb, is_stream, .. }) = self.named else {
            return Ok(Prepared { expected, ..Prepared::as_sent(body) });
        };
        let model = encoded(&self.resolved.model.upstream_model);
        // Other parameters choose the parts of the answer, among them its usage.
        let query = if is_stream { "?alt=sse" } else { "" };
        Ok(Prepared {
            path: Some(format!("/v1beta/models/{model}:{verb}{query}")),
            headers: Some(without_google(self.headers)),
            body,
            translation: None,
            expected,
        })
    }

    /// The reasoning of other models in a request that is not translated.
    fn sealed(&self, backend: &Backend) -> Vec<SealedPart> {
        let (Needs::Any(wire) | Needs::Only(wire)) = needs(self.asked.kind()) else {
            return Vec::new();
        };
        if !may_hold_sealed(self.body, wire) {
            return Vec::new();
        }
        let model = &self.resolved.model;
        let host = backend.base.origin.host().unwrap_or_default();
        let target = Target::of_server(wire, &model.upstream.name, host, &model.upstream_model);
        wire::sealed_parts(wire, self.body, target.gemini.is_third)
    }

    /// A request of Messages for a cloud.
    ///
    /// # Errors
    /// 400: it names its betas in a form that cannot be read.
    fn at_cloud(&self, platform: Platform, sealed: &[SealedPart]) -> Result<Prepared, ApiError> {
        let is_stream = self.is_stream();
        let mut headers = self.headers.clone();
        headers.remove("anthropic-version");
        let names = self.betas()?;
        headers.remove(BETA);
        let mut betas = None;
        if !names.is_empty() && platform == Platform::Bedrock {
            // Amazon takes them in the body.
            betas = Some(serde_json::Value::from(names).to_string());
        } else if !names.is_empty() {
            let value = HeaderValue::from_str(&names.join(","));
            headers.insert(BETA, value.map_err(|_| invalid_betas())?);
        }
        let betas = betas.as_deref();
        let pieces = edited(self, Changes { platform, betas, sealed, ..Changes::default() });
        Ok(Prepared {
            path: Some(platform.messages_path(&self.resolved.model.upstream_model, is_stream)),
            headers: Some(headers),
            body: OutBody::Pieces(pieces.into()),
            translation: None,
            expected: Some(Expected { wire: Wire::Messages, is_stream }),
        })
    }

    /// The betas that a request names, in its headers and, as clients of clouds do, in its body.
    fn betas(&self) -> Result<Vec<String>, ApiError> {
        let mut names: Vec<String> = Vec::new();
        for line in self.headers.get_all(BETA) {
            let line = line.to_str().map_err(|_| invalid_betas())?;
            names.extend(line.split(',').map(|name| name.trim().to_owned()));
        }
        if let RequestBody::Json(_, scanned) = self.asked {
            names.extend(betas_of_body(scanned, self.body)?);
        }
        let mut seen = HashSet::new();
        names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
        Ok(names)
    }

    fn is_stream(&self) -> bool {
        self.named.map_or_else(|| self.asked.streams(), |named| named.is_stream)
    }

    fn translated(&self, caller: Wire, to: Wire, backend: &Backend) -> Result<Prepared, ApiError> {
        let Self { exchange, asked, resolved, .. } = self;
        let pieces = edited(self, Changes { is_translated: true, ..Changes::default() });
        let body = match &pieces[..] {
            [whole] => whole.clone(),
            pieces => pieces.concat().into(),
        };
        let is_stream = self.is_stream();
        let source = Source {
            caller,
            body: &body,
            model: (&resolved.name, &resolved.model.upstream_model),
            upstream: &resolved.model.upstream.name,
            max_output: resolved.model.max_output_tokens,
            bound: asked.output_bound(),
            is_stream,
            wants_usage: caller != Wire::Chat || asked.wants_usage(),
            input_estimate: asked.input_estimate(),
            now: exchange.now / 1_000_000,
            id: &request_id(exchange.request),
            keeper: self.keeper.filter(|_| caller == Wire::Responses),
            seal: exchange.gateway.envelope_key.of_project(&exchange.caller.project.id),
        };
        let translation::Outgoing { path, headers, body, translation } =
            source.write(to, backend)?;
        Ok(Prepared {
            path: Some(path),
            headers: Some(for_other_wire(self.headers, is_stream, &headers)),
            body: OutBody::whole(body),
            translation: Some(Box::new(translation)),
            expected: None,
        })
    }
}

fn betas_of_body(scanned: &Scanned, body: &[u8]) -> Result<Vec<String>, ApiError> {
    #[derive(serde::Deserialize)]
    struct Member {
        anthropic_beta: Option<Vec<String>>,
    }
    let mut members = scanned.members.iter();
    let Some(named) = members.find(|member| member.name.read(body) == "anthropic_beta") else {
        return Ok(Vec::new());
    };
    let member = [b"{", &body[named.span.start..named.span.end], b"}"].concat();
    let member: Member = serde_json::from_slice(&member).map_err(|_| invalid_betas())?;
    Ok(member.anthropic_beta.unwrap_or_default())
}

/// 400 `invalid_value`.
fn invalid_betas() -> ApiError {
    ApiError::invalid_value("anthropic_beta", "The names of betas are a list of texts.")
}

/// A model's name as a part of a path.
fn encoded(name: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const RESERVED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    utf8_percent_encode(name, RESERVED).to_string()
}

/// Returns whether the upstream is asked for a usage chunk that the client did not request.
pub(super) fn asks_for_usage(asked: &RequestBody) -> bool {
    let RequestBody::Json(kind, scanned) = asked else { return false };
    let chats = matches!(kind, Kind::Chat | Kind::Completions);
    chats && scanned.stream && !scanned.stream_options.wants_usage
}

/// The edited body for the upstream.
fn edited(
    OutRequest { exchange, asked, resolved, body, .. }: &OutRequest<'_>,
    changes: Changes<'_>,
) -> Vec<Bytes> {
    let mut edits = Edits::new();
    for (range, with) in changes.sealed {
        edits.set_raw(Span { start: range.start, end: range.end }, with);
    }
    match asked {
        RequestBody::Json(kind, scanned) => {
            let version = changes.platform.messages_version();
            if version.is_none() {
                edit_model(&mut edits, asked, &resolved.model, body);
            }
            if *kind != Kind::Messages
                && !changes.is_translated
                && let Some(tier) = scanned.service_tier
                && tier.read(body) == "priority"
            {
                edits.set_text(tier, "fast");
            }
            if changes.retention {
                let zero_retention = exchange.caller.organization.zero_data_retention;
                let retention = if zero_retention { "in_memory" } else { "24h" };
                edits.set_prompt_cache_retention(scanned, retention);
            }
            if resolved.plan.has_hard_limit && scanned.output_bound(*kind).is_none() {
                let most = u32::try_from(resolved.model.max_output_tokens).unwrap_or(u32::MAX);
                match kind {
                    Kind::Responses => edits.set_max_output_tokens(scanned, most),
                    Kind::Chat => edits.set_max_completion_tokens(scanned, most),
                    Kind::Completions => edits.set_max_tokens(scanned, most),
                    Kind::Gemini => edits.set_max_output_tokens_of_gemini(scanned, most),
                    _ => {}
                }
            }
            let dropped = &resolved.model.upstream.drop_members;
            // The path says these, and a body must not say otherwise.
            let in_path = |name: &str| *kind == Kind::Gemini && matches!(name, "model" | "stream");
            let of_cloud = |name: &str| match name {
                "model" | "anthropic_version" | "anthropic_beta" => version.is_some(),
                "stream" => changes.platform == Platform::Bedrock,
                _ => false,
            };
            let is_removed = |name: &str| dropped.contains(name) || in_path(name) || of_cloud(name);
            edits.remove_members(scanned, body, is_removed);
            if let Some(version) = version {
                edits.add_member(scanned, "anthropic_version", format!("\"{version}\""));
            }
            if let Some(betas) = changes.betas {
                edits.add_member(scanned, "anthropic_beta", betas.to_owned());
            }
            if asks_for_usage(asked) && !changes.is_translated {
                edits.include_usage(scanned);
            }
        }
        RequestBody::Form(_, form) => {
            edit_model(&mut edits, asked, &resolved.model, body);
            let dropped = &resolved.model.upstream.drop_members;
            for (_, span) in form.parts.iter().filter(|(name, _)| dropped.contains(name)) {
                edits.remove(*span);
            }
        }
    }
    match edits.is_empty() {
        true => vec![(*body).clone()],
        false => edits.apply(body).pieces,
    }
}

/// Replaces the model's name by its name at the upstream.
fn edit_model(edits: &mut Edits, asked: &RequestBody, model: &Model, body: &Bytes) {
    if &*model.name == gateway_policy::settings::NO_MODEL {
        return;
    }
    match asked {
        RequestBody::Json(Kind::Gemini | Kind::GeminiTokens, _) => {}
        RequestBody::Json(_, scanned) => match scanned.model {
            Some(name) if name.read(body) == *model.upstream_model => {}
            Some(name) => edits.set_text(name, &model.upstream_model),
            None => edits.add_model(scanned, &model.upstream_model),
        },
        RequestBody::Form(_, form) => {
            if let Some(name) = &form.model
                && *name.text != *model.upstream_model
            {
                edits.set_raw(name.span, &model.upstream_model);
            }
        }
    }
}
