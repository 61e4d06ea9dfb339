//! Rules of tools that several providers share.

use serde_json::Value;

use super::fault::Path;

/// True for a name of letters, digits, `_` and `-`.
pub(super) fn is_name(name: &str, most: usize) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= most && name.bytes().all(is_allowed)
}

/// The place of an object in a JSON Schema that does not exclude other members.
pub(super) fn open_object(schema: &Value, at: &Path) -> Option<Path> {
    let Value::Object(members) = schema else { return None };
    let is_object = members.get("type").is_some_and(|kind| {
        kind == "object"
            || kind.as_array().is_some_and(|kinds| kinds.iter().any(|it| it == "object"))
    });
    if is_object && members.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Some(at.clone());
    }
    for name in ["properties", "$defs", "definitions"] {
        let within = at.name(name);
        let inner = members.get(name).and_then(Value::as_object).into_iter().flatten();
        if let Some(found) =
            inner.into_iter().find_map(|(name, it)| open_object(it, &within.name(name)))
        {
            return Some(found);
        }
    }
    for name in ["anyOf", "allOf", "oneOf"] {
        let within = at.name(name);
        let mut inner =
            members.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
        if let Some(found) = inner.find_map(|(index, it)| open_object(it, &within.index(index))) {
            return Some(found);
        }
    }
    members.get("items").and_then(|items| open_object(items, &at.name("items")))
}
