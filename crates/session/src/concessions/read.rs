//! Finds out what of a request a provider refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

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

/// Words for a member that a provider does not know.
const UNKNOWN_MEMBER: [&str; 14] = [
    "unsupported parameter",
    "unsupported_parameter",
    "unknown parameter",
    "unknown_parameter",
    "unrecognized",
    "unknown field",
    "unknown argument",
    "unknown name",
    "unexpected",
    "extra input",
    "extra_forbidden",
    "extra field",
    "additional propert",
    "is not permitted",
];

/// Words before what a provider takes.
const RIGHT: [&str; 5] =
    [", expected", "expected one of", "supported values", "permitted values", "allowed values"];

/// Members of a request that it can do without, the longer names before those that they contain.
const PARAMETERS: [&str; 12] = [
    "reasoning.summary",
    "reasoning.effort",
    "reasoning",
    "parallel_tool_calls",
    "tool_choice",
    "prompt_cache_key",
    "service_tier",
    "text.verbosity",
    "verbosity",
    "include",
    "store",
    "text",
];

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
            tools: texts("type"),
            tool_names: texts("name"),
        }
    }

    /// The parts that a request could do without, the most likely first.
    pub(super) fn concessions(&self) -> Vec<Concession> {
        let mut found = Vec::new();
        // The parameter is exact; a text may name several things.
        found.extend(self.of_parameter());
        found.extend(self.named_parameter());
        found.extend(self.named_member());
        // An id refers to reasoning that is not in the history; without ids nothing refers to it.
        if self.has_ids() && self.says(&["without its required 'reasoning'"]) {
            found.push(Concession::Ids);
        }
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
        if self.says(&["call_id", "tool_call_id", "tool call id", "call id"]) && self.has_calls() {
            found.push(Concession::CallIds);
        }
        if self.has_ids() && self.is_about_ids() {
            found.push(Concession::Ids);
        }
        found.extend(self.named_tool());
        found.extend(self.of_id());
        found
    }

    /// Returns whether the text names `name` as a word; a plain word of English only where it is quoted, or
    /// stands alone after a colon.
    fn names(&self, name: &str) -> bool {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_part = |c: char| c.is_alphanumeric() || "_.[".contains(c);
        self.wrong.match_indices(name).any(|(at, _)| {
            let (before, after) = (&self.wrong[..at], &self.wrong[at + name.len()..]);
            // The end of a sentence is no part of a path.
            let ends = after.strip_prefix('.').unwrap_or(after).chars().next();
            let is_word =
                !before.ends_with(is_part) && ends.is_none_or(|c| !is_part(c) || c == '.');
            let is_quoted =
                before.ends_with(['\'', '`', '"']) && after.starts_with(['\'', '`', '"']);
            let is_alone = (before.trim().is_empty() || before.ends_with([':', ' ']))
                && (after.trim().is_empty() || after.starts_with(':'));
            is_word && (!is_plain || is_quoted || is_alone)
        })
    }

    /// A member of the request that the provider does not know.
    fn named_parameter(&self) -> Option<Concession> {
        if !self.says(&UNKNOWN_MEMBER) {
            return None;
        }
        let name = PARAMETERS.into_iter().find(|name| self.names(name))?;
        let name = if name == "verbosity" { "text.verbosity" } else { name };
        Some(Concession::Parameter(name.to_owned()))
    }

    /// A member of items that the provider does not know, and names without its place.
    fn named_member(&self) -> Option<Concession> {
        if !self.says(&UNKNOWN_MEMBER) {
            return None;
        }
        let mut paths = BTreeSet::new();
        self.items.iter().for_each(|item| member_paths(item, "", &mut paths));
        let is_named = |path: &&String| {
            let name = path.rsplit('.').next().unwrap_or(path);
            !NEEDED.contains(&name) && name != "id" && self.names(name)
        };
        paths.iter().find(is_named).map(|path| Concession::Member(path.clone()))
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

    /// The place `input[3].name` of an item, and the member there.
    fn of_parameter(&self) -> Option<Concession> {
        let place = ["input[", "input.", "messages[", "messages."].iter().find_map(|start| {
            let at = self.text.find(start)? + start.len();
            let rest = &self.text[at..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let index: usize = rest[..digits].parse().ok()?;
            Some((index, rest[digits..].trim_start_matches(']')))
        });
        let (index, rest) = place?;
        let path: Vec<&str> = rest
            .strip_prefix('.')
            .map(|rest| {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || "_.[]".contains(c)));
                rest[..end.unwrap_or(rest.len())]
                    .split(['.', '[', ']'])
                    .filter(|s| !s.is_empty())
                    .collect()
            })
            .unwrap_or_default();
        let item = self.items.get(index)?;
        let kind = item["type"].as_str().unwrap_or("message");
        let names = path.into_iter().filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
        let names: Vec<&str> = names.collect();
        let whole = names.join(".");
        let mut paths = BTreeSet::new();
        member_paths(item, "", &mut paths);
        match names.last().copied() {
            Some("id") => Some(Concession::Ids),
            _ if kind == "reasoning" => self.reasoning().into_iter().next(),
            Some("call_id") => Some(Concession::CallIds),
            Some("role") => Some(Concession::SystemMessages),
            Some("image_url" | "detail") => Some(Concession::Images),
            Some(name) if !NEEDED.contains(&name) && paths.contains(&whole) => {
                Some(Concession::Member(whole))
            }
            _ if self.has_image(item) => Some(Concession::Images),
            _ if matches!(item["role"].as_str(), Some("developer" | "system")) => {
                Some(Concession::SystemMessages)
            }
            Some("name") => item["name"].as_str().map(|name| Concession::CallsOf(name.to_owned())),
            _ => (kind != "message").then(|| Concession::ItemType(call_type(kind))),
        }
    }

    fn is_about_system_messages(&self) -> bool {
        let is_of_role =
            |item: &Value| matches!(item["role"].as_str(), Some("developer" | "system"));
        let names_role =
            self.says(&["system message", "system prompt", "system role", "developer"])
                || (self.says(&["system"]) && self.says(&["role", "message", "assistant"]))
                || self.says(&[
                    "roles must alternate",
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
        if !kind.ends_with("_output") && kind != "message" {
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(kind, count)| format!("{count} × `{}`", visible::text(&kind)))
        .collect()
}
