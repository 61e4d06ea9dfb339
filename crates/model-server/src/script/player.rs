//! Renders a scripted response as a provider's event stream, block by block, so that a response of
//! 50,000 deltas takes little memory and few writes.

use std::{collections::VecDeque, io::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{BYTES_PER_TOKEN, Scripted, Step, Usage, request::RequestBody};
use model::json;

mod items;

/// Bytes per block, unless a pause comes first.
const BLOCK: usize = 32 << 10;
const DEFAULT_CHUNK_CHARS: usize = 32;

/// The next action on the response's stream; after the last action the stream ends properly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Bytes(Bytes),
    /// Bytes of no event, which the script gives for any wire.
    Raw(Bytes),
    Pause(Duration),
    /// Close the connection.
    Cut,
    /// Send nothing more, and keep the connection open.
    Idle,
}

/// The actions of one response.
#[derive(Debug)]
pub(crate) struct Player {
    scripted: Arc<Scripted>,
    /// Index of the next step to expand into `queue`.
    step: usize,
    queue: VecDeque<Piece>,
    out: Vec<u8>,
    /// The action after `out` is sent.
    held: Option<Action>,
    ended: bool,
    sequence: u64,
    items: u32,
    tag: u64,
    usage: Usage,
    written: usize,
    last_user_text: String,
    last_tool_output: String,
    review_id: String,
    /// The response object as of now.
    response: Value,
    /// The finished items.
    output: Vec<Value>,
}

#[derive(Debug)]
enum Piece {
    /// An event: its type, and its members as JSON without braces.
    Event(&'static str, String),
    Deltas(Deltas),
    Action(Action),
    Created,
    Ended(End),
}

/// The end of a response.
#[derive(Debug)]
pub(super) enum End {
    Completed,
    /// The reason.
    Incomplete(String),
    /// The error.
    Failed(Value),
}

/// Delta events that differ only in their text.
#[derive(Debug)]
struct Deltas {
    kind: &'static str,
    /// Members before `delta`, as JSON with a trailing comma.
    members: String,
    chunks: Vec<String>,
    next: usize,
    left: usize,
    pause: Duration,
}

impl Player {
    /// Plays `scripted` as the response to `request`, a body of `body_len` bytes; ids derive from
    /// `tag`.
    pub(crate) fn new(
        scripted: Arc<Scripted>,
        request: &RequestBody<'_>,
        body_len: usize,
        tag: u64,
    ) -> Self {
        let uses = |name: &str| scripted.steps.iter().any(|step| mentions(step, name));
        let fill = |name: &str, text: &dyn Fn() -> String| match uses(name) {
            true => text(),
            false => String::new(),
        };
        let last_user_text = fill(USER_TEXT, &|| request.last_user_text());
        let last_tool_output = fill(TOOL_OUTPUT, &|| request.tool_outputs());
        let review_id = fill(REVIEW_ID, &|| request.review_id());
        let given = scripted.steps.iter().rev().find_map(|step| match step {
            Step::Usage(usage) => Some(*usage),
            _ => None,
        });
        let estimate = Usage {
            input_tokens: (body_len / BYTES_PER_TOKEN) as u64,
            // Marks that the output is not counted yet.
            output_tokens: u64::MAX,
            ..Usage::default()
        };
        let response = json!({"id": format!("resp_{tag:016x}"), "object": "response",
            "created_at": 0, "status": "in_progress", "background": false, "error": null,
            "incomplete_details": null, "instructions": null, "max_output_tokens": null,
            "metadata": {}, "model": request.model, "output": [], "parallel_tool_calls": true,
            "previous_response_id": null, "service_tier": "default", "temperature": 1.0,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "truncation": "disabled", "usage": null});
        Self {
            scripted,
            step: 0,
            queue: VecDeque::from([Piece::Created]),
            out: Vec::new(),
            held: None,
            ended: false,
            sequence: 0,
            items: 0,
            tag,
            usage: given.unwrap_or(estimate),
            written: 0,
            last_user_text,
            last_tool_output,
            review_id,
            response,
            output: Vec::new(),
        }
    }

