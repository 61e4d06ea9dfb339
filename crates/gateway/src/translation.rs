//! Translation between the wire of a caller and another one of the backend, by the crate `wire`: a request on its way
//! out, and its answer on its way back. It knows neither limits nor prices: those are read from the caller's request and
//! from the backend's own bytes, whatever is translated.

mod warning_log;

use std::sync::Arc;

use bytes::Bytes;
use http_client::sse::Reader;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use wire::{
    Decoder, EncodeContext, Encoder, Event, Failure, FailureKind, Request, Response,
    ResponseContext, Target, Tool, ToolChoice, Usage, Warnings, Wire,
};

use crate::envelope_seal::Seal;
use crate::keeper::Keeper;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Backend;

pub(crate) use warning_log::{WarningLog, note_sealed};

/// Most bytes of an answer in a row without an event: a backend that only keeps the connection alive.
const MAX_IDLE_BYTES: usize = 1 << 20;

/// A request to translate.
pub(crate) struct Source<'a> {
    /// The wire that it is in.
    pub(crate) caller: Wire,
    /// The body, edited as for a backend of the same wire.
    pub(crate) body: &'a [u8],
    /// The model's name for the caller, and at the upstream.
    pub(crate) model: (&'a str, &'a str),
    /// Name of the upstream: reasoning is bound to it.
    pub(crate) upstream: &'a str,
    /// Most output tokens of the model.
    pub(crate) max_output: u64,
    /// Most output tokens that were reserved for one answer, if the request names a limit.
    pub(crate) bound: Option<u32>,
    pub(crate) is_stream: bool,
    /// The caller asked for the usage of a stream.
    pub(crate) wants_usage: bool,
    pub(crate) input_estimate: u64,
    /// Seconds of Unix time.
    pub(crate) now: u64,
    /// Id of the request.
    pub(crate) id: &'a str,
    /// Keeps the response, unless the request forbids that.
    pub(crate) keeper: Option<&'a Arc<Keeper>>,
    /// Opens and seals reasoning of the caller's project.
    pub(crate) seal: Seal,
}

/// A translated request.
pub(crate) struct Outgoing {
    /// The path, as a client would send it: `/v1/…` or `/v1beta/…`.
    pub(crate) path: String,
    /// Headers that the wire needs.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    pub(crate) translation: Translation,
}

/// The way back for the answer to a translated request.
pub(crate) struct Translation {
    caller: Wire,
    backend: Wire,
    response: ResponseContext,
    encode: EncodeContext,
    /// Members that were left out of the request.
    warnings: Warnings,
    keeper: Option<Arc<Keeper>>,
    seal: Seal,
}

/// A translated answer that has arrived as a whole.
pub(crate) struct WholeAnswer {
    /// A body, or the events of a stream.
    pub(crate) body: Bytes,
    /// The response to keep.
    pub(crate) kept: Option<Kept>,
}

/// A response to keep, as JSON.
pub(crate) type Kept = (Arc<Keeper>, Bytes);

