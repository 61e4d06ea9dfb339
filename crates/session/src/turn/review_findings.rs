//! The answer of a model that reviews: Markdown as it is asked for, or JSON, which is rendered as text for
//! people. Its findings are read as data from either. Models deviate from the shape that they are asked for,
//! so each value is read on its own: one that is odd is shown as it is, and never costs the others.

mod markdown;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::port::review::{ReviewFinding, ReviewFindings, ReviewLocation};

/// Places in a message at which an answer is looked for.
const MAX_STARTS: usize = 64;

/// A structured answer.
struct Answer {
    overall: Vec<String>,
    findings: Vec<Value>,
}

/// A review.
pub(crate) struct Review {
    /// A structured answer rendered, anything else as the model said it.
    pub(crate) text: String,
    pub(crate) findings: Option<ReviewFindings>,
}

/// Reads the model's last message.
pub(crate) fn read(said: String) -> Review {
    match structured(&said) {
        Some(answer) => Review { text: answer.rendered(), findings: Some(answer.findings()) },
        None => Review { findings: markdown::findings(&said), text: said },
    }
}

/// The answer in `said`, which may be in a code fence or surrounded by text.
fn structured(said: &str) -> Option<Answer> {
    if let Ok(whole) = serde_json::from_str(said) {
        return answer(whole, true);
    }
    let starts = said.match_indices(['{', '[']).map(|(at, _)| at).take(MAX_STARTS);
    starts.into_iter().find_map(|at| {
        let mut values = serde_json::Deserializer::from_str(&said[at..]).into_iter::<Value>();
        answer(values.next()?.ok()?, false)
    })
}

/// The answer that `value` is. One that is the `whole` message may lack more members than one that
/// stands among words, which could be an example.
fn answer(value: Value, whole: bool) -> Option<Answer> {
    match value {
        Value::Object(mut object) => match object.shift_remove("findings") {
            Some(findings) => {
                let overall = ["overall_correctness", "overall_explanation"];
                let overall = overall.into_iter().filter_map(|name| words(object.get(name)?));
                Some(Answer { overall: overall.collect(), findings: listed(findings)? })
            }
            None if whole && object.contains_key("title") => {
                Some(Answer { overall: Vec::new(), findings: vec![Value::Object(object)] })
            }
            None => object.into_iter().find_map(|(_, inner)| match inner {
                Value::Object(_) => answer(inner, false),
                _ => None,
            }),
        },
        Value::Array(findings) => {
            let titled = findings.iter().any(|finding| finding.get("title").is_some());
            let is_answer = titled || whole && findings.is_empty();
            is_answer.then_some(Answer { overall: Vec::new(), findings })
        }
        _ => None,
    }
}

/// Returns the list under `findings`, when it can be one.
fn listed(findings: Value) -> Option<Vec<Value>> {
    match findings {
        Value::Null => Some(Vec::new()),
        Value::Array(findings) => Some(findings),
        one @ (Value::Object(_) | Value::String(_)) => Some(vec![one]),
        Value::Bool(_) | Value::Number(_) => None,
    }
}

impl Answer {
    fn rendered(&self) -> String {
        let mut parts = Vec::new();
        if !self.overall.is_empty() {
            parts.push(self.overall.join(": "));
        }
        parts.extend(self.findings.iter().map(rendered));
        if self.findings.is_empty() {
            parts.push("No findings.".to_owned());
        }
        parts.join("\n\n")
    }
}

impl Answer {
    fn findings(&self) -> ReviewFindings {
        ReviewFindings {
            explanation: (!self.overall.is_empty()).then(|| self.overall.join(": ")),
            findings: self.findings.iter().map(finding).collect(),
        }
    }
}

/// A finding as data.
fn finding(value: &Value) -> ReviewFinding {
    let members = value.as_object();
    let member = |name: &str| members.and_then(|members| members.get(name));
    let title = member("title").or(members.map_or(Some(value), |_| None)).and_then(words);
    let title = title.unwrap_or_else(|| "Untitled".to_owned());
    let (marked, title) = markdown::priority(&title);
    let number = |value: &Value| words(value)?.parse::<f64>().ok().filter(|it| it.is_finite());
    ReviewFinding {
        title: title.lines().map(str::trim).collect::<Vec<_>>().join(" "),
        body: member("body").and_then(words),
        priority: member("priority").and_then(priority).and_then(|it| level(&it)).or(marked),
        confidence: member("confidence_score").and_then(number),
        location: member("code_location").and_then(location),
    }
}

/// The level of a priority such as `P1`.
fn level(priority: &str) -> Option<u8> {
    priority.strip_prefix('P')?.parse().ok().filter(|level| *level <= 3)
}

