//! The text of JSON values that is passed on as it was written.

use std::collections::HashSet;

use serde_json::Value;

/// Names that the JSON library gives to values of its own: the approver of a call would be shown another
/// value than the server gets.
const RESERVED_NAMES: &str = "$serde_json::private::";

/// Valid JSON without blanks between its tokens, and with strings in their usual form. Everything else stays as
/// it is.
///
/// # Errors
/// An object names a member twice, or as the JSON library does inside: its readers could differ in what it
/// means.
pub(super) fn compact(json: &str) -> Result<String, String> {
    let mut compact = String::with_capacity(json.len());
    // What is open around a token: for an object the names so far, `None` for a list.
    let mut open: Vec<Option<HashSet<String>>> = Vec::new();
    let mut is_name = false;
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '"' => {
                length = string_length(rest);
                let literal = rest.get(..length).unwrap_or(rest);
                let text: String = serde_json::from_str(literal)
                    .map_err(|error| format!("the arguments cannot be read: {error}"))?;
                compact.push_str(&Value::from(text.as_str()).to_string());
                let is_member = std::mem::take(&mut is_name);
                if is_member && text.starts_with(RESERVED_NAMES) {
                    return Err(format!(
                        "the arguments have a member of the reserved name `{text}`"
                    ));
                }
                if is_member
                    && let Some(Some(names)) = open.last_mut()
                    && names.replace(text.clone()).is_some()
                {
                    let name = Value::from(text).to_string();
                    let name = name.trim_matches('"');
                    return Err(format!("the arguments name `{name}` twice in one object"));
                }
            }
            ' ' | '\t' | '\n' | '\r' => {}
            other => {
                match other {
                    '{' => open.push(Some(HashSet::new())),
                    '[' => open.push(None),
                    '}' | ']' => drop(open.pop()),
                    _ => {}
                }
                is_name = matches!(other, '{' | ',') && matches!(open.last(), Some(Some(_)));
                compact.push(other);
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(compact)
}

/// Bytes of the string literal that the text begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}
