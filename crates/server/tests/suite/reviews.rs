//! Reviews: inline and detached, of every target, with the real diff (specification: Turns and
//! review).

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{TestEnvironment, assert_lines};

use crate::says;

/// Runs git, and returns what it prints.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.com"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with two commits on its own branch, and uncommitted changes.
fn repository(env: &TestEnvironment) -> String {
    let folder = env.workspace();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    git(&folder, &["init", "-q", "-b", "main"]);
    write("a.txt", "one\n");
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "first"]);
    git(&folder, &["checkout", "-qb", "feature"]);
    write("b.txt", "BRANCHED LINE\n");
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "second"]);
    write("a.txt", "CHANGED LINE\n");
    write("new.txt", "NEW LINE\n");
    git(&folder, &["rev-parse", "HEAD"])
}

fn review(thread: &str, target: Value) -> Value {
    json!({ "threadId": thread, "target": target })
}

#[tokio::test]
async fn a_review_is_a_turn_that_ends_with_its_result() {
    let env = TestEnvironment::with_responses(json!([says("[P1] A bug."), says("I know.")])).await;
    repository(&env);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.settled().await;
    peer.forget();
    let started =
        peer.call("review/start", review(&thread, json!({ "type": "uncommittedChanges" }))).await;
    assert_eq!(started["reviewThreadId"], thread);
    assert_eq!(started["turn"]["status"], "inProgress");
    assert_eq!(started["turn"]["items"], json!([]));
    let turn = started["turn"]["id"].as_str().unwrap();
    let entered = peer.item("enteredReviewMode").await;
    assert_eq!(entered["review"], "current changes");
    let exited = peer.item("exitedReviewMode").await;
    assert_eq!(exited["review"], "[P1] A bug.");
    assert_eq!(peer.turn_end(turn).await["status"], "completed");
    assert_lines(
        peer.transcript(),
        "> review/start
         < review/start
         * thread/status/changed active
         * turn/started turn1 inProgress
         * item/started item1 enteredReviewMode
         * item/completed item1 enteredReviewMode
         * item/started item2 agentMessage \"\"
         * item/agentMessage/delta item2 \"[P1] A bug.\"
         * item/completed item2 agentMessage \"[P1] A bug.\"
         * item/started item3 exitedReviewMode
         * item/completed item3 exitedReviewMode
         * turn/completed turn1 completed",
    );
    let request = env.model().raw_requests().pop().unwrap();
    for part in ["CHANGED LINE", "NEW LINE", "git diff HEAD", "You review a change"] {
        assert!(request.contains(part), "{part} in {request}");
    }
    assert!(!request.contains("BRANCHED LINE"));
    // The thread has the result, but not the steps that led to it.
    peer.run_turn(&thread, "Mend it.").await;
    let request = env.model().raw_requests().pop().unwrap();
    assert!(request.contains("[P1] A bug.") && request.contains("Review of current changes"));
    assert!(!request.contains("CHANGED LINE") && !request.contains("You review a change"));
}

