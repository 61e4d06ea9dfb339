//! Hooks with a handler of the kind `agent`.

use std::fs;

use serde_json::{Value, json};

use super::{completed, env, open};
use crate::{calls, says};

fn of(conversation: u64, mut response: Value) -> Value {
    response["conversation"] = conversation.into();
    response
}

fn agent() -> Value {
    json!({ "type": "agent", "prompt": "Are the notes complete? $ARGUMENTS" })
}

#[tokio::test]
async fn an_agent_reads_files_before_its_verdict() {
    let read = |path: &str| calls("read_file", json!({ "path": path }));
    let responses = json!([
        of(0, says("Done.")),
        of(1, calls("list_folder", json!({ "path": "." }))),
        of(1, read("notes.txt")),
        of(1, calls("search", json!({ "path": ".", "pattern": "NO[T]YET" }))),
        of(1, calls("exec_command", json!({ "path": ".", "cmd": "touch made" }))),
        of(1, says("{\"ok\": false, \"reason\": \"one is left\"}")),
        of(0, says("Once more.")),
        of(1, read("nothing.txt")),
        of(1, says("{\"ok\": true}")),
    ]);
    let env = env(&[("Stop", agent())], responses).await;
    fs::write(env.workspace().join("notes.txt"), "all of it\nNOTYET: the end\n").unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let run = completed(&mut peer, "stop").await;
    assert_eq!(
        (&run["status"], &run["handlerType"]),
        (&json!("blocked"), &json!("agent")),
        "{run}"
    );
    assert_eq!(completed(&mut peer, "stop").await["status"], "completed");
    peer.turn_end(&turn).await;

    let requests = env.model().requests();
    let outputs: Vec<String> = requests
        .iter()
        .filter_map(|request| {
            let last = request["input"].as_array()?.last()?;
            (last["type"] == "function_call_output").then(|| last["output"].to_string())
        })
        .collect();
    let expected = [
        "notes.txt",
        "all of it",
        "notes.txt:2:NOTYET",
        "there is no tool `exec_command`",
        "it failed: it is not a readable file",
    ];
    assert_eq!(outputs.len(), expected.len(), "{outputs:?}");
    for (output, expected) in outputs.iter().zip(expected) {
        assert!(output.contains(expected), "{output}");
    }
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn an_agent_that_does_not_come_to_an_end_is_ended() {
    let mut responses = vec![of(0, says("Done."))];
    responses.extend((0..16).map(|_| of(1, calls("list_folder", json!({ "path": "." })))));
    let env = env(&[("Stop", agent())], json!(responses)).await;
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let run = completed(&mut peer, "stop").await;
    assert_eq!(run["status"], "failed", "{run}");
    let why = run["entries"][0]["text"].as_str().unwrap();
    assert!(why.contains("no verdict within 16 requests"), "{why}");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(env.model().requests().last().unwrap()["tools"], Value::Null);
}
