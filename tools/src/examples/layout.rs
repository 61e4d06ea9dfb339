//! Writes JSON for readers: what fits into a line is in one.

use std::fmt::Write as _;

use serde_json::Value;

/// Longest line, in characters.
const WIDTH: usize = 100;
const INDENT: usize = 2;

/// A message: its members in the given order.
pub(crate) fn message(members: &[(&str, &Value)]) -> String {
    let mut text = String::new();
    object(members, 0, 0, &mut text);
    text
}

/// A value by itself.
pub(crate) fn value(found: &Value) -> String {
    let mut text = String::new();
    element(found, 0, 0, &mut text);
    text
}

/// A value whose first line begins in column `used`, and whose others are indented by `depth`.
fn element(found: &Value, depth: usize, used: usize, text: &mut String) {
    let line = in_a_line(found);
    if used + line.chars().count() <= WIDTH {
        text.push_str(&line);
        return;
    }
    match found {
        Value::Array(elements) if !elements.is_empty() => {
            text.push_str("[\n");
            for (index, inner) in elements.iter().enumerate() {
                let _ = write!(text, "{:1$}", "", depth + INDENT);
                element(inner, depth + INDENT, depth + INDENT, text);
                text.push_str(if index + 1 < elements.len() { ",\n" } else { "\n" });
            }
            let _ = write!(text, "{:depth$}]", "");
        }
        Value::Object(members) if !members.is_empty() => {
            let members: Vec<(&str, &Value)> =
                members.iter().map(|(name, member)| (name.as_str(), member)).collect();
            object(&members, depth, used, text);
        }
        _ => text.push_str(&line),
    }
}

fn object(members: &[(&str, &Value)], depth: usize, used: usize, text: &mut String) {
    let line = members_in_a_line(members.iter().copied());
    if used + line.chars().count() <= WIDTH {
        text.push_str(&line);
        return;
    }
    text.push_str("{\n");
    for (index, (name, member)) in members.iter().enumerate() {
        let name = Value::from(*name).to_string();
        let _ = write!(text, "{:1$}{name}: ", "", depth + INDENT);
        // One character for the comma.
        element(member, depth + INDENT, depth + INDENT + name.chars().count() + 3, text);
        text.push_str(if index + 1 < members.len() { ",\n" } else { "\n" });
    }
    let _ = write!(text, "{:depth$}}}", "");
}

fn in_a_line(found: &Value) -> String {
    match found {
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(in_a_line).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Object(members) => {
            members_in_a_line(members.iter().map(|(name, member)| (name.as_str(), member)))
        }
        other => other.to_string(),
    }
}

fn members_in_a_line<'a>(members: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let members =
        members.map(|(name, member)| format!("{}: {}", Value::from(name), in_a_line(member)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_in_one_line() {
        let (method, id, params) = (json!("a/b"), json!(1), json!({ "x": [1, 2], "y": {} }));
        let short = message(&[("method", &method), ("id", &id), ("params", &params)]);
        assert_eq!(short, r#"{"method": "a/b", "id": 1, "params": {"x": [1, 2], "y": {}}}"#);
        let params = json!({ "x": "long ".repeat(18), "y": [{ "z": null }] });
        let long = message(&[("method", &method), ("params", &params)]);
        let expected = format!(
            "{{\n  \"method\": \"a/b\",\n  \"params\": {{\n    \"x\": \"{}\",\n    \"y\": [{{\"z\": null}}]\n  }}\n}}",
            "long ".repeat(18)
        );
        assert_eq!(long, expected);
        for text in [short, long] {
            serde_json::from_str::<Value>(&text).unwrap();
        }
    }
}
