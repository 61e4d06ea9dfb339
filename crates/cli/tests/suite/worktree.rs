//! `agentd exec --worktree` and `agentd worktree` as a user runs them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{TestEnvironment, stderr, stdout};

fn git(env: &TestEnvironment, arguments: &[&str]) -> String {
    let done = Command::new("git").args(arguments).current_dir(env.work()).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", stderr(&done));
    stdout(&done).trim().to_owned()
}

fn repository(env: &TestEnvironment) {
    git(env, &["init", "-q", "-b", "main"]);
    git(env, &["config", "user.name", "U"]);
    git(env, &["config", "user.email", "u@example.com"]);
    std::fs::write(env.work().join("value.txt"), "broken\n").unwrap();
    git(env, &["add", "."]);
    git(env, &["commit", "-qm", "start"]);
}

fn list(env: &TestEnvironment) -> Vec<Value> {
    let listed = env.run(&["worktree", "list", "--json"]);
    serde_json::from_str(&stdout(&listed)).unwrap_or_else(|_| panic!("{}", stderr(&listed)))
}

#[test]
fn a_turn_in_a_worktree_is_merged_and_removed() {
    let env = TestEnvironment::new();
    repository(&env);
    let patch = "*** Begin Patch\n*** Update File: value.txt\n@@\n-broken\n+fixed\n*** End Patch\n";
    let model = env.script(&json!([
        { "steps": [{ "custom_tool_call": { "name": "apply_patch", "input": patch } }] },
        { "steps": [{ "message": { "text": "Done.", "phase": "final_answer" } }] },
    ]));
    let offline =
        ["exec", "-c", r#"model_provider="offline""#, "-m", &model, "-s", "workspace-write"];
    let done = env.run(&[&offline[..], &["--worktree", "Repair the value, please do"]].concat());
    assert_eq!(stdout(&done), "Done.\n", "{}", stderr(&done));
    let branch = "agentd/Repair-the-value-please-do";
    assert!(
        stderr(&done).contains(&format!("works on the branch {branch}, in ")),
        "{}",
        stderr(&done)
    );
    let found = list(&env);
    assert_eq!((found.len(), &found[0]["branch"]), (1, &json!(branch)));
    assert_eq!(found[0]["uncommitted"], json!(["value.txt"]));
    assert_eq!(found[0]["threadIds"].as_array().unwrap().len(), 1);
    let folder = PathBuf::from(found[0]["path"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(folder.join("value.txt")).unwrap(), "fixed\n");
    assert_eq!(std::fs::read_to_string(env.work().join("value.txt")).unwrap(), "broken\n");
    let shown = stdout(&env.run(&["worktree", "list"]));
    assert!(
        shown.starts_with(&format!("{branch}  0 to merge, 0 to catch up  1 uncommitted  thread ")),
        "{shown}"
    );

    let refused = env.run(&["worktree", "merge", branch]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("has uncommitted files: value.txt"), "{}", stderr(&refused));
    let refused = env.run(&["worktree", "remove", branch]);
    assert!(stderr(&refused).contains("has uncommitted files: value.txt"), "{}", stderr(&refused));
    let merge =
        ["worktree", "merge", "Repair-the-value-please-do", "--commit", "Repair", "--ff-only"];
    let merged = env.run(&merge);
    assert!(stdout(&merged).starts_with("merged 1 commit into main: "), "{}", stderr(&merged));
    assert_eq!(std::fs::read_to_string(env.work().join("value.txt")).unwrap(), "fixed\n");
    assert_eq!(git(&env, &["log", "-1", "--format=%s"]), "Repair");
    let again = env.run(&["worktree", "merge", branch]);
    assert_eq!(stdout(&again), "main has all of it: nothing to merge\n", "{}", stderr(&again));
    std::fs::write(folder.join("value.txt"), "more\n").unwrap();
    let path = folder.to_str().unwrap();
    let removed = env.run(&["worktree", "remove", "--force", path]);
    assert!(
        stdout(&removed).contains("git branch NAME refs/agentd/removed/"),
        "{}",
        stderr(&removed)
    );
    assert!(!folder.exists() && list(&env).is_empty());
    let unknown = env.run(&["worktree", "remove", branch]);
    assert!(stderr(&unknown).contains("there is no worktree"), "{}", stderr(&unknown));
}

#[test]
fn a_thread_that_is_continued_gets_no_worktree() {
    let env = TestEnvironment::new();
    let refused = env.run(&["exec", "--worktree=x", "--resume", "t1", "Go on."]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("--worktree: the thread that is continued"),
        "{}",
        stderr(&refused)
    );
    let refused = env.run(&["--worktree", "threads", "list"]);
    assert!(stderr(&refused).contains("without a subcommand"), "{}", stderr(&refused));
}
