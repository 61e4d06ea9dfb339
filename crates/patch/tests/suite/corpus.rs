//! Cases that were compared with an independent implementation (`apply_diff` of the Python package
//! `openai-agents`). `cargo xtask interop` finds and writes them; their verdicts are explained in
//! `tools/src/interop/patches/compare.rs`.

use serde_json::Value;

use super::updated;

#[test]
fn cases_keep_their_results() {
    let text = include_str!("corpus.jsonl");
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| case[name].as_str();
        // The other one takes one line end at the end for that of the last line.
        let diff = text("diff").unwrap();
        let after = updated(text("before").unwrap(), diff.strip_suffix('\n').unwrap_or(diff));
        assert_eq!(after.as_deref().ok(), text("ours"), "{line}\n{after:?}");
        let is_same = case["ours"] == case["theirs"];
        assert_eq!(is_same, ["Same", "BothRefuse"].contains(&text("verdict").unwrap()), "{line}");
    }
    assert!(text.lines().count() > 200);
}
