//! Commands that open a dialog or switch a mode.

use serde_json::{Value, json};
use tui::app::Effect;
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, opened};

fn stored(bench: &mut Bench) -> Value {
    let written = json!({ "status": "ok", "version": "2", "filePath": "/home/u/.agent/config.toml", "overriddenMetadata": null });
    bench.answer("config/batchWrite", written)["edits"].clone()
}

fn with_skills(names: &[&str]) -> Bench {
    let mut bench = Bench::start(80, 24);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/start", opened(&json!([])));
    let skill = |name: &&str| {
        json!({ "name": name, "description": format!("does {name}"), "path": format!("/s/{name}/SKILL.md"),
            "scope": "user", "enabled": *name != "off" })
    };
    let skills: Vec<Value> = names.iter().map(skill).collect();
    let folder = json!({ "cwd": "/work", "skills": skills, "errors": [] });
    bench.answer("skills/list", json!({ "data": [folder] }));
    bench
}

#[test]
fn own_prompts_are_commands_with_the_rest_of_the_line() {
    let mut bench = with_skills(&["tidy-up", "off", "diff", "has space"]);
    bench.type_text("/tid");
    assert!(bench.shown().contains("/tidy-up [MESSAGE]"), "{}", bench.shown());
    assert!(bench.shown().contains("does tidy-up"), "{}", bench.shown());
    bench.type_text("y-up the tests ");
    bench.event(tui::app::Event::Input(tui::terminal::input::Input::Paste("and\nmore".to_owned())));
    bench.key(Key::plain(Code::Enter));
    let input = bench.call("turn/start").1["input"].clone();
    assert_eq!(input[0]["text"], "$tidy-up the tests and\nmore");
    let skill = json!({ "type": "skill", "name": "tidy-up", "path": "/s/tidy-up/SKILL.md" });
    assert_eq!(input[1], skill);
    let mut bench = with_skills(&["tidy-up", "off", "diff"]);
    // A command of the program comes first; what is switched off is none.
    bench.send("/diff");
    assert!(bench.printed.contains("The latest turn changed no files."), "{}", bench.printed);
    bench.send("/off");
    assert!(bench.shown().contains("Unknown command: /off"), "{}", bench.shown());
    bench.key(Key::ctrl('c'));
    bench.send("/tidy-pu");
    assert!(bench.shown().contains("Did you mean /tidy-up?"), "{}", bench.shown());
    bench.key(Key::ctrl('c'));
    bench.send("/help");
    assert!(bench.printed.contains("/tidy-up [MESSAGE]"), "{}", bench.printed);
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn mention_opens_the_list_of_files() {
    let mut bench = Bench::open(80, 24);
    bench.send("/mention par");
    assert!(bench.shown().contains("› @par"), "{}", bench.shown());
    let file = json!({ "root": "/work", "path": "src/parser.rs", "file_name": "parser.rs", "score": 1, "indices": [4],
        "match_type": "file" });
    let params = bench.answer("fuzzyFileSearch", json!({ "files": [file] }));
    assert_eq!(params["query"], "par");
    assert!(bench.shown().contains("src/parser.rs"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("› src/parser.rs"), "{}", bench.shown());
    bench.key(Key::ctrl('c'));
    bench.send("/mention");
    assert_eq!(bench.call("fuzzyFileSearch").1["query"], "");
}

#[test]
fn init_is_a_turn_that_writes_the_instructions() {
    let mut bench = Bench::open(80, 24);
    bench.send("/init");
    let text = bench.call("turn/start").1["input"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("Write an AGENTS.md for this folder"), "{text}");
}

#[test]
fn the_status_line_is_chosen_with_itself_as_the_preview() {
    for (columns, rows) in [(120, 40), (80, 24)] {
        let mut bench = Bench::open(columns, rows);
        bench.send("/statusline");
        let list = "\
The status line
The line below is a preview.
› [x] model      the model and its effort
  [x] mode       what the agent may do
  [x] folder     the working folder
  [x] branch     the git branch
  [x] context    remaining context window
  [x] cost       what the thread cost
  [x] agents     how many agents work
  [ ] limits     remaining account limits
  [ ] tokens     tokens of the thread
  [ ] approvals  when the agent asks
  [ ] sandbox    what commands may access
  [ ] thread     the thread's name, or its id
Space toggles, ← → move, Enter saves, Esc cancels
  gpt-x high · asks before edits · /work · main";
        assert!(bench.shown().ends_with(list), "{}", bench.shown());
        // The model after the folder, no mode, and no branch.
        bench.key(Key::plain(Code::Right));
        bench.key(Key::plain(Code::Right));
        bench.key(Key::plain(Code::Up));
        bench.key(Key::plain(Code::Up));
        bench.key(Key::plain(Code::Char(' ')));
        (0..3).for_each(|_| bench.key(Key::plain(Code::Down)));
        bench.key(Key::plain(Code::Char(' ')));
        assert!(bench.shown().ends_with("\n  /work · gpt-x high"), "{}", bench.shown());
        bench.key(Key::plain(Code::Enter));
        let items = json!(["folder", "model", "context", "cost", "agents"]);
        assert_eq!(
            stored(&mut bench)[0],
            json!({ "keyPath": "tui.status_line", "value": items, "mergeStrategy": "replace" })
        );
        bench.send("/statusline");
        bench.key(Key::plain(Code::Char(' ')));
        bench.key(Key::plain(Code::Esc));
        assert!(bench.shown().ends_with("  /work · gpt-x high"), "{}", bench.shown());
    }
    let mut bench = Bench::open(40, 12);
    bench.send("/statusline");
    bench.key(Key::plain(Code::Up));
    assert!(
        bench.shown().contains("› [x] model      the model and its effo…"),
        "{}",
        bench.shown()
    );
    bench.key(Key::plain(Code::Enter));
    bench.refuse("config/batchWrite", "no space");
    assert!(bench.printed.contains("The status line was not stored: no"), "{}", bench.printed);
}

#[test]
fn feedback_is_shown_before_it_is_written() {
    let mut bench = Bench::open(80, 24);
    bench.send("/feedback it hung");
    bench.key(Key::plain(Code::Char('b')));
    bench.key(Key::plain(Code::Char('o')));
    let report = json!({ "reason": "it hung", "redacted": 2, "logs": {} });
    let params = bench.answer("feedback/upload", json!({ "threadId": "r1", "report": report }));
    assert_eq!(
        params,
        json!({ "classification": "bug", "includeLogs": false, "reason": "it hung", "dryRun": true })
    );
    let shown = "\
Feedback: the report
5 lines, 1 KiB; 2 secrets were removed. Check it before you share it.
{
  \"reason\": \"it hung\",
  \"redacted\": 2,
  \"logs\": {}
}
› 1. Write the report to a file (w)
  2. Write nothing (n, Esc)";
    assert!(bench.shown().contains(shown), "{}", bench.shown());
    bench.key(Key::plain(Code::Char('w')));
    let path = "/home/u/.agent/feedback/r1.json";
    let params = bench.answer("feedback/upload", json!({ "threadId": "r1", "path": path }));
    assert!(params.get("dryRun").is_none(), "{params}");
    assert!(bench.printed.contains(path), "{}", bench.printed);
}

#[test]
fn feedback_asks_for_a_note_and_can_be_left() {
    let mut bench = Bench::open(40, 12);
    bench.send("/feedback");
    bench.key(Key::plain(Code::Char('g')));
    bench.type_text("well done");
    assert!(bench.shown().contains("note: well done"), "{}", bench.shown());
    bench.key(Key::plain(Code::Enter));
    bench.key(Key::plain(Code::Char('w')));
    bench.refuse("feedback/upload", "the folder is a link");
    assert!(bench.printed.contains("The report could not be made: the"), "{}", bench.printed);
    let mut bench = Bench::start(80, 24);
    bench.answer(
        "config/read",
        json!({ "config": { "feedback": { "enabled": false } }, "origins": {} }),
    );
    bench.answer("thread/start", opened(&json!([])));
    bench.calls.clear();
    bench.send("/feedback");
    assert!(bench.printed.contains("Feedback is switched off"), "{}", bench.printed);
    assert!(bench.calls.is_empty());
}

#[test]
fn the_plan_is_shown_and_plan_mode_is_switched() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    let plan = json!([
        { "step": "Look", "status": "completed" }, { "step": "Change", "status": "inProgress" }, { "step": "Test", "status": "pending" },
    ]);
    bench.notify(
        "turn/plan/updated",
        json!({ "threadId": THREAD, "turnId": "t1", "explanation": null, "plan": plan }),
    );
    bench.send("/plan");
    assert!(
        bench.printed.contains("✓ Look  done\n● Change  in progress\n○ Test  to do\n"),
        "{}",
        bench.printed
    );
    bench.turn("turn/completed", "completed", Value::Null);
    bench.send("/plan find the bug");
    let modes = json!({ "data": [{ "name": "Plan", "mode": "plan", "reasoning_effort": "high" }, { "name": "Default", "mode": "default" }] });
    bench.answer("collaborationMode/list", modes);
    let (_, params) = bench.call("turn/start");
    let settings = json!({ "model": "gpt-x", "reasoning_effort": "high" });
    assert_eq!(params["collaborationMode"], json!({ "mode": "plan", "settings": settings }));
    assert_eq!(params["input"][0]["text"], "find the bug");
    assert!(
        bench.shown().ends_with("\n  plan mode · gpt-x high · asks before edits · /work · main"),
        "{}",
        bench.shown()
    );
    bench.turn("turn/completed", "completed", Value::Null);
    bench.send("/plan off");
    bench.send("do it");
    assert_eq!(bench.call("turn/start").1["collaborationMode"]["mode"], "default");
    assert!(!bench.shown().contains("plan mode ·"), "{}", bench.shown());
}

#[test]
fn the_account_its_limits_and_the_context_are_shown() {
    let mut bench = Bench::open(80, 24);
    let usage = json!({ "totalTokens": 50, "inputTokens": 40, "cachedInputTokens": 0, "outputTokens": 10, "reasoningOutputTokens": 0 });
    let usage = json!({ "total": usage, "last": usage, "modelContextWindow": 200 });
    bench.notify(
        "thread/tokenUsage/updated",
        json!({ "threadId": THREAD, "turnId": "t1", "tokenUsage": usage }),
    );
    bench.send("/status");
    let layers = json!([{ "name": { "type": "user", "file": "/home/u/.agent/config.toml" }, "version": "1", "config": {} }]);
    let config =
        json!({ "model_providers": { "offline": { "base_url": "http://localhost:9000/v1" } } });
    let read = json!({ "config": config, "origins": {}, "layers": layers });
    assert_eq!(bench.answer("config/read", read)["includeLayers"], true);
    bench.answer(
        "account/read",
        json!({ "account": { "type": "apiKey" }, "requiresDefaultAuth": true }),
    );
    let window = json!({ "usedPercent": 38, "windowDurationMins": 300 });
    bench.answer("account/rateLimits/read", json!({ "rateLimits": { "primary": window } }));
    for row in [
        "context      75% left: 50 of 200 tokens are used",
        "provider     offline",
        "address      http://localhost:9000/v1",
        "instructions no AGENTS.md; /init writes one",
        "config       /home/u/.agent/config.toml",
        "account      an API key",
        "limits       62% left of 5h 00m",
    ] {
        assert!(bench.printed.contains(row), "{}", bench.printed);
    }
}

#[test]
fn the_cost_of_a_thread_is_shown_or_said_to_be_unknown() {
    let mut bench = Bench::open(80, 24);
    bench.send("/cost");
    assert!(bench.printed.contains("No model request since"), "{}", bench.printed);
    let tokens = json!({ "totalTokens": 50, "inputTokens": 40, "cachedInputTokens": 30, "outputTokens": 10, "reasoningOutputTokens": 0 });
    let mut usage = json!({ "total": tokens, "last": tokens, "modelContextWindow": 200 });
    let tell = |bench: &mut Bench, usage: &Value| {
        let params = json!({ "threadId": THREAD, "turnId": "t1", "tokenUsage": usage });
        bench.notify("thread/tokenUsage/updated", params);
        bench.send("/cost");
    };
    tell(&mut bench, &usage);
    assert!(bench.printed.contains("tokens       40 in (30 cached), 10 out"), "{}", bench.printed);
    assert!(bench.printed.contains("cost         unknown"), "{}", bench.printed);
    let cost = json!({ "currency": "USD", "last": "0.01", "turn": "0.02", "turnWithAgents": null, "thread": "0.05" });
    usage["cost"] = cost;
    tell(&mut bench, &usage);
    for row in ["cost         0.05 USD for the thread", "0.02 USD for the latest turn"] {
        assert!(bench.printed.contains(row), "{}", bench.printed);
    }
}

#[test]
fn a_thread_is_archived_or_deleted_and_a_new_one_opened() {
    let mut bench = Bench::open(80, 24);
    bench.send("/archive");
    assert_eq!(bench.answer("thread/archive", json!({}))["threadId"], THREAD);
    assert!(bench.printed.contains("agentd threads unarchive"), "{}", bench.printed);
    assert_eq!(bench.call("thread/start").1["cwd"], "/work");
    let mut bench = Bench::open(80, 24);
    bench.send("/delete");
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty());
    bench.send("/delete");
    bench.key(Key::plain(Code::Char('y')));
    assert_eq!(bench.answer("thread/delete", json!({}))["threadId"], THREAD);
    bench.call("thread/start");
    // What the server refuses leaves the thread open.
    let mut bench = Bench::open(80, 24);
    bench.send("/archive");
    bench.refuse("thread/archive", "a turn runs");
    assert!(
        bench.printed.contains("The thread was not archived: a turn runs"),
        "{}",
        bench.printed
    );
    assert!(bench.calls.is_empty());
}

