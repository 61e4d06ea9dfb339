//! Invalid answers of clients: which client is warned, which can still answer, and how the request
//! ends (specification: Server-initiated requests).

use serde_json::{Value, json};
use testkit::{Peer, ReceivedRequest, TestEnvironment, TestServer};

use crate::{calls, patches, runs, says, tool_outputs};

const COMMAND: &str = "item/commandExecution/requestApproval";
const PATCH: &str = "item/fileChange/requestApproval";
const TOOL: &str = "item/tool/call";

/// A kind of request that the server sends to a client.
struct Case {
    first: Value,
    method: &'static str,
    item: &'static str,
    status: &'static str,
    expected: &'static str,
}

fn cases() -> [Case; 3] {
    [
        Case {
            first: runs("touch made"),
            method: COMMAND,
            item: "commandExecution",
            status: "declined",
            expected: "`acceptForSession`",
        },
        Case {
            first: patches("*** Add File: made\n+x"),
            method: PATCH,
            item: "fileChange",
            status: "declined",
            expected: "`acceptForSession`",
        },
        Case {
            first: calls("lookup", json!({})),
            method: TOOL,
            item: "dynamicToolCall",
            status: "failed",
            expected: "`{\"contentItems\":",
        },
    ]
}

async fn env(first: &Value) -> TestEnvironment {
    TestEnvironment::with_responses(json!([first, says("Done.")])).await
}

async fn open(server: &TestServer) -> (Peer, String) {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let tool = json!({ "name": "lookup", "description": "", "inputSchema": { "type": "object" } });
    let thread = peer
        .start_thread(json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite",
            "dynamicTools": [tool] }))
        .await;
    (peer, thread)
}

async fn join(server: &TestServer, thread: &str) -> Peer {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer
}

async fn respond(peer: &mut Peer, id: &Value, member: &str, content: &Value) {
    let line = json!({ "id": id, member: content });
    peer.send_line(line.to_string().as_bytes()).await;
}

async fn warning(peer: &mut Peer) -> String {
    peer.expect("warning").await["message"].as_str().unwrap().to_owned()
}

