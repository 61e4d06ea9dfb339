//! The structured answer of a model that reviews: a JSON object of findings, read from its last
//! message and rendered as text for people. An answer that is no such object is text already.

use std::fmt::Write as _;

use serde::Deserialize;

/// A structured answer. Every member is optional, because models leave some out.
#[derive(Debug, Deserialize)]
struct Answer {
    findings: Vec<Finding>,
    overall_correctness: Option<String>,
    overall_explanation: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    title: Option<String>,
    body: Option<String>,
    priority: Option<f64>,
    code_location: Option<Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    #[serde(alias = "file_path", alias = "path")]
    absolute_file_path: Option<String>,
    line_range: Option<Lines>,
}

#[derive(Debug, Deserialize)]
struct Lines {
    start: Option<u64>,
    end: Option<u64>,
}

/// The review as text: a structured answer rendered, anything else as it is.
pub(crate) fn text(said: String) -> String {
    match read(&said) {
        Some(answer) => answer.rendered(),
        None => said,
    }
}

/// The answer in `said`, which may stand in a code fence or among words.
fn read(said: &str) -> Option<Answer> {
    let object = said.get(said.find('{')?..=said.rfind('}')?)?;
    serde_json::from_str(object).ok()
}

impl Answer {
    fn rendered(&self) -> String {
        let mut parts = Vec::new();
        let texts = [&self.overall_correctness, &self.overall_explanation];
        let overall: Vec<&str> =
            texts.into_iter().flatten().map(|text| text.trim()).filter(|t| !t.is_empty()).collect();
        if !overall.is_empty() {
            parts.push(overall.join(": "));
        }
        parts.extend(self.findings.iter().map(Finding::rendered));
        if self.findings.is_empty() {
            parts.push("No findings.".to_owned());
        }
        parts.join("\n\n")
    }
}

impl Finding {
    /// `- [P1] Title — path:12-15`, then the body, indented.
    fn rendered(&self) -> String {
        let title = self.title.as_deref().map_or("Untitled", str::trim);
        let mut text = "- ".to_owned();
        if let Some(priority) = self.priority.filter(|_| !title.starts_with("[P")) {
            // Writing to a string cannot fail.
            let _ = write!(text, "[P{priority:.0}] ");
        }
        text.push_str(title);
        if let Some(place) = self.code_location.as_ref().and_then(Place::rendered) {
            let _ = write!(text, " — {place}");
        }
        for line in self.body.as_deref().unwrap_or_default().trim().lines() {
            text.push('\n');
            if !line.trim().is_empty() {
                let _ = write!(text, "  {line}");
            }
        }
        text
    }
}

impl Place {
    fn rendered(&self) -> Option<String> {
        let path = self.absolute_file_path.as_deref()?;
        let lines = self.line_range.as_ref();
        Some(match lines.map(|lines| (lines.start, lines.end)) {
            Some((Some(start), Some(end))) if end > start => format!("{path}:{start}-{end}"),
            Some((Some(line), _) | (None, Some(line))) => format!("{path}:{line}"),
            _ => path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, expected: &str) {
        assert_eq!(text(said.to_owned()), expected);
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
    fn other_answers_stay_as_they_are() {
        for said in ["[P1] A bug.", "", "} {", r#"{"a": 1}"#, r#"{"findings": 3}"#, "use {} here"] {
            check(said, said);
        }
    }
}
