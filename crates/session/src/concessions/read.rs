//! Finds out what of a request a provider refused.

mod members;
mod place;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::schema;
use crate::port::concession::Concession;
use crate::port::model::Failure;
use crate::port::prompt::Prompt;

/// Members that an item cannot do without.
const NEEDED: [&str; 10] = [
    "type",
    "role",
    "content",
    "call_id",
    "name",
    "arguments",
    "input",
    "output",
    "text",
    "image_url",
];

/// Words before what a provider takes.
const RIGHT: [&str; 5] =
    [", expected", "expected one of", "supported values", "permitted values", "allowed values"];

/// Words about the type of an item or of a part of one, where they do not name it.
const GENERAL: [&str; 15] = [
    "content[].type",
    "item type",
    "type of item",
    "unsupported item",
    "unrecognized item",
    "unknown item",
    "unexpected item",
    "invalid item",
    "input item",
    "this item",
    "items of this",
    "content part",
    "content type",
    "part type",
    "content block",
];

/// Words for a member that is missing.
const MISSING: [&str; 7] = [
    "field required",
    "missing field",
    "missing required",
    "missing property",
    "is required",
    "a required property",
    "must have required",
];

/// Words for a call without its output, or an output without its call, at the place where it must be.
const UNPAIRED: [&str; 9] = [
    "no tool output found",
    "no tool call found",
    "tool_use ids",
    "tool_result",
    "must be followed by tool messages",
    "must be a response to a",
    "function call turn",
    "function response turn",
    "number of function response parts",
];

/// Words for a text without characters.
const EMPTY: [&str; 8] = [
    "non-empty",
    "nonempty",
    "must not be empty",
    "cannot be empty",
    "can't be empty",
    "should not be empty",
    "empty content",
    "at least 1 character",
];

/// The type of calls of functions.
const CALL: &str = "function_call";

/// Beginnings of the ids of items, by their type.
const ID_MARKS: [(&str, &str); 5] = [
    ("rs_", "reasoning"),
    ("fc_", "function_call"),
    ("ctc_", "custom_tool_call"),
    ("ws_", "web_search_call"),
    ("ig_", "image_generation_call"),
];

/// A refused request.
pub(super) struct Refused {
    /// The words of the provider, in lower case.
    text: String,
    /// Those of them that say what is wrong, without what would be right.
    wrong: String,
    items: Vec<Value>,
    /// The paths of the members of tools that could be left out.
    tool_members: Vec<String>,
    /// The types of the tools.
    tools: BTreeSet<String>,
    tool_names: BTreeSet<String>,
}

impl Refused {
    pub(super) fn new(failure: &Failure, prompt: &Prompt) -> Self {
        // The address of the request is no part of it.
        let message = failure.message.split_once(" answered ").map_or(&*failure.message, |it| it.1);
        let details = failure.details.as_deref().unwrap_or_default();
        let tools: Vec<Value> = serde_json::from_str(&prompt.tools).unwrap_or_default();
        let texts = |name: &str| {
            let texts = tools.iter().filter_map(|tool| tool[name].as_str());
            texts.map(str::to_owned).collect()
        };
        let lower = message.to_lowercase();
        let wrong = RIGHT.iter().filter_map(|words| lower.find(words)).min();
        let wrong = &lower[..wrong.unwrap_or(lower.len())];
        Self {
            wrong: format!("{wrong} {}", details.to_lowercase()),
            text: format!("{message} {details}").to_lowercase(),
            items: prompt.input.iter().filter_map(|item| serde_json::from_str(item).ok()).collect(),
            tool_members: schema::member_paths(&tools),
            tools: texts("type"),
            tool_names: texts("name"),
        }
    }