impl Source<'_> {
    /// Writes the request in the wire `to` of a backend.
    ///
    /// # Errors
    /// 400 or 413 for a request that cannot be read, or has what the backend's wire cannot carry.
    pub(crate) fn write(&self, to: Wire, backend: &Backend) -> Result<Outgoing, ApiError> {
        let (name, upstream_model) = self.model;
        let refused = |error: wire::Error| refused(error, self.caller);
        let (mut request, mut warnings) =
            wire::read_request(self.caller, upstream_model, self.body).map_err(refused)?;
        if request.input.is_empty() {
            return Err(without_input(self.caller));
        }
        let keeper = self.keeper.filter(|_| request.store != Some(false));
        if let Some(keeper) = keeper {
            keeper.check_room(self.body.len())?;
        }
        self.adapt(&mut request, to, keeper.is_some(), &mut warnings)?;
        let maker = (self.upstream, upstream_model);
        self.seal.open_request(&mut request, (self.caller, maker), &mut warnings);
        let host = backend.base.origin.host().unwrap_or_default();
        let mut target =
            Target::of_server(to, self.upstream, host, upstream_model).on(backend.platform);
        let known = target.max_output.unwrap_or(u64::MAX);
        target.max_output = Some(known.min(self.max_output));
        if let Some(takes_schemas) = backend.structured_output {
            (target.messages.has_format, target.chat.has_format) = (takes_schemas, takes_schemas);
        }
        leave_search_out(&mut request, to, &target, &mut warnings);
        let encoded = wire::write_request(to, &request, &target).map_err(refused)?;
        warnings.extend(encoded.warnings);
        let response = ResponseContext {
            provider: self.upstream.to_owned(),
            model: upstream_model.to_owned(),
            tools: encoded.tools,
            id: self.id.replacen("req_", "resp_", 1),
        };
        let encode = EncodeContext {
            model: name.to_owned(),
            provider: self.upstream.to_owned(),
            upstream_model: upstream_model.to_owned(),
            created_at: self.now,
            input_estimate: self.input_estimate,
            stream_usage: self.wants_usage,
            kept: keeper.map(|keeper| keeper.name()),
        };
        let path = match encoded.path {
            path if path.starts_with("/v1") => path,
            path => format!("/v1{path}"),
        };
        Ok(Outgoing {
            path,
            headers: encoded.headers,
            body: encoded.body.into(),
            translation: Translation {
                caller: self.caller,
                backend: to,
                response,
                encode,
                warnings,
                keeper: keeper.cloned(),
                seal: self.seal.clone(),
            },
        })
    }

    /// Applies the gateway's rules to the request.
    fn adapt(
        &self,
        request: &mut Request<'_>,
        to: Wire,
        is_kept: bool,
        warnings: &mut Warnings,
    ) -> Result<(), ApiError> {
        request.stream = self.is_stream;
        if request.store == Some(true) && !is_kept {
            if self.caller == Wire::Responses {
                let message = "This response cannot be kept: the model's server keeps none, and the gateway does not \
                               in its place. Leave `store` out or set it to false, and send the earlier items in \
                               `input`.";
                return Err(ApiError::bad_request("unsupported_parameter", message).param("store"));
            }
            warnings.add("store", "the model's server keeps no answers");
        }
        request.store = None;
        // A limit in a spelling that the translation does not know counts, too: it was reserved.
        if let Some(bound) = self.bound.map(u64::from) {
            request.max_output_tokens =
                Some(request.max_output_tokens.map_or(bound, |limit| limit.min(bound)));
        }
        // The name that servers of these wires have for it.
        let is_openai = matches!(to, Wire::Responses | Wire::Chat);
        if is_openai && request.service_tier.as_deref() == Some("priority") {
            request.service_tier = Some("fast".into());
        }
        Ok(())
    }
}

/// Leaves the web search out where the server has none. Agents offer it to every server next to their own tools, and
/// their models can do without it; a request with no other tool, or that must search, is refused.
fn leave_search_out(request: &mut Request<'_>, to: Wire, target: &Target, warnings: &mut Warnings) {
    let has_search = match to {
        Wire::Messages => target.messages.web_search.is_some(),
        Wire::Chat => target.chat.has_web_search,
        Wire::Responses | Wire::Gemini => true,
    };
    let is_search = |tool: &Tool<'_>| matches!(tool, Tool::WebSearch(_));
    let must_search = matches!(request.tool_choice, Some(ToolChoice::WebSearch));
    if has_search || must_search || request.tools.iter().all(is_search) {
        return;
    }
    let offered = request.tools.len();
    request.tools.retain(|tool| !is_search(tool));
    if request.tools.len() < offered {
        warnings.add("tools", "the model's server has no web search");
    }
}

/// 400 `missing_required_parameter`.
fn without_input(caller: Wire) -> ApiError {
    let member = match caller {
        Wire::Responses => "input",
        Wire::Chat | Wire::Messages => "messages",
        Wire::Gemini => "contents",
    };
    let message = format!("`{member}` is empty. Send at least one message.");
    ApiError::bad_request("missing_required_parameter", message).param(member)
}

/// The error for a request that cannot be translated, with the names of the caller's wire.
fn refused(error: wire::Error, caller: Wire) -> ApiError {
    let error = error.in_wire(caller);
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let refused = ApiError::new(status, error.code.as_str(), error.message);
    match error.member.is_empty() {
        true => refused,
        false => refused.param(error.member),
    }
}

