//! Commands of the model in the real sandbox: output, termination, and forbidden actions.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, assert_lines};

use crate::{calls, runs, says, tool_outputs};

const ESCAPE: &str = "item/commandExecution/requestApproval";

/// Runs one call in a writable workspace, and returns the command's final item.
async fn run_in(env: &TestEnvironment, params: Value) -> (Peer, Value) {
    let server = env.start();
    let mut peer = server.connect().await;
    let mut start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" });
    for (name, value) in params.as_object().unwrap() {
        start[name] = value.clone();
    }
    let thread = peer.start_thread(start).await;
    peer.forget();
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    let item = peer.item("commandExecution").await;
    (peer, item)
}

async fn run(command: &str) -> (TestEnvironment, Value) {
    let env = TestEnvironment::with_responses(json!([runs(command), says("Done.")])).await;
    let (_, item) = run_in(&env, json!({})).await;
    (env, item)
}

#[tokio::test]
async fn a_command_from_its_start_to_its_end() {
    let env =
        TestEnvironment::with_responses(json!([runs("echo one; echo two"), says("Done.")])).await;
    let (peer, item) = run_in(&env, json!({})).await;
    assert_eq!(item["source"], "agent");
    assert!(item["durationMs"].is_i64(), "{item}");
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 commandExecution inProgress "echo one; echo two"
        * item/commandExecution/outputDelta item2 "one\ntwo\n"
        * item/completed item2 commandExecution completed "echo one; echo two" exit 0 output "one\ntwo\n"
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        "#,
    );
    let outputs = tool_outputs(&env);
    assert_eq!(
        outputs,
        ["Wall time: 0.0 seconds\nProcess exited with code 0\nOutput:\none\ntwo\n"]
    );
}

#[tokio::test]
async fn ends_of_commands() {
    for (command, status, code, output) in [
        ("echo fine", "completed", json!(0), "fine\n"),
        ("echo bad >&2; exit 3", "failed", json!(3), "bad\n"),
        ("kill -9 $$", "failed", json!(137), ""),
        ("no-such-program-here", "failed", json!(127), ""),
        ("cat", "completed", json!(0), ""),
    ] {
        let (_, item) = run(command).await;
        assert_eq!((&item["status"], &item["exitCode"]), (&json!(status), &code), "{command}");
        if !output.is_empty() {
            assert_eq!(item["aggregatedOutput"], output, "{command}");
        }
    }
}

#[tokio::test]
async fn output_that_is_not_text() {
    let (_, item) = run(r"printf 'a\377b\0c\303'; printf '\251\n'").await;
    assert_eq!(item["aggregatedOutput"], "a\u{fffd}b\0cé\n");
}

#[tokio::test]
async fn much_output_keeps_its_head_and_its_tail() {
    let command = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last";
    let env = TestEnvironment::with_responses(json!([runs(command), says("Done.")])).await;
    let (peer, item) = run_in(&env, json!({})).await;
    let output = item["aggregatedOutput"].as_str().unwrap();
    assert!(output.len() < (1 << 20) + 1024, "{}", output.len());
    assert!(output.starts_with("first\nxxx") && output.ends_with("xxx\nlast\n"));
    assert!(output.contains("bytes of output left out"));
    let mut streamed = String::new();
    for line in peer.raw_lines().iter().filter(|line| line.contains("outputDelta")) {
        let message: Value = serde_json::from_str(line).unwrap();
        streamed.push_str(message["params"]["delta"].as_str().unwrap());
    }
    assert_eq!(streamed.len(), 3_000_000 + "first\n\nlast\n".len());
    let notice = tool_outputs(&env);
    assert!(
        notice[0].len() < 100_000 && notice[0].contains("Original token count"),
        "{}",
        notice[0].len()
    );
}

