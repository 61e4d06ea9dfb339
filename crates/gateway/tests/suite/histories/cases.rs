//! Requests of all kinds and the answers of their upstream, of which any part arrives and which end in any way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::common::upstream::{Received, Script, Step, Upstream, event};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Responses,
    Messages,
    Completions,
    /// One JSON body.
    WholeChat,
    Embeddings,
    Moderations,
    Images,
    Speech,
    /// A form.
    Transcription,
    /// Forwarded without a model.
    Conversation,
    /// A path that the operator has opened.
    Named,
    Background,
}

pub(super) const KINDS: [Kind; 13] = [
    Kind::Chat,
    Kind::Responses,
    Kind::Messages,
    Kind::Completions,
    Kind::WholeChat,
    Kind::Embeddings,
    Kind::Moderations,
    Kind::Images,
    Kind::Speech,
    Kind::Transcription,
    Kind::Conversation,
    Kind::Named,
    Kind::Background,
];

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it should, with a usage.
    Reported,
    /// As it should, without one.
    Silent,
    Cut,
    /// An error within it.
    Error,
    /// The upstream refuses the request.
    Refused,
    /// It goes on until its client leaves, or the upstream is silent for too long, or its gateway ends.
    Never,
    /// Not even its head comes.
    NoHead,
}

const ENDS: [End; 9] = [
    End::Reported,
    End::Silent,
    End::Cut,
    End::Error,
    End::Refused,
    End::Never,
    End::Never,
    End::Never,
    End::NoHead,
];

/// A request and its answer.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) end: End,
    texts: Vec<String>,
    /// A usage that comes before some text, and counts it all.
    early_usage: bool,
    /// True if the upstream is one that may be silent for a moment only.
    pub(super) stalls: bool,
}

/// The estimated tokens of a text, in eighths.
fn eighths(text: &str) -> u64 {
    text.chars().map(|letter| [0, 2, 5, 8, 11][letter.len_utf8()]).sum()
}

/// What a request may reserve and cost, in micro-dollars, as long as its usage does not exceed it.
pub(super) const MOST_OUTPUT: u64 = 400;

impl Case {
    pub(super) fn any(random: &mut StdRng, number: usize) -> Self {
        let kind = KINDS[random.random_range(0..KINDS.len())];
        let end = ENDS[random.random_range(0..ENDS.len())];
        let text = |random: &mut StdRng| -> String {
            let letters = [('a', 'z'), ('а', 'я'), ('一', '俿')];
            let (from, to) = letters[random.random_range(0..letters.len())];
            (0..random.random_range(8..40)).map(|_| random.random_range(from..=to)).collect()
        };
        let texts = (0..random.random_range(0..6)).map(|_| text(random)).collect();
        let early_usage = random.random_ratio(1, 4);
        // Requests without a model go to the other upstream.
        let stalls = random.random_ratio(1, 8) && kind != Kind::Conversation;
        Self { number, kind, end, texts, early_usage, stalls }
    }

    /// Number of texts.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Returns whether a client that reads on sees the end.
    pub(super) fn ends(&self) -> bool {
        match self.end {
            End::NoHead => false,
            End::Never => self.stalls || self.kind == Kind::Background,
            _ => true,
        }
    }

    /// Returns whether its answer is a stream of events.
    pub(super) fn streams(&self) -> bool {
        matches!(self.kind, Kind::Chat | Kind::Responses | Kind::Messages | Kind::Completions)
    }