/// The reason in an item that was not carried out.
fn reason(item: &Value) -> String {
    let parts = [&item["aggregatedOutput"], &item["reason"], &item["contentItems"][0]["text"]];
    parts.into_iter().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn the_sender_is_warned_and_the_item_states_the_reason() {
    let answers = [
        ("result", json!("approved"), "\"approved\""),
        ("result", json!({}), "{}"),
        ("result", json!(null), "null"),
        ("result", json!(["accept"]), "[\"accept\"]"),
        ("result", json!({ "decision": "approved" }), "\"approved\""),
        ("result", json!({ "decision": { "accept": 1 } }), "{\"accept\":1}"),
        ("error", json!({ "code": -32601, "message": "cannot ask" }), "cannot ask (code -32601)"),
        ("error", json!("cannot ask"), "\"error\":\"cannot ask\""),
        ("error", json!({}), "\"error\":{}"),
        ("error", json!({ "message": "x" }), "\"error\":{\"message\":\"x\"}"),
        ("error", json!(null), "an `error` that is not null"),
        ("answer", json!("yes"), "\"answer\":\"yes\""),
    ];
    for case in cases() {
        for (member, answer, quoted) in &answers {
            let env = env(&case.first).await;
            let server = env.start();
            let (mut peer, thread) = open(&server).await;
            let turn = peer.start_turn(&thread, "Go.").await;
            let asked = peer.asked(case.method).await;
            respond(&mut peer, &asked.id, member, answer).await;
            let notice = peer.expect("warning").await;
            assert_eq!(notice["threadId"], thread);
            let notice = notice["message"].as_str().unwrap();
            for part in [case.method, case.expected, quoted, "No other client can answer"] {
                assert!(notice.contains(part), "{part} in {notice}");
            }
            assert!(notice.matches("acceptForSession").count() < 2, "{notice}");
            let item = peer.item(case.item).await;
            assert_eq!(item["status"], case.status, "{answer}");
            assert!(reason(&item).contains(quoted), "{item}");
            assert_eq!(peer.turn_end(&turn).await["status"], "completed");
            assert!(tool_outputs(&env)[0].contains(quoted), "the model gets the reason");
            assert!(!env.workspace().join("made").exists());
        }
    }
}

#[tokio::test]
async fn an_unreadable_message_that_names_a_request_is_an_invalid_answer() {
    for rest in ["", r#","error":"no""#, r#","result":{},"error":{"code":1,"message":"x"}"#] {
        for twice in [false, true] {
            let env = env(&runs("touch made")).await;
            let server = env.start();
            let (mut peer, thread) = open(&server).await;
            let turn = peer.start_turn(&thread, "Go.").await;
            let asked = peer.asked(COMMAND).await;
            let line = format!(r#"{{"id":{}{rest}}}"#, asked.id);
            peer.send_line(line.as_bytes()).await;
            let notice = warning(&mut peer).await;
            assert!(notice.contains(&line) && notice.contains("is declined"), "{notice}");
            peer.turn_end(&turn).await;
            if twice {
                // The request is closed: the error must not look like an answer to the client.
                peer.send_line(line.as_bytes()).await;
                let fault = peer.answer_to(&Value::Null).await.unwrap_err();
                assert_eq!(fault.code, -32600, "{fault:?}");
            }
        }
    }
}

#[tokio::test]
async fn while_another_client_can_answer_the_request_stays_open() {
    for case in cases() {
        // The valid answer comes from the other client, or from the first one again.
        for by_other in [true, false] {
            let env = env(&case.first).await;
            let server = env.start();
            let (mut one, thread) = open(&server).await;
            let mut two = join(&server, &thread).await;
            let turn = one.start_turn(&thread, "Go.").await;
            let asked = one.asked(case.method).await;
            two.asked(case.method).await;
            one.answer(&asked, json!({ "decision": "approved" })).await;
            assert!(warning(&mut one).await.contains("stays open"));
            let answer = match case.method {
                TOOL => json!({ "contentItems": [], "success": true }),
                _ => json!({ "decision": "accept" }),
            };
            let second = if by_other { &mut two } else { &mut one };
            second.answer(&asked, answer).await;
            assert_eq!(one.turn_end(&turn).await["status"], "completed");
            assert_eq!(one.item(case.item).await["status"], "completed", "{}", case.method);
            two.turn_end(&turn).await;
            assert!(
                !two.settled().await.contains(&"warning".to_owned()),
                "only the sender is warned"
            );
        }
    }
}

#[tokio::test]
async fn it_is_declined_when_the_last_client_that_could_answer_leaves() {
    for disconnects in [true, false] {
        let env = env(&runs("touch made")).await;
        let server = env.start();
        let (mut one, thread) = open(&server).await;
        let mut two = join(&server, &thread).await;
        let turn = one.start_turn(&thread, "Go.").await;
        let asked = one.asked(COMMAND).await;
        two.asked(COMMAND).await;
        one.answer(&asked, json!({})).await;
        assert!(warning(&mut one).await.contains("stays open"));
        if disconnects {
            drop(two);
        } else {
            two.call("thread/unsubscribe", json!({ "threadId": thread })).await;
        }
        let item = one.item("commandExecution").await;
        assert_eq!(item["status"], "declined");
        assert!(reason(&item).contains("missing field `decision`"), "{item}");
        one.turn_end(&turn).await;
    }
}

#[tokio::test]
async fn two_invalid_answers_decline() {
    let env = env(&runs("touch made")).await;
    let server = env.start();
    let (mut one, thread) = open(&server).await;
    let mut two = join(&server, &thread).await;
    let turn = one.start_turn(&thread, "Go.").await;
    let asked = one.asked(COMMAND).await;
    two.asked(COMMAND).await;
    one.answer(&asked, json!({})).await;
    assert!(warning(&mut one).await.contains("stays open"));
    two.answer(&asked, json!("yes")).await;
    assert!(warning(&mut two).await.contains("is declined"));
    assert_eq!(one.item("commandExecution").await["status"], "declined");
    one.turn_end(&turn).await;
}

#[tokio::test]
async fn ids_returned_as_text_are_recognised() {
    for case in cases() {
        let env = env(&case.first).await;
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(case.method).await;
        let answer = match case.method {
            TOOL => json!({ "contentItems": [], "success": true }),
            _ => json!({ "decision": "accept" }),
        };
        let as_text = ReceivedRequest { id: json!(asked.id.to_string()), ..asked.clone() };
        peer.answer(&as_text, answer).await;
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        assert_eq!(peer.item(case.item).await["status"], "completed");
    }
}

#[tokio::test]
async fn an_answer_without_a_request_is_ignored() {
    let env = env(&runs("touch made")).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    for id in [json!(77), json!("00"), json!("+0"), json!(-1), json!("x")] {
        respond(&mut peer, &id, "result", &json!({ "decision": "cancel" })).await;
    }
    let complaint = json!({ "code": -32700, "message": "Parse error" });
    respond(&mut peer, &json!(null), "error", &complaint).await;
    peer.decide(&asked, "accept").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    peer.decide(&asked, "decline").await;
    assert!(!peer.settled().await.contains(&"warning".to_owned()));
    assert!(env.workspace().join("made").exists());
}

#[tokio::test]
async fn quoted_text_is_bounded_and_hides_nothing() {
    let env = env(&runs("touch made")).await;
    let server = env.start();
    let (mut peer, thread) = open(&server).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    let long = format!("\u{202e}{}", "é".repeat(1 << 20));
    peer.decide(&asked, long).await;
    let notice = warning(&mut peer).await;
    assert!(
        notice.len() < 2000 && notice.contains('…') && !notice.contains('\u{202e}'),
        "{notice}"
    );
    let item = peer.item("commandExecution").await;
    assert!(reason(&item).len() < 2000);
    peer.turn_end(&turn).await;
}

#[tokio::test]
async fn amendments_are_limited_to_the_request() {
    for (script, prefix, taken) in [
        ("touch made", json!(["touch"]), true),
        ("touch made", json!(["touch", "made"]), true),
        ("touch made", json!(["touch", "other"]), false),
        ("touch made", json!(["make"]), false),
        ("touch made", json!([]), false),
        ("rm made", json!(["rm"]), false),
        ("sh -c 'touch made'", json!(["sh"]), false),
        ("sudo touch made", json!(["sudo"]), false),
        ("env A=1 touch made", json!(["env"]), false),
        ("python3 made.py", json!(["python3"]), false),
        ("git commit -m x", json!(["git"]), false),
    ] {
        let env = env(&runs(script)).await;
        let server = env.start();
        let (mut peer, thread) = open(&server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(COMMAND).await;
        let decision = json!({ "acceptWithExecpolicyAmendment": {
            "execpolicy_amendment": prefix } });
        peer.decide(&asked, decision).await;
        peer.turn_end(&turn).await;
        let item = peer.item("commandExecution").await;
        let rules = env.home().join("rules/default.rules");
        assert_eq!(rules.exists(), taken, "{prefix} for {script}: {item}");
        assert_eq!(item["status"] == "declined", !taken, "{prefix} for {script}: {item}");
        let notice = peer.settled().await.contains(&"warning".to_owned());
        assert_eq!(notice, !taken, "{prefix} for {script}");
    }
}
