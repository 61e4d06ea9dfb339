//! The history that the model sees, as ready-made JSON fragments of the Responses API.

mod call_ids;
mod images;
mod loaded_tools;
mod sendable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::port::fragment::{Fragment, Head, Mark};
use crate::port::item::{ToolContent, UserContent};
use crate::port::prompt::{Prompt, PromptInput, weight};
use crate::port::tool_set::{FoundTool, SearchTool};
use call_ids::CallIds;
pub(crate) use call_ids::{with_call_id, with_unique_calls};
pub(crate) use loaded_tools::{
    LoadedTools, compacted as compacted_searches, failed_search, search_that_found,
};

/// The model's history in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    fragments: Vec<Fragment>,
    /// Sum of the weights.
    weight: usize,
    /// The part of it that a compaction would sum up.
    summarized: usize,
    /// Tokens that the provider counted, and the weight that there was then.
    counted: Option<(i64, usize)>,
    loaded: LoadedTools,
    call_ids: CallIds,
    /// Number of fragments up to the summary of the last compaction.
    compacted: usize,
    /// It has messages of the model that say nothing, which requests leave out.
    has_empty_messages: bool,
}

/// Bytes of JSON that make about a token.
const BYTES_A_TOKEN: usize = 4;

/// About how many tokens a part of the history takes.
pub(crate) fn tokens_of(fragment: &Fragment) -> u64 {
    (weight(&fragment.text) / BYTES_A_TOKEN) as u64
}

