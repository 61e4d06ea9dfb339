//! The reason of an error, wherever providers, routers and proxies put it.

use serde_json::{Map, Value};

/// Most errors inside one another that are read; deeper ones are ignored.
const MAX_DEPTH: usize = 6;
/// Most texts of an error that are kept; further ones are dropped.
const MAX_TEXTS: usize = 4;

/// The text and the codes of an error.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reason {
    /// The general message first, then what is more exact.
    pub(super) text: Option<String>,
    /// Codes and types of errors inside the error.
    pub(super) codes: Vec<String>,
}

impl Reason {
    pub(super) fn of(error: &Value) -> Self {
        let (mut texts, mut codes) = (Vec::new(), Vec::new());
        collect(error, 0, &mut texts, &mut codes);
        texts.truncate(MAX_TEXTS);
        Self { text: (!texts.is_empty()).then(|| texts.join(": ")), codes }
    }
}

/// Members that have the text of an error, or an error inside it, the general ones first.
const PLACES: [&str; 19] = [
    "message",
    "msg",
    "description",
    "error",
    "error_description",
    "fault",
    "faultstring",
    "title",
    "detail",
    "details",
    "reason",
    "raw",
    "metadata",
    "errors",
    "innererror",
    "inner_error",
    "cause",
    "upstream_error",
    "failed_generation",
];