#[test]
fn exit_is_another_name_of_quit() {
    let mut bench = Bench::open(80, 24);
    bench.send("/exit");
    assert!(bench.others.iter().any(|effect| matches!(effect, Effect::Quit(_))));
}

#[test]
fn a_login_at_an_mcp_server_opens_its_page() {
    let mut bench = Bench::open(80, 24);
    bench.send("/mcp");
    let row = |name: &str, status: &str, error: Option<&str>, login: &str| {
        json!({ "name": name, "status": status, "error": error, "tools": {}, "resources": [],
            "resourceTemplates": [], "authStatus": login })
    };
    let rows = [
        row("docs", "failed", Some("401"), "notLoggedIn"),
        row("slow", "starting", None, "unsupported"),
        row("web", "ready", None, "oAuth"),
    ];
    bench.answer("mcpServerStatus/list", json!({ "data": rows, "nextCursor": null }));
    for line in [
        "docs  failed  not logged in: /mcp login docs: 401",
        "slow  starting",
        "web  0 tools  logged in",
    ] {
        assert!(bench.printed.contains(line), "{line}: {}", bench.printed);
    }
    let failed = json!({ "name": "docs", "status": "failed", "error": "401" });
    bench.notify("mcpServer/startupStatus/updated", failed);
    assert!(bench.printed.contains("The MCP server docs did not start: 401"), "{}", bench.printed);
    bench.send("/mcp login docs");
    let params = bench.answer(
        "mcpServer/oauth/login",
        json!({ "authorizationUrl": "https://docs.example/login" }),
    );
    assert_eq!(params, json!({ "name": "docs", "threadId": THREAD }));
    assert!(
        matches!(bench.others.pop(), Some(Effect::Browse(url)) if url == "https://docs.example/login")
    );
    bench.notify(
        "mcpServer/oauthLogin/completed",
        json!({ "name": "docs", "success": false, "error": "denied" }),
    );
    assert!(bench.printed.contains("✗ Not logged in at docs: denied"), "{}", bench.printed);
}

