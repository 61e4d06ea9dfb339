//! States of the program, of which `pictures` and `colours` keep what the terminal shows.

use serde_json::{Value, json};
use tui::app::{Event, Start, StartThread};
use tui::terminal::input::{Code, Input, Key};

use crate::harness::{
    Bench, THREAD, command, initialized, listed, message, opened, page, rolled_back, said, turn,
};
use crate::start::{asks_for_trust, chooser, with_keys};
use crate::terminals::{output, started};
use crate::{
    access, attempts, commands, dialogs, notices, other_server, quiet, reading, worktrees,
};

/// Draws a state in a number of columns and rows.
pub(crate) type State = fn(usize, usize) -> Bench;

pub(crate) const STATES: &[(&str, State)] = &[
    ("agent", agent),
    ("agents", agents),
    ("another-address", other_server::wrong_address),
    ("another-address-key", other_server::wanted_key),
    ("approval-command", approval_command),
    ("approval-edit-in-folder", access::edit_in_folder),
    ("approval-file-change", approval_file_change),
    ("approval-hidden-characters", approval_hidden_characters),
    ("approval-host", dialogs::approval_host),
    ("approval-instead", access::instead),
    ("approval-permissions", approval_permissions),
    ("approval-tool", dialogs::approval_tool),
    ("approval-typed-into", dialogs::approval_typed_into),
    ("approvals", access::approvals),
    ("approvals-how-long", access::approvals_scope),
    ("changes-many", quiet::changes_many),
    ("code-blocks", code_blocks),
    ("command-done", command_done),
    ("command-in-background", command_in_background),
    ("command-long-output", command_long_output),
    ("command-runs", command_runs),
    ("commands-list", commands_list),
    ("composer-chips", composer_chips),
    ("composer-empty", Bench::open),
    ("composer-many-lines", composer_many_lines),
    ("composer-vi", composer_vi),
    ("connection-lost", connection_lost),
    ("copy-code", dialogs::copy_code),
    ("delete", dialogs::delete),
    ("diff-of-a-change", diff_of_a_change),
    ("earlier-message", earlier_message),
    ("earlier-message-how", earlier_message_how),
    ("elicitation", elicitation),
    ("elicitation-page", dialogs::elicitation_page),
    ("explored", quiet::explored),
    ("exploring", quiet::exploring),
    ("export", export),
    ("feedback-kind", dialogs::feedback_kind),
    ("feedback-note", dialogs::feedback_note),
    ("feedback-parts", dialogs::feedback_parts),
    ("feedback-report", dialogs::feedback_report),
    ("first-question", access::first_start),
    ("first-question-with-settings", access::first_start_with_settings),
    ("first-start", chooser),
    ("first-start-with-keys", with_keys),
    ("first-start-key", first_start_key),
    ("full-access", dialogs::full_access),
    ("history-search", history_search),
    ("implement-plan", dialogs::implement_plan),
    ("interrupted", interrupted),
    ("list-of-commands-that-run", list_of_commands_that_run),
    ("list-of-threads", list_of_threads),
    ("list-of-threads-failed", list_of_threads_failed),
    ("list-of-threads-search", list_of_threads_search),
    ("local-models", dialogs::local_models),
    ("local-models-searched", dialogs::local_models_searched),
    ("login-code", dialogs::login_code),
    ("login-page", dialogs::login_page),
    ("logout", dialogs::logout),
    ("markdown", markdown),
    ("markdown-streams", markdown_streams),
    ("memory-reset", dialogs::memory_reset),
    ("model-how-long", access::model_scope),
    ("model-list", model_list),
    ("model-list-of-providers", commands::models_of_providers),
    ("model-successor", notices::model_successor),
    ("pasted", quiet::pasted),
    ("plan", plan),
    ("question", question),
    ("question-text", dialogs::question_text),
    ("questions-answered", quiet::questions_answered),
    ("queue", queue),
    ("queue-list", queue_list),
    ("queue-paused", queue_paused),
    ("reasoning", reasoning),
    ("resumed", resumed),
    ("status", status),
    ("status-line", status_line),
    ("theme-list", theme_list),
    ("transcript", transcript),
    ("transcript-search", transcript_search),
    ("trust", asks_for_trust),
    ("turn-begins", turn_begins),
    ("turn-ends", quiet::turn_ends),
    ("turn-failed", turn_failed),
    ("undo", undo),
    ("undo-off", reading::undo_off),
    ("waits-for-limit", attempts::waits),
    ("words-of-all-scripts", words_of_all_scripts),
    ("worktree-chosen", worktrees::chosen),
    ("worktree-merge", worktrees::merge),
    ("worktree-remove", worktrees::remove),
    ("worktrees", worktrees::listed),
];