impl History {
    pub(crate) fn new(fragments: Vec<Fragment>) -> Self {
        let mut history = Self::default();
        history.fragments.reserve(fragments.len());
        history.extend(fragments);
        history
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The tools that searches have loaded.
    pub(crate) fn loaded_tools(&self) -> &LoadedTools {
        &self.loaded
    }

    /// Number of fragments up to the summary of the last compaction, which stay until the next one.
    pub(crate) fn compacted(&self) -> usize {
        self.compacted
    }

    /// The ids of its calls.
    pub(crate) fn call_ids(&self) -> &CallIds {
        &self.call_ids
    }

    /// The input of a request with all of it.
    pub(crate) fn input(&self) -> PromptInput {
        let items = self.fragments.iter().map(|fragment| fragment.text.clone()).collect();
        PromptInput::weighed(items, self.weight)
    }

    /// The input of a request, made of this history, for a model with this kind of search.
    pub(crate) fn understood(&self, mut input: PromptInput, search: SearchTool) -> PromptInput {
        if self.has_empty_messages {
            input = input.rewritten(sendable::without_empty_messages);
        }
        if search == SearchTool::Function && self.loaded.has_native() {
            return input.rewritten(loaded_tools::searches_as_functions);
        }
        input
    }

    pub(crate) fn push(&mut self, fragment: Fragment) {
        let fragment = sendable(fragment);
        let added = weight(&fragment.text);
        self.loaded.read(&fragment.text);
        self.call_ids.read(&fragment.text);
        self.has_empty_messages |= sendable::is_empty_message(&fragment.text);
        self.weight += added;
        if fragment.effective_mark() == Mark::Summarized {
            self.summarized += added;
        }
        let is_summary = is_summary(&fragment);
        self.fragments.push(fragment);
        if is_summary {
            self.compacted = self.fragments.len();
        }
    }

    pub(crate) fn extend(&mut self, fragments: impl IntoIterator<Item = Fragment>) {
        for fragment in fragments {
            self.push(fragment);
        }
    }

    /// Records the provider's token count for the whole present history.
    pub(crate) fn count(&mut self, tokens: i64) {
        self.counted = (tokens > 0).then_some((tokens, self.weight));
    }

    /// About how many tokens it takes.
    pub(crate) fn tokens(&self) -> u64 {
        let (counted, weight) = self.counted.unwrap_or((0, 0));
        let since = self.weight.saturating_sub(weight) / BYTES_A_TOKEN;
        u64::try_from(counted).unwrap_or(0) + since as u64
    }

    /// About how many tokens a compaction would sum up.
    pub(crate) fn summarized_tokens(&self) -> u64 {
        (self.summarized / BYTES_A_TOKEN) as u64
    }
}

/// Begins the text of a compaction's summary.
pub(crate) const SUMMARY_TAG: &str = "<conversation_summary>";

/// Returns whether a fragment is the summary of a compaction. By its text: a restored history has no other record of
/// its compaction.
fn is_summary(fragment: &Fragment) -> bool {
    // The text follows the head of a message.
    const HEAD: usize = 128;
    let head = &fragment.text[..fragment.text.floor_char_boundary(HEAD)];
    fragment.mark == Mark::Summarized && head.contains(SUMMARY_TAG) && head.contains("\"user\"")
}

/// A part of the history as every provider takes it.
pub(crate) fn sendable(mut fragment: Fragment) -> Fragment {
    if let Some(text) = sendable::item(&fragment.text) {
        fragment.text = text;
    }
    fragment
}

/// A stored history in the order in which the model received it, and what it has not received yet.
/// What waits for the next request is stored when it arrives, and again at its place.
pub(crate) fn received(stored: Vec<Fragment>) -> (Vec<Fragment>, Vec<Fragment>) {
    let mut history = Vec::with_capacity(stored.len());
    let mut waiting: Vec<Fragment> = Vec::new();
    for fragment in stored {
        if fragment.is_waiting {
            waiting.push(Fragment { is_waiting: false, ..fragment });
            continue;
        }
        if let Some(at) = waiting.iter().position(|earlier| earlier.text == fragment.text) {
            waiting.remove(at);
        }
        history.push(fragment);
    }
    (history, waiting)
}

/// `fragments` without the outputs whose calls are not among them: the provider refuses those.
pub(crate) fn without_orphans(fragments: Vec<Fragment>) -> Vec<Fragment> {
    let mut calls = BTreeSet::new();
    let mut whole = Vec::with_capacity(fragments.len());
    for fragment in fragments {
        if fragment.text.contains("\"call_id\"")
            && let Ok(Head { kind, call_id: Some(call_id), .. }) =
                serde_json::from_str::<Head<'_>>(&fragment.text)
        {
            if !is_output(&kind) {
                calls.insert(call_id.into_owned());
            } else if !calls.contains(&*call_id) {
                continue;
            }
        }
        whole.push(fragment);
    }
    whole
}

/// The output given to a call that never got one.
pub(crate) const ABORTED: &str = "aborted: the turn ended before this call finished";

pub(crate) fn message(role: &str, text: &str) -> Arc<str> {
    fragment(&json!({
        "type": "message",
        "role": role,
        "content": [{ "type": "input_text", "text": text }],
    }))
}

impl Prompt {
    /// Adds a note of the server, for this request only.
    pub fn add_notice(&mut self, text: &str) {
        self.input.push_passing(message("developer", text));
    }
}

/// A message of the agent.
pub(crate) fn said(text: &str) -> Arc<str> {
    fragment(&json!({
        "type": "message",
        "role": "assistant",
        "content": [{ "type": "output_text", "text": text }],
    }))
}

/// The user's message, with what `app` says of a mentioned app, by id and name. The texts of skills are
/// messages of their own.
pub(crate) fn user_message(
    content: &[UserContent],
    app: impl Fn(&str, &str) -> String,
) -> Fragment {
    let text = |text: &str| json!({ "type": "input_text", "text": text });
    let parts = content.iter().filter_map(|part| match part {
        UserContent::Text { text: written, .. } => Some(text(written)),
        UserContent::Image { url } => Some(json!({ "type": "input_image", "image_url": url })),
        UserContent::LocalImage { data_url, .. } => {
            Some(json!({ "type": "input_image", "image_url": data_url }))
        }
        UserContent::App { id, name } => Some(text(&app(id, name))),
        UserContent::Skill { .. } => None,
    });
    let mut parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        let names = content.iter().filter_map(|part| match part {
            UserContent::Skill { name, .. } => Some(format!("${name}")),
            _ => None,
        });
        parts.push(text(&names.collect::<Vec<String>>().join(" ")));
    }
    Fragment::kept(fragment(&json!({ "type": "message", "role": "user", "content": parts })))
}

