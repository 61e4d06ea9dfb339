//! The result of `agentd review`: how it is printed, and which findings make it fail.

use protocol::{ReviewFinding, ReviewModeItem};
use serde::Serialize;

/// The exit code when there is a finding of the priority that was named.
pub(super) const HAS_FINDING: u8 = 3;

/// The form of the result of `agentd review`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReviewOutput {
    /// As one object.
    pub(crate) is_json: bool,
    /// The least urgent priority of a finding that fails the command.
    pub(crate) fail_on: Option<u8>,
}

/// The object of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed<'r> {
    thread_id: &'r str,
    review: &'r str,
    /// Null where the text has no findings that can be told apart.
    findings: Option<&'r [ReviewFinding]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'r str>,
}

impl ReviewOutput {
    /// The text to print.
    pub(super) fn text(
        self,
        thread_id: &str,
        review: &ReviewModeItem,
    ) -> serde_json::Result<String> {
        if !self.is_json {
            return Ok(review.review.clone());
        }
        serde_json::to_string_pretty(&Printed {
            thread_id,
            review: &review.review,
            findings: review.findings.as_deref(),
            explanation: review.explanation.as_deref(),
        })
    }

    /// The number of findings that fail the command. One without a priority counts: it may be urgent.
    pub(super) fn failing(self, review: &ReviewModeItem) -> usize {
        let Some(least) = self.fail_on else { return 0 };
        let findings = review.findings.iter().flatten();
        findings.filter(|finding| finding.priority.is_none_or(|it| it <= least)).count()
    }

    /// True if findings are asked about that cannot be told apart.
    pub(super) fn cannot_tell(self, review: &ReviewModeItem) -> bool {
        self.fail_on.is_some() && review.findings.is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review(findings: serde_json::Value) -> ReviewModeItem {
        serde_json::from_value(json!({ "id": "r", "review": "Text.", "findings": findings }))
            .unwrap()
    }

    #[test]
    fn findings_fail_by_their_priority() {
        let check = |fail_on, findings, failing, cannot_tell| {
            let (output, review) = (ReviewOutput { is_json: false, fail_on }, review(findings));
            assert_eq!(output.failing(&review), failing);
            assert_eq!(output.cannot_tell(&review), cannot_tell);
        };
        let found = json!([{ "title": "a", "priority": 1 }, { "title": "b", "priority": 2 }, { "title": "c" }]);
        check(None, found.clone(), 0, false);
        check(Some(0), found.clone(), 1, false);
        check(Some(1), found.clone(), 2, false);
        check(Some(3), found, 3, false);
        check(Some(3), json!([]), 0, false);
        check(Some(3), json!(null), 0, true);
    }

    #[test]
    fn the_object_has_null_for_findings_that_are_not_known() {
        let output = ReviewOutput { is_json: true, fail_on: None };
        let text = output.text("t1", &review(json!(null))).unwrap();
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object, json!({ "threadId": "t1", "review": "Text.", "findings": null }));
    }
}