#[tokio::test]
async fn the_workspace_is_writable_and_nothing_else_is() {
    let env = TestEnvironment::with_responses(json!([
        runs("echo x > inside && echo x > ../outside; echo x > $HOME/outside; ls -a"),
        says("Done."),
    ]))
    .await;
    let (_, item) = run_in(&env, json!({})).await;
    assert!(env.workspace().join("inside").exists(), "{item}");
    assert!(!env.root().join("outside").exists());
    assert!(!env.root().join("user/outside").exists());
}

#[tokio::test]
async fn the_git_folder_of_the_workspace_is_read_only() {
    let command = "echo x > .git/config; mkdir .git/hooks; mv .git moved; rm -rf .git; echo over";
    let env = TestEnvironment::with_responses(json!([runs(command), says("Done.")])).await;
    let git = env.workspace().join(".git");
    std::fs::create_dir(&git).unwrap();
    std::fs::write(git.join("config"), "[core]\n").unwrap();
    let (_, item) = run_in(&env, json!({})).await;
    assert!(item["aggregatedOutput"].as_str().unwrap().contains("over\n"), "{item}");
    assert_eq!(std::fs::read_to_string(git.join("config")).unwrap(), "[core]\n");
    assert!(!git.join("hooks").exists());
}

#[tokio::test]
async fn a_read_only_sandbox_writes_nothing() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let (_, item) = run_in(&env, json!({ "sandbox": "readOnly" })).await;
    assert_eq!(item["status"], "failed");
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn the_network_is_refused_unless_the_policy_allows_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let env = TestEnvironment::with_responses(json!([
        runs(&connect),
        says("Done."),
        runs(&connect),
        says("Done."),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" });
    let thread = peer.start_thread(start).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(peer.item("commandExecution").await["status"], "failed");
    let policy = json!({ "type": "workspaceWrite", "writableRoots": [], "networkAccess": true });
    let input = json!([{ "type": "text", "text": "Go." }]);
    let params = json!({ "threadId": thread, "input": input, "sandboxPolicy": policy });
    peer.run_turn_with(params).await;
    assert_eq!(peer.item("commandExecution").await["aggregatedOutput"], "connected\n");
}

#[tokio::test]
async fn secrets_do_not_reach_commands() {
    let mut env = TestEnvironment::with_responses(json!([runs("env"), says("Done.")])).await;
    for name in ["EXAMPLE_API_KEY", "MY_SECRET", "SOME_TOKEN", "AGENT_API_KEY", "ODD_NAME", "KEPT"]
    {
        env.variables.push((name.into(), format!("value-of-{name}").into()));
    }
    // A provider's own variable, whatever its name.
    env.config_overrides.push("model_providers.scripted.env_key=\"ODD_NAME\"".to_owned());
    let (_, item) = run_in(&env, json!({ "sandbox": "dangerFullAccess" })).await;
    let output = item["aggregatedOutput"].as_str().unwrap();
    assert!(output.contains("KEPT=value-of-KEPT"), "{output}");
    assert_eq!(output.matches("value-of-").count(), 1, "{output}");
}

#[tokio::test]
async fn a_login_shell_is_refused_when_it_is_switched_off() {
    let login = calls("exec_command", json!({ "cmd": "echo x", "login": true }));
    let mut env = TestEnvironment::with_responses(json!([login, says("Done.")])).await;
    env.config_overrides.push("allow_login_shell=false".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    assert!(outputs[0].contains("allow_login_shell"), "{outputs:?}");
    assert!(!peer.settled().await.contains(&ESCAPE.to_owned()));
}

#[tokio::test]
async fn a_missing_working_folder_is_reported_to_the_model() {
    let call = calls("exec_command", json!({ "cmd": "pwd", "workdir": "nowhere" }));
    let env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(tool_outputs(&env)[0].contains("nowhere"));
}

#[tokio::test]
async fn a_working_folder_of_the_model_is_not_a_writable_root() {
    let call = calls("exec_command", json!({ "cmd": "touch made", "workdir": "../user" }));
    let env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
    let (_, item) = run_in(&env, json!({})).await;
    assert_eq!(item["status"], "failed");
    assert!(!env.root().join("user/made").exists());
}

#[tokio::test]
async fn leaving_the_sandbox_needs_approval_under_on_request_and_is_refused_under_never() {
    let escalated = || {
        let arguments = json!({ "cmd": "touch ../outside", "sandbox_permissions": "require_escalated",
            "justification": "It must be there." });
        calls("exec_command", arguments)
    };
    let env = TestEnvironment::with_responses(json!([
        escalated(),
        says("Done."),
        escalated(),
        says("Done.")
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let start = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" });
    let thread = peer.start_thread(start).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(peer.item("commandExecution").await["status"], "declined");
    assert!(!env.root().join("outside").exists());
    let input = json!([{ "type": "text", "text": "Go." }]);
    let params = json!({ "threadId": thread, "input": input, "approvalPolicy": "onRequest" });
    let started = peer.call("turn/start", params).await;
    let asked = peer.asked(ESCAPE).await;
    assert_eq!(asked.params["reason"], "It must be there.");
    peer.decide(&asked, "accept").await;
    peer.turn_end(started["turn"]["id"].as_str().unwrap()).await;
    assert!(env.root().join("outside").exists());
}

#[tokio::test]
async fn an_image_is_shown_to_the_model() {
    let env = TestEnvironment::with_responses(json!([
        calls("view_image", json!({ "path": "picture.png" })),
        calls("view_image", json!({ "path": "text.png" })),
        calls("view_image", json!({ "path": "nowhere.png" })),
        says("Nice."),
    ]))
    .await;
    std::fs::write(env.workspace().join("picture.png"), testkit::png(2, 2)).unwrap();
    std::fs::write(env.workspace().join("text.png"), "no picture").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Look.").await;
    let item = peer.item("imageView").await;
    assert_eq!(item["path"], env.workspace().join("picture.png").display().to_string());
    let requests = env.model().requests();
    let last = requests.last().unwrap()["input"].to_string();
    assert!(last.contains("data:image/png;base64,iVBORw0K"), "{last}");
    assert!(last.contains("not a PNG") && last.contains("nowhere.png"), "{last}");
}

#[tokio::test]
async fn a_degraded_sandbox_is_one_warning_a_connection() {
    let mut env = TestEnvironment::with_responses(json!([says("x")])).await;
    env.has_sandbox = false;
    let server = env.start();
    for _ in 0..2 {
        let mut peer = server.connect().await;
        peer.start_thread(json!({ "sandbox": "dangerFullAccess" })).await;
        assert!(!peer.settled().await.contains(&"warning".to_owned()), "it needs none");
        for sandbox in ["workspaceWrite", "readOnly"] {
            peer.start_thread(json!({ "sandbox": sandbox })).await;
        }
        let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
        for part in ["no command can be confined here", "no layer of the sandbox"] {
            assert!(warning.contains(part), "{warning}");
        }
        peer.start_thread(json!({})).await;
        peer.settled().await;
        let warnings = peer.raw_lines().iter().filter(|line| line.contains("\"warning\""));
        assert_eq!(warnings.count(), 1);
    }
}

#[tokio::test]
async fn the_model_is_told_what_the_sandbox_cannot_do() {
    for (has_sandbox, sandbox, is_told) in [
        (false, "readOnly", true),
        (false, "workspaceWrite", true),
        (false, "dangerFullAccess", false),
        (true, "readOnly", false),
    ] {
        let mut env = TestEnvironment::with_responses(json!([says("x")])).await;
        env.has_sandbox = has_sandbox;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "sandbox": sandbox })).await;
        peer.run_turn(&thread, "Hi.").await;
        let introduction = env.model().requests()[0]["input"][0].to_string();
        assert!(introduction.contains("<permissions>"), "{introduction}");
        let found = introduction.contains("Commands cannot be confined here");
        assert_eq!(found, is_told, "{has_sandbox} {sandbox}: {introduction}");
    }
}