fn with_turn(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("Mend the parser.");
    bench.item("item/completed", said("u1", "Mend the parser."));
    bench
}

fn turn_begins(columns: usize, rows: usize) -> Bench {
    with_turn(columns, rows)
}

fn turn_failed(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let error = json!({ "message": "The provider refused the key (401). /login enters another." });
    bench.turn("turn/completed", "failed", error);
    bench
}

fn interrupted(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.key(Key::plain(Code::Esc));
    bench.answer("turn/interrupt", json!({}));
    bench.turn("turn/completed", "interrupted", Value::Null);
    bench
}

fn reasoning(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let summary = "**Looking around**\n\nThe parser reads numbers in two places.";
    bench.item(
        "item/completed",
        json!({ "type": "reasoning", "id": "r1", "summary": [summary], "content": [] }),
    );
    bench
}

fn plan(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let steps = json!([
        { "step": "Find where numbers are read", "status": "completed" },
        { "step": "Read them in one place", "status": "inProgress" },
        { "step": "Test with exponents", "status": "pending" },
    ]);
    let params = json!({ "threadId": THREAD, "turnId": "t1", "explanation": null, "plan": steps });
    bench.notify("turn/plan/updated", params);
    bench
}

const MARKDOWN: &str = "# Numbers\n\nThey are read in **two** places, `lexer.rs` and \
    [the grammar](https://example.com/grammar):\n\n1. integers\n2. decimals\n   - with an exponent\n   - without\n\n\
    | form | example | read by |\n|---|---|---|\n| integer | 12 | `lexer.rs` |\n| decimal | 1.5e3 | `grammar.rs` |\n\n\
    > A number has no sign: that is an operator.\n\nDone.";

fn markdown(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.item("item/completed", message(MARKDOWN));
    bench.turn("turn/completed", "completed", Value::Null);
    bench
}

fn markdown_streams(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.item("item/started", message(""));
    let end = MARKDOWN.find("| decimal").unwrap();
    MARKDOWN[..end].split_inclusive(' ').for_each(|word| bench.delta(word));
    bench
}

fn code_blocks(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let text = "```rust\nfn parse(text: &str) -> Result<Number, Error> {\n\tlet digits = text.trim_start_matches('0'); // as the grammar says, and more words than fit\n}\n```\n\n    indented\n\n~~~\nno language\n~~~";
    bench.item("item/completed", message(text));
    bench
}

fn words_of_all_scripts(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let text = "日本語の文章です。全角文字は二つの桁を使います。 👩\u{200d}🚀 👍🏽 🇩🇪 ❤\u{fe0f}\n\nمی\u{200c}خواهم שלום e\u{301}\u{327}\n\nHidden: \u{202e}reversed\u{202c}, \u{1b}]0;title\u{7}.";
    bench.item("item/completed", message(text));
    bench.type_text("日本 👩\u{200d}🚀 ");
    bench
}

fn command_runs(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    started(&mut bench, "c1", "cargo test --workspace --all-features -- --nocapture parser");
    output(&mut bench, "c1", "running 3 tests\ntest integers ... ok\n");
    bench
}

fn command_done(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let mut item = command("failed");
    item["exitCode"] = json!(101);
    item["aggregatedOutput"] =
        json!("running 3 tests\ntest decimals ... FAILED\n\x1b[2J\x1b]52;c;YQ==\x07");
    bench.item("item/completed", item);
    bench
}

fn command_long_output(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let mut item = command("completed");
    item["aggregatedOutput"] = json!((1..=500).map(|n| format!("row {n}\n")).collect::<String>());
    bench.item("item/completed", item);
    bench
}

fn command_in_background(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    started(&mut bench, "s1", "npm run dev");
    output(&mut bench, "s1", "listening on 3000\n");
    bench.turn("turn/completed", "completed", Value::Null);
    bench
}