fn collect(value: &Value, depth: usize, texts: &mut Vec<String>, codes: &mut Vec<String>) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::String(text) => collect_text(text, depth, texts, codes),
        Value::Array(values) => {
            let several = values.iter().take(MAX_TEXTS);
            several.for_each(|value| collect(value, depth + 1, texts, codes));
        }
        Value::Object(members) => {
            if depth > 0 {
                let named = ["code", "type", "status", "reason"]
                    .iter()
                    .filter_map(|name| members.get(*name));
                codes.extend(named.filter_map(|name| match name {
                    Value::String(text) => Some(text.clone()),
                    Value::Number(number) => Some(number.to_string()),
                    _ => None,
                }));
            }
            let before = texts.len();
            let place = place(members);
            let places = PLACES.iter().filter_map(|name| members.get(*name));
            places.for_each(|value| collect(value, depth + 1, texts, codes));
            // Details have members of their own.
            if depth > 1 && texts.len() == before {
                let others = members.iter().filter(|(name, _)| *name != "type" && *name != "code");
                let others = others.filter(|(_, value)| value.is_string());
                others.for_each(|(_, value)| collect(value, depth + 1, texts, codes));
            }
            if let Some(place) = place {
                collect_text(&place, depth, texts, codes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Lists of a request: errors name the place in them.
const LISTS: [&str; 3] = ["input", "messages", "tools"];
/// Members of a request that some providers do not know.
const MEMBERS: [&str; 8] = [
    "include",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "service_tier",
    "store",
    "text",
    "tool_choice",
];

/// The part of the request that an error is about, if it names one that requests can do without: `param`, or
/// the path `loc` of a validator.
fn place(members: &Map<String, Value>) -> Option<String> {
    let named = match (members.get("param"), members.get("loc")) {
        (Some(Value::String(param)), _) => param.clone(),
        (_, Some(Value::Array(path))) => {
            let parts = path.iter().filter(|part| *part != "body").map(|part| match part {
                Value::String(name) => name.clone(),
                other => other.to_string(),
            });
            parts.collect::<Vec<_>>().join(".")
        }
        _ => return None,
    };
    let begins =
        |list: &&str| named.strip_prefix(*list).is_some_and(|rest| rest.starts_with(['.', '[']));
    let is_part = LISTS.iter().any(begins) || MEMBERS.iter().any(|it| *it == named || begins(it));
    is_part.then_some(named)
}

/// A text that is JSON has the reason inside it.
fn collect_text(text: &str, depth: usize, texts: &mut Vec<String>, codes: &mut Vec<String>) {
    let text = text.trim();
    if text.starts_with(['{', '[']) {
        let before = texts.len();
        if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
            collect(&inner, depth + 1, texts, codes);
            if texts.len() > before {
                return;
            }
        }
    }
    let text = page_title(text).unwrap_or_else(|| text.to_owned());
    // A general text that is part of a more exact one adds nothing.
    if text.is_empty() || texts.iter().any(|known| known.contains(&text)) {
        return;
    }
    match texts.iter().position(|known| text.contains(known)) {
        Some(at) => texts[at] = text,
        None => texts.push(text),
    }
}

/// The words of a page in HTML or XML: its title, else its first heading, else its text, without markup. `None`
/// for another text.
pub(super) fn page_title(text: &str) -> Option<String> {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let lower = start.to_ascii_lowercase();
    let is_page =
        ["<!doctype", "<html", "<head", "<?xml", "<error", "<body", "<title", "<h1", "<center"];
    if !is_page.iter().any(|tag| lower.starts_with(tag)) {
        return None;
    }
    let inside = |tag: &str| {
        let at = lower.match_indices(&format!("<{tag}")).find_map(|(at, found)| {
            let end = at + found.len();
            lower[end..].starts_with(['>', ' ', '\n']).then_some(end)
        })?;
        let from = at + lower[at..].find('>')? + 1;
        let until = from + lower[from..].find(&format!("</{tag}"))?;
        Some(words(&start[from..until])).filter(|words| !words.is_empty())
    };
    let found = ["title", "h1", "h2", "message"].into_iter().find_map(inside);
    Some(found.unwrap_or_else(|| words(start)))
}

/// The text without tags, scripts and styles; the usual character references are read.
fn words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        out.push(' ');
        let tag = &rest[at..];
        let lower = tag.get(..8).unwrap_or(tag).to_ascii_lowercase();
        let end = match () {
            () if lower.starts_with("<!--") => "-->",
            () if lower.starts_with("<script") => "</script>",
            () if lower.starts_with("<style") => "</style>",
            () => ">",
        };
        rest = tag.find(end).map_or("", |at| &tag[at + end.len()..]);
    }
    out.push_str(rest);
    let references = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    let out = references.iter().fold(out, |out, (name, character)| out.replace(name, character));
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_is_found_wherever_it_is() {
        let check = |error: Value, expect: &str| {
            assert_eq!(Reason::of(&error).text.as_deref(), Some(expect), "{error}");
        };
        check(json!("it broke"), "it broke");
        check(json!({ "message": "m" }), "m");
        let raw = r#"{"error":{"message":"supports at most 1 image","code":"x"}}"#;
        let routed = |raw: Value| json!({ "message": "Provider returned error", "metadata": { "raw": raw } });
        check(routed(json!(raw)), "Provider returned error: supports at most 1 image");
        check(routed(json!("try later")), "Provider returned error: try later");
        check(routed(json!({ "detail": "no" })), "Provider returned error: no");
        check(
            routed(json!("<html><title>502 Bad &amp; Gateway</title>")),
            "Provider returned error: 502 Bad & Gateway",
        );
        check(json!({ "message": "m", "details": "why" }), "m: why");
        check(
            json!({ "message": "m", "details": [{ "reason": "a" }, { "message": "b" }] }),
            "m: a: b",
        );
        check(
            json!({ "detail": [{ "loc": ["body"], "msg": "field required" }] }),
            "field required",
        );
        let field = json!({ "field": "tools[3]", "description": "unknown keyword" });
        check(json!({ "message": "m", "details": [field] }), "m: unknown keyword");
        check(json!({ "message": "m", "details": [{ "why": "so" }] }), "m: so");
        check(json!({ "errors": ["a", { "message": "b" }] }), "a: b");
        check(
            json!({ "message": "x failed", "details": "x failed: too big" }),
            "x failed: too big",
        );
        check(json!({ "message": "m", "error": "m" }), "m");
        assert_eq!(Reason::of(&json!({ "code": 5 })), Reason::default());
        for (error, expect) in [
            (json!({ "message": "Invalid input", "param": "input[3]" }), "Invalid input: input[3]"),
            (
                json!({ "message": "Unknown: 'input[3].id'", "param": "input[3].id" }),
                "Unknown: 'input[3].id'",
            ),
            (json!({ "message": "No such model", "param": "model" }), "No such model"),
            (
                json!({ "detail": [{ "loc": ["body", "input", 3, "type"], "msg": "Not 'message'" }] }),
                "Not 'message': input.3.type",
            ),
            (json!({ "detail": [{ "loc": ["body", "model"], "msg": "required" }] }), "required"),
        ] {
            assert_eq!(Reason::of(&error).text.as_deref(), Some(expect), "{error}");
        }
        assert_eq!(Reason::of(&routed(json!(raw))).codes, ["x"]);
        let mut deep = json!("end");
        for _ in 0..100 {
            deep = json!({ "error": deep });
        }
        assert_eq!(Reason::of(&deep).text, None);
    }

    #[test]
    fn a_page_is_its_title() {
        let check = |page: &str, expect: Option<&str>| {
            assert_eq!(page_title(page).as_deref(), expect, "{page}");
        };
        check(
            "<html><head><title>502 Bad\nGateway</title></head><body>x</body>",
            Some("502 Bad Gateway"),
        );
        check("\n<!DOCTYPE html><HTML><H1 class=a>No <b>way</b></H1>", Some("No way"));
        check("<html><style>p{}</style><p>a<script>b()</script> &lt;c&gt;", Some("a <c>"));
        check(
            "<?xml version='1.0'?><Error><Code>A</Code><Message>Denied</Message></Error>",
            Some("Denied"),
        );
        check("<html><title></title>", Some(""));
        check("<html", Some(""));
        check("a < b", None);
        check("plain", None);
    }
}
