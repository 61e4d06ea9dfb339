//! Servers with another wire than Responses: a request is translated on its way out and the answer on its way in, so
//! that the rest of the program knows Responses alone.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_client::retry;
use http_client::sse::Reader;
use hyper::http::response::Parts;
use hyper::{HeaderMap, Method, Uri, header};
use wire::{ChatReasoning, EncodeContext, ResponseContext, Target, Wire};

use crate::catalog::maker_of_host;
use crate::cloud;
use crate::prompt::Hints;
use crate::{Endpoint, Failure, FailureKind, Provider, Retry};

/// The beginning of reasoning that another wire's envelope holds, as the history has it.
const FOREIGN_REASONING: &[u8] = b"\"encrypted_content\":\"wire:";

/// Members of each request of the agent that some wire has no place for. No user asked for them, so that only the log
/// says that they are left out.
const QUIET: [&str; 7] = [
    "input[].phase",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning.summary",
    "tools[].defer_loading",
    "tools[].description",
    "tools[].strict",
];

/// Warnings about other ways to write the same, which change nothing for the user.
const QUIET_REASONS: [&str; 5] = [
    "a call without its output gets a note in its place",
    "a signature without its call is sent with an empty text",
    "an output without its call is sent as text",
    "the API takes no beginning of an answer; a note follows it",
    // The end of the response says that it was cut.
    "a call whose arguments were cut is left out",
];

/// A warning for the user, who knows parameters, and not the places of items.
fn words(warning: &wire::Warning) -> Option<String> {
    let member = &*warning.member;
    if QUIET.contains(&member) || QUIET_REASONS.contains(&warning.reason) {
        return None;
    }
    let is_place = member.contains("[]") || matches!(member, "status" | "stop_reason" | "usage");
    Some(if is_place {
        warning.reason.to_owned()
    } else {
        format!("`{member}`: {}", warning.reason)
    })
}

/// A request in the provider's wire.
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    path: String,
    headers: Vec<(&'static str, String)>,
    /// The parts that the provider's wire cannot carry.
    pub(crate) left_out: Vec<String>,
    /// For the answer, if it is not in the Responses wire.
    answer: Option<(ResponseContext, EncodeContext)>,
}

impl Outgoing {
    /// Writes a request, which is one of the Responses API, for `provider`.
    ///
    /// # Errors
    /// It has what the provider's wire cannot carry.
    pub(crate) fn new(provider: &Provider, body: &Bytes, hints: Hints) -> Result<Self, Failure> {
        // Reasoning of another wire, which a Responses server refuses, is left out below.
        let has_foreign = memchr::memmem::find(body, FOREIGN_REASONING).is_some();
        if provider.wire == Wire::Responses && !has_foreign {
            let path = "/responses".to_owned();
            let (headers, left_out) = (Vec::new(), Vec::new());
            return Ok(Self { body: body.clone(), path, headers, left_out, answer: None });
        }
        let cannot = |error: wire::Error| {
            let mut message = format!(
                "this request cannot be sent to model provider `{}`, which speaks `{}`: {}",
                provider.id, provider.wire, error.message
            );
            if error.member != "text.format" {
                return Failure {
                    retry: Retry::Never,
                    ..Failure::new(FailureKind::BadRequest, message)
                };
            }
            // No provider refused anything: there is one thing to do.
            message.push_str(&format!(
                " If it does take JSON Schemas of answers, set `model_providers.{}.structured_output = true`.",
                provider.id
            ));
            Failure { retry: Retry::Never, ..Failure::new(FailureKind::Other, message) }
        };
        let (mut request, mut warnings) =
            wire::read_request(Wire::Responses, "", body).map_err(cannot)?;
        if provider.wire != Wire::Responses {
            request.max_output_tokens = request.max_output_tokens.or(hints.output.stated);
        }
        let known = target(provider, &request.model);
        let max_output = hints.output.longest.or(known.max_output);
        let mut target = Target { cache: hints.cache, max_output, ..known };
        if hints.reasoning_member {
            target.chat.reasoning = ChatReasoning::Always;
        }
        let encoded = wire::write_request(provider.wire, &request, &target).map_err(cannot)?;
        warnings.extend(encoded.warnings);
        let mut left_out = Vec::new();
        for warning in warnings.as_slice() {
            tracing::debug!(target: "model::wires", "model provider `{}`: {warning}", provider.id);
            left_out.extend(words(warning));
        }
        let context = ResponseContext {
            provider: provider.id.clone(),
            model: request.model.to_string(),
            tools: encoded.tools,
            id: new_id(),
        };
        let encode = EncodeContext {
            provider: provider.id.clone(),
            created_at: now().as_secs(),
            // The one that the server names.
            model: String::new(),
            ..EncodeContext::of_request(&request)
        };
        let mut headers = encoded.headers;
        headers.extend(conversation(provider, request.prompt_cache_key.as_deref()));
        Ok(Self {
            body: encoded.body.into(),
            path: encoded.path,
            headers,
            left_out,
            answer: (provider.wire != Wire::Responses).then_some((context, encode)),
        })
    }