impl Translation {
    /// The caller's wire.
    pub(crate) fn caller(&self) -> Wire {
        self.caller
    }

    /// Counts what was left out of the request. Returns the value of the header that names it.
    pub(crate) fn note(&self, log: &WarningLog) -> Option<HeaderValue> {
        log.note(self.caller, self.backend, self.warnings.as_slice());
        warning_log::shown(self.warnings.as_slice())
    }

    /// Begins the translation of a stream.
    pub(crate) fn stream(self, log: &Arc<WarningLog>) -> AnswerStream {
        let keeping = self.keeper.map(|keeper| {
            Box::new(Keeping {
                keeper,
                encode: self.encode.clone(),
                collected: Response::default(),
            })
        });
        AnswerStream {
            keeping,
            maker: Maker::new(self.seal, self.backend, &self.encode),
            wires: (self.caller, self.backend),
            reader: Reader::new(),
            decoder: Decoder::new(self.backend, self.response),
            encoder: Encoder::new(self.caller, self.encode),
            log: Arc::clone(log),
            warnings: Warnings::default(),
            idle_bytes: 0,
            has_failed: false,
        }
    }

    /// Translates an answer that has arrived as a whole, to a body or to the events of a stream.
    ///
    /// # Errors
    /// The answer is an error, or none of the backend's wire.
    pub(crate) fn whole(
        self,
        body: &[u8],
        is_events: bool,
        to_events: bool,
        log: &WarningLog,
    ) -> Result<WholeAnswer, ApiError> {
        let Self { caller, backend, response, encode, keeper, seal, .. } = self;
        let maker = Maker::new(seal, backend, &encode);
        let mut decoder = Decoder::new(backend, response);
        let mut encoder = to_events.then(|| Encoder::new(caller, encode.clone()));
        let (mut collected, mut out) = (Response::default(), String::new());
        let mut sink = |event: Event<'_>| {
            maker.seal(event, &mut |event| {
                collected.event(&event);
                if let Some(encoder) = &mut encoder {
                    encoder.event(&event, &mut out);
                }
            });
        };
        if is_events {
            let mut reader = Reader::new();
            let fed = reader.feed(body, |_, data| decoder.event(data, &mut sink));
            if fed.is_err() {
                return Err(failed(&too_long(), caller));
            }
            if let Some(rest) = reader.rest().filter(|rest| !rest.is_empty()) {
                decoder.event(rest, &mut sink);
            }
            decoder.finish(&mut sink);
        } else {
            decoder.document(body, &mut sink);
        }
        log.note(caller, backend, collected.warnings.as_slice());
        let kept = keeper.and_then(|keeper| kept(keeper, &collected, &encode));
        if let Some(encoder) = encoder {
            log.note(caller, backend, encoder.warnings().as_slice());
            return match &collected.end {
                Some(Err(failure)) => Err(failed(failure, caller)),
                _ => Ok(WholeAnswer { body: out.into(), kept }),
            };
        }
        match wire::whole_response(caller, &collected, &encode) {
            Ok(body) => Ok(WholeAnswer { body: body.into(), kept }),
            Err(failure) => Err(failed(&failure, caller)),
        }
    }
}

/// The error of a backend in the caller's wire.
pub(crate) fn failed(failure: &Failure, caller: Wire) -> ApiError {
    let status = StatusCode::from_u16(failure.kind.status(caller));
    let status = status.unwrap_or(StatusCode::BAD_GATEWAY);
    let error = ApiError::passed(status, failure.body(caller).into_bytes());
    match failure.retry_after_ms {
        Some(wait) => error.header(header::RETRY_AFTER, HeaderValue::from(wait.div_ceil(1000))),
        None => error,
    }
}

fn too_long() -> Failure {
    Failure::new(FailureKind::Malformed, "An event of the model server's answer is too long.")
}

/// A response to keep, if it has ended without a failure.
fn kept(keeper: Arc<Keeper>, collected: &Response, encode: &EncodeContext) -> Option<Kept> {
    let has_ended = matches!(collected.end, Some(Ok(_)));
    let whole = has_ended.then(|| wire::whole_response(Wire::Responses, collected, encode));
    whole.and_then(Result::ok).map(|body| (keeper, body.into()))
}