#[test]
fn notes_are_deleted_only_after_a_question() {
    let mut bench = Bench::open(80, 24);
    bench.send("/memory off");
    let params = bench.answer("thread/memoryMode/set", json!({}));
    assert_eq!(params["mode"], "disabled");
    bench.send("/memory reset");
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty());
    bench.send("/memory reset");
    bench.key(Key::plain(Code::Char('y')));
    bench.answer("memory/reset", json!({}));
    assert!(bench.printed.contains("All notes are deleted."), "{}", bench.printed);
}

#[test]
fn a_question_of_the_server_comes_before_a_dialog() {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    bench.send("/memory reset");
    let question = json!({ "threadId": THREAD, "turnId": "t1", "itemId": "i1", "questions": [{ "id": "q", "header": "Which", "question": "Which one?", "isOther": true, "isSecret": false, "options": null }] });
    bench.ask(7, "item/tool/requestUserInput", question);
    assert!(
        bench.shown().contains("Which one?") && !bench.shown().contains("Delete all notes?"),
        "{}",
        bench.shown()
    );
    bench.now += 1_000;
    bench.key(Key::plain(Code::Esc));
    assert_eq!(bench.responses.len(), 1);
    assert!(bench.shown().contains("Delete all notes?"), "{}", bench.shown());
}

