//! `tool_search`: finds tools whose definitions are not in the request, and loads them.
//!
//! A loaded tool is one that an output of a search in the history names: that is all there is to
//! store, so that a resumed thread, a fork and an agent with the history of its parent have the tools
//! that the model knows of.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{ExternalTool, SearchTool, TOOL_SEARCH, ToolSet};

/// Tools that a search finds, unless the call says how many.
const DEFAULT_LIMIT: u64 = 8;
/// Most tools that a search finds; a call that wants more gets so many.
const MAX_LIMIT: u64 = 32;
/// Longest query in bytes.
const MAX_QUERY: usize = 4096;
/// Most groups of tools that the definition names.
const MAX_GROUPS: usize = 32;

pub(super) struct ToolSearch;

#[derive(Clone, Debug, PartialEq)]
struct SearchCall {
    query: String,
    limit: usize,
}

impl Tool for ToolSearch {
    fn name(&self) -> Cow<'_, str> {
        TOOL_SEARCH.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        if !self.is_callable(tools) {
            return None;
        }
        let description = description(tools);
        let properties = json!({
            "query": {
                "type": "string",
                "description": "What the tool should do, in a few words, or its name.",
            },
            "limit": {
                "type": "integer",
                "description": format!("Most tools to find: 1 to {MAX_LIMIT}, by default {DEFAULT_LIMIT}."),
            },
        });
        match tools.search {
            SearchTool::Native => Some(
                json!({
                    "type": "tool_search",
                    "execution": "client",
                    "description": description,
                    "parameters": {
                        "type": "object",
                        "properties": properties,
                        "required": ["query"],
                        "additionalProperties": false,
                    },
                })
                .to_string(),
            ),
            SearchTool::Function => {
                Some(function(TOOL_SEARCH, &description, &["query"], &properties))
            }
        }
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.deferred().next().is_some()
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Ok(Box::new(SearchCall::read(arguments)?))
    }
}

fn description(tools: &ToolSet) -> String {
    let groups: BTreeSet<&str> =
        tools.deferred().filter_map(ExternalTool::group).take(10_000).collect();
    let count = tools.deferred().count();
    let mut text = format!(
        "Searches {count} further tools, whose definitions are not listed here. What it finds can \
         be called from the next response on. Search before you say that a tool is missing."
    );
    if !groups.is_empty() {
        let named: Vec<&str> = groups.iter().copied().take(MAX_GROUPS).collect();
        text.push_str(" Groups of tools: ");
        text.push_str(&named.join(", "));
        text.push_str(if groups.len() > MAX_GROUPS { " and more." } else { "." });
    }
    text
}

impl SearchCall {
    fn read(arguments: &str) -> Result<Self, ToolError> {
        let wanted = "what the tool should do";
        let mut arguments = Arguments::read(TOOL_SEARCH, arguments)?;
        let query = arguments.needed_text("query", wanted)?;
        let limit = arguments.number("limit")?.unwrap_or(DEFAULT_LIMIT);
        if query.trim().is_empty() {
            return Err(ToolError::new(format!("{TOOL_SEARCH}: `query` is empty; give {wanted}")));
        }
        if query.len() > MAX_QUERY {
            let length = query.len();
            return Err(ToolError::new(format!(
                "{TOOL_SEARCH}: `query` has {length} bytes; give {wanted} in a few words, {MAX_QUERY} \
                 bytes at most"
            )));
        }
        if limit == 0 {
            return Err(ToolError::new(format!(
                "{TOOL_SEARCH}: `limit` is 0; give 1 to {MAX_LIMIT}"
            )));
        }
        Ok(Self { query, limit: limit.min(MAX_LIMIT) as usize })
    }
}

impl ToolCall for SearchCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        Step::Finish(CallOutput::Tools(cx.offer.search(&self.query, self.limit)))
    }
}
