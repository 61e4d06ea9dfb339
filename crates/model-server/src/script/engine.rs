//! Selects the response to a request: conversations, expectations and the end of the script. It
//! sends nothing; a [`Player`] renders the selected response.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::{Value, json};

use wire::Wire;

use super::{
    ErrorStep, Fault, OnExhausted, Script, Scripted, Step, player::Player, request::RequestBody,
};

/// Most conversations whose position in the script is remembered; beyond it, the least recently
/// used one starts over.
const MAX_CONVERSATIONS: usize = 4096;

/// A script, and the position of each conversation in it.
#[derive(Debug)]
pub(crate) struct Engine {
    responses: Vec<Arc<Scripted>>,
    on_exhausted: OnExhausted,
    conversations: Mutex<Conversations>,
}

/// A request of any wire.
pub(crate) struct InWire<'a> {
    pub(crate) wire: Wire,
    pub(crate) conversation: &'a str,
    /// The request in the form of the Responses API.
    pub(crate) responses: &'a [u8],
    /// The request as it was sent.
    pub(crate) body: &'a [u8],
}

/// The response to a request.
pub(crate) enum Answer {
    Stream(Box<Player>),
    Refusal(Refusal),
}

/// A response with an error status, sent after `delay`.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) delay: Duration,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// In the form of the Responses API, unless the script gives it.
    pub(crate) body: Bytes,
    /// The script gives the body: it is sent as it is, on every wire.
    pub(crate) is_verbatim: bool,
}

#[derive(Debug, Default)]
struct Conversations {
    known: HashMap<Box<str>, Conversation>,
    /// Number of conversations so far, forgotten ones included.
    begun: u64,
    clock: u64,
}

#[derive(Debug, Clone, Copy)]
struct Conversation {
    ordinal: u64,
    /// Number of responses given.
    given: usize,
    last_used: u64,
}

impl Engine {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            responses: script.responses.into_iter().map(Arc::new).collect(),
            on_exhausted: script.on_exhausted,
            conversations: Mutex::default(),
        }
    }

    /// Answers a request of the Responses API whose bytes are `body`.
    pub(crate) fn answer(&self, body: &[u8], headers: &HeaderMap) -> Answer {
        let request = match RequestBody::parse(body) {
            Ok(request) => request,
            Err(error) => return unreadable(&error),
        };
        if let Some(message) = request.refused_schema() {
            return Answer::Refusal(Refusal::error(400, "invalid_json_schema", &message));
        }
        let conversation = request.conversation().to_owned();
        let via = Via { wire: Wire::Responses, is_http: false };
        self.play(via, &conversation, &request, body, headers)
    }

    /// Answers a request of any wire, which was checked.
    pub(crate) fn answer_in_wire(&self, asked: &InWire<'_>, headers: &HeaderMap) -> Answer {
        let request = match RequestBody::parse(asked.responses) {
            Ok(request) => request,
            Err(error) => return unreadable(&error),
        };
        if asked.wire == Wire::Responses
            && let Some(message) = request.refused_schema()
        {
            return Answer::Refusal(Refusal::error(400, "invalid_json_schema", &message));
        }
        let via = Via { wire: asked.wire, is_http: true };
        self.play(via, asked.conversation, &request, asked.body, headers)
    }

    /// Plays the next response of a conversation for a request, whose bytes as they were sent are `body`.
    fn play(
        &self,
        via: Via,
        conversation: &str,
        request: &RequestBody<'_>,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Answer {
        let chosen = self.choose((via, conversation), request, body, headers);
        let (scripted, given) = match chosen {
            Ok(chosen) => chosen,
            Err(refusal) => return Answer::Refusal(refusal),
        };
        let delay = scripted.steps.iter().map_while(|step| match step {
            Step::DelayMs(ms) => Some(*ms),
            _ => None,
        });
        let first = scripted.steps.iter().find(|step| !matches!(step, Step::DelayMs(_)));
        if let Some(Step::Error(error @ ErrorStep { status: Some(status), .. })) = first {
            let delay = Duration::from_millis(delay.sum());
            return Answer::Refusal(Refusal::scripted(error, *status, delay));
        }
        let tag = tag(conversation, body.len(), given);
        Answer::Stream(Box::new(Player::new(scripted, request, body.len(), tag)))
    }

    /// The response for the request's conversation, and the number of earlier ones. Only a request
    /// that meets the response's expectations advances the conversation.
    fn choose(
        &self,
        (via, conversation): (Via, &str),
        request: &RequestBody<'_>,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Result<(Arc<Scripted>, usize), Refusal> {
        let mut conversations = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = conversations.enter(conversation);
        let given = conversation.given;
        let scripted = self.nth(conversation.ordinal, given)?;
        if let Some(expect) = &scripted.expect
            && let Err(problem) = expect.check(request, body, headers)
        {
            let message = format!("expectation of response {} failed: {problem}", given + 1);
            return Err(Refusal::error(400, "expectation_failed", &message));
        }
        if let Some(problem) = scripted.steps.iter().find_map(|step| uncarried(step, via)) {
            let message = format!("response {} of the script has {problem}", given + 1);
            return Err(Refusal::error(400, "unsupported_step", &message));
        }
        conversation.given += 1;
        Ok((Arc::clone(scripted), given))
    }

    fn nth(&self, ordinal: u64, given: usize) -> Result<&Arc<Scripted>, Refusal> {
        let fits = |response: &&Arc<Scripted>| response.conversation.is_none_or(|c| c == ordinal);
        let mut own = self.responses.iter().filter(fits);
        if let Some(response) = own.nth(given) {
            return Ok(response);
        }
        let own: Vec<_> = self.responses.iter().filter(fits).collect();
        let again = match (self.on_exhausted, own.len()) {
            (OnExhausted::Error, _) | (_, 0) => None,
            (OnExhausted::RepeatLast, count) => Some(own[count - 1]),
            (OnExhausted::Restart, count) => Some(own[given % count]),
        };
        again.ok_or_else(|| {
            let message = format!(
                "the script has {} responses for this conversation and all were given; add one, \
                 or set `on_exhausted`",
                own.len()
            );
            Refusal::error(400, "script_exhausted", &message)
        })
    }
}

