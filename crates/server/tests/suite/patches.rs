//! Patches of the model: their changes, their items, and the paths that they may not reach.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::{calls, patches, runs, says, tool_outputs};

const QUESTION: &str = "item/fileChange/requestApproval";

async fn apply(env: &TestEnvironment, policy: &str) -> Peer {
    let server = env.start();
    let mut peer = server.connect().await;
    let start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": policy });
    let thread = peer.start_thread(start).await;
    peer.forget();
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    peer
}

fn read(env: &TestEnvironment, name: &str) -> Option<String> {
    std::fs::read_to_string(env.workspace().join(name)).ok()
}

#[tokio::test]
async fn files_are_added_changed_moved_and_deleted() {
    let body = "*** Add File: new/a.txt\n+one\n+two\n*** Update File: b.txt\n@@\n keep\n-old\n+new\n\
                *** Update File: c.txt\n*** Move to: d.txt\n@@\n-c\n+d\n*** Delete File: e.txt";
    let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
    for (name, text) in [("b.txt", "keep\nold\n"), ("c.txt", "c\n"), ("e.txt", "e\n")] {
        std::fs::write(env.workspace().join(name), text).unwrap();
    }
    let script = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(env.workspace().join("c.txt"), script).unwrap();
    let mut peer = apply(&env, "never").await;
    let moved = std::fs::metadata(env.workspace().join("d.txt")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&moved) & 0o777, 0o755);
    let files = ["new/a.txt", "b.txt", "c.txt", "d.txt", "e.txt"].map(|name| read(&env, name));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(files, [text("one\ntwo\n"), text("keep\nnew\n"), None, text("d\n"), None]);
    let item = peer.item("fileChange").await;
    assert_eq!(item["changes"][0]["diff"], "one\ntwo\n");
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 fileChange inProgress add $WORK/new/a.txt update $WORK/b.txt update $WORK/c.txt to "$WORK/d.txt" delete $WORK/e.txt
        * item/completed item2 fileChange completed add $WORK/new/a.txt update $WORK/b.txt update $WORK/c.txt to "$WORK/d.txt" delete $WORK/e.txt
        * turn/diff/updated "diff --git a/b.txt b/b.txt\n--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n keep\n-old\n+new\ndiff --git a/c.txt b/d.txt\nrename from c.txt\nrename to d.txt\n--- a/c.txt\n+++ b/d.txt\n@@ -1 +1 @@\n-c\n+d\ndiff --git a/e.txt b/e.txt\ndeleted file mode 100644\n--- a/e.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-e\ndiff --git a/new/a.txt b/new/a.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        "#,
    );
}

#[tokio::test]
async fn a_patch_within_a_command_is_a_patch() {
    let command = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+$HOME\n\
                   *** End Patch\nEOF\n";
    let env = TestEnvironment::with_responses(json!([runs(command), says("Done.")])).await;
    let mut peer = apply(&env, "never").await;
    assert_eq!(peer.item("fileChange").await["status"], "completed");
    assert_eq!(read(&env, "a.txt").unwrap(), "$HOME\n");
    assert!(!peer.raw_lines().iter().any(|line| line.contains("commandExecution")));
}

#[tokio::test]
async fn a_patch_that_does_not_apply_changes_nothing_and_is_reported() {
    let body = "*** Add File: a.txt\n+a\n*** Update File: b.txt\n@@\n-not there\n+x";
    let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
    std::fs::write(env.workspace().join("b.txt"), "b\n").unwrap();
    apply(&env, "never").await;
    assert_eq!((read(&env, "a.txt"), read(&env, "b.txt")), (None, Some("b\n".to_owned())));
    let outputs = tool_outputs(&env);
    assert!(outputs[0].contains("does not apply") && outputs[0].contains("b.txt"), "{outputs:?}");
}

#[tokio::test]
async fn a_patch_outside_the_workspace_is_refused_without_approvals() {
    let env = TestEnvironment::with_responses(json!([
        patches("*** Add File: ../outside\n+x"),
        says("Done.")
    ]));
    let env = env.await;
    let mut peer = apply(&env, "never").await;
    assert_eq!(peer.item("fileChange").await["status"], "declined");
    assert!(!env.root().join("outside").exists());
    assert!(tool_outputs(&env)[0].contains("no approval can be requested"));
}

#[tokio::test]
async fn a_patch_outside_the_workspace_needs_approval_under_on_request() {
    for (decision, is_there) in [("decline", false), ("accept", true)] {
        let body = "*** Add File: ../outside\n+x";
        let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "onRequest" });
        let thread = peer.start_thread(start).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(QUESTION).await;
        assert!(asked.params["reason"].as_str().unwrap().contains("outside"), "{}", asked.params);
        peer.decide(&asked, decision).await;
        peer.turn_end(&turn).await;
        assert_eq!(env.root().join("outside").exists(), is_there, "{decision}");
    }
}