/// A response that is collected to be kept.
struct Keeping {
    keeper: Arc<Keeper>,
    encode: EncodeContext,
    collected: Response,
}

/// Who made the reasoning of an answer, and the seal on it.
struct Maker {
    seal: Seal,
    wire: Wire,
    provider: String,
    model: String,
}

impl Maker {
    fn new(seal: Seal, wire: Wire, encode: &EncodeContext) -> Self {
        let (provider, model) = (encode.provider.clone(), encode.upstream_model.clone());
        Self { seal, wire, provider, model }
    }

    fn seal(&self, event: Event<'_>, next: &mut dyn FnMut(Event<'_>)) {
        self.seal.close_event(event, (self.wire, &self.provider, &self.model), next);
    }
}

/// The translation of a stream.
pub(crate) struct AnswerStream {
    maker: Maker,
    /// Until the response has ended.
    keeping: Option<Box<Keeping>>,
    /// The caller's and the backend's.
    wires: (Wire, Wire),
    reader: Reader,
    decoder: Decoder,
    encoder: Encoder,
    log: Arc<WarningLog>,
    warnings: Warnings,
    /// Bytes since the last event that says more than that the server is alive.
    idle_bytes: usize,
    has_failed: bool,
}

impl AnswerStream {
    /// Reads bytes of the backend's answer, split at any position.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut String) {
        if self.has_failed {
            return;
        }
        let Self { reader, decoder, encoder, warnings, has_failed, keeping, maker, .. } = self;
        let (mut is_idle, before) = (true, out.len());
        let mut is_alive = bytes.trim_ascii_start().first() == Some(&b':');
        let fed = reader.feed(bytes, |_, data| {
            is_alive |= is_ping(data);
            decoder.event(data, &mut |event| {
                is_idle = false;
                maker.seal(event, &mut |event| {
                    if let Some(keeping) = keeping {
                        keeping.collected.event(&event);
                    }
                    note(&event, warnings, has_failed);
                    encoder.event(&event, out);
                });
            });
        });
        // The beginning of a long event is more than a sign of life.
        let is_idle = is_idle && self.reader.rest().is_none_or(<[u8]>::is_empty);
        self.idle_bytes = if is_idle { self.idle_bytes.saturating_add(bytes.len()) } else { 0 };
        if is_idle && is_alive && out.len() == before {
            out.push_str(keep_alive(self.wires.0));
        }
        if fed.is_err() {
            self.fail(&too_long(), out);
        } else if self.idle_bytes > MAX_IDLE_BYTES {
            let message =
                "The model's response has stalled: its server only keeps the connection alive.";
            self.fail(&Failure::new(FailureKind::Timeout, message), out);
        }
    }

    /// Returns whether the last bytes were no more than a sign of life.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle_bytes > 0
    }

    /// Ends the stream with an error, unless it has ended.
    pub(crate) fn fail(&mut self, failure: &Failure, out: &mut String) {
        if !self.has_failed && !self.decoder.is_ended() {
            self.has_failed = true;
            self.encoder.event(&Event::Failed { failure, usage: Usage::default() }, out);
        }
    }

    /// The backend's answer is over: a stream without its end gets an error as its end.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if !self.has_failed {
            let Self { reader, decoder, encoder, warnings, has_failed, keeping, maker, .. } = self;
            let mut sink = |event: Event<'_>| {
                maker.seal(event, &mut |event| {
                    if let Some(keeping) = keeping {
                        keeping.collected.event(&event);
                    }
                    note(&event, warnings, has_failed);
                    encoder.event(&event, out);
                });
            };
            // Some servers leave out the blank line after the last event.
            if let Some(rest) = reader.rest().filter(|rest| !rest.is_empty()) {
                decoder.event(rest, &mut sink);
            }
            decoder.finish(&mut sink);
        }
        let (caller, backend) = self.wires;
        self.log.note(caller, backend, std::mem::take(&mut self.warnings).as_slice());
        self.log.note(caller, backend, self.encoder.warnings().as_slice());
    }

    /// The response to keep, once it has ended.
    pub(crate) fn take_kept(&mut self) -> Option<Kept> {
        self.keeping.as_ref().filter(|keeping| keeping.collected.end.is_some())?;
        let Keeping { keeper, encode, collected } = *self.keeping.take()?;
        kept(keeper, &collected, &encode)
    }

    /// Returns whether it has ended with an error: the rest of the backend's answer is not read.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }
}

