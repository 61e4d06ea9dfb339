//! Approvals: which clients are asked, in which order events are sent, and the effect of each
//! decision (specification: Server-initiated requests).

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer, assert_lines};

use crate::{patches, runs, says, tool_outputs};

const COMMAND: &str = "item/commandExecution/requestApproval";
const PATCH: &str = "item/fileChange/requestApproval";

async fn open(server: &TestServer) -> (Peer, String) {
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" });
    let thread = peer.start_thread(params).await;
    peer.forget();
    (peer, thread)
}

async fn check(first: Value, question: &str, decision: Value, expected: &str) {
    let env = TestEnvironment::with_responses(json!([first, says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(question).await;
    assert_eq!(
        (&asked.params["threadId"], &asked.params["turnId"]),
        (&json!(thread), &json!(turn))
    );
    peer.decide(&asked, decision).await;
    peer.turn_end(&turn).await;
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "idle").await;
    assert_lines(peer.transcript(), expected);
}

#[tokio::test]
async fn a_command_is_accepted() {
    check(
        runs("touch made; echo made"),
        COMMAND,
        json!("accept"),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 commandExecution inProgress "touch made; echo made"
        * thread/status/changed active waitingOnApproval
        ? item/commandExecution/requestApproval item2
        > answer {"decision":"accept"}
        * serverRequest/resolved
        * thread/status/changed active
        * item/commandExecution/outputDelta item2 "made\n"
        * item/completed item2 commandExecution completed "touch made; echo made" exit 0 output "made\n"
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_declined_command_does_not_end_the_turn() {
    check(
        runs("touch made"),
        COMMAND,
        json!("decline"),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 commandExecution inProgress "touch made"
        * thread/status/changed active waitingOnApproval
        ? item/commandExecution/requestApproval item2
        > answer {"decision":"decline"}
        * serverRequest/resolved
        * item/completed item2 commandExecution declined "touch made"
        * thread/status/changed active
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_command_is_cancelled_and_the_turn_ends() {
    check(
        runs("touch made"),
        COMMAND,
        json!("cancel"),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 commandExecution inProgress "touch made"
        * thread/status/changed active waitingOnApproval
        ? item/commandExecution/requestApproval item2
        > answer {"decision":"cancel"}
        * serverRequest/resolved
        * item/completed item2 commandExecution declined "touch made"
        * turn/completed turn1 interrupted
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_patch_is_accepted() {
    check(
        patches("*** Add File: new.txt\n+hello"),
        PATCH,
        json!("accept"),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 fileChange inProgress add $WORK/new.txt
        * thread/status/changed active waitingOnApproval
        ? item/fileChange/requestApproval item2
        > answer {"decision":"accept"}
        * serverRequest/resolved
        * thread/status/changed active
        * item/completed item2 fileChange completed add $WORK/new.txt
        * turn/diff/updated "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n"
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_patch_is_declined() {
    check(
        patches("*** Add File: new.txt\n+hello"),
        PATCH,
        json!("decline"),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 fileChange inProgress add $WORK/new.txt
        * thread/status/changed active waitingOnApproval
        ? item/fileChange/requestApproval item2
        > answer {"decision":"decline"}
        * serverRequest/resolved
        * item/completed item2 fileChange declined add $WORK/new.txt
        * thread/status/changed active
        * item/started item3 agentMessage ""
        * item/agentMessage/delta item3 "Done."
        * item/completed item3 agentMessage "Done."
        * turn/completed turn1 completed
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_patch_is_cancelled() {
    check(
        patches("*** Add File: new.txt\n+hello"),
        PATCH,
        json!("cancel"),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 fileChange inProgress add $WORK/new.txt
        * thread/status/changed active waitingOnApproval
        ? item/fileChange/requestApproval item2
        > answer {"decision":"cancel"}
        * serverRequest/resolved
        * item/completed item2 fileChange declined add $WORK/new.txt
        * turn/completed turn1 interrupted
        * thread/status/changed idle
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_declined_action_has_no_effect() {
    for decision in ["decline", "cancel"] {
        for (first, question) in
            [(runs("touch made"), COMMAND), (patches("*** Add File: made\n+x"), PATCH)]
        {
            let env = TestEnvironment::with_responses(json!([first, says("Done.")])).await;
            let server = env.start();
            let (mut peer, thread) = open(&server).await;
            let turn = peer.start_turn(&thread, "Go.").await;
            let asked = peer.asked(question).await;
            peer.decide(&asked, decision).await;
            peer.turn_end(&turn).await;
            assert!(!env.workspace().join("made").exists(), "{decision} {question}");
        }
    }
}

#[tokio::test]
async fn a_command_approval_contains_what_the_user_needs() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    assert_eq!(asked.params["command"], "touch made");
    assert_eq!(asked.params["cwd"], env.workspace().display().to_string());
    let decisions = asked.params["availableDecisions"].as_array().unwrap();
    for decision in ["accept", "acceptForSession", "decline", "cancel"] {
        assert!(decisions.contains(&json!(decision)), "{decisions:?}");
    }
    let status = peer.call("thread/read", json!({ "threadId": thread })).await;
    let expected = json!({ "type": "active", "activeFlags": ["waitingOnApproval"] });
    assert_eq!(status["thread"]["status"], expected);
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
}

#[tokio::test]
async fn harmless_commands_need_no_approval() {
    let env = TestEnvironment::with_responses(json!([runs("ls; pwd"), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
}

#[tokio::test]
async fn an_acceptance_for_the_session_is_asked_once() {
    let touch = || runs("touch made");
    let env =
        TestEnvironment::with_responses(json!([touch(), touch(), touch(), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    peer.decide(&asked, "acceptForSession").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(peer.settled().await.iter().filter(|method| *method == COMMAND).count(), 0);
}

#[tokio::test]
async fn an_acceptance_of_a_patch_for_the_session_holds_for_its_files() {
    let add = |line: &str| patches(&format!("*** Update File: a.txt\n@@\n-{line}\n+{line}x"));
    let other = patches("*** Add File: b.txt\n+other");
    let responses = json!([add("a"), add("ax"), other, says("Done.")]);
    let env = TestEnvironment::with_responses(responses).await;
    std::fs::write(env.workspace().join("a.txt"), "a\n").unwrap();
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "acceptForSession").await;
    let other = peer.asked(PATCH).await;
    peer.decide(&other, "decline").await;
    peer.turn_end(&turn).await;
    let text = std::fs::read_to_string(env.workspace().join("a.txt")).unwrap();
    assert_eq!(text, "axx\n");
    assert!(!env.workspace().join("b.txt").exists());
}

#[tokio::test]
async fn a_patch_in_the_folder_can_make_the_folder_writable_for_the_session() {
    let add = |path: &str| patches(&format!("*** Add File: {path}\n+x"));
    let responses = json!([
        add("a.txt"),
        add("deep/b.txt"),
        runs("echo made > c.txt"),
        add("../elsewhere.txt"),
        add(".git/hook"),
        says("Done.")
    ]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "onRequest", "sandbox": "readOnly" });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    assert_eq!(asked.params["grantRoot"], env.workspace().display().to_string());
    let file = env.workspace().join("a.txt");
    let reason = format!("{} is not in a writable folder (sandbox: read-only)", file.display());
    assert_eq!(asked.params["reason"], reason);
    peer.decide(&asked, "acceptForSession").await;
    // The next question is about a file elsewhere, then about a protected one: no folder is offered.
    for _ in 0..2 {
        let asked = peer.asked(PATCH).await;
        assert_eq!(asked.params["grantRoot"], Value::Null, "{}", asked.params);
        peer.decide(&asked, "decline").await;
    }
    peer.turn_end(&turn).await;
    for made in ["a.txt", "deep/b.txt", "c.txt"] {
        assert!(env.workspace().join(made).exists(), "{made}: {:?}", tool_outputs(&env));
    }
}

#[tokio::test]
async fn no_folder_is_offered_where_it_would_not_help_or_is_not_allowed() {
    let add = || patches("*** Add File: a.txt\n+x");
    for (policy, requirements) in
        [("unlessTrusted", ""), ("onRequest", "allowed_sandbox_modes = [\"read-only\"]\n")]
    {
        let env = TestEnvironment::with_responses(json!([add(), says("Done.")])).await;
        std::fs::create_dir_all(env.system_dir()).unwrap();
        std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
        let server = env.start();
        let mut peer = server.connect().await;
        let params = json!({ "approvalPolicy": policy, "sandbox": "readOnly" });
        let thread = peer.start_thread(params).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(PATCH).await;
        assert_eq!(asked.params["grantRoot"], Value::Null, "{policy}");
        peer.decide(&asked, "decline").await;
        peer.turn_end(&turn).await;
    }
}

#[tokio::test]
async fn an_amendment_holds_for_later_servers() {
    let responses = json!([
        runs("/usr/bin/touch one"),
        says("Done."),
        runs("/usr/bin/touch two"),
        says("Done.")
    ]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    let prefix = asked.params["proposedExecpolicyAmendment"].clone();
    assert!(prefix.is_array(), "{}", asked.params);
    let decision =
        json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["/usr/bin/touch"] } });
    peer.decide(&asked, decision).await;
    peer.turn_end(&turn).await;
    let rules = std::fs::read_to_string(env.home().join("rules/default.rules")).unwrap();
    assert_eq!(rules, "prefix_rule(pattern=[\"/usr/bin/touch\"], decision=\"allow\")\n");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Again.").await["status"], "completed");
    assert!(env.workspace().join("two").exists());
}

#[tokio::test]
async fn an_interrupt_resolves_the_question() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.turn_end(&turn).await;
    peer.expect_where("thread/status/changed", |notice| notice["status"]["type"] == "idle").await;
    // Too late: this has no effect.
    peer.decide(&asked, "accept").await;
    peer.settled().await;
    assert!(!env.workspace().join("made").exists());
    assert_lines(
        peer.transcript(),
        r#"
        > turn/start
        < turn/start
        * thread/status/changed active
        * turn/started turn1 inProgress
        * item/started item1 userMessage "Go."
        * item/completed item1 userMessage "Go."
        * item/started item2 commandExecution inProgress "touch made"
        * thread/status/changed active waitingOnApproval
        ? item/commandExecution/requestApproval item2
        > turn/interrupt
        * serverRequest/resolved
        * item/completed item2 commandExecution declined "touch made"
        < turn/interrupt
        * turn/completed turn1 interrupted
        * thread/status/changed idle
        > answer {"decision":"accept"}
        > thread/loaded/list
        < thread/loaded/list
        "#,
    );
}

#[tokio::test]
async fn an_open_request_is_sent_again_on_resume_and_the_first_answer_counts() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let (mut first, thread) = open(&server).await;
    let turn = first.start_turn(&thread, "Go.").await;
    let asked = first.asked(COMMAND).await;
    let mut second = server.connect().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let again = second.asked(COMMAND).await;
    assert_eq!(again, asked);
    second.decide(&again, "decline").await;
    let resolved = first.expect("serverRequest/resolved").await;
    assert_eq!(resolved, json!({ "threadId": thread, "requestId": asked.id }));
    first.decide(&asked, "accept").await;
    assert_eq!(second.turn_end(&turn).await["status"], "completed");
    assert_eq!(second.item("commandExecution").await["status"], "declined");
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn a_client_that_was_not_asked_cannot_answer() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let mut stranger = server.connect().await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    for id in [json!(0), json!("0"), asked.id.clone()] {
        let forged = testkit::ReceivedRequest { id, ..asked.clone() };
        stranger.decide(&forged, "accept").await;
    }
    stranger.settled().await;
    let status = peer.call("thread/read", json!({ "threadId": thread })).await;
    assert_eq!(status["thread"]["status"]["activeFlags"], json!(["waitingOnApproval"]));
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn an_answer_that_decides_nothing_declines() {
    let answers = [json!({}), json!({ "decision": "perhaps" }), json!(null), json!([1])];
    for answer in answers {
        let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(COMMAND).await;
        peer.answer(&asked, answer).await;
        peer.turn_end(&turn).await;
        assert_eq!(peer.item("commandExecution").await["status"], "declined");
        assert!(!env.workspace().join("made").exists());
    }
}

#[tokio::test]
async fn an_error_as_answer_declines() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    let error = json!({ "id": asked.id, "error": { "code": -32601, "message": "cannot ask" } });
    peer.send_line(error.to_string().as_bytes()).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(peer.item("commandExecution").await["status"], "declined");
}

#[tokio::test]
async fn the_model_is_informed_of_the_decision() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    assert_eq!(tool_outputs(&env), ["the user declined this"]);
}

#[tokio::test]
async fn approvals_hide_no_part_of_a_command() {
    let script = "touch made #\u{1b}[2K\rls\u{202e}";
    let env = TestEnvironment::with_responses(json!([runs(script), says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    let shown = "touch made #\\u{1b}[2K\\u{d}ls\\u{202e}";
    assert_eq!(asked.params["command"], shown);
    assert_eq!(asked.params["commandActions"][0]["command"], shown);
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
}

#[tokio::test]
async fn session_grants_apply_to_equivalent_commands() {
    let scripts = ["touch 'a' b", "touch  a\tb", "touch a c", "touch a b < a"];
    let mut responses: Vec<Value> = scripts.iter().map(|script| runs(script)).collect();
    responses.push(says("Done."));
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    for expected in [0, 2, 3] {
        let asked = peer.asked(COMMAND).await;
        assert_eq!(asked.params["command"], scripts[expected]);
        peer.decide(&asked, "acceptForSession").await;
    }
    peer.turn_end(&turn).await;
    assert!(env.workspace().join("c").exists());
}

#[tokio::test]
async fn a_command_that_waits_for_its_approval_does_not_run_anywhere() {
    let env = TestEnvironment::with_responses(json!([
        runs("touch one"),
        runs("touch two"),
        runs("pwd"),
        says("Done.")
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    for decision in ["accept", "decline"] {
        let is_command = |params: &Value| params["item"]["type"] == "commandExecution";
        let started = peer.expect_where("item/started", is_command).await;
        assert_eq!(started["item"]["awaitsApproval"], true);
        let asked = peer.asked("item/commandExecution/requestApproval").await;
        let params = json!({ "threadId": thread, "includeTurns": true });
        let read = peer.call("thread/read", params).await;
        let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
        assert_eq!(items.last().unwrap()["awaitsApproval"], true, "also for one that reads");
        peer.decide(&asked, decision).await;
        if decision == "accept" {
            let running = peer.expect("item/commandExecution/running").await;
            assert_eq!(running["itemId"], started["item"]["id"]);
        }
        let ended = peer.expect_where("item/completed", is_command).await;
        assert_eq!(ended["item"]["awaitsApproval"], json!(null));
    }
    let is_command = |params: &Value| params["item"]["type"] == "commandExecution";
    let started = peer.expect_where("item/started", is_command).await;
    assert_eq!(started["item"]["awaitsApproval"], json!(null), "it needs none");
    peer.turn_end(&turn).await;
}