/// The kind of a call, by the type of the item that made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallKind {
    /// A function, with JSON arguments.
    Function,
    /// A custom tool, with free text.
    Custom,
    /// `tool_search` as a kind of item of its own.
    ToolSearch,
    /// Something that only the provider knows: the type of the item.
    Other(String),
}

impl CallKind {
    /// The kind of call that an item of this type with a call id is; `None` for outputs.
    fn of_item(kind: &str) -> Option<Self> {
        match kind {
            "function_call" => Some(Self::Function),
            "custom_tool_call" => Some(Self::Custom),
            "tool_search_call" => Some(Self::ToolSearch),
            output if is_output(output) => None,
            other => Some(Self::Other(other.to_owned())),
        }
    }
}

/// Returns whether items of this type answer a call.
pub(crate) fn is_output(kind: &str) -> bool {
    kind.ends_with("_output")
}

pub(crate) fn call_output(call_id: &str, kind: &CallKind, output: &CallOutput) -> Fragment {
    let kind = match kind {
        CallKind::ToolSearch => return loaded_tools::search_output(call_id, output),
        CallKind::Function => "function_call_output".to_owned(),
        CallKind::Custom => "custom_tool_call_output".to_owned(),
        CallKind::Other(kind) => format!("{kind}_output"),
    };
    let stored = match output {
        CallOutput::Secret { stored, .. } => Some(stored),
        CallOutput::Text(_)
        | CallOutput::Image { .. }
        | CallOutput::Parts(_)
        | CallOutput::Tools(_) => None,
    };
    let output = match output {
        CallOutput::Text(text) | CallOutput::Secret { text, .. } => json!(text),
        CallOutput::Tools(tools) => loaded_tools::listing(tools).into(),
        CallOutput::Image { data_url } => {
            json!([{ "type": "input_image", "image_url": data_url }])
        }
        CallOutput::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                ToolContent::Text(text) => json!({ "type": "input_text", "text": text }),
                ToolContent::Image { url } => json!({ "type": "input_image", "image_url": url }),
            })
            .collect(),
    };
    let whole = |output| fragment(&json!({ "type": kind, "call_id": call_id, "output": output }));
    Fragment {
        stored: stored.map(|text| whole(json!(text))),
        ..Fragment::summarized(whole(output))
    }
}

/// Returns the fragments of the model's last request: `fragments` without the response that is
/// being worked on, which ends in calls without outputs.
pub(crate) fn before_last_response(fragments: &[Fragment]) -> &[Fragment] {
    let is_input = |fragment: &Fragment| {
        let head = serde_json::from_str::<Head<'_>>(&fragment.text);
        head.is_ok_and(|head| {
            is_output(&head.kind)
                || (head.kind == "message" && head.role.as_deref() != Some("assistant"))
        })
    };
    let end = fragments.iter().rposition(is_input).map_or(0, |last| last + 1);
    &fragments[..end]
}

/// The output of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallOutput {
    /// Text.
    Text(String),
    /// An image.
    Image { data_url: String },
    /// The output of a client's tool.
    Parts(Vec<ToolContent>),
    /// Tools that a search found.
    Tools(Vec<FoundTool>),
    /// Text with a secret of the user, and the text that is stored in its place.
    Secret { text: String, stored: String },
}

