//! Work in the page: what is written while a turn runs, processes, agents, threads, settings and forms.

use std::path::Path;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::web::{Site, answer, call, check_errors, send, settle, start_thread};

fn says(text: &str) -> Value {
    json!({"steps": [{"message": {"text": text, "phase": "final_answer"}}]})
}

fn runs(cmd: &str) -> Value {
    json!({"steps": [call("exec_command", json!({"cmd": cmd, "yield_time_ms": 300}))]})
}

/// The texts of elements.
fn texts(browser: &mut Browser, selector: &str) -> Value {
    browser.evaluate(&format!(
        "[...document.querySelectorAll({})].map((one) => one.textContent)",
        json!(selector)
    ))
}

fn focused(browser: &mut Browser) -> Value {
    browser.evaluate("document.activeElement.id || document.activeElement.className")
}

/// Presses Tab until an element has the focus.
fn tab_to(browser: &mut Browser, selector: &str) {
    let is_there = format!("document.activeElement.matches({})", json!(selector));
    for _ in 0..40 {
        browser.press("Tab");
        if browser.evaluate(&is_there) == true {
            return;
        }
    }
    panic!("Tab does not reach {selector}");
}

#[test]
fn messages_go_into_a_running_turn_or_wait_for_its_end_and_a_process_outlives_it() {
    let site = Site::new(&json!([
        runs("echo begun; while :; do sleep 0.1; printf 'tick <b>\\033[31mred\\033[0m\\n'; done"),
        {"steps": [call("request_user_input", json!({"questions": [{
            "id": "q", "header": "Resume", "question": "Go on?", "options": [
                {"label": "Yes", "description": "Go on."}, {"label": "No", "description": "Stop."}],
        }]}))]},
        says("First."),
        says("Queued: {{last_user_text}}"),
        {"steps": ["idle"]},
    ]));
    let mut browser = Browser::start();
    browser.resize(1280, 800);
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    let policy = "document.getElementById('approval-policy').value = 'onRequest'";
    browser.click("#settings-open");
    browser.evaluate(policy);
    browser.evaluate("sandbox.value = 'workspaceWrite'");
    browser.click("#settings .primary");
    send(&mut browser, "Begin.");
    browser.wait_for(".commandExecution pre", "tick <b>red\n");
    browser.wait_for(".request legend", "Resume");
    // Into the turn; and into the queue, of which one message is edited and another removed.
    send(&mut browser, "Steered.");
    browser.wait("message.value === '' && !send.disabled");
    for text in ["One.", "Two.", "Three.", "Four."] {
        browser.click("#message");
        browser.type_text(text);
        browser.press("Alt+Enter");
        assert_eq!(focused(&mut browser), "message");
    }
    browser.wait("queue.children.length === 4");
    assert_eq!(texts(&mut browser, "#queue .grow"), json!(["One.", "Two.", "Three.", "Four."]));
    browser.click("#queue [aria-label='Edit: Two.']");
    browser.wait("message.value === 'Two.'");
    browser.evaluate("message.select()");
    browser.type_text("");
    browser.press("Enter");
    browser.click("#queue [aria-label='Remove: Three.']");
    browser.wait("queue.children.length === 2");
    assert_eq!(texts(&mut browser, "#queue .grow"), json!(["One.", "Four."]));
    browser.evaluate("message.value = ''");
    answer(&mut browser, ".request label");
    browser.click(".request .primary");
    browser.wait_for(".agentMessage", "Queued: One.");
    browser.wait_for(".userMessage", "Four.");
    let said = texts(&mut browser, ".userMessage");
    assert_eq!(said, json!(["You: Begin.", "You: Steered.", "You: One.", "You: Four."]));

    // After an interruption the queue waits. The process goes on.
    browser.click("#message");
    browser.type_text("Left over.");
    browser.press("Alt+Enter");
    browser.wait("!interrupt.hidden && !interrupt.disabled && queue.children.length === 1");
    browser.click("#interrupt");
    browser.wait_for(".turn[data-status=interrupted]", "Interrupted.");
    browser.wait_for("#queue-title", "The queue waits: the turn was interrupted.");
    browser.click("#queue [aria-label='Edit: Left over.']");
    browser.wait("message.value === 'Left over.' && queue.children.length === 0");
    assert_eq!(focused(&mut browser), "message");
    browser.click("#panel-toggle");
    browser.click("#tab-processes");
    browser.wait_for("#pane-processes .hint", "in the background");
    browser.wait_for("#pane-processes .screen", "tick <b>red\n");
    // The page that is loaded again shows the process and what was not sent.
    browser.follow(|browser| {
        browser.evaluate("location.reload()");
    });
    browser.wait_for(".turn[data-status=interrupted]", "Interrupted.");
    browser.wait("message.value === 'Left over.' && message.clientHeight >= message.scrollHeight");
    browser.click("#panel-toggle");
    browser.click("#tab-processes");
    browser.wait_for("#pane-processes .screen", "tick <b>red\n");
    browser.click("#pane-processes .danger");
    browser.wait_for("#pane-processes .empty", "No commands are running.");
    browser.wait_for(".commandExecution .badge", "failed");
    assert_eq!(focused(&mut browser), "pane-processes");
    check_errors(&mut browser);
}