fn listed_models(models: &[&str], next: Value) -> Value {
    let model = |model: &&str| {
        json!({
            "id": model, "model": model, "displayName": model, "description": "", "hidden": false,
            "supportedReasoningEfforts": [], "defaultReasoningEffort": "medium", "isDefault": false,
        })
    };
    json!({ "data": models.iter().map(model).collect::<Vec<_>>(), "nextCursor": next })
}

/// A program whose thread has the provider of the configuration.
fn with_provider() -> Bench {
    let mut bench = Bench::start(80, 24);
    let config = json!({ "config": { "model_provider": "offline" }, "origins": {} });
    bench.answer("config/read", config);
    bench.answer("thread/start", opened(&json!([])));
    bench.answer("skills/list", json!({ "data": [] }));
    bench
}

#[test]
fn a_model_that_is_not_listed_is_used_when_the_user_insists() {
    let mut bench = with_provider();
    bench.send("/model nope high");
    let params = bench.answer("model/list", listed_models(&["a"], json!("more")));
    assert_eq!(params["includeHidden"], true);
    bench.answer("model/list", listed_models(&["b"], Value::Null));
    assert!(bench.printed.contains("\"nope\" is not in the model list of"), "{}", bench.printed);
    assert!(!bench.printed.contains("From the next turn on"), "{}", bench.printed);
    bench.send("/model nope high");
    let used = |bench: &mut Bench, model: &str| {
        let expected = format!("From the next turn on, this thread: {model}\n");
        assert!(bench.printed.contains(&expected), "{}", bench.printed);
        bench.refuse("config/read", "busy");
        bench.key(Key::plain(Code::Esc));
    };
    used(&mut bench, "nope high");
    // One that is listed is used at once, and without a list none is doubted.
    for (model, list) in
        [("b", listed_models(&["a", "b"], Value::Null)), ("c", listed_models(&[], Value::Null))]
    {
        bench.send(&format!("/model {model}"));
        bench.answer("model/list", list);
        used(&mut bench, model);
    }
    // A list of the model in use alone says nothing of others.
    bench.send("/model e");
    bench.answer("model/list", listed_models(&["c"], Value::Null));
    used(&mut bench, "e");
    bench.send("/model d");
    bench.refuse("model/list", "no connection");
    assert!(bench.printed.contains("! The model list is unavailable"), "{}", bench.printed);
    used(&mut bench, "d");
    bench.send("go");
    let (_, params) = bench.call("turn/start");
    assert_eq!((&params["model"], &params["effort"]), (&json!("d"), &json!("high")));
}