    /// The parts that a request could do without, the most likely first. `has_repaired` is true if the provider was
    /// conceded a named cause before: then words about one, of which nothing is left, name nothing else.
    pub(super) fn concessions(&self, has_repaired: bool) -> Vec<Concession> {
        let named = self.named_cause();
        if let Some(repairs) = named.filter(|repairs| has_repaired || !repairs.is_empty()) {
            // What other repairs would change is not what was refused.
            return repairs;
        }
        let mut found = Vec::new();
        // A place is exact; a text may name several things.
        found.extend(self.of_tool_place());
        found.extend(self.of_item_place());
        found.extend(self.named_parameters());
        found.extend(self.named_member());
        found.extend(self.named_tool_member());
        if self.says(&MISSING) && self.names_any(&["annotations", "status", "summary", "id"]) {
            found.push(Concession::AllMembers);
        }
        // An id refers to reasoning that is not in the history; without ids nothing refers to it.
        if self.has_ids() && self.says(&["without its required 'reasoning'"]) {
            found.push(Concession::Ids);
        }
        found.extend(self.order_of_messages());
        if self.is_about_system_messages() {
            found.push(Concession::SystemMessages);
        }
        if self.is_about_tool_types() {
            found.push(Concession::ToolTypes);
        }
        if self.is_about_reasoning() {
            found.extend(self.reasoning());
        }
        if self.has_images() && self.says(&["image", "vision", "multimodal", "multi-modal"]) {
            found.push(Concession::Images);
        }
        found.extend(self.named_type());
        if self.says(&UNPAIRED) {
            found.extend(self.calls_as_text());
        }
        if self.says(&["call_id", "tool_call_id", "tool call id", "call id"]) && self.has_calls() {
            found.push(Concession::CallIds);
        }
        if self.has_ids() && self.is_about_ids() {
            found.push(Concession::Ids);
        }
        found.extend(self.named_tool());
        found.extend(self.of_id());
        found.extend(self.form_of_messages());
        found.extend(self.general());
        found
    }

    /// The repairs of a cause that the text names in words of its own, whatever place it has next to them: places are
    /// those of the provider's wire, and not of the history.
    fn named_cause(&self) -> Option<Vec<Concession>> {
        let is_missing = self.says(&["missing", "must be passed", "is required", "must have"]);
        if self.says(&["thought_signature", "thought signature"]) {
            // Calls of another model lack it.
            return Some(if is_missing { self.calls_as_text() } else { self.reasoning() });
        }
        if self.says(&["reasoning_content"]) && is_missing {
            let member = std::iter::once(Concession::ReasoningMember);
            return Some(member.chain(self.calls_as_text()).collect());
        }
        let is_opaque = self.says(&["signature", "encrypted content", "encrypted_content"])
            || (self.says(&["thinking", "reasoning"]) && self.says(&["block"]));
        let is_refused = self.says(&[
            "invalid signature",
            "invalid `signature`",
            "not valid",
            "could not be",
            "cannot be",
            "mismatch",
            "does not match",
            "expired",
            "verif",
            "decrypt",
            "corrupt",
        ]);
        if is_opaque && is_refused {
            return Some(self.reasoning());
        }
        let is_of_other_wire = self.says(&["messages.", "messages[", "contents[", "contents."]);
        if is_of_other_wire && self.has_images() && self.wrong.contains("image") {
            return Some(vec![Concession::Images]);
        }
        // One that is offered is not refused for its name.
        let calls = self.items.iter().filter(|item| item["call_id"].is_string());
        let mut names = calls.filter_map(|item| item["name"].as_str());
        let tool = names.find(|name| {
            self.names_any(&[&name.to_lowercase()]) && !self.tool_names.contains(*name)
        });
        tool.map(|name| vec![Concession::CallsOf(name.to_owned())])
    }

    /// Refusals of the order of messages, or of a missing text.
    fn order_of_messages(&self) -> Vec<Concession> {
        let mut found = Vec::new();
        if self.says(&["alternate", "alternating"]) {
            found.push(Concession::AlternatingRoles);
        }
        let is_in_row =
            ["2 or more", "two or more", "consecutive", "in a row", "multiple assistant"];
        if self.says(&is_in_row) && self.says(&["message", "role"]) {
            found.extend([Concession::MergedMessages, Concession::AlternatingRoles]);
        }
        let is_end = [
            "prefill",
            "last message",
            "last role",
            "final message",
            "final assistant",
            "must end with",
            "should end with",
            "at the end of the list",
        ];
        if self.says(&is_end) {
            found.push(Concession::UserAtEnd);
        }
        if self.says(&EMPTY) {
            found.push(Concession::NoEmptyTexts);
        }
        found
    }