/// Returns whether an event says only that the server is alive.
fn is_ping(data: &[u8]) -> bool {
    const LONGEST: usize = 64;
    let says = |word: &[u8]| memchr::memmem::find(data, word).is_some();
    data.len() <= LONGEST && (says(b"\"ping\"") || says(b"\"keepalive\""))
}

/// A sign of life without any other meaning in the wire of a caller.
fn keep_alive(caller: Wire) -> &'static str {
    match caller {
        Wire::Messages => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        // Clients of Gemini take a comment for the beginning of an error, and some of them blank lines.
        Wire::Gemini => "",
        Wire::Responses | Wire::Chat => ": keep-alive\n\n",
    }
}

fn note(event: &Event<'_>, warnings: &mut Warnings, has_failed: &mut bool) {
    match event {
        Event::Warning { member, reason } => warnings.add((*member).to_owned(), reason),
        Event::Failed { .. } => *has_failed = true,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(backend: Wire, caller: Wire) -> AnswerStream {
        let translation = Translation {
            caller,
            backend,
            response: ResponseContext { id: "resp_1".into(), ..ResponseContext::default() },
            encode: EncodeContext::default(),
            warnings: Warnings::default(),
            keeper: None,
            seal: crate::envelope_seal::test_seal(),
        };
        translation.stream(&Arc::default())
    }

    #[test]
    fn keep_alives_for_ever_end_with_an_error() {
        for backend in Wire::ALL {
            let mut answer = stream(backend, Wire::Messages);
            let (mut out, comments) = (String::new(), ": ping\n\n".repeat(1 << 10));
            let mut fed = 0;
            while !answer.has_failed() {
                answer.feed(comments.as_bytes(), &mut out);
                fed += comments.len();
                assert!(fed <= MAX_IDLE_BYTES + comments.len(), "{backend}");
            }
            assert!(out.contains("timeout_error") && out.contains("keeps the connection"), "{out}");
        }
    }

    #[test]
    fn signs_of_life_reach_the_caller_in_its_wire() {
        let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
        for (backend, sign) in [(Wire::Messages, ping), (Wire::Chat, ": OPENROUTER PROCESSING\n\n")]
        {
            for caller in Wire::ALL.into_iter().filter(|caller| *caller != backend) {
                let (mut answer, mut out) = (stream(backend, caller), String::new());
                answer.feed(sign.as_bytes(), &mut out);
                assert_eq!(out, keep_alive(caller), "{backend} {caller}");
                // Some clients of Gemini take anything but an event for a broken answer.
                assert_eq!(out.is_empty(), caller == Wire::Gemini);
                assert!(answer.is_idle());
                let mut decoded = Vec::new();
                let mut reader = Reader::new();
                reader.feed(out.as_bytes(), |_, data| decoded.push(data.to_vec())).unwrap();
                assert_eq!(decoded.len(), usize::from(caller == Wire::Messages), "no event");
                let (begun, mut answered) = (out.len(), out);
                answer.feed(b"data: {\"cho", &mut answered);
                assert_eq!(answered.len(), begun, "a part of an event is none");
            }
        }
    }

    #[test]
    fn a_line_without_an_end_ends_with_an_error() {
        let mut answer = stream(Wire::Chat, Wire::Gemini);
        let mut out = String::new();
        answer.feed(b"data: {\"id\":\"", &mut out);
        let piece = vec![b'x'; 256 << 10];
        for _ in 0..200 {
            answer.feed(&piece, &mut out);
        }
        assert!(answer.has_failed());
        let length = out.len();
        answer.finish(&mut out);
        assert_eq!(out.len(), length, "one end");
        assert!(out.contains("\"error\""), "{out}");
    }
}
