//! Tools that searches have loaded, as the outputs of those searches in the history say: nothing else
//! is stored of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{CallKind, CallOutput, fragment, message};
use crate::port::fragment::{Fragment, Head};
use crate::port::tool_set::{FoundTool, SearchTool, TOOL_SEARCH};

/// The names of loaded tools, in the order in which they were loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedTools {
    names: Vec<String>,
    /// Call ids of searches without an output.
    open: BTreeSet<String>,
    /// True if there are searches of the provider's kind.
    has_native: bool,
}

/// Most loaded tools: with the listed ones no more than providers accept in a request. Beyond it the
/// tools that were loaded first have to be searched again.
const MAX_LOADED: usize = 80;

/// Characters of a description in a listing, which is followed by the definition.
const MAX_LISTED_DESCRIPTION: usize = 200;

/// Call id of the search that stands for all those that a compaction summed up.
const COMPACTED_CALL: &str = "tool_search_before_compaction";

impl LoadedTools {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns whether there are searches of the provider's kind.
    pub(super) fn has_native(&self) -> bool {
        self.has_native
    }

    /// Reads the next part of the history.
    pub(super) fn read(&mut self, text: &str) {
        let is_output = !self.open.is_empty() && text.contains("function_call_output");
        if !is_output && !text.contains("\"tool_search") {
            return;
        }
        let Ok(Head { kind, call_id, .. }) = serde_json::from_str(text) else { return };
        self.has_native |= is_native(&kind);
        let Some(call_id) = call_id else { return };
        match &*kind {
            "function_call" if is_search(text) => {
                self.open.insert(call_id.into_owned());
            }
            "function_call_output" if self.open.remove(&*call_id) => self.add(listed_names(text)),
            "tool_search_output" => self.add(defined_names(text)),
            _ => {}
        }
    }

    fn add(&mut self, names: Vec<String>) {
        for name in names {
            if self.names.contains(&name) {
                continue;
            }
            if self.names.len() == MAX_LOADED {
                self.names.remove(0);
            }
            self.names.push(name);
        }
    }
}

/// Returns whether items of this type are searches of the provider's kind, or their outputs.
fn is_native(kind: &str) -> bool {
    matches!(kind, "tool_search_call" | "tool_search_output")
}

/// The items of a request to a model that is offered the search as a function: searches of the
/// provider's kind, which another model made, become calls of it. Those that the provider carried out
/// itself are left out.
pub(super) fn searches_as_functions(items: Vec<Arc<str>>) -> Vec<Arc<str>> {
    items.into_iter().filter_map(search_as_function).collect()
}

fn search_as_function(item: Arc<str>) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Search {
        #[serde(rename = "type")]
        kind: String,
        call_id: Option<String>,
        #[serde(default)]
        arguments: Value,
        #[serde(default)]
        tools: Vec<Listed>,
    }
    if !item.contains("\"tool_search") {
        return Some(item);
    }
    // What cannot be read is none of ours.
    let Ok(search) = serde_json::from_str::<Search>(&item) else { return Some(item) };
    let Search { kind, call_id, arguments, tools } = search;
    if !is_native(&kind) {
        return Some(item);
    }
    let call_id = call_id?;
    if kind == "tool_search_call" {
        let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        return Some(fragment(&json!({
            "type": "function_call", "call_id": call_id, "name": TOOL_SEARCH, "arguments": arguments,
        })));
    }
    let output = listing_of(tools.iter().map(|tool| (&*tool.name, &*tool.description)));
    Some(super::call_output(&call_id, &CallKind::Function, &CallOutput::Text(output)).text)
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    #[serde(default)]
    description: String,
}

/// Returns whether a function call is a search.
fn is_search(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Call {
        name: String,
    }
    serde_json::from_str(text).is_ok_and(|call: Call| call.name == TOOL_SEARCH)
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Listing {
    tools: Vec<Named>,
}

impl Listing {
    fn into_names(self) -> Vec<String> {
        self.tools.into_iter().map(|tool| tool.name).collect()
    }
}

/// The names in the output of a search that is a function.
fn listed_names(text: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Output {
        output: String,
    }
    let output: Option<Output> = serde_json::from_str(text).ok();
    // The output of a search that failed is a sentence.
    let listing = output.and_then(|output| serde_json::from_str(&output.output).ok());
    listing.map(Listing::into_names).unwrap_or_default()
}

/// The names in the output of a search of the provider's kind.
fn defined_names(text: &str) -> Vec<String> {
    serde_json::from_str(text).map(Listing::into_names).unwrap_or_default()
}

/// Returns the output of a search that is a function.
pub(super) fn listing(tools: &[FoundTool]) -> String {
    listing_of(tools.iter().map(|tool| (&*tool.name, &*tool.description)))
}

/// The same, of names and descriptions.
fn listing_of<'t>(tools: impl Iterator<Item = (&'t str, &'t str)>) -> String {
    let listed: Vec<Value> = tools
        .map(|(name, description)| {
            let description: String = description.chars().take(MAX_LISTED_DESCRIPTION).collect();
            json!({ "name": name, "description": description })
        })
        .collect();
    let note = match listed.is_empty() {
        true => "No tool fits. Search again with other words, or go on without.",
        false => "These tools can be called now.",
    };
    json!({ "tools": listed, "note": note }).to_string()
}