    /// Where it is sent.
    ///
    /// # Errors
    /// See [`Endpoint::new`].
    pub(crate) fn endpoint(&self, provider: &Provider) -> Result<Endpoint, Failure> {
        let endpoint = Endpoint::new(provider, &Method::POST, &self.path)?;
        Ok(endpoint.with_headers(&self.headers))
    }

    /// The reader of its answer; `None` for the Responses wire.
    pub(crate) fn translation(&self, provider: &Provider) -> Option<Translation> {
        let (context, encode) = self.answer.clone()?;
        Some(Translation {
            source: Source::Text(Reader::new()),
            decoder: wire::Decoder::new(provider.wire, context),
            encoder: wire::Encoder::new(Wire::Responses, encode),
            named: 0,
        })
    }
}

/// Reads an answer in another wire, and writes it as a stream of the Responses API.
#[derive(Debug)]
pub(crate) struct Translation {
    source: Source,
    decoder: wire::Decoder,
    encoder: wire::Encoder,
    /// Warnings of the encoder that were taken.
    named: usize,
}

/// The form of a stream.
#[derive(Debug)]
enum Source {
    /// Server-sent events.
    Text(Reader),
    /// Frames of Amazon's.
    #[cfg(feature = "bedrock")]
    Frames(crate::FrameReader),
}

impl Translation {
    /// `of` for an answer in Amazon's frames.
    ///
    /// # Errors
    /// Such an answer cannot be read, with the reason.
    pub(crate) fn binary(of: Option<Self>) -> Result<Self, &'static str> {
        let Some(translation) = of else {
            return Err("it has the form of Amazon Bedrock; set `wire_api = \"messages\"`");
        };
        #[cfg(feature = "bedrock")]
        {
            Ok(Self { source: Source::Frames(crate::FrameReader::default()), ..translation })
        }
        #[cfg(not(feature = "bedrock"))]
        {
            drop(translation);
            Err("it has the form of Amazon Bedrock; build agentd with `--features bedrock`")
        }
    }

    /// Reads bytes of the answer, split at any position.
    ///
    /// # Errors
    /// An event of it is too long, or a frame is broken.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut String) -> Result<(), String> {
        let Self { source, decoder, encoder, .. } = self;
        let mut event = |data: &[u8]| decoder.event(data, &mut |event| write(encoder, &event, out));
        match source {
            Source::Text(reader) => {
                reader.feed(bytes, |_, data| event(data)).map_err(|error| error.to_string())
            }
            #[cfg(feature = "bedrock")]
            Source::Frames(reader) => reader.feed(bytes, event).map_err(|error| error.to_string()),
        }
    }

    /// The answer is over.
    pub(crate) fn finish(&mut self, out: &mut String) {
        let Self { source, decoder, encoder, .. } = self;
        let mut write = |event: wire::Event<'_>| write(encoder, &event, out);
        let rest = match source {
            // Some servers leave out the blank line after the last event.
            Source::Text(reader) => reader.rest(),
            // A cut frame is no event, and without its last event the response is cut, too.
            #[cfg(feature = "bedrock")]
            Source::Frames(_) => None,
        };
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            decoder.event(rest, &mut write);
        }
        decoder.finish(&mut write);
    }

    /// The parts that were left out since the last call.
    pub(crate) fn left_out(&mut self) -> impl Iterator<Item = String> + '_ {
        let all = self.encoder.warnings().as_slice();
        let from = std::mem::replace(&mut self.named, all.len());
        all.iter().skip(from).filter_map(words)
    }

    /// The whole of an answer that is no stream, and what was left out of it.
    pub(crate) fn document(mut self, body: &[u8], left_out: &mut Vec<String>) -> String {
        let mut out = String::new();
        let Self { decoder, encoder, .. } = &mut self;
        decoder.document(body, &mut |event| write(encoder, &event, &mut out));
        left_out.extend(self.left_out());
        out
    }
}