/// The first place.
fn location(value: &Value) -> Option<ReviewLocation> {
    match value {
        Value::Array(places) => places.iter().find_map(location),
        _ => {
            let text = place(value)?;
            Some(markdown::location(&text).unwrap_or(ReviewLocation { path: text, lines: None }))
        }
    }
}

/// `- [P1] Title — path:12-15`, then the body, indented.
fn rendered(finding: &Value) -> String {
    let members = finding.as_object();
    let member = |name: &str| members.and_then(|members| members.get(name));
    let (title, body) = (member("title").and_then(words), member("body").and_then(words));
    let (title, body) = match (title, body) {
        (Some(title), body) => (title, body),
        (None, Some(body)) => ("Untitled".to_owned(), Some(body)),
        // Nothing that is known: all of it, so that nothing is lost.
        (None, None) => (words(finding).unwrap_or_else(|| finding.to_string()), None),
    };
    let mut text = "- ".to_owned();
    if let Some(priority) = member("priority").and_then(priority)
        && !title.starts_with("[P")
    {
        // Writing to a string cannot fail.
        let _ = write!(text, "[{priority}] ");
    }
    // A title of several lines stays one entry of the list.
    text.push_str(&title.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    if let Some(place) = member("code_location").and_then(place) {
        let _ = write!(text, " — {place}");
    }
    for line in body.unwrap_or_default().lines() {
        text.push('\n');
        if !line.trim().is_empty() {
            let _ = write!(text, "  {line}");
        }
    }
    text
}

/// A value as words: texts as they are, lists line by line, anything else as JSON.
fn words(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.trim().to_owned(),
        Value::Array(parts) => parts.iter().filter_map(words).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// `P1` for `1`, `1.0`, `"1"`, `"P1"` and `"[P1]"`; a priority in words stays as it is.
fn priority(value: &Value) -> Option<String> {
    let text = words(value)?;
    let bare = text.trim_start_matches('[').trim_end_matches(']').trim();
    let digits = bare.strip_prefix(['P', 'p']).unwrap_or(bare);
    Some(match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => format!("P{number:.0}"),
        _ => bare.to_owned(),
    })
}

/// `path:12-15`; one that is text already stays as it is.
fn place(location: &Value) -> Option<String> {
    let members = match location {
        Value::Object(members) => members,
        Value::Array(places) => {
            let places: Vec<String> = places.iter().filter_map(place).collect();
            return (!places.is_empty()).then(|| places.join(", "));
        }
        other => return words(other),
    };
    let names = ["absolute_file_path", "file_path", "path", "file"];
    let path = names.iter().find_map(|name| words(members.get(*name)?))?;
    Some(match lines(members) {
        Some(lines) => format!("{path}:{lines}"),
        None => path,
    })
}

/// `12-15` or `12`.
fn lines(location: &Map<String, Value>) -> Option<String> {
    let (start, end) = match location.get("line_range").or_else(|| location.get("line"))? {
        Value::Object(range) => (range.get("start"), range.get("end")),
        Value::Array(range) => (range.first(), range.get(1)),
        line => (Some(line), None),
    };
    match (start.and_then(words), end.and_then(words)) {
        (Some(start), Some(end)) => {
            let numbers = (start.parse::<u64>(), end.parse::<u64>());
            let is_one = matches!(numbers, (Ok(start), Ok(end)) if end <= start);
            Some(if is_one { start } else { format!("{start}-{end}") })
        }
        (line, None) | (None, line) => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, expected: &str) {
        assert_eq!(read(said.to_owned()).text, expected);
    }

    const FINDING: &str = r#"{"findings": [{"title": "Lost update", "body": "Two writers.\n\nOne loses.",
        "confidence_score": 0.9, "priority": 1, "code_location":
        {"absolute_file_path": "/w/a.rs", "line_range": {"start": 12, "end": 15}}}],
        "overall_correctness": "patch is incorrect", "overall_explanation": "It loses data."}"#;
    const RENDERED: &str = "patch is incorrect: It loses data.\n\n\
        - [P1] Lost update — /w/a.rs:12-15\n  Two writers.\n\n  One loses.";

    #[test]
    fn findings_are_rendered() {
        check(FINDING, RENDERED);
        check(&format!("Here it is:\n```json\n{FINDING}\n```\n"), RENDERED);
    }

    #[test]
    fn findings_are_data_too() {
        let read = |said: &str| read(said.to_owned()).findings.unwrap();
        let lost = ReviewFinding {
            title: "Lost update".to_owned(),
            body: Some("Two writers.\n\nOne loses.".to_owned()),
            priority: Some(1),
            confidence: Some(0.9),
            location: Some(ReviewLocation { path: "/w/a.rs".to_owned(), lines: Some((12, 15)) }),
        };
        let explanation = Some("patch is incorrect: It loses data.".to_owned());
        let whole = ReviewFindings { explanation, findings: vec![lost] };
        assert_eq!(read(FINDING), whole);
        for (said, expected) in [
            (r#"{"findings": []}"#, None),
            (r#"{"findings": "All is lost."}"#, Some(("All is lost.", None, None))),
            (
                r#"[{"title": "[P2] a\nb", "code_location": "C:\\x.rs:3"}]"#,
                Some(("a b", Some(2), Some(("C:\\x.rs", Some((3, 3)))))),
            ),
            (
                r#"{"title": "t", "priority": "high", "code_location": [{"path": "p"}, "q:2"]}"#,
                Some(("t", None, Some(("p", None)))),
            ),
            (r#"[{"body": "b", "title": null, "priority": 7}]"#, Some(("Untitled", None, None))),
        ] {
            let first = read(said).findings.into_iter().next();
            let found = first.as_ref().map(|it| {
                let place = it.location.as_ref().map(|place| (place.path.as_str(), place.lines));
                (it.title.as_str(), it.priority, place)
            });
            assert_eq!(found, expected, "{said}");
        }
    }

    #[test]
    fn members_may_be_missing() {
        check(r#"{"findings": []}"#, "No findings.");
        check(
            r#"{"findings": [], "overall_correctness": "patch is correct"}"#,
            "patch is correct\n\nNo findings.",
        );
        check(r#"{"findings": [{"title": "[P0] Bad", "priority": 0}]}"#, "- [P0] Bad");
        check(
            r#"{"findings": [{"body": "b", "code_location": {"absolute_file_path": "a",
                "line_range": {"start": 3, "end": 3}}}]}"#,
            "- Untitled — a:3\n  b",
        );
        check(
            r#"{"findings": [{"title": "t", "priority": null, "code_location": {"path": "a"}}]}"#,
            "- t — a",
        );
    }

    #[test]
    fn readable_findings_are_rendered() {
        let one = |members: &str, expected: &str| {
            check(&format!(r#"{{"findings": [{{{members}}}]}}"#), expected);
            check(&format!("[{{{members}}}]"), expected);
            check(&format!("{{{members}}}"), expected);
        };
        for (priority, shown) in [
            (r#""P0""#, "[P0] "),
            (r#""p3""#, "[P3] "),
            (r#""[P2]""#, "[P2] "),
            (r#""2""#, "[P2] "),
            ("1.0", "[P1] "),
            (r#""high""#, "[high] "),
            ("null", ""),
            (r#""""#, ""),
        ] {
            one(&format!(r#""title": "t", "priority": {priority}"#), &format!("- {shown}t"));
        }
        for (location, shown) in [
            (r#""a.rs:3""#, " — a.rs:3"),
            (r#"{"file": "a", "line": 7}"#, " — a:7"),
            (r#"{"path": "a", "line_range": [3, 9]}"#, " — a:3-9"),
            (r#"{"path": "a", "line_range": {"start": "3", "end": "4"}}"#, " — a:3-4"),
            (r#"{"path": "a", "line_range": "3-4"}"#, " — a:3-4"),
            (r#"{"path": "a", "line_range": {"start": 3}}"#, " — a:3"),
            (r#"["a:1", {"path": "b"}]"#, " — a:1, b"),
            ("{}", ""),
            ("[]", ""),
        ] {
            one(&format!(r#""title": "t", "code_location": {location}"#), &format!("- t{shown}"));
        }
        one(r#""title": 404, "body": ["One.", "Two."]"#, "- 404\n  One.\n  Two.");
        one(r#""title": {"a": 1}, "body": true"#, "- {\"a\":1}\n  true");
        check(r#"{"findings": null}"#, "No findings.");
        check(r#"{"findings": "All is lost."}"#, "- All is lost.");
        check(r#"{"findings": {"title": "t"}}"#, "- t");
        check("[]", "No findings.");
        check(r#"{"review": {"findings": [{"title": "t"}]}}"#, "- t");
        check("Use `{}` or [x]:\n\n[{\"title\": \"t\"}]\n\nas {said}.", "- t");
    }

    #[test]
    fn an_invalid_finding_does_not_affect_others() {
        let odd = r#"{"findings": [{"title": "a", "priority": {}}, "b", 3, {"c": 1}, null]}"#;
        check(odd, "- [{}] a\n\n- b\n\n- 3\n\n- {\"c\":1}\n\n- null");
    }

    #[test]
    fn other_answers_are_unchanged() {
        for said in [
            "[P1] A bug.",
            "",
            "} {",
            r#"{"a": 1}"#,
            r#"{"findings": 3}"#,
            "use {} here",
            "[1, 2]",
            "nothing: []",
            // An example, not a finding.
            r#"The route answers {"title": "a", "body": "b"} twice."#,
        ] {
            check(said, said);
        }
    }
}