    /// Path, content type and body.
    pub(super) fn request(&self) -> (&'static str, &'static str, String) {
        let mark = format!("case-{}.", self.number);
        let (json, model) = ("application/json", if self.stalls { "quick" } else { "big" });
        let of = |path, body: Value| (path, json, body.to_string());
        let said = json!([{ "role": "user", "content": mark }]);
        match self.kind {
            Kind::Chat => of(
                "/v1/chat/completions",
                json!({ "model": model, "messages": said, "stream": true, "max_tokens": MOST_OUTPUT }),
            ),
            Kind::WholeChat => of(
                "/v1/chat/completions",
                json!({ "model": model, "messages": said, "max_tokens": MOST_OUTPUT }),
            ),
            Kind::Responses => of(
                "/v1/responses",
                json!({ "model": model, "input": mark, "stream": true, "max_output_tokens": MOST_OUTPUT }),
            ),
            Kind::Background => of(
                "/v1/responses",
                json!({ "model": model, "input": mark, "background": true, "max_output_tokens": MOST_OUTPUT }),
            ),
            Kind::Messages => of(
                "/v1/messages",
                json!({ "model": model, "messages": said, "stream": true, "max_tokens": MOST_OUTPUT }),
            ),
            Kind::Completions => of(
                "/v1/completions",
                json!({ "model": model, "prompt": mark, "stream": true, "max_tokens": MOST_OUTPUT }),
            ),
            Kind::Embeddings => of("/v1/embeddings", json!({ "model": model, "input": mark })),
            Kind::Moderations => of("/v1/moderations", json!({ "model": model, "input": mark })),
            Kind::Images => {
                of("/v1/images/generations", json!({ "model": model, "prompt": mark, "n": 1 }))
            }
            Kind::Speech => {
                of("/v1/audio/speech", json!({ "model": model, "input": mark, "voice": "v" }))
            }
            Kind::Conversation => of("/v1/conversations", json!({ "metadata": { "mark": mark } })),
            Kind::Named => of("/v1/rerank", json!({ "model": model, "query": mark })),
            Kind::Transcription => {
                let part = |name: &str, value: &str| {
                    format!(
                        "--B\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
                    )
                };
                let body = format!(
                    "{}{}--B\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\nxx\r\n--B--\r\n",
                    part("model", model),
                    part("prompt", &mark),
                );
                ("/v1/audio/transcriptions", "multipart/form-data; boundary=B", body)
            }
        }
    }

    /// The eighths of tokens in the texts whose pieces a client has received.
    pub(super) fn received(&self, answer: &str) -> u64 {
        let arrived = self.texts.iter().filter(|text| answer.contains(text.as_str()));
        arrived.map(|text| eighths(text)).sum()
    }

    fn all(&self) -> u64 {
        self.texts.iter().map(|text| eighths(text)).sum()
    }

    /// The usage that counts all of its text: an eighth more than estimated, so that the gateway learns no ratio below one
    /// from answers of which it also counts other members.
    pub(super) fn usage(&self) -> [u64; 2] {
        [20, self.all().div_ceil(8) * 9 / 8 + 1]
    }