fn list_of_commands_that_run(columns: usize, rows: usize) -> Bench {
    let mut bench = command_in_background(columns, rows);
    bench.send("/ps");
    bench
}

fn diff_of_a_change(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let diff =
        "@@ -1,4 +1,4 @@ fn parse\n fn parse() {\n-    let base = 10;\n+    let base = 16;\n }\n ";
    bench.item("item/completed", json!({ "type": "fileChange", "id": "f1", "status": "completed", "changes": [
        { "path": "/work/src/parser.rs", "kind": { "type": "update", "move_path": null }, "diff": diff },
        { "path": "/work/src/new.rs", "kind": { "type": "add" }, "diff": "mod a;\nmod b;\n" },
        { "path": "/work/old.rs", "kind": { "type": "delete" }, "diff": "gone\n" },
    ] }));
    bench
}

fn approval_command(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.ask(
        7,
        "item/commandExecution/requestApproval",
        json!({
            "threadId": THREAD, "turnId": "t1", "itemId": "c1", "startedAtMs": 0, "command": "git push --force origin main",
            "cwd": "/work", "reason": "The branch was rebased.", "proposedExecpolicyAmendment": ["git", "push"],
        }),
    );
    bench
}

fn approval_hidden_characters(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.ask(
        7,
        "item/commandExecution/requestApproval",
        json!({
            "threadId": THREAD, "turnId": "t1", "itemId": "c1", "startedAtMs": 0, "cwd": "/work",
            "command": "rm -rf build\u{202e}dliub\u{200b}\n# 👩\u{200d}🚀 \u{1b}[2J", "reason": "a\u{200d}b",
        }),
    );
    bench
}

fn approval_file_change(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let change = json!({ "type": "fileChange", "id": "f1", "status": "inProgress", "changes": [
        { "path": "/etc/hosts", "kind": { "type": "update", "move_path": null }, "diff": "@@ -1 +1,2 @@\n 127.0.0.1 localhost\n+10.0.0.1 build\n" },
    ] });
    bench.item("item/started", change);
    bench.ask(
        7,
        "item/fileChange/requestApproval",
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "f1", "startedAtMs": 0, "reason": "/etc/hosts is not in a writable folder (sandbox: read-only)", "grantRoot": null }),
    );
    bench
}

fn approval_permissions(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let asked = json!({ "network": { "enabled": true }, "fileSystem": { "read": null, "write": ["/var/cache/x"] } });
    bench.ask(
        7,
        "item/permissions/requestApproval",
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "p1", "startedAtMs": 0, "cwd": "/work", "permissions": asked, "reason": "to download the crates" }),
    );
    bench
}

fn question(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let options = json!([
        { "label": "Rust (Recommended)", "description": "the rest of the project is in it" },
        { "label": "Python", "description": "quicker to write" },
    ]);
    let questions = json!([
        { "id": "l", "header": "Language", "question": "In which language?", "isOther": true, "isSecret": false, "options": options },
        { "id": "k", "header": "Key", "question": "Which key?", "isOther": true, "isSecret": true, "options": null },
    ]);
    bench.ask(
        7,
        "item/tool/requestUserInput",
        json!({ "threadId": THREAD, "turnId": "t1", "itemId": "i1", "questions": questions }),
    );
    bench
}

fn elicitation(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    let schema = json!({ "type": "object", "required": ["title"], "properties": {
        "title": { "type": "string", "title": "Title", "description": "of the ticket" },
        "urgent": { "type": "boolean", "title": "Urgent" },
        "team": { "type": "string", "enum": ["core", "web"] },
    } });
    bench.ask(
        7,
        "mcpServer/elicitation/request",
        json!({ "threadId": THREAD, "turnId": "t1", "serverName": "tickets", "mode": "form", "message": "A new ticket", "requestedSchema": schema }),
    );
    bench
}

fn queue(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.queue("then run the tests");
    bench.queue("and write the changelog");
    bench
}

fn queue_paused(columns: usize, rows: usize) -> Bench {
    let mut bench = queue(columns, rows);
    bench.turn("turn/completed", "interrupted", Value::Null);
    bench.queue_changed(2, json!({ "reason": "interrupted" }));
    bench
}