/// `/model` in a thread with a turn, with the answers of two providers.
pub(crate) fn models_of_providers(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::start(columns, rows);
    let config = json!({ "config": { "model_provider": "offline" }, "origins": {} });
    bench.answer("config/read", config);
    bench.answer("thread/start", opened(&json!([])));
    bench.answer("skills/list", json!({ "data": [] }));
    bench.begin_turn("hello");
    bench.turn("turn/completed", "completed", Value::Null);
    bench.calls.clear();
    bench.send("/model");
    bench.answer("model/list", listed_models(&["gpt-x", "gpt-y"], Value::Null));
    let provider = |id: &str, name: &str, problem: Value, is_local: bool| {
        json!({ "id": id, "displayName": name, "baseUrl": "https://h", "wireApi": "chat",
            "isLocal": is_local, "isDefault": id == "offline", "problem": problem })
    };
    let data = json!([
        provider("offline", "Own", Value::Null, false),
        provider("anthropic", "Claude", Value::Null, false),
        provider("keyless", "Keyless", json!("the variable KEY is not set"), false),
        provider("ollama", "Ollama", Value::Null, true),
        provider("router", "OpenRouter", Value::Null, false),
    ]);
    bench.answer("modelProvider/list", json!({ "data": data, "available": [] }));
    assert_eq!(bench.calls.len(), 3, "{:?}", bench.calls);
    let params = bench.answer("model/list", listed_models(&["claude-x"], Value::Null));
    assert_eq!(params["modelProvider"], "anthropic");
    bench.refuse("model/list", "nothing listens there");
    bench.refuse("model/list", "the models of the provider `router` are not known: 401");
    bench
}