#[tokio::test]
async fn structured_findings_are_rendered_as_text() {
    let answer = json!({
        "findings": [
            { "title": "Lost update", "body": "Two writers.\nOne loses.", "priority": 1,
                "confidence_score": 0.9, "code_location": { "absolute_file_path": "/w/a.rs",
                    "line_range": { "start": 12, "end": 15 } } },
            { "title": "[P2] No test", "body": "Add one.", "priority": 2 },
        ],
        "overall_correctness": "patch is incorrect",
        "overall_explanation": "It loses data.",
    });
    let expected = "patch is incorrect: It loses data.\n\n\
        - [P1] Lost update — /w/a.rs:12-15\n  Two writers.\n  One loses.\n\n\
        - [P2] No test\n  Add one.";
    let env =
        TestEnvironment::with_responses(json!([says(&answer.to_string()), says("I know.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let target = json!({ "type": "custom", "instructions": "Look." });
    peer.call("review/start", review(&thread, target)).await;
    let item = peer.item("exitedReviewMode").await;
    assert_eq!(item["review"], expected);
    assert_eq!(item["explanation"], "patch is incorrect: It loses data.");
    let findings = json!([
        { "title": "Lost update", "body": "Two writers.\nOne loses.", "priority": 1, "confidence": 0.9,
            "location": { "path": "/w/a.rs", "startLine": 12, "endLine": 15 } },
        { "title": "No test", "body": "Add one.", "priority": 2 },
    ]);
    assert_eq!(item["findings"], findings);
    peer.expect("turn/completed").await;
    peer.run_turn(&thread, "Mend it.").await;
    let request = env.model().raw_requests().pop().unwrap();
    assert!(request.contains("- [P1] Lost update") && !request.contains("overall_correctness"));
}

#[tokio::test]
async fn findings_in_markdown_are_data_too() {
    let answers = [
        ("Not yet.\n\n- [P1] Lost update (`a.rs:12-15`)\n  Two writers.", Some(1)),
        ("It can go in as it is. No findings.", Some(0)),
        ("I looked at it.", None),
    ];
    let responses = answers.map(|(text, _)| says(text));
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for (number, (text, count)) in answers.into_iter().enumerate() {
        let target = json!({ "type": "custom", "instructions": "Look." });
        peer.call("review/start", review(&thread, target)).await;
        let item = peer.item("exitedReviewMode").await;
        assert_eq!(item["review"], text);
        assert_eq!(item["findings"].as_array().map(Vec::len), count, "{item}");
        peer.expect("turn/completed").await;
        // They are stored.
        let read = json!({ "threadId": thread, "includeTurns": true });
        let stored = peer.call("thread/read", read).await;
        let items = stored["thread"]["turns"][number]["items"].as_array().unwrap();
        assert_eq!(items.last().unwrap()["findings"], item["findings"]);
    }
}

#[tokio::test]
async fn a_review_without_a_result_states_the_reason() {
    let looking = json!({ "message": "Looking around." });
    let broken = json!({ "error": { "code": "server_error", "message": "Oops." } });
    for (steps, expected) in [
        (json!([broken]), "The review failed before there was a result: "),
        (json!([looking, broken]), "\n\nThe last message on the way:\n\nLooking around."),
        (json!([looking, "idle"]), "The review was interrupted before there was a result."),
    ] {
        let env = TestEnvironment::with_responses(json!([{ "steps": steps }])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        let target = json!({ "type": "custom", "instructions": "Look." });
        let started = peer.call("review/start", review(&thread, target)).await;
        if steps[1] == "idle" {
            peer.item("agentMessage").await;
            let turn = &started["turn"]["id"];
            peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
        }
        let text = peer.item("exitedReviewMode").await["review"].as_str().unwrap().to_owned();
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn every_target_shows_its_own_change() {
    let script = json!({ "responses": [says("Fine.")], "on_exhausted": "repeat_last" });
    let env = TestEnvironment::with_script(&script).await;
    let sha = repository(&env);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let short = &sha[..7];
    for (target, subject, with, without) in [
        (
            json!({ "type": "baseBranch", "branch": "main" }),
            "changes against `main`".to_owned(),
            "BRANCHED LINE",
            "You wrote",
        ),
        (
            json!({ "type": "commit", "sha": sha }),
            format!("commit {short}"),
            "BRANCHED LINE",
            "CHANGED LINE",
        ),
        (
            json!({ "type": "commit", "sha": "HEAD~1", "title": "The first" }),
            "commit HEAD~1: The first".to_owned(),
            "+one",
            "BRANCHED LINE",
        ),
        (
            json!({ "type": "custom", "instructions": "Look at LICENSES only." }),
            "Look at LICENSES only.".to_owned(),
            "Look at LICENSES only.",
            "CHANGED LINE",
        ),
    ] {
        peer.call("review/start", review(&thread, target.clone())).await;
        assert_eq!(peer.item("enteredReviewMode").await["review"], subject);
        peer.item("exitedReviewMode").await;
        peer.expect("turn/completed").await;
        let request = env.model().raw_requests().pop().unwrap();
        let prompt = request.split("<environment_context>").last().unwrap();
        assert!(prompt.contains(with), "{target}: {prompt}");
        assert!(!prompt.contains(without), "{target}: {prompt}");
    }
    for (target, member) in [
        (json!({ "type": "baseBranch", "branch": " " }), "target.branch"),
        (json!({ "type": "commit", "sha": "" }), "target.sha"),
        (json!({ "type": "custom", "instructions": "" }), "target.instructions"),
    ] {
        let fault = peer.refused("review/start", review(&thread, target)).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains(member), "{fault:?}");
    }
}

#[tokio::test]
async fn missing_review_targets_are_refused() {
    let env = TestEnvironment::with_responses(json!([says("Fine.")])).await;
    repository(&env);
    let folder = env.workspace();
    git(&folder, &["checkout", "-q", "--orphan", "unrelated"]);
    git(&folder, &["commit", "-qm", "alone"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let outside = peer.start_thread(json!({ "cwd": env.root() })).await;
    let zeros = "0".repeat(40);
    let cases = [
        (&thread, json!({ "type": "commit", "sha": "deadbeef" }), "no commit `deadbeef`"),
        (&thread, json!({ "type": "commit", "sha": zeros }), "no commit `0000"),
        (&thread, json!({ "type": "commit", "sha": "--output=x" }), "no commit `--output=x`"),
        (&thread, json!({ "type": "baseBranch", "branch": "nope" }), "no branch `nope`"),
        (&thread, json!({ "type": "baseBranch", "branch": "main" }), "no commit in common"),
        (&outside, json!({ "type": "uncommittedChanges" }), "is not in a git repository"),
        (&outside, json!({ "type": "commit", "sha": "HEAD" }), "is not in a git repository"),
    ];
    let threads = peer.call("thread/loaded/list", json!({})).await;
    for (thread, target, expected) in cases {
        for delivery in ["inline", "detached"] {
            let params = json!({ "threadId": thread, "target": target, "delivery": delivery });
            let fault = peer.refused("review/start", params).await;
            assert_eq!(fault.code, -32602, "{fault:?}");
            assert!(fault.message.contains(expected), "{fault:?}");
        }
    }
    assert_eq!(peer.call("thread/loaded/list", json!({})).await, threads);
    let seen = peer.settled().await;
    assert!(!seen.contains(&"turn/started".to_owned()), "{seen:?}");
    assert_eq!(env.model().requests().len(), 0);
}

#[tokio::test]
async fn unreadable_changes_are_reported_to_the_user_and_the_model() {
    let env = TestEnvironment::with_responses(json!([says("Fine.")])).await;
    repository(&env);
    std::fs::write(env.workspace().join(".git/index"), "damaged").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let target = json!({ "type": "uncommittedChanges" });
    peer.call("review/start", review(&thread, target)).await;
    let warning = peer.expect("warning").await;
    assert!(warning["message"].as_str().unwrap().contains("index file"), "{warning}");
    peer.item("exitedReviewMode").await;
    peer.expect("turn/completed").await;
    let request = env.model().raw_requests().pop().unwrap();
    assert!(request.contains("could not be read for you"), "{request}");
}

#[tokio::test]
async fn no_program_of_the_repository_is_run() {
    let env = TestEnvironment::with_responses(json!([says("Fine.")])).await;
    repository(&env);
    let folder = env.workspace();
    let marker = env.root().join("owned");
    let program = env.root().join("program");
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\ncat\n", marker.display())).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.display().to_string();
    for key in [
        "core.fsmonitor",
        "diff.external",
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.pager",
    ] {
        git(&folder, &["config", key, &program]);
    }
    std::fs::write(folder.join(".gitattributes"), "* filter=evil diff=evil\n").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    // Unconfined, so that only git's own options protect against it.
    let thread = peer.start_thread(json!({ "sandbox": "dangerFullAccess" })).await;
    peer.call("review/start", review(&thread, json!({ "type": "uncommittedChanges" }))).await;
    peer.item("exitedReviewMode").await;
    let request = env.model().raw_requests().pop().unwrap();
    assert!(request.contains("CHANGED LINE"), "{request}");
    assert!(!marker.exists(), "a program of the repository was run");
}

#[tokio::test]
async fn a_detached_review_has_its_own_thread() {
    let env = TestEnvironment::with_script(&json!({ "responses": [says("Fine.")],
        "on_exhausted": "repeat_last" }))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "one").await;
    peer.settled().await;
    peer.forget();
    let params = json!({ "threadId": thread, "delivery": "detached",
        "target": { "type": "custom", "instructions": "Look." } });
    let started = peer.call("review/start", params).await;
    let review = started["reviewThreadId"].as_str().unwrap().to_owned();
    assert_ne!(review, thread);
    let notice = peer.expect("thread/started").await;
    assert_eq!(notice["thread"]["id"], review);
    assert_eq!(notice["thread"]["forkedFromId"], thread);
    assert_eq!(notice["thread"]["source"], json!({ "subAgent": "review" }));
    let place = |start: &str| {
        let found = peer.transcript().iter().position(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start} in {:?}", peer.transcript()))
    };
    assert!(place("< review/start") < place("* thread/started"));
    let turn = peer.expect("turn/started").await;
    assert_eq!(turn["threadId"], review);
    peer.item("exitedReviewMode").await;
    let ended = peer.expect("turn/completed").await;
    assert_eq!(
        (&ended["threadId"], &ended["turn"]["id"]),
        (&json!(review), &started["turn"]["id"])
    );
    let turns = peer.call("thread/turns/list", json!({ "threadId": thread })).await;
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "the thread itself is unchanged");
    let listed = async |peer: &mut testkit::Peer, kinds: Value| {
        let page = peer.call("thread/list", json!({ "sourceKinds": kinds })).await;
        page["data"].as_array().unwrap().len()
    };
    assert_eq!(listed(&mut peer, json!([])).await, 1);
    assert_eq!(listed(&mut peer, json!(["subAgentReview"])).await, 1);
    assert_eq!(listed(&mut peer, json!(["subAgent"])).await, 1, "stands for every kind of them");
    assert_eq!(listed(&mut peer, json!(["cli", "subAgent"])).await, 2);
    assert_eq!(listed(&mut peer, json!(["subAgentCompact"])).await, 0);
}

// Effect of `review_model`.
#[tokio::test]
async fn the_configured_model_reviews() {
    let env = TestEnvironment::with_responses(json!([says("Fine."), says("Yes.")])).await;
    let path = env.home().join("config.toml");
    let old = std::fs::read_to_string(&path).unwrap();
    env.write_config(&format!("review_model = \"gpt-5-mini\"\n{old}"));
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let target = json!({ "type": "custom", "instructions": "Look." });
    peer.call("review/start", review(&thread, target)).await;
    peer.expect("turn/completed").await;
    peer.run_turn(&thread, "one").await;
    let models: Vec<Value> =
        env.model().requests().iter().map(|request| request["model"].clone()).collect();
    assert_eq!(models, ["gpt-5-mini", "gpt-5"]);
}

#[tokio::test]
async fn an_interrupted_review_leaves_review_mode() {
    let slow = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "x" }] });
    let env = TestEnvironment::with_responses(json!([slow])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let target = json!({ "type": "custom", "instructions": "Look." });
    let started = peer.call("review/start", review(&thread, target.clone())).await;
    let turn = started["turn"]["id"].as_str().unwrap().to_owned();
    peer.item("enteredReviewMode").await;
    let fault = peer.refused("review/start", review(&thread, target)).await;
    assert!(fault.message.contains("turn is running"), "{fault:?}");
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.item("exitedReviewMode").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
}

fn fifo(path: &Path) {
    let _ = std::fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn git_is_not_run_where_it_would_wait_for_a_pipe() {
    for name in [
        ".gitignore",
        ".gitattributes",
        ".git/index",
        ".git/config",
        ".git/HEAD",
        ".git/info/exclude",
        ".git/packed-refs",
    ] {
        let env = TestEnvironment::with_responses(json!([says("Fine.")])).await;
        repository(&env);
        let path = env.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        fifo(&path);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        let begun = std::time::Instant::now();
        peer.call("review/start", review(&thread, json!({ "type": "uncommittedChanges" }))).await;
        let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
        let path = path.display().to_string();
        for part in [&*path, "a named pipe (FIFO)", "git was not run"] {
            assert!(warning.contains(part), "{name}: {warning}");
        }
        assert!(begun.elapsed().as_secs() < 5, "{name}: {:?}", begun.elapsed());
        assert_eq!(peer.item("exitedReviewMode").await["review"], "Fine.");
        let request = env.model().raw_requests().pop().unwrap();
        assert!(request.contains("could not be read for you"), "{request}");
    }
}

#[tokio::test]
async fn a_review_whose_change_is_being_read_is_interrupted() {
    let env = TestEnvironment::with_responses(json!([says("Fine.")])).await;
    repository(&env);
    // Too deep to be found before git runs.
    let deep = env.workspace().join("deep");
    std::fs::create_dir(&deep).unwrap();
    fifo(&deep.join(".gitignore"));
    std::fs::write(deep.join("new"), "").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let begun = std::time::Instant::now();
    let target = json!({ "type": "uncommittedChanges" });
    let started = peer.call("review/start", review(&thread, target)).await;
    peer.item("enteredReviewMode").await;
    let turn = started["turn"]["id"].as_str().unwrap().to_owned();
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    let left = peer.item("exitedReviewMode").await["review"].as_str().unwrap().to_owned();
    assert!(left.contains("was interrupted"), "{left}");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert!(env.model().requests().is_empty());
}

#[tokio::test]
async fn members_that_a_review_does_not_have_are_refused() {
    let env = TestEnvironment::with_responses(json!([says("Fine.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let policy = json!({ "type": "readOnly" });
    for (params, named) in [
        (
            json!({ "target": { "type": "uncommittedChanges" }, "sandboxPolicy": policy }),
            "sandboxPolicy",
        ),
        (json!({ "target": { "type": "uncommittedChanges", "x": 1 } }), "x"),
        (json!({ "target": { "type": "custom", "instructions": "a", "branch": "b" } }), "branch"),
    ] {
        let mut params = params;
        params["threadId"] = json!(thread);
        let fault = peer.refused("review/start", params).await;
        assert_eq!(fault.code, -32602, "{fault:?}");
        assert!(fault.message.contains(&format!("unknown member `{named}`")), "{fault:?}");
    }
}