/// A server of the Model Context Protocol with one tool, which asks the user with the form `$FORM`, and returns
/// the answer.
const ASKING_SERVER: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"order","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}]}';;
  *'"method":"tools/call"'*)
    printf '{"jsonrpc":"2.0","id":"asked","method":"elicitation/create","params":{"mode":"form","message":"Which\\u202e one?","requestedSchema":%s}}\n' "$FORM"
    while read -r answer; do case $answer in *'"id":"asked"'*) break;; esac; done
    text=$(printf %s "$answer" | sed 's/[\\"]/\\&/g')
    result="{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}";;
  *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

fn form() -> Value {
    json!({"type": "object", "required": ["count", "name", "size"], "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
        "gift": {"type": "boolean", "title": "A gift", "default": true},
        "mail": {"type": "string", "format": "email"},
        "name": {"type": "string", "title": "Name <b>", "minLength": 2},
        "size": {"type": "string", "oneOf": [
            {"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "tags": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b"]}},
        "when": {"type": "string", "format": "date-time", "default": "2026-01-02T03:04:05Z"},
    }})
}

#[test]
fn calls_and_forms_of_an_mcp_server_are_answered_by_keyboard_alone() {
    let text = |text: &str| json!(text).to_string();
    let config = format!(
        "[mcp_servers.shop]\nrequired = true\ncommand = \"sh\"\nargs = [\"-c\", {}]\nenv = {{ FORM = {} }}\n",
        text(ASKING_SERVER),
        text(&form().to_string())
    );
    let arguments = json!({"note": "x".repeat(5000), "who": "a\u{202e}b"});
    let responses = json!([{"steps": [call("mcp__shop__order", arguments)]}, says("Ordered.")]);
    let site = Site::configured(&responses, &config);
    let mut browser = Browser::start();
    browser.resize(360, 740);
    browser.open(&site.url);
    browser.wait_for("#status[data-phase=open]", "Connected");
    // The list lies over the page, and Tab stays in it; Escape gives the focus back.
    tab_to(&mut browser, "#menu");
    browser.press("Enter");
    assert_eq!(focused(&mut browser), "new-thread");
    assert_eq!(browser.evaluate("document.querySelector('main').inert"), true);
    browser.press("Escape");
    assert_eq!(focused(&mut browser), "menu");
    assert_eq!(browser.evaluate("document.querySelector('main').inert"), false);
    tab_to(&mut browser, "#welcome-start");
    browser.press("Enter");
    browser.press("Escape");
    assert_eq!(focused(&mut browser), "welcome-start", "a dialog gives the focus back");
    browser.press("Enter");
    browser.press("Enter");
    browser.wait("!send.disabled && !composer.hidden");
    assert_eq!(focused(&mut browser), "message");
    browser.type_text("Order.");
    browser.press("Enter");

    // The arguments of a call are shown whole; the message of the request has only their ends.
    browser.wait_for(".request h3", "Call this tool?");
    browser.wait("document.activeElement.className === 'request'");
    let shown = browser.evaluate("document.querySelector('.request .subject').textContent");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains(&"x".repeat(5000)) && shown.contains("a\\u{202e}b"), "{shown}");
    let top = "document.querySelector('.request').getBoundingClientRect().top - stream.getBoundingClientRect().top";
    browser.wait(&format!("{top} >= 0 && {top} < 200"));
    settle(&mut browser);
    tab_to(&mut browser, ".request .primary");
    browser.press("Enter");

    browser.wait_for(".request .words", "Which\\u{202e} one?");
    browser.wait("document.activeElement.className === 'request'");
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 360);
    settle(&mut browser);
    browser.press("Tab");
    browser.type_text("3");
    tab_to(&mut browser, ".request [type=text]");
    browser.type_text("Ada <i>");
    tab_to(&mut browser, ".request select");
    browser.press("ArrowDown");
    tab_to(&mut browser, ".request .primary");
    browser.press("Enter");
    browser.wait_for(".request .field-error", "Choose at least 1.");
    browser.evaluate("document.querySelector('.request legend').focus()");
    browser.evaluate("document.querySelector('.request [type=email]').focus()");
    tab_to(&mut browser, ".request fieldset [type=checkbox]");
    browser.press("Space");
    tab_to(&mut browser, ".request .primary");
    browser.press("Enter");
    browser.wait_for(".turn[data-status=completed]", "Ordered.");
    assert_eq!(focused(&mut browser), "message");
    let result =
        browser.evaluate("document.querySelector('.call [aria-label=Result]').textContent");
    let result: Value = serde_json::from_str(result.as_str().unwrap()).unwrap();
    let content = json!({"count": 3, "gift": true, "name": "Ada <i>", "size": "l", "tags": ["a"],
        "when": "2026-01-02T03:04:05.000Z"});
    assert_eq!(result["result"], json!({"action": "accept", "content": content}));
    check_errors(&mut browser);
}