#[test]
fn the_models_of_all_providers_join_the_list() {
    let mut bench = models_of_providers(100, 24);
    let shown = bench.shown();
    for part in ["gpt-y", "Own", "claude-x", "Claude", "no models", "OpenRouter", "401"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("Keyless") && !shown.contains("Ollama"), "{shown}");
    // The row of a provider that failed says why.
    bench.key(Key::plain(Code::End));
    bench.key(Key::plain(Code::Enter));
    assert!(bench.printed.contains("the models of the provider `router` are not known: 401"));
}

#[test]
fn a_model_of_another_provider_continues_in_a_copy_of_the_thread() {
    let chosen = || {
        let mut bench = models_of_providers(100, 24);
        bench.type_text("claude");
        bench.key(Key::plain(Code::Enter));
        let shown = bench.shown();
        assert!(shown.contains("claude-x of the provider `anthropic`."), "{shown}");
        bench
    };
    let mut bench = chosen();
    bench.press('t');
    let (_, params) = bench.call("thread/fork");
    assert_eq!(
        (&params["modelProvider"], &params["model"]),
        (&json!("anthropic"), &json!("claude-x"))
    );
    // From now on.
    let mut bench = chosen();
    bench.press('a');
    let written = json!({ "status": "ok", "version": "2", "filePath": "/home/u/.agent/config.toml", "overriddenMetadata": null });
    let edits = bench.answer("config/batchWrite", written)["edits"].clone();
    assert_eq!(edits[0]["keyPath"], "model_provider");
    assert_eq!((&edits[0]["value"], &edits[1]["value"]), (&json!("anthropic"), &json!("claude-x")));
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.call("thread/fork");
    let mut bench = chosen();
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn a_command_shows_what_it_still_needs() {
    let mut bench = Bench::open(80, 24);
    bench.type_text("/renam");
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("› /rename NAME"), "{}", bench.shown());
    bench.type_text("x");
    assert!(bench.shown().contains("› /rename x\n"), "{}", bench.shown());
    bench.key(Key::plain(Code::Backspace));
    bench.key(Key::plain(Code::Enter));
    assert!(bench.shown().contains("The name is missing: /rename NAME"), "{}", bench.shown());
}
