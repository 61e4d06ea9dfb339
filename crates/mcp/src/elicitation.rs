//! The forms of elicitations: checks a user's values against the schema that a server sent, and adds
//! its defaults.

use serde_json::{Map, Value};

/// Longest value of a field, in characters.
const MAX_TEXT: usize = 65_536;

/// The user's values for a form, with the defaults of fields that were left out.
///
/// # Errors
/// A value that the schema does not allow, or a required one that is missing; the text names the field.
pub fn complete(schema: &Value, content: Option<Value>) -> Result<Value, String> {
    let given = match content {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => return Err("`content` is not an object".to_owned()),
    };
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut values = Map::new();
    for (name, field) in fields {
        let value = match given.get(name) {
            Some(value) if !value.is_null() => value.clone(),
            _ => match field.get("default") {
                Some(default) if !default.is_null() => default.clone(),
                _ => continue,
            },
        };
        check(field, &value).map_err(|problem| format!("`content.{name}` {problem}"))?;
        values.insert(name.clone(), value);
    }
    if let Some(unknown) = given.keys().find(|name| !fields.contains_key(*name)) {
        return Err(format!("`content.{unknown}` is not a field of the form"));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required.into_iter().flatten().filter_map(Value::as_str);
    match missing.into_iter().find(|name| !values.contains_key(*name)) {
        Some(name) => Err(format!("`content.{name}` is required")),
        None => Ok(Value::Object(values)),
    }
}

/// The address of a page for the user, and what to say of it. A host outside of ASCII is written as it is
/// looked up, because its letters can look like those of another one.
///
/// # Errors
/// What no address of a page may have.
pub(crate) fn page_address(text: &str) -> Result<(String, Option<String>), String> {
    let refused = |problem: &str| Err(format!("`url` {problem}"));
    let Ok(url) = url::Url::parse(text) else { return refused("is not the address of a page") };
    if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
        return refused("is not the address of a page: only `https` and `http` are");
    }
    if text.chars().any(visible::is_hidden) {
        return refused("has hidden characters");
    }
    // Before the host, they are taken for it.
    let authority = text.split_once("//").map_or(text, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if !url.username().is_empty() || url.password().is_some() || authority.contains('@') {
        return refused("has a user name or a password");
    }
    let host = url.host_str().unwrap_or_default();
    let is_encoded = host.split('.').any(|label| label.starts_with("xn--"));
    if is_encoded {
        let warning = format!(
            "[The address leads to the host {host}, which is displayed with letters outside of ASCII: it \
             can look like another one.]"
        );
        return Ok((url.into(), Some(warning)));
    }
    Ok((if text.is_ascii() { text.to_owned() } else { url.into() }, None))
}

/// A form whose whole numbers are written without a fraction.
pub(crate) fn with_whole_numbers(mut schema: Value) -> Value {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(Map::values_mut) {
        for keyword in ["minimum", "maximum", "default"] {
            if let Some(value) = field.get_mut(keyword)
                && let Some(whole) = value.as_f64().and_then(whole)
            {
                *value = whole.into();
            }
        }
    }
    schema
}

/// A number without a fraction that is exact as an integer.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

/// The mistake in the parameters of a malformed question.
pub(crate) fn problem_of_params(params: &Value) -> String {
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    if text("message").is_none() {
        return "`message` is not a string".to_owned();
    }
    match (params.get("mode"), text("mode")) {
        (None, _) | (_, Some("form")) => {}
        (_, Some("url")) => return "`url` and `elicitationId` must be strings".to_owned(),
        _ => return "`mode` is neither `form` nor `url`".to_owned(),
    }
    let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        return "`requestedSchema` is not an object with `properties`".to_owned();
    };
    let is_simple = |field: &Value| {
        let kind = field.get("type").and_then(Value::as_str).unwrap_or_default();
        matches!(kind, "string" | "number" | "integer" | "boolean" | "array")
    };
    match fields.iter().find(|(_, field)| !is_simple(field)) {
        Some((name, _)) => {
            let name = crate::error::quoted(name);
            format!("the field `{name}` has a type that forms do not have")
        }
        None => "`requestedSchema` is not a form: one of its keywords has another form".to_owned(),
    }
}

fn check(field: &Value, value: &Value) -> Result<(), String> {
    match field.get("type").and_then(Value::as_str) {
        Some("string") => check_text(field, value),
        Some("boolean") if value.is_boolean() => Ok(()),
        Some("boolean") => Err("is not true or false".to_owned()),
        Some("integer") if value.as_f64().is_none_or(|number| number.fract() != 0.0) => {
            Err("is not a whole number".to_owned())
        }
        Some("integer" | "number") => check_number(field, value),
        Some("array") => check_choices(field, value),
        _ => Err("has a type that forms do not have".to_owned()),
    }
}