/// The page of a server whose model starts an agent, which asks before it runs a command.
fn agent_script() -> Value {
    let root = |steps: Value| json!({"conversation": 0, "steps": [steps]});
    let end = json!({"message": {"text": "The agent is done.", "phase": "final_answer"}});
    json!([
        root(call("spawn_agent", json!({"message": "Look at the prices."}))),
        root(call("wait_agent", json!({"targets": ["Ada"], "timeout_ms": 600_000}))),
        root(end),
        runs("touch by-agent"),
        says("Touched."),
        says("To you: {{last_user_text}}"),
    ])
}

#[test]
fn agents_are_looked_at_and_threads_are_found_renamed_and_archived() {
    let site = Site::new(&agent_script());
    let mut browser = Browser::start();
    browser.resize(1280, 800);
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    send(&mut browser, "Begin.");
    browser.wait_for("#other-requests li", "is waiting for an answer");
    browser.click("#panel-toggle");
    browser.click("#tab-agents");
    browser.wait_for("#pane-agents .hint", "working");
    browser.click("#pane-agents button");
    browser.wait_for(".request .subject", "touch by-agent");
    browser.wait_for("#title", "Look at the prices.");
    assert_eq!(texts(&mut browser, "#other-requests li"), json!([]));
    // Without an answer, it is still asked beside the thread that has started it.
    browser.click("#back");
    browser.wait_for("#title", "Begin.");
    browser.wait_for("#other-requests li", "is waiting for an answer");
    browser.click("#other-requests button");
    browser.wait_for(".request .subject", "touch by-agent");
    answer(&mut browser, ".request .primary");
    browser.wait_for(".turn[data-status=completed]", "Touched.");
    send(&mut browser, "And you?");
    browser.wait_for(".agentMessage", "To you: And you?");
    browser.click("#back");
    browser.wait_for(".turn[data-status=completed]", "The agent is done.");
    browser.wait_for(".agents .hint", "done");
    browser.wait("!document.querySelector('#other-requests li')");
    browser.click("#panel-close");

    let named = "Prices <b>\\u{202e}";
    browser.click("#actions");
    browser.click("#rename");
    browser.evaluate("document.getElementById('name').select()");
    browser.type_text("Prices <b>\u{202e}");
    browser.press("Enter");
    browser.wait_for("#title", named);
    browser.wait_for("#threads .name", named);
    assert_eq!(focused(&mut browser), "actions");
    let second = site.env.work().join("second");
    std::fs::create_dir(&second).unwrap();
    start_thread(&mut browser, &second);
    browser.wait_for("#title", "New thread");
    browser.click("#search");
    browser.type_text("prices");
    browser.wait("document.querySelectorAll('#threads li').length === 1");
    browser.wait_for("#threads .name", named);
    assert_eq!(focused(&mut browser), "search");
    browser.evaluate("search.select()");
    browser.type_text("no such thread");
    browser.wait_for("#no-threads", "Nothing found.");
    browser.evaluate("search.select()");
    browser.type_text(" ");
    browser.wait("document.querySelectorAll('#threads li').length === 2");
    browser.evaluate("document.querySelector('.thread:not([aria-current])').focus()");
    browser.press("Enter");
    browser.wait_for("#title", named);
    browser.click("#actions");
    browser.click("#archive");
    browser.wait("!welcome.hidden");
    assert_eq!(focused(&mut browser), "welcome-start");
    browser.wait_for("#notice-text", "The thread was archived.");
    browser.click("#notice-close");
    browser.click("#archived");
    browser.wait_for("#threads .archived", named);
    browser.click("#threads .archived > :last-child");
    browser.wait("!document.getElementById('thread-head').hidden && !archived.checked");
    browser.wait_for(".turn[data-status=completed]", "The agent is done.");
    // An agent that is gone leaves the open thread as it is.
    browser.evaluate("location.hash = '#thread=no-such-thread'");
    browser.wait_for("#notice-text", "The thread could not be opened");
    browser.wait_for("#title", named);
    browser.click("#notice-close");
    check_errors(&mut browser);
}