    /// Sets members of the response that depend on its time and its request.
    pub(crate) fn about(
        mut self,
        members: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        for (name, value) in members {
            self.response[name] = value;
        }
        self
    }

    /// The response's id.
    pub(crate) fn id(&self) -> &str {
        self.response["id"].as_str().unwrap_or_default()
    }

    /// The steps of the script's response.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.scripted.steps
    }

    /// The counts of the response that are known at its beginning.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// True if the script gives no counts.
    pub(crate) fn is_estimated(&self) -> bool {
        self.usage.output_tokens == u64::MAX
    }

    /// Counts the input, unless the script does.
    pub(crate) fn with_input(mut self, input: u64, cached: u64, written: u64) -> Self {
        if self.is_estimated() {
            self.usage.input_tokens = input;
            self.usage.cached_input_tokens = cached;
            self.usage.cache_write_input_tokens = written;
        }
        self
    }

    /// The whole stream as text, without pauses.
    #[cfg(test)]
    pub(crate) fn text(self) -> String {
        let blocks = self.filter_map(|action| match action {
            Action::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        });
        blocks.collect()
    }

    fn block(&mut self) -> Action {
        Action::Bytes(std::mem::take(&mut self.out).into())
    }

    /// Writes a piece. Returns its action, if it has one.
    fn write(&mut self, piece: Piece) -> Option<Action> {
        match piece {
            Piece::Event(kind, members) => self.write_event(kind, &members),
            Piece::Deltas(deltas) => return self.write_delta(deltas),
            Piece::Action(action) => return Some(action),
            Piece::Created => {
                let members = format!("\"response\":{}", self.response);
                self.write_event("response.created", &members);
            }
            Piece::Ended(end) => self.write_end(end),
        }
        None
    }

    fn write_event(&mut self, kind: &str, members: &str) {
        self.begin(kind);
        self.out.extend_from_slice(members.as_bytes());
        self.out.extend_from_slice(b"}\n\n");
    }

    fn begin(&mut self, kind: &str) {
        let sequence = self.sequence;
        // Writing to a vector cannot fail.
        let _ = write!(
            self.out,
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{sequence},"
        );
        self.sequence += 1;
    }

    fn write_delta(&mut self, mut deltas: Deltas) -> Option<Action> {
        self.begin(deltas.kind);
        self.out.extend_from_slice(deltas.members.as_bytes());
        self.out.extend_from_slice(b"\"delta\":");
        let chunk = deltas.chunks.get(deltas.next).map_or("", String::as_str);
        json::push_str(&mut self.out, chunk);
        self.out.extend_from_slice(b"}\n\n");
        self.written += chunk.len();
        deltas.next = (deltas.next + 1) % deltas.chunks.len().max(1);
        deltas.left -= 1;
        let pause = deltas.pause;
        if deltas.left > 0 {
            self.queue.push_front(Piece::Deltas(deltas));
        }
        (!pause.is_zero()).then_some(Action::Pause(pause))
    }