#[tokio::test]
async fn a_patch_does_not_follow_a_link_out_of_the_workspace() {
    for body in [
        "*** Add File: link/new.txt\n+x",
        "*** Update File: link/there.txt\n@@\n-old\n+new",
        "*** Delete File: link/there.txt",
        "*** Update File: direct.txt\n@@\n-old\n+new",
    ] {
        let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
        let outside = env.root().join("elsewhere");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("there.txt"), "old\n").unwrap();
        std::os::unix::fs::symlink(&outside, env.workspace().join("link")).unwrap();
        let direct = env.workspace().join("direct.txt");
        std::os::unix::fs::symlink(outside.join("there.txt"), direct).unwrap();
        apply(&env, "never").await;
        let text = std::fs::read_to_string(outside.join("there.txt")).unwrap();
        assert_eq!(text, "old\n", "{body}");
        assert!(!outside.join("new.txt").exists(), "{body}");
    }
}

#[tokio::test]
async fn the_git_folder_is_not_patched() {
    let body = "*** Add File: .git/hooks/pre-commit\n+#!/bin/sh";
    let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
    std::fs::create_dir(env.workspace().join(".git")).unwrap();
    apply(&env, "never").await;
    assert!(!env.workspace().join(".git/hooks").exists());
}

#[tokio::test]
async fn neither_a_patch_nor_a_command_changes_the_home() {
    let patch = "*** Add File: ../home/hooks.json\n+{}";
    let command = "echo x > ../home/hooks.json; echo x >> ../home/config.toml; echo x > ../free";
    let responses = json!([patches(patch), runs(command), says("Done.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let text = format!(
        "{text}\n[sandbox_workspace_write]\nwritable_roots = [{:?}]\n",
        env.root().display().to_string()
    );
    env.write_config(&text);
    let mut peer = apply(&env, "never").await;
    assert_eq!(peer.item("fileChange").await["status"], "declined");
    assert!(env.root().join("free").exists());
    assert!(!env.home().join("hooks.json").exists());
    assert_eq!(std::fs::read_to_string(env.home().join("config.toml")).unwrap(), text);
}

#[tokio::test]
async fn targets_of_protected_names_are_not_patched() {
    for (setup, name) in [
        ("mkdir decoy; ln -s decoy .agent", "decoy/config.toml"),
        ("ln -s decoy .agent", "decoy/config.toml"),
        ("mkdir .git; ln -s ../hooks .git/hooks", "hooks/pre-commit"),
        ("mkdir store; echo 'gitdir: store' > .git", "store/config"),
    ] {
        let body = format!("*** Add File: {name}\n+x");
        let env = TestEnvironment::with_responses(json!([patches(&body), says("Done.")])).await;
        let mut shell = std::process::Command::new("sh");
        let ran = shell.args(["-ec", setup]).current_dir(env.workspace()).status();
        assert!(ran.unwrap().success());
        let mut peer = apply(&env, "never").await;
        assert_eq!(peer.item("fileChange").await["status"], "declined", "{setup}");
        assert_eq!(read(&env, name), None, "{setup}");
    }
}

#[tokio::test]
async fn the_diff_of_a_turn_combines_its_patches() {
    let env = TestEnvironment::with_responses(json!([
        patches("*** Add File: a.txt\n+one"),
        patches("*** Update File: a.txt\n@@\n-one\n+two"),
        says("Done."),
        patches("*** Update File: a.txt\n@@\n-two\n+three"),
        says("Done."),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" });
    let thread = peer.start_thread(start).await;
    peer.run_turn(&thread, "Go.").await;
    peer.run_turn(&thread, "Go.").await;
    let mut diffs = Vec::new();
    for _ in 0..3 {
        diffs.push(peer.expect("turn/diff/updated").await["diff"].clone());
    }
    let diffs: Vec<&str> = diffs.iter().filter_map(Value::as_str).collect();
    assert!(diffs[0].contains("+one") && !diffs[0].contains("-one"), "{}", diffs[0]);
    assert!(diffs[1].contains("+two") && !diffs[1].contains("one"), "{}", diffs[1]);
    assert!(diffs[2].contains("-two") && diffs[2].contains("+three"), "{}", diffs[2]);
}

fn tool_input(text: &str) -> Value {
    json!({ "steps": [{ "custom_tool_call": { "name": "apply_patch", "input": text } }] })
}

#[tokio::test]
async fn patches_as_models_write_them_are_understood() {
    let update = "*** Update File: a.txt\n@@\n-old\n+new";
    for (input, name) in [
        (format!(" *** Begin Patch\n  {update}\n*** End Patch "), "a.txt"),
        (format!("<<'EOF'\n*** Begin Patch\n{update}\n*** End Patch\nEOF\n"), "a.txt"),
        (
            format!("cd sub && apply_patch <<'EOF'\n*** Begin Patch\n{update}\n*** End Patch\nEOF"),
            "sub/a.txt",
        ),
        (
            format!("{{\"input\":{}}}", json!(format!("*** Begin Patch\n{update}\n*** End Patch"))),
            "a.txt",
        ),
        (
            "*** Begin Patch\n*** Update File: a.txt\n@@ it's - so\n-old\n+new\n*** End Patch"
                .into(),
            "a.txt",
        ),
    ] {
        let env = TestEnvironment::with_responses(json!([tool_input(&input), says("Done.")])).await;
        let before = "it\u{2019}s \u{2014} so\nold";
        std::fs::create_dir(env.workspace().join("sub")).unwrap();
        for name in ["a.txt", "sub/a.txt"] {
            std::fs::write(env.workspace().join(name), before).unwrap();
        }
        apply(&env, "never").await;
        for other in ["a.txt", "sub/a.txt"] {
            let after = if other == name { "it\u{2019}s \u{2014} so\nnew\n" } else { before };
            assert_eq!(
                read(&env, other).as_deref(),
                Some(after),
                "{input}: {:?}",
                tool_outputs(&env)
            );
        }
    }
}

#[tokio::test]
async fn a_move_onto_a_file_replaces_it_and_shows_both() {
    let body = "*** Update File: a.txt\n*** Move to: b.txt\n@@\n-one\n+two";
    let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
    std::fs::write(env.workspace().join("a.txt"), "one\n").unwrap();
    std::fs::write(env.workspace().join("b.txt"), "other\n").unwrap();
    let mut peer = apply(&env, "never").await;
    assert_eq!((read(&env, "a.txt"), read(&env, "b.txt").as_deref()), (None, Some("two\n")));
    let item = peer.item("fileChange").await;
    let path = |name: &str| env.workspace().join(name).display().to_string();
    assert_eq!(
        item["changes"],
        json!([
            { "path": path("b.txt"), "kind": { "type": "delete" }, "diff": "@@ -1 +0,0 @@\n-other\n" },
            {
                "path": path("a.txt"),
                "kind": { "type": "update", "move_path": path("b.txt") },
                "diff": "@@ -1 +1 @@\n-one\n+two\n",
            },
        ])
    );
    let diff = peer.expect("turn/diff/updated").await["diff"].clone();
    assert_eq!(
        diff,
        "diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n--- a/a.txt\n+++ /dev/null\n\
         @@ -1 +0,0 @@\n-one\ndiff --git a/b.txt b/b.txt\n--- a/b.txt\n+++ b/b.txt\n\
         @@ -1 +1 @@\n-other\n+two\n"
    );
}

#[tokio::test]
async fn a_patch_mismatch_names_the_line_and_the_content_of_the_file() {
    let body = "*** Update File: a.txt\n@@\n one\n-too\n+2";
    let env = TestEnvironment::with_responses(json!([patches(body), says("Done.")])).await;
    std::fs::write(env.workspace().join("a.txt"), "one\ntwo\n").unwrap();
    apply(&env, "never").await;
    let output = tool_outputs(&env).remove(0);
    let expected = "Line 5 of the patch, `-too`, should be line 2 of the file: `two`.";
    assert!(
        output.contains("hunk 1, line 5 of the patch") && output.contains(expected),
        "{output}"
    );
}

#[tokio::test]
async fn a_command_that_holds_more_than_a_patch_is_refused_with_what_to_do() {
    let patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch";
    for command in [
        format!("apply_patch <<'EOF'\n{patch}\nEOF\ntouch b.txt"),
        format!("touch b.txt\n{patch}"),
        format!("touch b.txt; cat <<'EOF' | apply_patch\n{patch}\nEOF"),
    ] {
        let env = TestEnvironment::with_responses(json!([runs(&command), says("Done.")])).await;
        apply(&env, "never").await;
        assert_eq!((read(&env, "a.txt"), read(&env, "b.txt")), (None, None), "{command}");
        let output = tool_outputs(&env).remove(0);
        assert!(output.contains("`apply_patch` is a tool, not a program"), "{output}");
    }
}

#[tokio::test]
async fn a_command_that_is_a_patch_is_applied_and_not_run() {
    let patch = "*** Begin Patch ***\n*** Add File: a.txt\n+> made\n*** End Patch ***";
    for command in [json!(patch), json!(["bash", "-lc", patch]), json!([patch])] {
        let call = calls("exec_command", json!({ "cmd": command }));
        let env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
        apply(&env, "never").await;
        let found = (read(&env, "a.txt"), read(&env, "made"));
        assert_eq!(
            found,
            (Some("> made\n".to_owned()), None),
            "{command}: {:?}",
            tool_outputs(&env)
        );
    }
    // The error is the same as that of the tool.
    let misfit = "*** Begin Patch\n*** Delete File: none\n*** End Patch\n";
    let env = TestEnvironment::with_responses(json!([runs(misfit), says("Done.")])).await;
    apply(&env, "never").await;
    let output = tool_outputs(&env).remove(0);
    assert!(output.contains("`apply_patch`: the patch does not apply"), "{output}");
}

#[tokio::test]
async fn arguments_as_models_write_them_are_understood() {
    for arguments in [
        json!({ "cmd": ["touch", "a b"], "yield_time_ms": "5000", "tty": "false", "login": null }),
        json!({ "cmd": "touch 'a b'", "max_output_tokens": 100.0 }),
    ] {
        let env = TestEnvironment::with_responses(json!([
            calls("exec_command", arguments),
            says("Done.")
        ]));
        let env = env.await;
        apply(&env, "never").await;
        assert!(env.workspace().join("a b").exists(), "{:?}", tool_outputs(&env));
    }
    let wrong = calls("exec_command", json!({ "cmd": "ls", "yield_time_ms": "soon" }));
    let env = TestEnvironment::with_responses(json!([wrong, says("Done.")])).await;
    apply(&env, "never").await;
    let expected = "exec_command: `yield_time_ms` is `\"soon\"`; give a number";
    assert!(tool_outputs(&env)[0].contains(expected), "{:?}", tool_outputs(&env));
}

/// A patch whose text comes in pieces, each after the shortest time between two reports.
fn slow_patch(body: &str, as_function: bool) -> Value {
    let input = format!("*** Begin Patch\n{body}\n*** End Patch\n");
    let (call, member, input) = match as_function {
        true => ("function_call", "arguments", json!({ "input": input })),
        false => ("custom_tool_call", "input", json!(input)),
    };
    json!({ "steps": [{ call: { "name": "apply_patch", member: input, "chunk_delay_ms": 110 } }] })
}

#[tokio::test]
async fn a_patch_is_shown_while_the_model_writes_it() {
    let body = "*** Add File: ./new.txt\n+one\n+two\n+three\n+four\n+five\n+six\n+seven\n\
                *** Update File: b.txt\n*** Move to: c.txt\n@@\n keep\n-old\n+new";
    for as_function in [false, true] {
        let script = json!([slow_patch(body, as_function), says("Done.")]);
        let env = TestEnvironment::with_responses(script).await;
        std::fs::write(env.workspace().join("b.txt"), "keep\nold\n").unwrap();
        let mut peer = apply(&env, "never").await;
        let item = peer.item("fileChange").await;
        let methods = ["item/fileChange/patchUpdated", "item/started", "item/completed"];
        let lines: Vec<Value> = peer
            .raw_lines()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|line: &Value| methods.iter().any(|method| line["method"] == *method))
            .filter(|line| line["params"].to_string().contains(item["id"].as_str().unwrap()))
            .collect();
        let count = lines.len() - 2;
        assert!(count >= 2, "{lines:?}");
        let (shown, rest) = lines.split_at(count);
        assert!(shown.iter().all(|line| line["params"]["itemId"] == item["id"]), "{shown:?}");
        let first = &shown[0]["params"]["changes"];
        assert_eq!(first[0]["path"], json!(env.workspace().join("new.txt")));
        assert!(
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
                .starts_with(first[0]["diff"].as_str().unwrap())
        );
        assert_eq!(first.as_array().unwrap().len(), 1, "{first}");
        assert_eq!(shown[count - 1]["params"]["changes"], item["changes"]);
        let methods: Vec<&Value> = rest.iter().map(|line| &line["method"]).collect();
        assert_eq!(methods, ["item/started", "item/completed"]);
        assert_eq!(rest[0]["params"]["item"]["changes"], item["changes"]);
    }
}

#[tokio::test]
async fn a_patch_that_was_shown_and_fails_is_the_same_item() {
    let body =
        "*** Update File: b.txt\n@@\n-not there in the file\n+x\n+y\n+z\n+and so on, and so on";
    let script = json!([slow_patch(body, false), says("Done.")]);
    let env = TestEnvironment::with_responses(script).await;
    let mut peer = apply(&env, "never").await;
    let item = peer.item("fileChange").await;
    assert_eq!(item["status"], "failed");
    let shown = peer.raw_lines().iter().filter(|line| line.contains("patchUpdated")).cloned();
    let shown: Vec<String> = shown.collect();
    let id = item["id"].as_str().unwrap();
    assert!(!shown.is_empty() && shown.iter().all(|line| line.contains(id)), "{shown:?}");
}