fn queue_list(columns: usize, rows: usize) -> Bench {
    let mut bench = queue(columns, rows);
    bench.key(Key::alt(Code::Up));
    bench
}

fn composer_many_lines(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    for number in 1..=20 {
        bench.type_text(&format!("line {number} of what is to be done"));
        bench.key(Key::ctrl('j'));
    }
    bench
}

fn composer_chips(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.type_text("Look at ");
    bench.event(Event::Input(Input::Paste("x\n".repeat(400))));
    bench.type_text(" and tell me");
    bench
}

fn composer_vi(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/vim");
    bench.type_text("some words");
    bench.key(Key::plain(Code::Esc));
    bench
}

fn commands_list(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.type_text("/re");
    bench
}

fn history_search(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.key(Key::ctrl('r'));
    let texts = ["mend the lexer", "mend the parser", "run the tests"];
    bench.event(Event::History(texts.map(str::to_owned).to_vec()));
    bench.type_text("mend");
    bench
}

fn connection_lost(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.event(Event::Lost { why: "the connection ended".to_owned(), can_return: true });
    bench
}

fn list_of_threads(columns: usize, rows: usize) -> Bench {
    let start = Start { thread: StartThread::Choose, ..Start::default() };
    let mut bench = Bench::start_with(columns, rows, start);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/list", listed(0..30, Value::Null));
    bench.key(Key::plain(Code::Down));
    bench
}

fn list_of_threads_search(columns: usize, rows: usize) -> Bench {
    let start = Start { thread: StartThread::Choose, ..Start::default() };
    let mut bench = Bench::start_with(columns, rows, start);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/list", listed(0..30, Value::Null));
    bench.calls.clear();
    bench.event(Event::Input(Input::Paste("number 7".to_owned())));
    bench.answer("thread/list", listed(7..8, Value::Null));
    bench.calls.retain(|call| call.1 == "thread/search");
    let mut hit = listed(3..4, Value::Null)["data"][0].take();
    hit["preview"] = json!("Mend the parser.");
    let hit =
        json!({ "thread": hit, "turnId": "a", "snippet": "… the lexer\ncounts to number 70 …" });
    let found =
        json!({ "data": [hit], "nextCursor": null, "backwardsCursor": null, "indexing": false });
    bench.answer("thread/search", found);
    bench
}

fn list_of_threads_failed(columns: usize, rows: usize) -> Bench {
    let start = Start { thread: StartThread::Choose, ..Start::default() };
    let mut bench = Bench::start_with(columns, rows, start);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.refuse("thread/list", "the store is busy");
    bench
}

fn resumed(columns: usize, rows: usize) -> Bench {
    let thread = StartThread::Resume(THREAD.to_owned());
    let mut bench = Bench::start_with(columns, rows, Start { thread, ..Start::default() });
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/resume", opened(&json!([])));
    let items = json!([said("u1", "Mend the parser."), message("It is mended.")]);
    bench.answer("thread/turns/list", page(json!([turn("a", "completed", items)])));
    bench.event(Event::Connected(Box::new(initialized())));
    bench
}

fn transcript(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.key(Key::ctrl('t'));
    let mut ran = command("completed");
    ran["aggregatedOutput"] = json!((1..=30).map(|n| format!("row {n}\n")).collect::<String>());
    let turns = json!([
        turn("b", "completed", json!([said("u2", "Run the tests."), ran])),
        turn("a", "completed", json!([said("u1", "Mend the parser."), message("It is mended.")])),
    ]);
    bench.answer("thread/turns/list", page(turns));
    bench
}

fn transcript_search(columns: usize, rows: usize) -> Bench {
    let mut bench = transcript(columns, rows);
    bench.type_text("/mended");
    bench
}

fn earlier_message(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.item("item/completed", message("It is mended."));
    bench.key(Key::plain(Code::Esc));
    bench.key(Key::plain(Code::Esc));
    let turns = json!([
        turn("b", "completed", json!([said("u2", "Run the tests.\nAll of them.")])),
        turn("a", "completed", json!([said("u1", "Mend the parser.")])),
    ]);
    bench.answer("thread/turns/list", page(turns));
    bench
}