    fn write_end(&mut self, end: End) {
        let mut usage = self.usage;
        if self.is_estimated() {
            usage.output_tokens = self.written.div_ceil(BYTES_PER_TOKEN) as u64;
        }
        let sum = usage.input_tokens.saturating_add(usage.output_tokens);
        let kind = match end {
            End::Completed => "completed",
            End::Incomplete(reason) => {
                self.response["incomplete_details"] = json!({ "reason": reason });
                "incomplete"
            }
            End::Failed(error) => {
                self.response["error"] = error;
                "failed"
            }
        };
        let response = &mut self.response;
        response["status"] = kind.into();
        response["output"] = std::mem::take(&mut self.output).into();
        if kind != "failed" {
            response["usage"] = json!({
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_input_tokens,
                    "cache_write_tokens": usage.cache_write_input_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_output_tokens},
                "total_tokens": usage.total_tokens.unwrap_or(sum)});
        }
        let members = format!("\"response\":{response}");
        self.write_event(&format!("response.{kind}"), &members);
    }

    /// Expands the next step into pieces; `None` after the end of the response.
    fn expand(&mut self) -> Option<()> {
        if self.ended {
            return None;
        }
        let scripted = Arc::clone(&self.scripted);
        let Some(step) = scripted.steps.get(self.step) else {
            self.ended = true;
            self.queue.push_back(Piece::Ended(End::Completed));
            return Some(());
        };
        self.step += 1;
        match step {
            Step::Message(message) => self.message(message),
            Step::Reasoning(reasoning) => self.reasoning(reasoning),
            Step::FunctionCall(call) => self.function_call(call),
            Step::CustomToolCall(call) => self.custom_tool_call(call),
            Step::ToolSearchCall(call) => self.tool_search_call(call),
            Step::WebSearch(search) => self.web_search(search),
            Step::ImageGeneration(image) => self.image_generation(image),
            // Faults change the events after they are written.
            Step::Usage(_) | Step::Fault(_) => {}
            Step::DelayMs(ms) => self.action(Action::Pause(Duration::from_millis(*ms))),
            Step::Error(error) => self.error(error),
            Step::Cut(cut) => {
                if !cut.bytes.is_empty() {
                    self.action(Action::Raw(cut.bytes.clone().into()));
                }
                self.action(Action::Cut);
                self.ended = true;
            }
            Step::Idle => {
                self.action(Action::Idle);
                self.ended = true;
            }
        }
        Some(())
    }

    fn action(&mut self, action: Action) {
        self.queue.push_back(Piece::Action(action));
    }

    fn event(&mut self, kind: &'static str, members: String) {
        self.queue.push_back(Piece::Event(kind, members));
    }

    /// The index and the id of a new item, whose id starts with `prefix`.
    fn item(&mut self, prefix: &str) -> (u32, String) {
        let index = self.items;
        self.items += 1;
        (index, format!("{prefix}_{:016x}_{index}", self.tag))
    }

    fn added(&mut self, index: u32, item: &Value) {
        self.event(
            "response.output_item.added",
            format!("\"output_index\":{index},\"item\":{item}"),
        );
    }

    fn done(&mut self, index: u32, item: Value) {
        self.event(
            "response.output_item.done",
            format!("\"output_index\":{index},\"item\":{item}"),
        );
        self.output.push(item);
    }

    fn deltas(
        &mut self,
        kind: &'static str,
        members: String,
        chunks: Vec<String>,
        repeat: usize,
        pause: u64,
    ) {
        let left = chunks.len().saturating_mul(repeat);
        if left > 0 {
            let pause = Duration::from_millis(pause);
            self.queue.push_back(Piece::Deltas(Deltas {
                kind,
                members,
                chunks,
                next: 0,
                left,
                pause,
            }));
        }
    }

    fn call_id(&self, index: u32) -> String {
        format!("call_{:016x}_{index}", self.tag)
    }

    fn fill_in(&self, text: &str) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        text.replace(REVIEW_ID, &self.review_id)
            .replace(TOOL_OUTPUT, &self.last_tool_output)
            .replace(USER_TEXT, &self.last_user_text)
    }
}

impl Iterator for Player {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        if let Some(action) = self.held.take() {
            return Some(action);
        }
        loop {
            if self.out.len() >= BLOCK {
                return Some(self.block());
            }
            let Some(piece) = self.queue.pop_front() else {
                match self.expand() {
                    Some(()) => continue,
                    None if self.out.is_empty() => return None,
                    None => return Some(self.block()),
                }
            };
            let Some(action) = self.write(piece) else { continue };
            if self.out.is_empty() {
                return Some(action);
            }
            self.held = Some(action);
            return Some(self.block());
        }
    }
}

const USER_TEXT: &str = "{{last_user_text}}";
const TOOL_OUTPUT: &str = "{{last_tool_output}}";
const REVIEW_ID: &str = "{{review_id}}";

fn mentions(step: &Step, name: &str) -> bool {
    let Step::Message(message) = step else { return false };
    message.text.contains(name) || message.chunks.iter().any(|chunk| chunk.contains(name))
}