    /// The form of messages: their text as one text; then, those of the model as what the user says.
    fn form_of_messages(&self) -> Vec<Concession> {
        let is_about_answers = self.says(&[
            "assistant message",
            "assistant content",
            "assistant turn",
            "'assistant'",
            "`assistant`",
            "\"assistant\"",
            "role assistant",
            "role:assistant",
            "role: assistant",
            "role=assistant",
        ]);
        let is_about_form = self.says(&["input_text", "output_text", "refusal", "annotations"])
            || (self.says(&["content", "text"]) && self.says(&["string", "str type", "list"]));
        let mut found = Vec::new();
        if is_about_answers || is_about_form {
            found.push(Concession::PlainTexts);
        }
        if is_about_answers {
            found.push(Concession::AnswersAsQuotes);
        }
        found
    }

    /// Where the text says only that something of the kind is refused: what the history has of items that some
    /// providers do not know, the least essential first.
    fn general(&self) -> Vec<Concession> {
        if !self.says(&GENERAL) {
            return Vec::new();
        }
        let is_part = self.says(&["part", "block", "content"]);
        let images = self.has_images().then_some(Concession::Images);
        let texts = is_part.then_some(Concession::PlainTexts);
        let mut found: Vec<Concession> =
            images.clone().filter(|_| is_part).into_iter().chain(texts).collect();
        found.extend(self.reasoning().pop());
        let kinds = self.items.iter().filter_map(|item| item["type"].as_str());
        let kinds: BTreeSet<&str> = kinds
            .filter(|kind| {
                let is_known = matches!(*kind, "message" | "reasoning") || call_type(kind) == CALL;
                !is_known && !kind.ends_with("_output")
            })
            .collect();
        found.extend(kinds.into_iter().map(|kind| Concession::ItemType(kind.to_owned())));
        found.extend(images);
        found.push(Concession::ItemType(CALL.to_owned()));
        found
    }

    /// Calls whose form or place is refused.
    fn calls_as_text(&self) -> Vec<Concession> {
        let kinds = [CALL, "custom_tool_call"];
        let kinds = kinds.iter().filter(|kind| self.items.iter().any(|it| it["type"] == **kind));
        kinds.map(|kind| Concession::ItemType((*kind).to_owned())).collect()
    }

    /// The items of the type whose ids the text names, where the requests have no ids.
    fn of_id(&self) -> Option<Concession> {
        let is_named = |mark: &str| {
            self.text.match_indices(mark).any(|(at, _)| {
                let (before, after) = (&self.text[..at], &self.text[at + mark.len()..]);
                !before.ends_with(char::is_alphanumeric)
                    && after.starts_with(|c: char| c.is_ascii_alphanumeric())
            })
        };
        let (_, kind) = ID_MARKS.into_iter().find(|(mark, kind)| {
            is_named(mark) && self.items.iter().any(|item| item["type"] == **kind)
        })?;
        match kind {
            "reasoning" => Some(Concession::Reasoning),
            kind => Some(Concession::ItemType(kind.to_owned())),
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|words| self.text.contains(words))
    }

    fn is_about_system_messages(&self) -> bool {
        let is_of_role =
            |item: &Value| matches!(item["role"].as_str(), Some("developer" | "system"));
        let names_role =
            self.says(&["system message", "system prompt", "system role", "developer"])
                || (self.says(&["system"]) && self.says(&["role", "message", "assistant"]))
                || self.says(&[
                    "unexpected role",
                    "unexpected message role",
                    "invalid role",
                    "invalid message role",
                    "unknown role",
                    "unknown message role",
                    "unsupported role",
                ]);
        names_role && self.items.iter().any(is_of_role)
    }

    fn is_about_tool_types(&self) -> bool {
        let others = || self.tools.iter().filter(|kind| *kind != "function");
        // The types of items have those of tools in their names.
        let kinds: BTreeSet<&str> =
            self.items.iter().filter_map(|it| it["type"].as_str()).collect();
        let text = kinds.iter().rev().fold(self.text.clone(), |text, kind| text.replace(kind, ""));
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        let is_named = others().any(|kind| text.contains(kind.as_str()));
        let is_general = says(&["tool type", "type of tool", "tools[", "tools."])
            || (says(&["tool"]) && says(&["type", "support", "variant"]));
        others().next().is_some()
            && (is_general || (is_named && says(&["tool", "support", "unknown", "variant"])))
    }