fn check_text(field: &Value, value: &Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Err("is not a string".to_owned()) };
    if let Some(choices) = choices(field) {
        return match choices.contains(&text) {
            true => Ok(()),
            false => Err(format!("is none of {}", choices.join(", "))),
        };
    }
    let length = text.chars().count();
    let bound = |key: &str| field.get(key).and_then(Value::as_u64);
    let max = bound("maxLength").map_or(MAX_TEXT, |max| max.min(MAX_TEXT as u64) as usize);
    if length > max {
        return Err(format!("is longer than {max} characters"));
    }
    if let Some(min) = bound("minLength").filter(|min| (length as u64) < *min) {
        return Err(format!("is shorter than {min} characters"));
    }
    match field.get("format").and_then(Value::as_str) {
        Some("email") if !is_email(text) => Err("is not an e-mail address".to_owned()),
        Some("uri") if url::Url::parse(text).is_err() => Err("is no URI".to_owned()),
        Some("date") if !is_date(text) => Err("is not a date as in 2026-01-31".to_owned()),
        Some("date-time") if !is_date_time(text) => {
            Err("is not a date with time as in 2026-01-31T12:00:00Z".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_number(field: &Value, value: &Value) -> Result<(), String> {
    let Some(number) = value.as_f64() else { return Err("is not a number".to_owned()) };
    let bound = |key: &str| field.get(key).and_then(Value::as_f64);
    if let Some(min) = bound("minimum").filter(|min| number < *min) {
        return Err(format!("is less than {min}"));
    }
    match bound("maximum").filter(|max| number > *max) {
        Some(max) => Err(format!("is more than {max}")),
        None => Ok(()),
    }
}

fn check_choices(field: &Value, value: &Value) -> Result<(), String> {
    let chosen: Option<Vec<&str>> =
        value.as_array().and_then(|chosen| chosen.iter().map(Value::as_str).collect());
    let Some(chosen) = chosen else { return Err("is not a list of strings".to_owned()) };
    let choices = field.get("items").and_then(choices).unwrap_or_default();
    if let Some(other) = chosen.iter().find(|one| !choices.contains(one)) {
        return Err(format!("has `{other}`, which is none of {}", choices.join(", ")));
    }
    let count = chosen.len() as u64;
    let bound = |key: &str| field.get(key).and_then(Value::as_u64);
    if let Some(min) = bound("minItems").filter(|min| count < *min) {
        return Err(format!("has fewer than {min} choices"));
    }
    match bound("maxItems").filter(|max| count > *max) {
        Some(max) => Err(format!("has more than {max} choices")),
        None => Ok(()),
    }
}

/// The values of `enum`, or of the constants in `oneOf` or `anyOf`.
fn choices(field: &Value) -> Option<Vec<&str>> {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        return Some(values.iter().filter_map(Value::as_str).collect());
    }
    let options = field.get("oneOf").or_else(|| field.get("anyOf"))?.as_array()?;
    Some(options.iter().filter_map(|option| option.get("const")?.as_str()).collect())
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    !local.is_empty() && !domain.is_empty() && !text.chars().any(char::is_whitespace)
}

/// `YYYY-MM-DD`, with a day that the month can have.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |text: &str, digits: usize| -> Option<u32> {
        let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let clock = |text: &str, max: [u32; 3]| {
        let parts: Vec<&str> = text.split(':').collect();
        let fits = |(part, max): (&&str, u32)| {
            part.len() == 2 && part.parse::<u32>().is_ok_and(|number| number <= max)
        };
        parts.iter().zip(max).all(fits).then_some(parts.len())
    };
    let (time, zone) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, Some(2)),
        None => match time.rsplit_once(['+', '-']) {
            Some((time, zone)) => (time, clock(zone, [23, 59, 0])),
            None => return false,
        },
    };
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_date(date) && clock(seconds, [23, 59, 60]) == Some(3) && zone == Some(2) && is_fraction
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_pages() {
        let check =
            |text: &str, expected: Result<(&str, bool), &str>| match (page_address(text), expected)
            {
                (Ok((url, warning)), Ok((expected, is_marked))) => {
                    assert_eq!((url.as_str(), warning.is_some()), (expected, is_marked), "{text}");
                }
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{text}: {problem}"),
                (found, _) => panic!("{text}: {found:?}"),
            };
        check("https://a.example/x?y=@z#@", Ok(("https://a.example/x?y=@z#@", false)));
        check("http://127.0.0.1:1/", Ok(("http://127.0.0.1:1/", false)));
        check("https://ex\u{430}mple.com/a", Ok(("https://xn--exmple-4nf.com/a", true)));
        check("https://xn--exmple-4nf.com/a", Ok(("https://xn--exmple-4nf.com/a", true)));
        check("https://a.example/é", Ok(("https://a.example/%C3%A9", false)));
        check("https://user:pw@evil/", Err("a user name or a password"));
        check("https://bank.example@evil/", Err("a user name or a password"));
        check("https://@evil/", Err("a user name or a password"));
        check("https:\\\\bank.example@evil/", Err("a user name or a password"));
        check("javascript:alert(1)", Err("only `https` and `http`"));
        check("file:///etc/passwd", Err("only `https` and `http`"));
        check("nowhere", Err("not the address"));
        check("https://a/\u{202e}b", Err("hidden"));
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        let schema = json!({"properties": {"n": {"type": "integer", "minimum": 1.0, "default": 3.0, "maximum": 1.5}}});
        let text = with_whole_numbers(schema).to_string();
        assert_eq!(
            text,
            r#"{"properties":{"n":{"type":"integer","minimum":1,"default":3,"maximum":1.5}}}"#
        );
    }

    #[test]
    fn what_is_wrong_with_a_question() {
        for (params, part) in [
            (json!(null), "`message`"),
            (json!({"message": "m"}), "`requestedSchema` is not an object"),
            (json!({"message": "m", "mode": "novel"}), "`mode` is neither"),
            (json!({"message": "m", "mode": 5}), "`mode` is neither"),
            (json!({"message": "m", "mode": "url"}), "`url` and `elicitationId`"),
            (
                json!({"message": "m", "requestedSchema": {"properties": {"a": {"type": "object"}}}}),
                "the field `a` has a type",
            ),
            (
                json!({"message": "m", "requestedSchema": {"properties": {"a": {"type": "string"}}}}),
                "another form",
            ),
        ] {
            let problem = problem_of_params(&params);
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn defaults_are_added_and_values_are_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "Ada", "maxLength": 5},
                "age": {"type": "integer", "default": 30, "minimum": 0},
                "score": {"type": "number", "maximum": 1.5},
                "on": {"type": "boolean", "default": true},
                "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
                "many": {"type": "array", "maxItems": 1, "items": {"type": "string", "enum": ["x", "y"]}},
                "mail": {"type": "string", "format": "email"},
                "day": {"type": "string", "format": "date"},
                "at": {"type": "string", "format": "date-time"},
                "page": {"type": "string", "format": "uri"},
            },
            "required": ["name", "age"],
        });
        let whole = |given: Value| complete(&schema, Some(given));
        let defaults = json!({"name": "Ada", "age": 30, "on": true});
        assert_eq!(complete(&schema, None), Ok(defaults.clone()));
        assert_eq!(whole(json!({"name": null})), Ok(defaults));
        for good in [
            json!({"score": 1}),
            json!({"one": "a"}),
            json!({"many": ["y"]}),
            json!({"mail": "a@b"}),
            json!({"day": "2024-02-29"}),
            json!({"at": "2026-01-31T12:00:00.5+01:00"}),
            json!({"page": "https://a/b"}),
        ] {
            assert!(whole(good.clone()).is_ok(), "{good}");
        }
        for (bad, part) in [
            (json!({"name": "Adelaide"}), "content.name"),
            (json!({"name": 1}), "not a string"),
            (json!({"age": 1.5}), "whole number"),
            (json!({"age": -1}), "less than 0"),
            (json!({"score": 2}), "more than 1.5"),
            (json!({"on": "yes"}), "content.on"),
            (json!({"one": "b"}), "none of a"),
            (json!({"many": ["x", "y"]}), "more than 1"),
            (json!({"many": ["z"]}), "`z`"),
            (json!({"mail": "a b@c"}), "e-mail"),
            (json!({"day": "2026-02-29"}), "date"),
            (json!({"at": "2026-01-31"}), "date with time"),
            (json!({"at": "2026-01-31T25:00:00Z"}), "date with time"),
            (json!({"page": "nowhere"}), "URI"),
            (json!({"other": 1}), "not a field"),
            (json!([]), "not an object"),
        ] {
            let problem = whole(bad.clone()).unwrap_err();
            assert!(problem.contains(part), "{bad}: {problem}");
        }
        let needed =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        assert_eq!(complete(&needed, None), Err("`content.a` is required".to_owned()));
    }
}