    fn usage_json(&self) -> Value {
        let [input, output] = self.usage();
        match self.kind {
            Kind::Chat | Kind::WholeChat | Kind::Completions | Kind::Embeddings => json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            }),
            _ => json!({ "input_tokens": input, "output_tokens": output }),
        }
    }

    fn delta(&self, text: &str) -> Value {
        match self.kind {
            Kind::Chat => json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }),
            Kind::Completions => json!({ "choices": [{ "index": 0, "text": text }] }),
            Kind::Messages => json!({
                "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": text },
            }),
            _ => json!({ "type": "response.output_text.delta", "delta": text }),
        }
    }

    /// The events of a usage, and of the end.
    fn last_events(&self, reports: bool) -> Vec<Step> {
        let usage = if reports { self.usage_json() } else { Value::Null };
        let data = |value: &Value| Step::Bytes(event(value).into());
        let done = Step::Bytes("data: [DONE]\n\n".into());
        match self.kind {
            Kind::Chat | Kind::Completions => {
                vec![data(&json!({ "choices": [], "usage": usage })), done]
            }
            Kind::Messages => vec![
                data(&json!({ "type": "message_delta", "delta": {}, "usage": usage })),
                data(&json!({ "type": "message_stop" })),
            ],
            _ => {
                let response = json!({ "id": "resp_x", "status": "completed", "usage": usage });
                vec![data(&json!({ "type": "response.completed", "response": response }))]
            }
        }
    }

    fn script(&self) -> Script {
        if self.end == End::Refused {
            let error = json!({ "message": "It is refused", "code": "no" });
            return Script::error(400, &json!({ "error": error }));
        }
        let script = match self.kind {
            _ if self.streams() => Script::stream(self.stream()),
            Kind::Speech => Script::chunked("audio/mpeg")
                .body(self.pieces(vec!["xx".to_owned(), "yy".to_owned()])),
            Kind::Background => Script::json(&self.background("queued")),
            _ => Script::chunked("application/json").body(self.pieces(self.json())),
        };
        match self.end {
            End::NoHead => script.before(Step::Hang),
            _ => script,
        }
    }

    fn stream(&self) -> Vec<Step> {
        let data = |value: &Value| Step::Bytes(event(value).into());
        // A comment comes first, as the head of an answer waits for a first piece.
        let mut steps = vec![Step::Bytes(": begins\n\n".into())];
        if self.early_usage && self.kind == Kind::Chat {
            let usage = json!({ "prompt_tokens": 20, "completion_tokens": 0, "total_tokens": 20 });
            steps.push(data(&json!({ "choices": [{ "delta": {} }], "usage": usage })));
        }
        steps.extend(self.texts.iter().map(|text| data(&self.delta(text))));
        match self.end {
            End::Reported | End::Silent => {
                steps.extend(self.last_events(self.end == End::Reported));
            }
            End::Error => steps.push(data(&json!({
                "type": "error", "error": { "type": "overloaded_error", "message": "It failed" },
            }))),
            End::Cut => steps.push(Step::Cut),
            _ => steps.push(Step::Hang),
        }
        steps
    }

    /// A JSON body in pieces.
    fn json(&self) -> Vec<String> {
        let texts = self.texts.concat();
        let usage = if self.end == End::Reported { self.usage_json() } else { Value::Null };
        let body = match self.kind {
            Kind::WholeChat => json!({
                "id": "chatcmpl-1", "object": "chat.completion",
                "choices": [{ "index": 0, "message": { "role": "assistant", "content": texts } }],
                "usage": usage,
            }),
            Kind::Images => json!({ "created": 1, "data": [{ "url": "u" }], "usage": usage }),
            Kind::Conversation => {
                json!({ "id": format!("conv_{}", self.number), "object": "conversation" })
            }
            _ => json!({ "object": "list", "data": [], "usage": usage }),
        };
        let text = body.to_string();
        let middle = (0..text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        vec![text[..middle].to_owned(), text[middle..].to_owned()]
    }

    fn pieces(&self, pieces: Vec<String>) -> Vec<Step> {
        let mut steps: Vec<Step> =
            pieces.into_iter().map(|piece| Step::Bytes(piece.into())).collect();
        match self.end {
            End::Reported | End::Silent | End::Error | End::Refused => {}
            End::Cut => *steps.last_mut().expect("a piece") = Step::Cut,
            End::Never | End::NoHead => *steps.last_mut().expect("a piece") = Step::Hang,
        }
        steps
    }

    fn background(&self, status: &str) -> Value {
        let is_over = status == "completed";
        let usage =
            if is_over && self.end == End::Reported { self.usage_json() } else { Value::Null };
        let text = json!([{ "type": "message", "content": [{ "type": "output_text", "text": self.texts.concat() }] }]);
        json!({
            "id": format!("resp_{}", self.number), "object": "response", "status": status,
            "background": true, "error": null, "output": if is_over { text } else { json!([]) },
            "usage": usage,
        })
    }
}

/// The upstream of all cases.
pub(super) struct Cases {
    pub(super) upstream: Upstream,
    table: Arc<Table>,
}

#[derive(Default)]
struct Table {
    cases: Mutex<BTreeMap<usize, (Case, bool)>>,
    arrived: Notify,
}

impl Cases {
    pub(super) async fn start() -> Self {
        let table = Arc::new(Table::default());
        let shared = Arc::clone(&table);
        let upstream = Upstream::answering(move |received| shared.answer(received)).await;
        Self { upstream, table }
    }

    pub(super) fn add(&self, case: &Case) {
        self.table.lock().insert(case.number, (case.clone(), false));
    }

    /// Waits until the upstream has received a case's request.
    pub(super) async fn has(&self, number: usize) {
        loop {
            let arrived = self.table.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.table.lock().get(&number).is_some_and(|(_, arrived)| *arrived) {
                return;
            }
            arrived.await;
        }
    }
}

impl Table {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, (Case, bool)>> {
        self.cases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, received: &Received) -> Script {
        let body = String::from_utf8_lossy(&received.body).into_owned();
        let digits = |text: &str| -> Option<usize> {
            text.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
        };
        let mark = body.split("case-").nth(1).and_then(digits);
        let fetched = received.path.strip_prefix("/v1/responses/resp_").and_then(digits);
        let mut cases = self.lock();
        let script = match (mark, fetched) {
            (Some(number), _) => cases.get_mut(&number).map(|(case, arrived)| {
                *arrived = true;
                case.script()
            }),
            (None, Some(number)) => {
                cases.get(&number).map(|(case, _)| Script::json(&case.background("completed")))
            }
            (None, None) => None,
        };
        drop(cases);
        self.arrived.notify_waiters();
        script.unwrap_or_else(|| Script::error(404, &json!({ "error": { "message": "Nothing" } })))
    }
}