    fn is_about_reasoning(&self) -> bool {
        self.says(&[
            "encrypted_content",
            "encrypted content",
            "encrypted",
            "decrypt",
            "reasoning",
            "thinking",
            "thought",
            "signature",
        ])
    }

    /// The reasoning so far, if another key may have encrypted it; then all of it.
    fn reasoning(&self) -> Vec<Concession> {
        let is_reasoning = |item: &&Value| item["type"] == "reasoning";
        let count = self.items.iter().filter(is_reasoning).count();
        if count == 0 {
            return Vec::new();
        }
        let is_of_other_key = self.says(&["encrypt", "decrypt", "signature", "verif"]);
        let earlier = is_of_other_key.then_some(Concession::EarlierReasoning(count));
        earlier.into_iter().chain([Concession::Reasoning]).collect()
    }

    fn has_image(&self, item: &Value) -> bool {
        let parts = ["content", "output"].into_iter().filter_map(|list| item[list].as_array());
        item["type"] == "image_generation_call"
            || parts.flatten().any(|part| part["type"] == "input_image")
    }

    fn has_images(&self) -> bool {
        self.items.iter().any(|item| self.has_image(item))
    }

    fn has_calls(&self) -> bool {
        self.items.iter().any(|item| item["call_id"].is_string())
    }

    fn has_ids(&self) -> bool {
        self.items.iter().any(|item| item["id"].is_string())
    }

    fn is_about_ids(&self) -> bool {
        let ids = self.items.iter().filter_map(|item| item["id"].as_str());
        let names_one =
            ids.filter(|id| id.len() > 2).any(|id| self.text.contains(&id.to_lowercase()));
        names_one
            || self.says(&["'id'", "`id`", "\"id\"", ".id", "item id", "item_id", "item with id"])
    }

    /// The type of items that the text names.
    fn named_type(&self) -> Option<Concession> {
        let kinds = self.items.iter().filter_map(|item| item["type"].as_str());
        let kinds: BTreeSet<&str> = kinds.filter(|kind| *kind != "message").collect();
        // The longest name: `function_call_output` has `function_call` in it.
        let named = kinds.into_iter().filter(|kind| self.text.contains(&kind.to_lowercase()));
        let kind = named.max_by_key(|kind| kind.len())?;
        let is_whole = kind != "function_call"
            || self.says(&["type", "unknown", "unsupported", "not supported", "item"]);
        is_whole.then(|| Concession::ItemType(call_type(kind)))
    }

    /// A tool that the text names, and that the history has calls of.
    fn named_tool(&self) -> Option<Concession> {
        let calls = self.items.iter().filter(|item| item["call_id"].is_string());
        let mut names = calls.filter_map(|item| item["name"].as_str());
        // One that is offered is not refused for its name.
        let is_named = |name: &&str| {
            self.text.contains(&name.to_lowercase()) && !self.tool_names.contains(*name)
        };
        names.find(is_named).map(|name| Concession::CallsOf(name.to_owned()))
    }
}

/// The paths of the members of an item and of the objects in its lists, without the places in lists.
fn member_paths(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                member_paths(value, &path, paths);
                paths.insert(path);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| member_paths(value, path, paths)),
        _ => {}
    }
}

/// The type of the call that an output of this type answers, or the type itself.
fn call_type(kind: &str) -> String {
    match kind.strip_suffix("_output") {
        Some("function_call") => "function_call".to_owned(),
        Some("custom_tool_call") => "custom_tool_call".to_owned(),
        Some("tool_search") => "tool_search_call".to_owned(),
        Some(call) => call.to_owned(),
        None => kind.to_owned(),
    }
}

/// The kinds of items in the prompt that some providers refuse, each with its number.
pub(super) fn suspects(prompt: &Prompt) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for item in prompt.input.iter() {
        let Ok(item) = serde_json::from_str::<Value>(item) else { continue };
        let kind = item["type"].as_str().unwrap_or("message");
        if item.to_string().contains("\"input_image\"") {
            *counts.entry("image".to_owned()).or_default() += 1;
        }
        if item["role"] == "assistant" {
            *counts.entry("assistant message".to_owned()).or_default() += 1;
        }
        if !kind.ends_with("_output") && kind != "message" {
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(kind, count)| format!("{count} × `{}`", visible::text(&kind)))
        .collect()
}