fn earlier_message_how(columns: usize, rows: usize) -> Bench {
    let mut bench = earlier_message(columns, rows);
    bench.key(Key::plain(Code::Enter));
    bench
}

fn undo(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::start(columns, rows);
    let config = json!({ "config": { "features": { "undo": true } }, "origins": {} });
    bench.answer("config/read", config);
    bench.answer("thread/start", opened(&json!([])));
    bench.calls.clear();
    bench.send("/undo");
    let files = json!({
        "diff": "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-new\n+old\n", "diffTruncated": false,
        "restored": ["/work/a"], "conflicts": [{ "path": "/work/b", "reason": "changed" }], "notRestored": [],
    });
    bench.answer("thread/rollback", rolled_back(files));
    bench
}

fn agents(columns: usize, rows: usize) -> Bench {
    let mut bench = with_turn(columns, rows);
    bench.item(
        "item/completed",
        json!({
            "type": "collabToolCall", "id": "x", "tool": "spawnAgent", "status": "completed",
            "senderThreadId": THREAD, "receiverThreadIds": ["agent-1", "agent-2"],
            "agentsStates": {
                "agent-1": { "status": "running", "message": "looks at the parser" },
                "agent-2": { "status": "completed", "message": "has read the tests" },
            },
        }),
    );
    bench.send("/agents");
    bench
}

fn agent(columns: usize, rows: usize) -> Bench {
    let mut bench = agents(columns, rows);
    bench.key(Key::plain(Code::Enter));
    bench.answer("thread/resume", json!({}));
    let items = json!([said("u1", "Look at the parser."), message("I read it.")]);
    bench.answer("thread/turns/list", page(json!([turn("a", "inProgress", items)])));
    bench
}

fn export(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/export notes.md");
    bench.answer(
        "thread/turns/list",
        page(json!([turn("a", "completed", json!([said("u", "hi")]))])),
    );
    bench.event(Event::Exported(Ok("/work/notes.md".into())));
    bench
}

fn first_start_key(columns: usize, rows: usize) -> Bench {
    let mut bench = chooser(columns, rows);
    bench.press('k');
    bench.event(Event::Input(Input::Paste("sk-secret".to_owned())));
    bench
}

fn status(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    let tokens = json!({ "totalTokens": 50_000, "inputTokens": 40_000, "cachedInputTokens": 0, "outputTokens": 10_000, "reasoningOutputTokens": 0 });
    let usage = json!({ "total": tokens, "last": tokens, "modelContextWindow": 200_000 });
    bench.notify(
        "thread/tokenUsage/updated",
        json!({ "threadId": THREAD, "turnId": "t1", "tokenUsage": usage }),
    );
    bench.send("/status");
    let layers = json!([
        { "name": { "type": "project", "dotAgentFolder": "/work/.agent" }, "version": "1", "config": {}, "disabledReason": "not trusted" },
        { "name": { "type": "user", "file": "/home/u/.agent/config.toml" }, "version": "1", "config": {} },
    ]);
    let config =
        json!({ "model_providers": { "offline": { "base_url": "http://localhost:9000/v1" } } });
    bench.answer("config/read", json!({ "config": config, "origins": {}, "layers": layers }));
    let account = json!({ "account": { "type": "apiKey" }, "requiresDefaultAuth": true });
    bench.answer("account/read", account);
    let window = json!({ "usedPercent": 38, "windowDurationMins": 300 });
    bench.answer("account/rateLimits/read", json!({ "rateLimits": { "primary": window } }));
    bench
}

fn status_line(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/statusline");
    bench
}

fn theme_list(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/theme");
    bench
}

fn model_list(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/model");
    let efforts = json!([{ "reasoningEffort": "low", "description": "fast" }, { "reasoningEffort": "high", "description": "thorough" }]);
    let model = |id: &str, text: &str, is_default: bool| {
        json!({
            "id": id, "model": id, "displayName": id, "description": text, "hidden": false, "isDefault": is_default,
            "supportedReasoningEfforts": efforts, "defaultReasoningEffort": "low", "inputModalities": ["text"],
        })
    };
    let models = json!([
        model("gpt-x", "for most work", true),
        model("gpt-x-mini", "fast and cheap", false)
    ]);
    bench.answer("model/list", json!({ "data": models, "nextCursor": null }));
    bench
}
