//! Checks the tools that a client defines, before they are offered to the model.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::tool::DynamicToolSpec;
use session::DynamicTool;

use crate::error::Error;

/// Most tools of one thread. Those that do not fit into a request are deferred.
const MAX_TOOLS: usize = 10_000;
/// Longest descriptions and schemas of all tools of a thread together, in bytes.
const MAX_TEXTS: usize = 16 * 1024 * 1024;
/// Longest name that the model API takes, group included.
const MAX_NAME: usize = 64;
/// Longest description and schema, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The tools as the session offers them.
///
/// # Errors
/// `-32602` naming the tool and what is wrong with it.
pub(super) fn checked(specs: Vec<DynamicToolSpec>) -> Result<Arc<[DynamicTool]>, Error> {
    if specs.len() > MAX_TOOLS {
        let message = format!("`dynamicTools`: {} tools, {MAX_TOOLS} at most", specs.len());
        return Err(Error::invalid_params(message));
    }
    let mut names = BTreeSet::new();
    let mut tools = Vec::with_capacity(specs.len());
    let mut texts = 0;
    for (at, spec) in specs.into_iter().enumerate() {
        let bad = |error: Error| error.within(&format!("`dynamicTools[{at}]`"));
        for name in std::iter::once(&spec.name).chain(&spec.namespace) {
            check_name(name).map_err(bad)?;
        }
        if !spec.input_schema.is_object() {
            return Err(bad(Error::invalid_params("`inputSchema` must be a JSON Schema object")));
        }
        let schema = spec.input_schema.to_string();
        if schema.len().max(spec.description.len()) > MAX_TEXT {
            return Err(bad(Error::invalid_params(format!(
                "`description` and `inputSchema` must have at most {MAX_TEXT} bytes"
            ))));
        }
        texts += schema.len() + spec.description.len();
        if texts > MAX_TEXTS {
            return Err(bad(Error::invalid_params(format!(
                "`description` and `inputSchema` of all tools must have at most {MAX_TEXTS} bytes"
            ))));
        }
        let tool = DynamicTool {
            namespace: spec.namespace,
            name: spec.name,
            description: spec.description,
            schema,
            defer_loading: spec.defer_loading,
        };
        let name = tool.full_name();
        if name.len() > MAX_NAME {
            return Err(bad(Error::invalid_params(format!(
                "`{name}` is longer than {MAX_NAME} characters"
            ))));
        }
        if session::is_reserved_tool(&name) || !names.insert(name.clone()) {
            return Err(bad(Error::invalid_params(format!("another tool is named `{name}`"))));
        }
        tools.push(tool);
    }
    Ok(tools.into())
}

fn check_name(name: &str) -> Result<(), Error> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || !name.chars().all(fits) {
        let shown: String = name.chars().take(80).collect();
        return Err(Error::invalid_params(format!(
            "`{shown}` must consist of letters, digits, `_` and `-`"
        )));
    }
    if name == "mcp" || name.starts_with("mcp__") {
        return Err(Error::invalid_params(format!("`{name}` is reserved for MCP servers")));
    }
    Ok(())
}