impl Conversations {
    fn enter(&mut self, key: &str) -> &mut Conversation {
        self.clock += 1;
        if !self.known.contains_key(key) && self.known.len() >= MAX_CONVERSATIONS {
            self.forget_oldest();
        }
        let begun = &mut self.begun;
        let conversation = self.known.entry(key.into()).or_insert_with(|| {
            let ordinal = *begun;
            *begun += 1;
            Conversation { ordinal, given: 0, last_used: 0 }
        });
        conversation.last_used = self.clock;
        conversation
    }

    fn forget_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, conversation)| conversation.last_used);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.known.remove(&key);
        }
    }
}

impl Refusal {
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let error = ErrorStep {
            code: Some(code.to_owned()),
            message: Some(message.to_owned()),
            ..ErrorStep::default()
        };
        Self::scripted(&error, status, Duration::ZERO)
    }

    fn scripted(error: &ErrorStep, status: u16, delay: Duration) -> Self {
        let body = match &error.body {
            Some(Value::String(text)) => text.clone(),
            Some(body) => body.to_string(),
            None => {
                let message = error.message.as_deref().unwrap_or("scripted error");
                json!({"error": {"code": error.code, "message": message}}).to_string()
            }
        };
        let headers = error.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let is_verbatim = error.body.is_some();
        Self { delay, status, headers, body: body.into(), is_verbatim }
    }
}

fn unreadable(error: &serde_json::Error) -> Answer {
    let message = format!("the request body cannot be read: {error}");
    Answer::Refusal(Refusal::error(400, "invalid_json", &message))
}

/// The way of a request to the script.
#[derive(Clone, Copy)]
struct Via {
    wire: Wire,
    /// True if the answer is sent over HTTP, and not over a WebSocket or within the process.
    is_http: bool,
}

