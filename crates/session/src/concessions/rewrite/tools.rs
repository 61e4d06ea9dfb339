//! The tools of a request, for providers that refused some of their kinds or members.

use serde_json::{Map, Value, json};

use super::{as_texts, custom_as_function, rewrite};
use crate::concessions::schema::{NAMED, SCHEMA, is_schema};
use crate::port::prompt::Prompt;

/// Only tools that are functions: custom tools become functions with one text, others are left out. So do
/// the calls of custom tools and of searches in the history.
pub(super) fn only_functions(prompt: &mut Prompt) {
    let Ok(tools) = serde_json::from_str::<Vec<Value>>(&prompt.tools) else { return };
    let functions = tools.into_iter().filter_map(|tool| match tool["type"].as_str()? {
        "function" => Some(tool),
        "custom" => Some(json!({
            "type": "function",
            "name": tool["name"],
            "description": tool["description"],
            "strict": false,
            "parameters": {
                "type": "object",
                "properties": { "input": { "type": "string" } },
                "required": ["input"],
            },
        })),
        _ => None,
    });
    prompt.tools = Value::Array(functions.collect()).to_string().into();
    rewrite(prompt, custom_as_function);
    let native =
        |item: &Map<String, Value>| item.get("type").is_some_and(|it| it == "tool_search_call");
    as_texts(prompt, &native);
}

/// Leaves out a member of each tool; below `parameters`, a keyword of the schema wherever it is.
pub(super) fn without_member(prompt: &mut Prompt, path: &str) {
    let Ok(mut tools) = serde_json::from_str::<Value>(&prompt.tools) else { return };
    let path: Vec<&str> = path.split('.').collect();
    if remove_from_tools(&mut tools, &path) {
        prompt.tools = tools.to_string().into();
    }
}

fn remove_from_tools(tools: &mut Value, path: &[&str]) -> bool {
    let mut removed = false;
    for tool in tools.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        removed |= match (path, tool.get_mut(SCHEMA)) {
            ([SCHEMA, keyword], Some(schema)) => remove_keyword(schema, keyword),
            _ => super::remove(tool, path),
        };
        // Those of a namespace.
        removed |= tool.get_mut("tools").is_some_and(|tools| remove_from_tools(tools, path));
    }
    removed
}

fn remove_keyword(schema: &mut Value, keyword: &str) -> bool {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(schemas) => {
            return schemas
                .iter_mut()
                .fold(false, |it, schema| remove_keyword(schema, keyword) | it);
        }
        _ => return false,
    };
    let mut removed = members.shift_remove(keyword).is_some();
    for (name, value) in members.iter_mut().filter(|(name, _)| is_schema(name)) {
        removed |= match value {
            Value::Object(named) if NAMED.contains(&name.as_str()) => {
                named.values_mut().fold(false, |it, schema| remove_keyword(schema, keyword) | it)
            }
            value => remove_keyword(value, keyword),
        };
    }
    removed
}
