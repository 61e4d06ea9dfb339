//! Reads a reviewer's answer. Everything but one complete verdict about this review is a refusal.

use serde::Deserialize;

use crate::port::auto_review::{ReviewResponse, RiskLevel, UserAuthorization};

/// Characters of a rationale that are shown.
const MAX_RATIONALE: usize = 2_000;

/// A verdict that can be used.
#[derive(Debug, PartialEq)]
pub(super) struct Opinion {
    pub(super) approves: bool,
    pub(super) risk: RiskLevel,
    pub(super) authorization: UserAuthorization,
    pub(super) rationale: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    review_id: String,
    verdict: Verdict,
    risk_level: RiskLevel,
    user_authorization: UserAuthorization,
    rationale: String,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Approve,
    Deny,
}

/// The opinion that a response holds about the review `id`.
///
/// # Errors
/// Why the response cannot be used, as the end of a sentence.
pub(super) fn read(id: &str, response: &ReviewResponse) -> Result<Opinion, String> {
    if response.other_items > 0 {
        return Err("it called a tool in place of an answer".to_owned());
    }
    let text = match &*response.messages {
        [] => return Err("it gave no answer".to_owned()),
        [text] => text,
        more => return Err(format!("it gave {} answers in place of one", more.len())),
    };
    if !text.trim_start().starts_with('{') {
        return Err("its answer is not the JSON object that was asked for".to_owned());
    }
    let answer: Answer = serde_json::from_str(text).map_err(|error| {
        format!("its answer is not the JSON object that was asked for: {error}")
    })?;
    if answer.review_id != id {
        return Err("its answer is about another action".to_owned());
    }
    if answer.rationale.trim().is_empty() {
        return Err("its answer gives no rationale".to_owned());
    }
    Ok(Opinion {
        approves: answer.verdict == Verdict::Approve,
        risk: answer.risk_level,
        authorization: answer.user_authorization,
        rationale: visible::text(&cut(answer.rationale.trim())).into_owned(),
    })
}

impl Opinion {
    /// Why an approval contradicts the reviewer's own judgement, so that it does not count. A
    /// reviewer that was fooled about the verdict alone does not get past this.
    pub(super) fn contradiction(&self) -> Option<&'static str> {
        use UserAuthorization::{Medium, Unknown};
        match self.risk {
            _ if !self.approves => None,
            RiskLevel::Low => None,
            RiskLevel::Medium => (self.authorization == Unknown).then_some(
                "it approved an action of medium risk that no word of the user is about",
            ),
            RiskLevel::High => (self.authorization < Medium).then_some(
                "it approved an action of high risk that the user did not clearly ask for",
            ),
            RiskLevel::Critical => {
                Some("it approved an action of critical risk, which only the user may approve")
            }
        }
    }
}

fn cut(rationale: &str) -> String {
    match rationale.char_indices().nth(MAX_RATIONALE) {
        Some((end, _)) => format!("{}…", &rationale[..end]),
        None => rationale.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer() -> Value {
        json!({
            "reviewId": "r1", "verdict": "approve", "riskLevel": "low",
            "userAuthorization": "unknown", "rationale": "It lists files.",
        })
    }

    fn read_texts(texts: &[&str]) -> Result<Opinion, String> {
        let messages = texts.iter().map(|text| (*text).into()).collect();
        read("r1", &ReviewResponse { messages, ..ReviewResponse::default() })
    }

    #[test]
    fn one_whole_answer_counts() {
        let opinion = read_texts(&[&answer().to_string()]).unwrap();
        assert!(opinion.approves);
        assert_eq!(opinion.rationale, "It lists files.");
        assert_eq!(opinion.contradiction(), None);
    }

    #[test]
    fn everything_else_is_refused() {
        let good = answer().to_string();
        let with = |name: &str, value: Value| {
            let mut answer = answer();
            answer[name] = value;
            answer.to_string()
        };
        let without = |name: &str| {
            let mut answer = answer();
            answer.as_object_mut().unwrap().shift_remove(name);
            answer.to_string()
        };
        let twice = good.replacen("{", "{\"verdict\":\"deny\",", 1);
        let rows: &[(&[&str], &str)] = &[
            (&[], "no answer"),
            (&[&good, &good], "2 answers"),
            (&[&format!("{good}{good}")], "not the JSON object"),
            (&[&format!("Sure! {good}")], "not the JSON object"),
            (&[&format!("```json\n{good}\n```")], "not the JSON object"),
            (&["approve"], "not the JSON object"),
            (&["\"approve\""], "not the JSON object"),
            (&[""], "not the JSON object"),
            (&[&twice], "duplicate"),
            (&[&with("reviewId", json!("r2"))], "another action"),
            (&[&with("reviewId", json!("R1"))], "another action"),
            (&[&with("reviewId", json!(null))], "not the JSON object"),
            (&[&with("verdict", json!("yes"))], "not the JSON object"),
            (&[&with("verdict", json!(true))], "not the JSON object"),
            (&[&with("riskLevel", json!("none"))], "not the JSON object"),
            (&[&with("userAuthorization", json!("full"))], "not the JSON object"),
            (&[&with("rationale", json!("  "))], "no rationale"),
            (&[&with("also", json!("run rm -rf /"))], "unknown field"),
            (&[&without("riskLevel")], "missing field"),
            (&[&without("reviewId")], "missing field"),
            (&[&without("rationale")], "missing field"),
            (&[&format!("[{good}]")], "not the JSON object"),
            (&[r#"["r1","approve","low","unknown","x"]"#], "not the JSON object"),
        ];
        for (texts, expected) in rows {
            let error = read_texts(texts).unwrap_err();
            assert!(error.contains(expected), "{texts:?}: {error}");
        }
        let messages = vec![good.into()];
        let called = ReviewResponse { messages, other_items: 1, ..ReviewResponse::default() };
        assert!(read("r1", &called).unwrap_err().contains("tool"));
    }

    #[test]
    fn an_approval_that_contradicts_itself_does_not_count() {
        use RiskLevel::{Critical, High, Low, Medium};
        use UserAuthorization as By;
        for (approves, risk, authorization, counts) in [
            (true, Low, By::Unknown, true),
            (true, Medium, By::Unknown, false),
            (true, Medium, By::Low, true),
            (true, High, By::Low, false),
            (true, High, By::Medium, true),
            (true, Critical, By::High, false),
            (false, Critical, By::High, true),
            (false, Low, By::High, true),
        ] {
            let opinion = Opinion { approves, risk, authorization, rationale: "x".into() };
            let row = format!("{approves} {risk:?} {authorization:?}");
            assert_eq!(opinion.contradiction().is_none(), counts, "{row}");
        }
    }

    #[test]
    fn a_rationale_is_bounded_and_readable() {
        let long = format!("\u{202e}\u{e0041}日本 — {}", "x".repeat(3_000));
        let mut answer = answer();
        answer["rationale"] = json!(long);
        let text = read_texts(&[&answer.to_string()]).unwrap().rationale;
        assert!(text.starts_with("\\u{202e}\\u{e0041}日本 — x") && text.ends_with('…'));
        assert!(text.chars().count() < 2_100);
    }
}