/// The body of a refusal, as the Responses API would have it.
pub(crate) fn refusal(provider: &Provider, head: &Parts, body: Bytes) -> Bytes {
    let body = cloud::refusal(&head.headers, &body).map_or(body, Bytes::from);
    match provider.wire {
        Wire::Responses => body,
        _ => {
            let mut failure = wire::Failure::read(head.status.as_u16(), &body);
            say_wait(&mut failure);
            failure.body(Wire::Responses).into()
        }
    }
}

/// Returns whether an answer is in frames of Amazon's.
pub(crate) fn is_binary(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/vnd.amazon.eventstream")
}

/// Writes an event of the answer.
fn write(encoder: &mut wire::Encoder, event: &wire::Event<'_>, out: &mut String) {
    if let wire::Event::Failed { failure, usage } = event
        && failure.retry_after_ms.is_some()
    {
        let mut failure = (*failure).clone();
        say_wait(&mut failure);
        return encoder.event(&wire::Event::Failed { failure: &failure, usage: *usage }, out);
    }
    encoder.event(event, out);
}

/// Adds the wait that the body of a failure asks for to its message, where the Responses API has it.
fn say_wait(failure: &mut wire::Failure) {
    if let Some(wait) = failure.retry_after_ms
        && retry::wait_in_message(&failure.message).is_none()
    {
        failure
            .message
            .push_str(&format!(" (try again in {} s)", Duration::from_millis(wait).as_secs_f64()));
    }
}

/// An address with a path of its wire below it. A version that ends the address and begins the path counts once.
pub(crate) fn joined(base_url: &str, path: &str) -> String {
    let base = base_url.trim_end_matches('/');
    let version = path.split('/').nth(1).unwrap_or_default();
    let is_version =
        version.starts_with('v') && version[1..].starts_with(|c: char| c.is_ascii_digit());
    match base.strip_suffix(version).filter(|rest| is_version && rest.ends_with('/')) {
        Some(rest) => format!("{}{path}", rest.trim_end_matches('/')),
        None => format!("{base}{path}"),
    }
}

/// Hosts of Chat Completions that the makers' data does not have.
const CHAT: [&str; 6] = [
    "api.moonshot.cn",
    "open.bigmodel.cn",
    "api.groq.com",
    "api.cerebras.ai",
    "api.together.xyz",
    "api.minimax.io",
];

/// The wire of an address, where it is known, and else Responses.
#[must_use]
pub fn wire_of_address(base_url: &str) -> Wire {
    known_wire(base_url).unwrap_or(Wire::Responses)
}

/// The wire of an address, where it is known: by its path, or by its host.
#[must_use]
pub fn known_wire(base_url: &str) -> Option<Wire> {
    // Makers offer Messages below a path of that name next to their own wire.
    if base_url.trim_end_matches('/').ends_with("/anthropic") {
        return Some(Wire::Messages);
    }
    let host = host_of(base_url);
    if CHAT.contains(&&*host) {
        return Some(Wire::Chat);
    }
    let api = maker_of_host(&host).and_then(|maker| maker.api.as_ref());
    api.map(|api| api.wire_api)
}

/// The host of an address; empty if it has none.
#[must_use]
pub fn host_of(base_url: &str) -> String {
    let uri = base_url.parse::<Uri>();
    uri.as_ref().ok().and_then(Uri::host).unwrap_or_default().to_ascii_lowercase()
}

/// The header that tells a scripted model on this machine the threads apart. Other wires than Responses have no member
/// for it, and servers elsewhere do not get it.
fn conversation(provider: &Provider, key: Option<&str>) -> Option<(&'static str, String)> {
    let is_other_wire = provider.wire != Wire::Responses;
    let key = key.filter(|_| is_other_wire && is_loopback(&host_of(&provider.base_url)))?;
    Some(("x-conversation", key.to_owned()))
}