/// Splits `text` into pieces of `chars` characters; none for an empty text.
fn cut_text(text: &str, chars: Option<usize>) -> Vec<String> {
    let chars = chars.unwrap_or(DEFAULT_CHUNK_CHARS).max(1);
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at);
        chunks.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Decoder, Event, Item};

    fn play(steps: Value) -> Vec<Action> {
        let scripted: Scripted = serde_json::from_value(json!({"steps": steps})).unwrap();
        let body = br#"{"model":"m","input":"hello"}"#;
        let request = RequestBody::parse(body).unwrap();
        Player::new(Arc::new(scripted), &request, body.len(), 7).collect()
    }

    fn events(actions: &[Action]) -> Vec<Event> {
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        for action in actions {
            if let Action::Bytes(bytes) = action {
                decoder.feed(bytes, &mut out);
            }
        }
        out
    }

    #[test]
    fn every_step_becomes_valid_events() {
        let events = events(&play(json!([
            {"reasoning": {"summary": ["why"], "content": ["raw"]}},
            {"message": {"text": "Said: {{last_user_text}}", "phase": "commentary", "chunk_chars": 8}},
            {"function_call": {"name": "f", "arguments": {"a": 1}}},
            {"custom_tool_call": {"name": "c", "input": "x", "call_id": "mine"}},
            {"web_search": "query"},
            {"usage": {"input_tokens": 9, "output_tokens": 3}},
        ])));
        let items: Vec<&Item> = events
            .iter()
            .filter_map(|event| match event {
                Event::ItemDone { item, .. } => Some(item),
                _ => None,
            })
            .collect();
        assert!(matches!(items[0], Item::Reasoning { summary, content }
            if summary == &["why"] && content == &["raw"]));
        assert!(matches!(items[1], Item::Message { text, phase: Some(model::Phase::Commentary) }
            if text == "Said: hello"));
        assert!(matches!(items[2], Item::FunctionCall { arguments, call_id, .. }
            if arguments == r#"{"a":1}"# && call_id == "call_0000000000000007_2"));
        assert!(matches!(items[3], Item::CustomToolCall { call_id, .. } if call_id == "mine"));
        assert!(matches!(items[4], Item::WebSearch { query, .. } if query == "query"));
        let texts: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                Event::TextDelta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(texts, ["Said: he", "llo"]);
        let usage = model::Usage { input: 9, output: 3, total: 12, ..model::Usage::default() };
        assert_eq!(
            events.last(),
            Some(&Event::Completed { usage, service_tier: Some("default".to_owned()) })
        );
    }

    #[test]
    fn many_deltas_are_sent_in_few_blocks() {
        let actions = play(json!([{"message": {"chunks": ["word "], "repeat": 50_000}}]));
        assert!(actions.len() < 500, "{}", actions.len());
        let events = events(&actions);
        let deltas = events.iter().filter(|event| matches!(event, Event::TextDelta { .. }));
        assert_eq!(deltas.count(), 50_000);
    }

    #[test]
    fn pauses_and_ends_follow_the_earlier_events() {
        let actions = play(json!([{"delay_ms": 5}, {"message": "a"}, {"cut": "data: {"}]));
        assert!(matches!((&actions[0], &actions[2]), (Action::Bytes(_), Action::Bytes(_))));
        assert_eq!(actions[1], Action::Pause(Duration::from_millis(5)));
        let raw = Action::Raw(Bytes::from_static(b"data: {"));
        assert_eq!(actions[3..], [raw, Action::Cut]);
        assert_eq!(play(json!(["idle"])).last(), Some(&Action::Idle));
        let failed = events(&play(json!([{"error": {"code": "server_is_overloaded"}}])));
        assert!(matches!(failed.last(), Some(Event::Failed(_))));
        let incomplete = events(&play(json!([{"error": {"incomplete": "max_output_tokens"}}])));
        assert!(matches!(incomplete.last(), Some(Event::Failed(_))));
    }
}
