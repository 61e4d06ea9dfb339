//! Values of a form's fields: what the schemas allow, and what is wrong with what was written. Also the
//! requests of MCP servers in a mode that this program does not know.

use protocol::elicitation::{
    McpElicitationNumberSchema, McpElicitationNumberType, McpElicitationStringFormat,
    McpElicitationStringSchema, McpServerElicitationAction, McpServerElicitationRequestResponse,
};
use serde_json::{Number, Value};

use crate::palette::Palette;
use crate::text::{Line, Style};

use super::choices::{Choice, Choices, refusals};
use super::facts::text_lines;
use super::step::{Answer, FollowUp, encoded};

/// The value of a text field, or what is wrong with it.
pub(super) fn string(schema: &McpElicitationStringSchema, text: &str) -> Result<Value, String> {
    let length = text.chars().count();
    if let Some(min) = schema.min_length.filter(|min| length < *min as usize) {
        return Err(format!("needs at least {min} characters"));
    }
    if let Some(max) = schema.max_length.filter(|max| length > *max as usize) {
        return Err(format!("takes at most {max} characters, not {length}"));
    }
    let (fits, what) = match schema.format {
        None => (true, ""),
        Some(McpElicitationStringFormat::Email) => {
            (is_email(text), "an e-mail address, as in a@b.org")
        }
        Some(McpElicitationStringFormat::Uri) => (is_uri(text), "an address, as in https://b.org/"),
        Some(McpElicitationStringFormat::Date) => (is_date(text), "a date, as in 2026-01-31"),
        Some(McpElicitationStringFormat::DateTime) => {
            (is_date_time(text), "a date and time, as in 2026-01-31T12:00:00Z")
        }
    };
    match fits {
        true => Ok(Value::String(text.to_owned())),
        false => Err(format!("is not {what}")),
    }
}

/// The value of a number field, or what is wrong with it.
pub(super) fn number(schema: &McpElicitationNumberSchema, text: &str) -> Result<Value, String> {
    let text = text.trim();
    let whole = text.parse::<i64>().ok();
    let number = match (whole, schema.kind) {
        (Some(whole), _) => Number::from(whole),
        (None, McpElicitationNumberType::Integer) => return Err("is not a whole number".to_owned()),
        (None, McpElicitationNumberType::Number) => {
            let number = text.parse::<f64>().ok().and_then(Number::from_f64);
            number.ok_or_else(|| "is not a number".to_owned())?
        }
    };
    let value = number.as_f64().unwrap_or(f64::NAN);
    if let Some(minimum) = schema.minimum.filter(|minimum| value < *minimum) {
        return Err(format!("is less than {minimum}"));
    }
    if let Some(maximum) = schema.maximum.filter(|maximum| value > *maximum) {
        return Err(format!("is more than {maximum}"));
    }
    Ok(Value::Number(number))
}

fn is_email(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else { return false };
    !user.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let fits = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    starts && fits && !rest.is_empty() && !text.contains(char::is_whitespace)
}

/// The number that `text` is, of exactly `digits` digits.
fn digits(text: &str, digits: usize) -> Option<u32> {
    let fits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut next = |length| parts.next().and_then(|part| digits(part, length));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => return false,
    };
    parts.next().is_none() && (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let clock = |text: &str| {
        let mut parts = text.split(':').map(|part| digits(part, 2));
        let hour = matches!(parts.next(), Some(Some(0..24)));
        hour && parts.all(|part| part.is_some_and(|part| part <= 60))
    };
    let Some(zone) = time.rfind(['Z', 'z', '+', '-']) else { return false };
    let (time, zone) = time.split_at(zone);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let zone_fits = matches!(zone, "Z" | "z") || zone.len() == 6 && clock(&zone[1..]);
    let fraction_fits = !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit());
    is_date(date) && time.len() == 8 && clock(time) && fraction_fits && zone_fits
}

/// The answer with an action and no content.
pub(super) fn action(action: McpServerElicitationAction, server: &str) -> Answer {
    let (text, style) = match action {
        McpServerElicitationAction::Accept => {
            (format!("Accepted the request of {server}"), Palette::GOOD)
        }
        McpServerElicitationAction::Decline => {
            (format!("Declined the request of {server}"), Palette::WARNING)
        }
        McpServerElicitationAction::Cancel => {
            (format!("Cancelled the request of {server}"), Palette::WARNING)
        }
    };
    let response = McpServerElicitationRequestResponse { action, content: None, meta: None };
    Answer::new(encoded(&response), Line::new(text, style))
}

/// A dialog with these choices, and after them the ways to refuse. `in_turn`: a turn waits for the answer.
pub(super) fn choices(mut choices: Vec<Choice>, server: &str, in_turn: bool) -> Choices {
    let decline = action(McpServerElicitationAction::Decline, server);
    let stop = action(McpServerElicitationAction::Cancel, server).and(FollowUp::StopTurn);
    choices.extend(refusals(&decline, in_turn.then_some(&stop)));
    let interrupt = if in_turn { stop } else { decline.clone() };
    Choices::new(choices, decline, interrupt)
}

/// A request in a mode of a newer version: it can be read and refused.
pub(super) fn unknown_mode(params: &Value) -> (String, Vec<Line>, Choices) {
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    let server = text("serverName").to_owned();
    let mut facts = text_lines("", text("message"), Style::PLAIN);
    let mode = format!("This version cannot answer a request in the mode `{}`:", text("mode"));
    facts.push(Line::new(mode, Palette::WARNING));
    let members = format!("{params:#}");
    facts.extend(members.lines().map(|line| Line::new(format!("  {line}"), Palette::QUIET)));
    let in_turn = params.get("turnId").is_some_and(Value::is_string);
    (format!("{server} asks"), facts, choices(Vec::new(), &server, in_turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (format, good, bad) in [
            ("email", "a@b.org", vec!["a", "@b", "a@", "a b@c"]),
            ("uri", "https://b.org/x", vec!["b.org", "1:x", "x:", "a:b c"]),
            (
                "date",
                "2024-02-29",
                vec!["2023-02-29", "2024-13-01", "2024-1-1", "2024-01-01-1", "é"],
            ),
            (
                "date-time",
                "2024-02-29T23:59:60.5+01:00",
                vec![
                    "2024-02-29",
                    "2024-02-29T24:00:00Z",
                    "2024-02-29T1:00:00Z",
                    "2024-02-29T10:00:00",
                ],
            ),
        ] {
            let schema = serde_json::json!({ "type": "string", "format": format });
            let schema = serde_json::from_value(schema).unwrap();
            assert_eq!(string(&schema, good), Ok(good.into()), "{format}");
            for text in bad {
                assert!(string(&schema, text).is_err(), "{format} {text}");
            }
        }
    }

    #[test]
    fn numbers() {
        let schema = |kind: &str| {
            let schema = serde_json::json!({ "type": kind, "minimum": 1, "maximum": 10 });
            serde_json::from_value(schema).unwrap()
        };
        assert_eq!(number(&schema("integer"), " 7 "), Ok(7.into()));
        assert_eq!(number(&schema("number"), "7.5"), Ok(7.5.into()));
        for (kind, text) in [
            ("integer", "7.5"),
            ("integer", "0"),
            ("number", "11"),
            ("number", "NaN"),
            ("number", ""),
        ] {
            assert!(number(&schema(kind), text).is_err(), "{kind} {text}");
        }
    }
}