/// Returns whether a host is this machine, by its name.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn target(provider: &Provider, model: &str) -> Target {
    let host = host_of(&provider.base_url);
    let mut target = Target::of_server(provider.wire, &provider.id, &host, model);
    if let Some(marks) = provider.cache_marks {
        target.messages.cache = marks;
    }
    if let Some(takes_schemas) = provider.structured_output {
        (target.messages.has_format, target.chat.has_format) = (takes_schemas, takes_schemas);
    }
    target.on(provider.platform)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// An id that no other response of this program has, and hardly one of another.
fn new_id() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("resp_{:x}{number:04x}", now().as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_of_an_address() {
        for (address, expect) in [
            ("https://api.anthropic.com", Some(Wire::Messages)),
            ("https://api.z.ai/api/anthropic/", Some(Wire::Messages)),
            ("https://api.z.ai/api/paas/v4", Some(Wire::Chat)),
            ("https://openrouter.ai/api/v1", Some(Wire::Chat)),
            ("https://generativelanguage.googleapis.com", Some(Wire::Gemini)),
            ("https://API.groq.com/openai/v1", Some(Wire::Chat)),
            ("https://llm.example.com/v1", None),
            ("no address", None),
        ] {
            assert_eq!(known_wire(address), expect, "{address}");
        }
        assert_eq!(wire_of_address("https://llm.example.com/v1"), Wire::Responses);
    }

    /// A server elsewhere learns no id of a thread that it did not learn before.
    #[test]
    fn threads_are_told_apart_on_this_machine_alone() {
        let sent = |wire: Wire, address: &str| {
            let provider = Provider { wire, ..Provider::http("p", address) };
            conversation(&provider, Some("t")).is_some()
        };
        for address in ["http://127.0.0.1:7701", "http://localhost:1/v1", "http://[::1]:80"] {
            assert!(sent(Wire::Messages, address) && sent(Wire::Chat, address), "{address}");
            assert!(sent(Wire::Gemini, address) && !sent(Wire::Responses, address), "{address}");
        }
        for address in
            ["https://api.anthropic.com", "http://192.168.1.2/v1", "http://localhost.example"]
        {
            assert!(!sent(Wire::Messages, address) && !sent(Wire::Chat, address), "{address}");
        }
    }

    #[test]
    fn warnings_are_in_words_for_the_user() {
        let warning =
            |member: &'static str, reason| wire::Warning { member: member.into(), reason };
        let check = |member, reason, expect: Option<&str>| {
            assert_eq!(words(&warning(member, reason)).as_deref(), expect, "{member}");
        };
        check(
            "input[]",
            "reasoning of another model is not sent",
            Some("reasoning of another model is not sent"),
        );
        check("reasoning.effort", "no switch", Some("`reasoning.effort`: no switch"));
        check("prompt_cache_key", "x", None);
        check("input[]", "a signature without its call is sent with an empty text", None);
        check("output[]", "a call whose arguments were cut is left out", None);
    }

    /// To a client of the Responses API, what a gateway has sealed is its server's own reasoning.
    #[test]
    fn sealed_reasoning_of_a_gateway_goes_back_to_it() {
        let provider = Provider { wire: Wire::Responses, ..Provider::http("p", "https://h/v1") };
        let sent = |content: &str| {
            let body = format!(
                r#"{{"model":"m","input":[{{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"{content}"}}]}}"#
            );
            let body = Bytes::from(body);
            let outgoing = Outgoing::new(&provider, &body, Hints::default()).unwrap();
            (outgoing.body == body, outgoing.left_out.len())
        };
        assert_eq!(sent("gateway:1:x:wire:1:messages:u:m:e30"), (true, 0));
        assert_eq!(sent("wire:1:messages:u:m:e30"), (false, 1));
    }

    #[test]
    fn a_version_counts_once() {
        for (base, path, expect) in [
            ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"),
            (
                "https://api.anthropic.com/v1/",
                "/v1/messages",
                "https://api.anthropic.com/v1/messages",
            ),
            ("https://h/v1", "/responses", "https://h/v1/responses"),
            ("https://h/api/v1", "/chat/completions", "https://h/api/v1/chat/completions"),
            ("https://h/v1beta", "/v1beta/models/m:x", "https://h/v1beta/models/m:x"),
            ("https://h/anthropic", "/v1/messages", "https://h/anthropic/v1/messages"),
            ("https://h/xv1", "/v1/messages", "https://h/xv1/v1/messages"),
            ("https://h", "/models", "https://h/models"),
        ] {
            assert_eq!(joined(base, path), expect);
        }
    }
}
