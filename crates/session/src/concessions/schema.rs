//! The definitions of tools and the keywords of their schemas: which of them a request could do without.

use serde_json::Value;

/// The JSON Schema of a function's parameters.
pub(super) const SCHEMA: &str = "parameters";
/// Keywords of schemas whose members are names, not keywords.
pub(super) const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Returns whether the value of a keyword has schemas in it: others are data.
pub(super) fn is_schema(keyword: &str) -> bool {
    !matches!(keyword, "enum" | "const" | "default" | "examples" | "example" | "required")
}

/// The paths of the members of tools that can be left out.
pub(super) fn member_paths(tools: &[Value]) -> Vec<String> {
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
