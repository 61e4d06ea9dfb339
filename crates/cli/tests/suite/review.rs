//! `agentd review` from a shell: what it reviews, what it prints, and how it ends.

use std::process::Command;

use crate::common::{TestEnvironment, stderr, stdout};
use serde_json::{Value, json};

fn git(env: &TestEnvironment, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let done = command.env("HOME", env.home()).current_dir(env.work()).status().unwrap();
    assert!(done.success(), "git {arguments:?}");
}

/// A repository with a commit on `main`, one on `topic`, and a change; and a model that answers with `text`
/// where the request has `expected`.
fn environment(expected: &str, text: &str) -> (TestEnvironment, String) {
    let env = TestEnvironment::new();
    let write = |text: &str| std::fs::write(env.work().join("value.txt"), text).unwrap();
    git(&env, &["init", "-q", "-b", "main"]);
    write("first\n");
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "start"]);
    git(&env, &["checkout", "-qb", "topic"]);
    write("second\n");
    git(&env, &["commit", "-qam", "on the topic"]);
    write("third\n");
    let script = env.script(&json!([
        { "expect": { "contains": expected }, "steps": [{ "message": text }] },
    ]));
    (env, script)
}

fn review(env: &TestEnvironment, script: &str, more: &[&str]) -> (i32, String, String) {
    let arguments = [&["review", "--model-provider", "offline", "-m", script][..], more].concat();
    let output = env.run(&arguments);
    (output.status.code().unwrap(), stdout(&output), stderr(&output))
}

const FINDINGS: &str =
    "Not yet.\n\n- [P1] Lost update — value.txt:1\n  Two writers.\n- [P3] No test";

#[test]
fn a_review_prints_its_text_of_whatever_is_named() {
    for (expected, more) in [
        ("+third", &[][..]),
        ("+third", &["--uncommitted"]),
        ("main", &["--base", "main"]),
        ("on the topic", &["--commit", "HEAD"]),
        ("the error handling", &["the error handling of value.txt"]),
    ] {
        let (env, script) = environment(expected, FINDINGS);
        let (code, out, err) = review(&env, &script, more);
        assert_eq!((code, out.trim_end()), (0, FINDINGS), "{more:?}: {err}");
    }
}

#[test]
fn the_object_has_the_findings_and_their_priority_decides_the_exit_code() {
    let (env, script) = environment("+third", FINDINGS);
    let (code, out, err) = review(&env, &script, &["--json", "--output", "review.json"]);
    assert_eq!(code, 0, "{err}");
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["findings"][0]["title"], "Lost update");
    assert_eq!(object["findings"][0]["priority"], 1);
    assert_eq!(
        object["findings"][0]["location"],
        json!({ "path": "value.txt", "startLine": 1, "endLine": 1 })
    );
    assert_eq!(object["findings"][1]["title"], "No test");
    assert!(object["threadId"].is_string() && object["review"] == FINDINGS, "{out}");
    let file = std::fs::read_to_string(env.work().join("review.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&file).unwrap(), object);
    for (text, priority, expected) in [
        (FINDINGS, "0", 0),
        (FINDINGS, "1", 3),
        (FINDINGS, "3", 3),
        ("It can go in. No findings.", "3", 0),
        ("Looks odd.", "3", 1),
    ] {
        let (env, script) = environment("+third", text);
        let (code, out, err) = review(&env, &script, &["--fail-on", priority]);
        assert_eq!((code, out.trim_end()), (expected, text), "{priority}: {err}");
    }
}

#[test]
fn what_cannot_be_reviewed_is_refused() {
    let (env, script) = environment("+third", FINDINGS);
    for (more, code, why) in [
        (&["--base", "nowhere"][..], 2, "nowhere"),
        (&["--base", "main", "--uncommitted"], 2, "cannot be used with"),
        (&["--title", "t"], 2, "--commit"),
        (&["--fail-on", "4"], 2, "4"),
    ] {
        let (found, out, err) = review(&env, &script, more);
        assert_eq!((found, out.as_str()), (code, ""), "{more:?}: {err}");
        assert!(err.contains(why), "{more:?}: {err}");
    }
    let empty = TestEnvironment::new();
    let (code, out, err) = review(&empty, &script, &[]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("repository"), "{err}");
    let failing =
        env.script(&json!([{ "steps": [{ "error": { "status": 400, "message": "no" } }] }]));
    let (code, out, err) = review(&env, &failing, &["--json"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
}