/// Chooses a setting, as a user does in the dialog.
fn choose(browser: &mut Browser, setting: &str, value: &str) {
    browser.click("#settings-open");
    browser.evaluate(&format!(
        "(() => {{
            const select = document.getElementById('{setting}');
            select.value = '{value}';
            select.dispatchEvent(new Event('change'));
        }})()"
    ));
    browser.click("#settings .primary");
    browser.wait("!settings.open");
}

fn made(folder: &Path, name: &str) -> bool {
    folder.join(name).exists()
}

#[test]
fn each_setting_changes_what_it_says() {
    let responses = json!([
        runs("touch one"),
        says("One."),
        runs("touch two"),
        says("Two."),
        runs("touch three"),
        says("Three."),
    ]);
    let site = Site::new(&responses);
    let folder = site.env.work();
    let mut browser = Browser::start();
    browser.open(&site.url);
    start_thread(&mut browser, &folder);
    browser.click("#status-line");
    browser.press("Escape");
    assert_eq!(focused(&mut browser), "status-line");
    choose(&mut browser, "approval-policy", "never");
    browser.wait_for("#status-line", "never asks · read only");
    send(&mut browser, "Make one.");
    browser.wait_for(".turn[data-status=completed]", "One.");
    assert!(!made(&folder, "one"), "the sandbox is read-only, and no approval is requested");
    choose(&mut browser, "sandbox", "workspaceWrite");
    browser.wait_for("#status-line", "never asks · workspace");
    send(&mut browser, "Make two.");
    browser.wait_for(".turn[data-status=completed]", "Two.");
    assert!(made(&folder, "two"));
    choose(&mut browser, "approval-policy", "unlessTrusted");
    send(&mut browser, "Make three.");
    browser.wait_for(".request .subject", "touch three");
    answer(&mut browser, ".request .primary");
    browser.wait_for(".turn[data-status=completed]", "Three.");
    assert!(made(&folder, "three"));
    choose(&mut browser, "model", "echo");
    browser.wait_for("#status-line", "echo · medium · asks unless trusted · workspace");
    send(&mut browser, "Said again.");
    browser.wait_for(".agentMessage", "Said again.");
    choose(&mut browser, "theme", "dark");
    // What the server has taken is there after the page is loaded again.
    browser.follow(|browser| {
        browser.evaluate("location.reload()");
    });
    browser.wait_for("#status-line", "echo · medium · asks unless trusted · workspace");
    assert_eq!(browser.evaluate("document.documentElement.dataset.theme"), "dark");
    check_errors(&mut browser);
}