/// A step that a wire cannot carry.
fn uncarried(step: &Step, Via { wire, is_http }: Via) -> Option<String> {
    if matches!(step, Step::Fault(_)) && !is_http {
        return Some("a `fault`, which answers over HTTP alone have".to_owned());
    }
    let what = match (step, wire) {
        (Step::Fault(Fault::RepeatedIndex), Wire::Gemini) => "a repeated index",
        (Step::Fault(Fault::FalseSignature), Wire::Chat) => "a false signature",
        (Step::ImageGeneration(_), Wire::Messages | Wire::Chat) => "a generated image",
        (Step::WebSearch(_), Wire::Chat) => "a search by the provider",
        _ => return None,
    };
    Some(format!("{what}, which answers on the wire `{wire}` do not have"))
}

/// Distinguishes responses in ids: the same request at the same position gets the same ids in every
/// run, and ids do not repeat within a growing history.
fn tag(conversation: &str, body_len: usize, given: usize) -> u64 {
    // The standard hasher with its fixed keys: stable within a build, which suffices.
    let mut hasher = std::hash::DefaultHasher::new();
    (conversation, body_len, given).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(json: &str) -> Engine {
        Engine::new(Script::parse("test", json).unwrap())
    }

    fn ask(engine: &Engine, key: &str) -> String {
        let body = json!({"prompt_cache_key": key, "input": "x"}).to_string();
        match engine.answer(body.as_bytes(), &HeaderMap::new()) {
            Answer::Stream(player) => player.text(),
            Answer::Refusal(refusal) => String::from_utf8_lossy(&refusal.body).into_owned(),
        }
    }

    const TWO: &str = r#""responses": [{"steps": [{"message": "one"}]},
        {"steps": [{"message": "two"}]}]"#;

    #[test]
    fn conversations_advance_independently() {
        let engine = engine(&format!("{{{TWO}}}"));
        for (key, part) in [("a", "one"), ("b", "one"), ("a", "two"), ("a", "exhausted")] {
            assert!(ask(&engine, key).contains(part), "{key} {part}");
        }
    }

    #[test]
    fn requests_after_the_last_response_fail() {
        for (mode, texts) in
            [("repeat_last", ["one", "two", "two"]), ("restart", ["one", "two", "one"])]
        {
            let engine = engine(&format!(r#"{{"on_exhausted": "{mode}", {TWO}}}"#));
            for text in texts {
                assert!(ask(&engine, "a").contains(text), "{mode} {text}");
            }
        }
    }

    #[test]
    fn responses_can_be_kept_for_one_conversation() {
        let engine = engine(
            r#"{"responses": [{"conversation": 1, "steps": [{"message": "second"}]},
                {"conversation": 0, "steps": [{"message": "first"}]},
                {"steps": [{"message": "common"}]}]}"#,
        );
        for (key, part) in
            [("x", "first"), ("y", "second"), ("y", "common"), ("x", "common"), ("z", "common")]
        {
            assert!(ask(&engine, key).contains(part), "{key} {part}");
        }
    }

    #[test]
    fn a_failed_expectation_does_not_count() {
        let engine =
            engine(r#"{"responses": [{"expect": {"user_text_contains": "y"}, "steps": []}]}"#);
        assert!(ask(&engine, "a").contains("user_text_contains"));
        assert!(ask(&engine, "a").contains("user_text_contains"));
    }

    #[test]
    fn the_memory_of_conversations_is_bounded() {
        let engine = engine(&format!("{{{TWO}}}"));
        for key in 0..=MAX_CONVERSATIONS {
            ask(&engine, &key.to_string());
        }
        assert_eq!(engine.conversations.lock().unwrap().known.len(), MAX_CONVERSATIONS);
        assert!(ask(&engine, "1").contains("two"));
        assert!(ask(&engine, "0").contains("one"));
    }

    #[test]
    fn a_body_that_is_not_json_is_refused() {
        let engine = engine(&format!("{{{TWO}}}"));
        let Answer::Refusal(refusal) = engine.answer(b"{", &HeaderMap::new()) else {
            panic!("answered");
        };
        assert_eq!(refusal.status, 400);
    }
}
