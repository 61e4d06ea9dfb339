//! The tools of a request, for providers that refused some of their kinds or members.

use serde_json::{Map, Value, json};

use super::{as_texts, custom_as_function, rewrite};
use crate::port::prompt::Prompt;

/// The JSON Schema of a function's parameters.
const SCHEMA: &str = "parameters";
/// Keywords of schemas whose members are names, not keywords.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

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

/// Returns whether the value of a keyword has schemas in it: others are data.
fn is_schema(keyword: &str) -> bool {
    !matches!(keyword, "enum" | "const" | "default" | "examples" | "example" | "required")
}

/// The paths of the members of tools that can be left out.
pub(in super::super) fn member_paths(tools: &[Value]) -> Vec<String> {
    let mut paths = Vec::new();
    for tool in tools.iter().filter_map(Value::as_object) {
        for (name, value) in tool {
            match (name.as_str(), value) {
                ("type" | "name", _) => {}
                ("tools", Value::Array(tools)) => paths.extend(member_paths(tools)),
                (SCHEMA, schema) => keywords(schema, &mut paths),
                (name, _) => paths.push(name.to_owned()),
            }
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn keywords(schema: &Value, paths: &mut Vec<String>) {
    match schema {
        Value::Array(schemas) => schemas.iter().for_each(|schema| keywords(schema, paths)),
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| is_schema(name)) {
                match value {
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        named.values().for_each(|schema| keywords(schema, paths));
                    }
                    value => keywords(value, paths),
                }
                if !matches!(name.as_str(), "type" | "properties" | "items") {
                    paths.push(format!("{SCHEMA}.{name}"));
                }
            }
        }
        _ => {}
    }
}