/// The output of a search of the provider's kind.
pub(super) fn search_output(call_id: &str, output: &CallOutput) -> Fragment {
    let tools: Vec<Value> = match output {
        CallOutput::Tools(tools) => tools.iter().map(deferred_definition).collect(),
        // See `failed_search`.
        CallOutput::Text(_)
        | CallOutput::Image { .. }
        | CallOutput::Parts(_)
        | CallOutput::Secret { .. } => Vec::new(),
    };
    Fragment::summarized(fragment(&json!({
        "type": "tool_search_output",
        "call_id": call_id,
        "status": "completed",
        "execution": "client",
        "tools": tools,
    })))
}

/// Why a search of the provider's kind failed: its output has no room for that.
pub(crate) fn failed_search(kind: &CallKind, output: &CallOutput) -> Option<Fragment> {
    match output {
        CallOutput::Text(reason) if *kind == CallKind::ToolSearch => {
            Some(Fragment::summarized(message("developer", reason)))
        }
        _ => None,
    }
}

fn deferred_definition(tool: &FoundTool) -> Value {
    let mut definition = tool.definition.clone();
    definition["defer_loading"] = true.into();
    definition
}

/// A search with its output, in place of all those that a compaction sums up. The next compaction
/// writes it again.
pub(crate) fn compacted(tools: Vec<FoundTool>, search: SearchTool) -> Vec<Fragment> {
    search_that_found(tools, COMPACTED_CALL, search)
}

/// A search that the model did not make, with its output: it loads these tools.
pub(crate) fn search_that_found(
    tools: Vec<FoundTool>,
    call_id: &str,
    search: SearchTool,
) -> Vec<Fragment> {
    if tools.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let arguments = json!({ "query": names.join(" "), "limit": tools.len() });
    let (call, kind) = match search {
        SearchTool::Native => (
            json!({
                "type": "tool_search_call",
                "call_id": call_id,
                "execution": "client",
                "status": "completed",
                "arguments": arguments,
            }),
            CallKind::ToolSearch,
        ),
        SearchTool::Function => (
            json!({
                "type": "function_call",
                "call_id": call_id,
                "name": TOOL_SEARCH,
                "arguments": arguments.to_string(),
            }),
            CallKind::Function,
        ),
    };
    let output = super::call_output(call_id, &kind, &CallOutput::Tools(tools));
    vec![Fragment::summarized(fragment(&call)), output]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_of_the_providers_kind_become_calls_of_a_function() {
        let convert = |item: Value| {
            search_as_function(fragment(&item))
                .map(|item| serde_json::from_str::<Value>(&item).unwrap())
        };
        let call = |arguments: Value| {
            json!({ "type": "tool_search_call", "call_id": "c", "execution": "client",
                "status": "completed", "arguments": arguments })
        };
        let function = |arguments: &str| {
            json!({ "type": "function_call", "call_id": "c", "name": "tool_search",
                "arguments": arguments })
        };
        let query = r#"{"query":"x"}"#;
        assert_eq!(convert(call(json!({ "query": "x" }))), Some(function(query)));
        assert_eq!(convert(call(json!(query))), Some(function(query)));
        let output = convert(json!({ "type": "tool_search_output", "call_id": "c",
            "tools": [{ "type": "function", "name": "t", "description": "Does it.",
                "parameters": {} }] }))
        .unwrap();
        assert_eq!(
            (&output["type"], &output["call_id"]),
            (&json!("function_call_output"), &json!("c"))
        );
        assert_eq!(listed_names(&output.to_string()), ["t"]);
        // The provider's own search.
        let own = json!({ "type": "tool_search_call", "call_id": null, "arguments": {} });
        assert_eq!(convert(own), None);
        for other in [function(query), json!({ "type": "message", "x": "\"tool_search_call\"" })] {
            assert_eq!(convert(other.clone()), Some(other));
        }
    }
}