/// The outputs that a history cut short by a crash lacks: the provider refuses a call without one.
pub(crate) fn missing_outputs(history: &[Fragment]) -> Vec<Fragment> {
    let mut open: BTreeMap<String, Vec<(usize, CallKind)>> = BTreeMap::new();
    for (at, fragment) in history.iter().enumerate() {
        if !fragment.text.contains("\"call_id\"") {
            continue;
        }
        let Ok(Head { kind, call_id: Some(call_id), .. }) = serde_json::from_str(&fragment.text)
        else {
            continue;
        };
        match CallKind::of_item(&kind) {
            Some(kind) => open.entry(call_id.into_owned()).or_default().push((at, kind)),
            None => {
                open.get_mut(&*call_id).and_then(Vec::pop);
            }
        }
    }
    let mut missing: Vec<(usize, String, CallKind)> = open
        .into_iter()
        .flat_map(|(id, calls)| calls.into_iter().map(move |(at, kind)| (at, id.clone(), kind)))
        .collect();
    missing.sort_unstable();
    let aborted = CallOutput::Text(ABORTED.into());
    missing.into_iter().map(|(_, id, kind)| call_output(&id, &kind, &aborted)).collect()
}

fn fragment(value: &Value) -> Arc<str> {
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_history_gets_the_outputs_it_lacks() {
        let history: Vec<Fragment> = [
            r#"{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}"#,
            r#"{"type":"custom_tool_call","call_id":"b","name":"y","input":""}"#,
            r#"{"type":"function_call_output","call_id":"a","output":"ok"}"#,
            r#"{"type":"local_shell_call","call_id":"c","action":{}}"#,
            r#"{"type":"message","role":"user","content":[{"text":"\"call_id\""}]}"#,
        ]
        .into_iter()
        .map(|text| Fragment::new(text.into(), Mark::Unknown))
        .collect();
        let missing = missing_outputs(&history);
        assert_eq!(missing.len(), 2);
        let text = &missing[0].text;
        assert!(text.contains("custom_tool_call_output") && text.contains("\"b\""));
        let text = &missing[1].text;
        assert!(text.contains("local_shell_call_output") && text.contains("\"c\""));
        let orphaned = without_orphans(history[1..].to_vec());
        assert_eq!(orphaned.len(), 3, "the output of `a` goes with its call");
    }

    #[test]
    fn what_waited_is_where_the_model_received_it() {
        let text = |text: &str| Fragment::kept(text.into());
        let waiting = |text: &str| Fragment { is_waiting: true, ..Fragment::kept(text.into()) };
        let stored = vec![
            text("call"),
            waiting("one"),
            waiting("one"),
            waiting("two"),
            text("output"),
            text("one"),
            text("one"),
            waiting("late"),
            text("two"),
            text("answer"),
        ];
        let of_store =
            |part: Fragment| Fragment::from_stored(part.stored_text().clone(), part.stored_code());
        let (history, left) = received(stored.into_iter().map(of_store).collect());
        assert_eq!(history, ["call", "output", "one", "one", "two", "answer"].map(text));
        assert_eq!(left, [text("late")]);
    }

    #[test]
    fn fragments_of_old_threads_are_recognised_by_their_contents() {
        let mark = |text: &str| Fragment::new(text.into(), Mark::Unknown).effective_mark();
        let user = |text: &str| mark(&message("user", text));
        assert_eq!(user("Do it."), Mark::Kept);
        assert_eq!(user("<environment_context>\n</environment_context>"), Mark::Context);
        assert_eq!(mark(&message("developer", "x")), Mark::Context);
        assert_eq!(mark(&said("x")), Mark::Summarized);
        assert_eq!(mark("no JSON"), Mark::Summarized);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|code| Mark::from_code(code).code()), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn token_counts_of_the_provider_have_precedence() {
        let mut history = History::new(vec![Fragment::summarized("x".repeat(400).into())]);
        assert_eq!((history.tokens(), history.summarized_tokens()), (100, 100));
        history.count(77);
        history.push(Fragment::kept("y".repeat(40).into()));
        assert_eq!((history.tokens(), history.summarized_tokens()), (87, 100));
        let image = |bytes: usize| {
            format!(r#"{{"image_url":"data:image/png;base64,{}"}}"#, "A".repeat(bytes))
        };
        assert_eq!(weight(&image(10)), weight(&image(1 << 20)), "an image is an image");
        assert_eq!(weight(&image(10).repeat(2)), 2 * weight(&image(10)));
    }
}
