//! One thread through two real servers of a home, the first of which has it open and is killed.

use serde_json::{Value, json};

use crate::common::{Running, TestEnvironment};

const ASKED: &str = "item/commandExecution/requestApproval";

/// Starts a turn through a server, and returns its id.
fn start(server: &mut Running, id: i64, thread: &str) -> Value {
    let input = json!([{ "type": "text", "text": "Leave a note." }]);
    let started = server.call(id, "turn/start", json!({ "threadId": thread, "input": input }));
    started["result"]["turn"]["id"].clone()
}

fn accept(server: &mut Running, request: &Value) {
    server.send(&json!({ "id": request["id"], "result": { "decision": "accept" } }).to_string());
}

fn end(server: &Running, turn: &Value) -> Value {
    server.message(|it| it["method"] == "turn/completed" && it["params"]["turn"]["id"] == *turn)
        ["params"]["turn"]["status"]
        .clone()
}

#[test]
fn a_thread_goes_on_in_another_server_after_its_own_was_killed() {
    let env = TestEnvironment::new();
    let command = json!({ "function_call": { "name": "exec_command", "arguments": { "cmd": "touch note" } } });
    let (call, done) =
        (json!({ "steps": [command] }), json!({ "steps": [{ "message": "Done." }] }));
    let model = env.script(&json!([call, done, call, done, call, done]));
    let (mut first, mut second) = (Running::server(&env, &[]), Running::server(&env, &[]));
    let params = json!({
        "modelProvider": "offline",
        "model": model,
        "approvalPolicy": "unlessTrusted",
        "sandbox": "workspaceWrite",
    });
    let thread = first.call(1, "thread/start", params)["result"]["thread"]["id"].clone();
    let thread = thread.as_str().unwrap();
    let turn = start(&mut first, 2, thread);
    let asked = first.message(|it| it["method"] == ASKED);
    accept(&mut first, &asked);
    assert_eq!(end(&first, &turn), "completed");
    std::fs::remove_file(env.work().join("note")).unwrap();

    // The second server has the turn in the first one, and the client of either may answer.
    let resumed = second.call(1, "thread/resume", json!({ "threadId": thread }));
    assert_eq!(resumed["result"]["thread"]["id"], thread, "{resumed}");
    let turn = start(&mut second, 2, thread);
    let asked = second.message(|it| it["method"] == ASKED);
    first.message(|it| it["method"] == ASKED);
    accept(&mut second, &asked);
    for server in [&first, &second] {
        assert_eq!(end(server, &turn), "completed");
    }
    assert!(env.work().join("note").exists());

    // Killed while it waits for an answer: the turn ends once, and the next one runs in the second server.
    let turn = start(&mut second, 3, thread);
    second.message(|it| it["method"] == ASKED);
    first.signal("KILL");
    assert_eq!(end(&second, &turn), "interrupted");
    let turn = start(&mut second, 4, thread);
    let asked = second.message(|it| it["method"] == ASKED);
    accept(&mut second, &asked);
    assert_eq!(end(&second, &turn), "completed");
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = second.call(5, "thread/read", read);
    let turns = read["result"]["thread"]["turns"].as_array().unwrap();
    let ends: Vec<_> = turns.iter().map(|turn| turn["status"].as_str().unwrap()).collect();
    assert_eq!(ends, ["completed", "completed", "interrupted", "completed"]);
    assert!(second.end().0.success());
}
