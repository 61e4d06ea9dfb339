//! Checks the tools that a client defines, before they are offered to the model.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::JsonText;
use protocol::tool::DynamicToolSpec;
use serde_json::Value;
use session::DynamicTool;

use services::error::Error;

/// Most tools of one thread. Those that do not fit into a request are deferred.
const MAX_TOOLS: usize = 10_000;
/// Longest descriptions and schemas of all tools of a thread together, in bytes.
const MAX_TEXTS: usize = 16 * 1024 * 1024;
/// Longest name that the model API takes, group included.
const MAX_NAME: usize = 64;
/// Between the description of a namespace and that of a tool in it.
const GAP: &str = "\n\n";
/// Longest description and schema, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The tools as the session offers them.
///
/// # Errors
/// `-32602` naming the tool and what is wrong with it.
pub(super) fn checked(specs: Vec<DynamicToolSpec>) -> Result<Arc<[DynamicTool]>, Error> {
    if specs.len() > MAX_TOOLS {
        let message =
            format!("`dynamicTools` has {} tools; at most {MAX_TOOLS} are allowed", specs.len());
        return Err(Error::invalid_params(message));
    }
    let mut names = BTreeSet::new();
    let mut tools = Vec::with_capacity(specs.len());
    let mut texts = 0;
    for spec in specs {
        // By name: those of a namespace have no position of their own in the list.
        let place = format!("`dynamicTools`, the tool `{}`", shown(&spec.name));
        let bad = |error: Error| error.within(&place);
        for name in std::iter::once(&spec.name).chain(&spec.namespace) {
            check_name(name).map_err(bad)?;
        }
        let schema = object_schema(&spec.name, &spec.input_schema).map_err(bad)?;
        let about = spec.namespace_description.as_deref();
        let described = spec.description.len() + about.map_or(0, |about| about.len() + GAP.len());
        if schema.len().max(described) > MAX_TEXT {
            return Err(bad(Error::invalid_params(format!(
                "`description` and `inputSchema` must have at most {MAX_TEXT} bytes"
            ))));
        }
        texts += schema.len() + described;
        if texts > MAX_TEXTS {
            return Err(bad(Error::invalid_params(format!(
                "`description` and `inputSchema` of all tools must have at most {MAX_TEXTS} bytes"
            ))));
        }
        let description = match about {
            Some(about) => [about, GAP, &spec.description].concat(),
            None => spec.description,
        };
        let tool = DynamicTool {
            namespace: spec.namespace,
            name: spec.name,
            description,
            schema,
            defer_loading: spec.defer_loading,
        };
        let name = tool.full_name();
        if name.len() > MAX_NAME {
            return Err(bad(Error::invalid_params(format!(
                "`{name}` is longer than {MAX_NAME} characters"
            ))));
        }
        // Inside of a namespace, the namespace makes the name another.
        let reservable = tool.namespace.as_ref().unwrap_or(&tool.name);
        if let Some(why) = [reservable, &name].into_iter().find_map(|it| session::why_reserved(it))
        {
            return Err(bad(Error::invalid_params(format!("{why}; give it another name"))));
        }
        if !names.insert(name.clone()) {
            return Err(bad(Error::invalid_params(format!("another tool is named `{name}`"))));
        }
        tools.push(tool);
    }
    Ok(tools.into())
}

/// The schema of a tool's arguments, which are always an object.
fn object_schema(tool: &str, text: &JsonText) -> Result<String, Error> {
    let refused = |problem: String| {
        Err(Error::invalid_params(format!("the `inputSchema` of `{tool}` {problem}")))
    };
    let schema = match text.value() {
        Ok(Value::Object(schema)) => schema,
        Ok(_) => return refused("must be a JSON Schema object".to_owned()),
        Err(error) => return refused(format!("cannot be read: {error}")),
    };
    let kind = schema.get("type");
    if let Some(kind) = kind.filter(|kind| *kind != "object") {
        let kind = shown(&kind.to_string());
        return refused(format!("must have the type `\"object\"`, not `{kind}`"));
    }
    if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
        return refused("has `properties` that are not an object".to_owned());
    }
    let is_name_list =
        |names: &Value| names.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    if schema.get("required").is_some_and(|names| !is_name_list(names)) {
        return refused("has `required` that is not an array of names".to_owned());
    }
    // Model servers refuse a schema that leaves the type out.
    Ok(match (kind, schema.is_empty()) {
        (Some(_), _) => text.to_string(),
        (None, true) => r#"{"type":"object"}"#.to_owned(),
        (None, false) => format!(r#"{{"type":"object",{}"#, &text.as_str()[1..]),
    })
}

/// The beginning of what a client sent.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

fn check_name(name: &str) -> Result<(), Error> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Error::invalid_params(format!(
            "`{}` must consist of letters, digits, `_` and `-`",
            shown(name)
        )));
    }
    if name == "mcp" || name.starts_with("mcp__") {
        return Err(Error::invalid_params(format!("`{name}` is reserved for MCP servers")));
    }
    Ok(())
}
