//! Every kind of item, in the forms that look different, for the pictures of `states`.

use protocol::ItemKind;
use serde_json::{Value, json};

use crate::harness::{Bench, said};

/// A turn with finished items of a kind.
pub(crate) fn of_kind(kind: ItemKind, columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("Mend the parser.");
    bench.item("item/completed", said("u0", "Mend the parser."));
    for (number, form) in forms(kind).into_iter().enumerate() {
        let mut item = json!({ "type": kind.name(), "id": format!("i{number}") });
        item.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
        bench.item("item/completed", item);
    }
    bench.turn("turn/completed", "completed", Value::Null);
    bench
}

/// What the items have besides type and id.
fn forms(kind: ItemKind) -> Vec<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    match kind {
        ItemKind::UserMessage => vec![
            json!({ "content": [text("And then\nrun the tests.")] }),
            json!({ "content": [
                { "type": "localImage", "path": "/work/shot.png" },
                text("Like this?"), { "type": "mention", "name": "notes.md", "path": "/work/notes.md" },
            ] }),
        ],
        ItemKind::HookPrompt => {
            vec![json!({ "fragments": [{ "hookRunId": "h", "text": "Use four spaces." }] })]
        }
        ItemKind::AgentMessage => vec![
            json!({ "text": "I read it in **one** place, `lexer.rs`." }),
            json!({ "text": "And the tests", "reason": "the stream was cut" }),
        ],
        ItemKind::Plan => {
            vec![json!({ "text": "1. Read numbers in one place.\n2. Test exponents." })]
        }
        ItemKind::Reasoning => {
            vec![
                json!({ "summary": ["**Looking around**\n\nThere are two places."], "content": [] }),
            ]
        }
        ItemKind::CommandExecution => commands(),
        ItemKind::FileChange => changes(),
        ItemKind::McpToolCall => tool_calls(),
        ItemKind::DynamicToolCall => dynamic_calls(),
        ItemKind::CollabToolCall => agents(),
        ItemKind::WebSearch => vec![
            json!({ "query": "rust pty" }),
            json!({ "query": "x", "action": { "type": "openPage", "url": "https://docs.example/pty" } }),
            json!({ "query": "rust tty", "reason": "the provider has no search" }),
        ],
        ItemKind::ImageView => vec![
            json!({ "path": "/work/docs/shot.png" }),
            json!({ "path": "/elsewhere/shot.png", "reason": "no such file" }),
        ],
        ItemKind::ImageGeneration => vec![
            json!({ "status": "completed", "result": "", "savedPath": "/work/logo.png" }),
            json!({ "status": "failed", "result": "", "revisedPrompt": "a logo", "reason": "refused" }),
        ],
        ItemKind::EnteredReviewMode => vec![json!({ "review": "the changes of the branch" })],
        ItemKind::ExitedReviewMode => {
            vec![json!({ "review": "- [P1] Off by one (`a.rs:1`)\n  It is wrong." })]
        }
        ItemKind::ContextCompaction => {
            vec![json!({}), json!({ "reason": "the model gave no summary" })]
        }
    }
}

fn command(more: Value) -> Value {
    let mut command = json!({ "command": "cargo test", "cwd": "/work", "status": "completed", "commandActions": [] });
    command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    command
}

fn commands() -> Vec<Value> {
    let reads =
        json!([{ "type": "read", "command": "cat a", "name": "a.rs", "path": "/work/src/a.rs" }]);
    vec![
        command(
            json!({ "exitCode": 0, "durationMs": 3_200, "aggregatedOutput": "test a ... \x1b[32mok\x1b[0m\n" }),
        ),
        command(
            json!({ "exitCode": 101, "aggregatedOutput": "test a ... \x1b[1;31mFAILED\x1b[0m\n" }),
        ),
        command(
            json!({ "command": "cat src/a.rs", "exitCode": 0, "commandActions": reads, "aggregatedOutput": "mod b;\n" }),
        ),
        command(
            json!({ "command": "ls", "source": "userShell", "exitCode": 0, "aggregatedOutput": "a\nb\n" }),
        ),
        command(json!({ "command": "rm -rf build", "status": "declined" })),
        command(json!({ "command": "make", "status": "failed" })),
    ]
}

fn changes() -> Vec<Value> {
    let edit = json!({
        "path": "/work/src/parser.rs", "kind": { "type": "update", "move_path": null },
        "diff": "@@ -1,3 +1,3 @@ fn parse\n fn parse() {\n-    let base = 10;\n+    let base = 16;\n }\n",
    });
    let add = json!({ "path": "/work/new.rs", "kind": { "type": "add" }, "diff": "mod a;\n" });
    vec![
        json!({ "status": "completed", "changes": [edit, add] }),
        json!({ "status": "failed", "changes": [edit], "reason": "the file has changed since" }),
        json!({ "status": "declined", "changes": [edit] }),
    ]
}

fn tool_calls() -> Vec<Value> {
    let text = (1..=9).map(|n| format!("result {n}\n")).collect::<String>();
    vec![
        json!({ "server": "docs", "tool": "find", "status": "completed", "arguments": { "q": "x" }, "result": { "content": [{ "type": "text", "text": text }] } }),
        json!({ "server": "docs", "tool": "find", "status": "failed", "arguments": { "q": "x" }, "error": { "message": "gone" } }),
    ]
}

fn dynamic_calls() -> Vec<Value> {
    let options = json!([{ "label": "Rust", "description": "as the rest" }]);
    let questions = json!({ "questions": [
        { "id": "l", "header": "Language", "question": "In which language?", "options": options },
        { "id": "k", "header": "Key", "question": "Which key?", "isSecret": true },
    ] });
    let answers = json!({ "answers": { "l": { "answers": ["Rust", "with tests"] }, "k": { "answers": ["[secret, not stored]"] } } });
    let content = |text: String| json!([{ "type": "inputText", "text": text }]);
    let withdrawn = "not answered: the user sent a new message".to_owned();
    vec![
        json!({ "tool": "lookup", "arguments": { "id": 7 }, "status": "completed", "success": true, "contentItems": content("found".to_owned()) }),
        json!({ "tool": "request_user_input", "arguments": questions, "status": "completed", "success": true, "contentItems": content(answers.to_string()) }),
        json!({ "tool": "request_user_input", "arguments": questions, "status": "failed", "success": false, "contentItems": content(withdrawn) }),
    ]
}

fn agents() -> Vec<Value> {
    let states = json!({ "agent-1": { "status": "running", "message": "looks at the parser" } });
    let call = |tool: &str, more: Value| {
        let mut call = json!({ "tool": tool, "status": "completed", "senderThreadId": "t", "receiverThreadIds": ["agent-1"], "agentsStates": states });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    vec![
        call("spawnAgent", json!({ "prompt": "Look at the parser.\nAll of it." })),
        call("wait", json!({ "status": "failed", "reason": "the agent is gone" })),
    ]
}
