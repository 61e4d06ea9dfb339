//! The shape of a message: which members it has, and of which types, whatever their values are.

use std::collections::BTreeSet;

use serde_json::Value;

/// Digits in a row that make a member's name a key of a map, such as an id, and none of a type.
const DIGITS_OF_KEYS: usize = 3;

/// Returns a line for each member at any depth: its path and its type, and the value of a member
/// `type`, which tells variants apart. All elements of a list have the same path, and so have the
/// members of a map whose keys are paths or ids.
#[must_use]
pub fn shape(value: &Value) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    collect(value, "", &mut lines);
    lines
}

fn collect(value: &Value, path: &str, lines: &mut BTreeSet<String>) {
    lines.insert(format!("{path} {}", kind(value)));
    match value {
        Value::Array(elements) => {
            elements.iter().for_each(|element| collect(element, &format!("{path}[]"), lines));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = if is_key(name) { "*" } else { name };
                collect(member, &format!("{path}.{name}"), lines);
                if let (true, Some(tag)) = (name == "type", member.as_str()) {
                    lines.insert(format!("{path}.type = {tag}"));
                }
            }
        }
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_key(name: &str) -> bool {
    let digits = name.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
    name.contains('/') || digits.is_some_and(|digits| digits >= DIGITS_OF_KEYS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_do_not_matter_and_members_types_and_tags_do() {
        let message = json!({ "type": "a", "list": [{ "x": 1 }, { "x": null, "y": true }] });
        let same = json!({ "list": [{ "y": false, "x": 7 }, { "x": null }], "type": "a" });
        assert_eq!(shape(&message), shape(&same));
        for other in [
            json!({ "type": "b", "list": [{ "x": 1 }, { "x": null, "y": true }] }),
            json!({ "type": "a", "list": [{ "x": 1 }, { "x": null }] }),
            json!({ "type": "a", "list": [{ "x": "1" }, { "x": null, "y": true }] }),
            json!({ "type": "a", "list": [] }),
        ] {
            assert_ne!(shape(&message), shape(&other), "{other}");
        }
    }

    #[test]
    fn keys_of_maps_are_values() {
        let of = |key: &str| shape(&json!({ "map": { key: 1 } }));
        assert_eq!(of("id-000001"), of("id-000213"));
        assert_eq!(of("/home/a"), of("/tmp"));
        assert_ne!(of("one"), of("two"));
    }
}
