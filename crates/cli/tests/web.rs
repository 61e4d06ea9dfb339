//! The example web client, in a real browser, with a real server and a scripted model.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod browser;
mod common;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use browser::Browser;
use browser::net::{Line, hang_up, serve_files};
use common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// Contains every character for which base64 and base64url differ.
const TOKEN: &str = "a-token-of-this-test-~~~-???-0123456789";

/// A server that allows one origin, and a browser.
struct Fixture {
    browser: Browser,
    server: SocketAddr,
    /// The port of the example's files.
    site: u16,
    _running: Running,
    env: TestEnvironment,
}

impl Fixture {
    fn new(responses: &Value) -> Self {
        let env = TestEnvironment::new();
        let site = serve_example();
        let token = env.home().join("token");
        // As after `… > token`, the file ends with a newline.
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let model = format!("model={}", json!(env.script(responses)));
        let origin = format!("http://127.0.0.1:{site}");
        let mut command = env.agentd(&["app-server", "--listen", "ws://127.0.0.1:0"]);
        command.args(["--ws-auth", "capability-token", "--ws-token-file"]).arg(token);
        command.args([
            "--ws-allow-origin",
            &origin,
            "-c",
            "model_provider=\"offline\"",
            "-c",
            &model,
        ]);
        let running = Running::start(&mut command);
        let line = running.line_with("listening on ");
        let server = line.rsplit_once("ws://").unwrap().1.parse().unwrap();
        Self { browser: Browser::start(), server, site, _running: running, env }
    }

    fn open(&mut self, host: &str) {
        let site = self.site;
        self.browser.open(&format!("http://{host}:{site}/"));
    }

    /// Fills in the form and submits it.
    fn connect(&mut self, port: u16, token: &str) {
        self.browser.evaluate("document.getElementById('url').select()");
        self.browser.type_text(&format!("ws://127.0.0.1:{port}"));
        self.browser.evaluate("document.getElementById('token').select()");
        self.browser.type_text(token);
        self.browser.press("Enter");
    }

    fn start_thread(&mut self, folder: &Path) {
        self.browser.evaluate("document.getElementById('cwd').select()");
        self.browser.type_text(folder.to_str().unwrap());
        self.browser.press("Enter");
        self.browser.wait("!document.getElementById('send').disabled");
    }

    /// Fails if the page reported an error or caused one.
    fn check_errors(&mut self) {
        assert_eq!(self.browser.evaluate("notice.textContent"), "");
        self.browser.check_errors();
    }

    fn send(&mut self, text: &str) {
        self.browser.click("#message");
        self.browser.type_text(text);
        self.browser.press("Enter");
    }
}

/// Serves the example's files; returns the port.
fn serve_example() -> u16 {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/web");
    serve_files(example.canonicalize().unwrap())
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"function_call": {"name": name, "arguments": arguments}})
}

#[test]
fn the_page_streams_a_turn_answers_approvals_and_lists_its_threads() {
    let patch = "*** Begin Patch\n*** Update File: price.txt\n@@\n apples 3.00\n-pears 2.5\n\
                 +pears 2.50\n*** End Patch\n";
    let words = "I run the checks to see what is wrong with the prices.";
    let answer =
        "One price had a single decimal. I added the other one, and the prices are right now.";
    let mut fixture = Fixture::new(&json!([
        {"conversation": 0, "steps": [{"message": "There are two files: check.sh and price.txt."}]},
        {"conversation": 1, "steps": [
            {"message": {"text": words, "phase": "commentary", "chunk_chars": 6}},
            call("exec_command", json!({"cmd": "./check.sh price.txt"}))]},
        {"conversation": 1, "steps": [
            {"message": {"text": "A price needs two decimals.", "phase": "commentary"}},
            {"custom_tool_call": {"name": "apply_patch", "input": patch}}]},
        {"conversation": 1, "steps": [{"message": {"text": answer, "phase": "final_answer"}}]},
    ]));
    let folder = tempfile::Builder::new().prefix("shop-").tempdir().unwrap();
    let check = folder.path().join("check.sh");
    std::fs::write(&check, "#!/bin/sh\necho apples: ok\necho pears: 2.5 has one decimal\nexit 1\n")
        .unwrap();
    std::fs::set_permissions(&check, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("price.txt"), "apples 3.00\npears 2.5\n").unwrap();

    fixture.open("127.0.0.1");
    let port = fixture.server.port();
    fixture.connect(port, TOKEN);
    fixture.browser.wait_for("#status[data-phase=open]", "Connected");
    let kept = "[location.href, localStorage.length, sessionStorage.length, token.value]";
    let page = format!("http://127.0.0.1:{}/", fixture.site);
    assert_eq!(
        fixture.browser.evaluate(kept),
        json!([page, 0, 0, ""]),
        "the token is kept nowhere"
    );

    fixture.start_thread(folder.path());
    fixture.send("What is in this folder?");
    fixture.browser.wait_for(".agentMessage[aria-busy=false]", "There are two files");
    fixture.start_thread(folder.path());
    fixture.browser.evaluate(
        "window.seen = [];
        new MutationObserver(() => {
            const text = document.querySelector('.agentMessage')?.textContent ?? '';
            if (text !== seen.at(-1)) seen.push(text);
        }).observe(turns, {subtree: true, childList: true, characterData: true}); 0",
    );
    fixture.send("Why do the checks fail?");

    fixture.browser.wait_for(".approval", "Run this command?");
    let seen: Vec<String> = serde_json::from_value(fixture.browser.evaluate("seen")).unwrap();
    assert!(seen.len() > 5 && seen.windows(2).all(|two| two[1].starts_with(&two[0])), "{seen:?}");
    assert_eq!(seen.last().unwrap(), words, "the text came piece by piece");
    fixture.browser.wait_for(".approval code", "./check.sh price.txt");
    fixture.browser.wait_for("#threads [data-status=active]", "Why do the checks fail?");
    let focused = fixture.browser.evaluate("document.activeElement.className");
    assert_eq!(focused, "approval", "the card has the focus, and no button of it");
    fixture.browser.click(".approval .primary");
    fixture.browser.wait_for(".commandExecution[data-status=failed]", "exit code 1");
    fixture.browser.wait_for(".commandExecution pre", "pears: 2.5 has one decimal");

    fixture.browser.wait_for(".approval", "Make these changes?");
    fixture.browser.wait_for(".fileChange", "price.txt");
    fixture.browser.wait_for(".fileChange .added", "+pears 2.50");
    if let Some(path) = std::env::var_os("AGENTD_SCREENSHOT") {
        fixture.browser.screenshot(Path::new(&path));
    }
    fixture.browser.click(".approval .primary");
    fixture.browser.wait_for(".agentMessage", answer);
    fixture.browser.wait_for(".turn[data-status=completed] .fileChange[data-status=completed]", "");
    fixture
        .browser
        .wait("interrupt.hidden && !send.disabled && !document.querySelector('.approval')");
    let price = std::fs::read_to_string(folder.path().join("price.txt")).unwrap();
    assert_eq!(price, "apples 3.00\npears 2.50\n");

    // Switch to another thread and back: everything is read from the server again.
    fixture.browser.wait("document.querySelectorAll('#threads button').length === 2");
    fixture.browser.click("#threads li:last-child button");
    fixture.browser.wait_for(".agentMessage", "There are two files");
    fixture.browser.click("#threads li:first-child button");
    fixture.browser.wait_for(".agentMessage", answer);
    fixture.browser.wait_for(".commandExecution pre", "pears: 2.5 has one decimal");
    fixture.check_errors();
}

#[test]
fn a_reconnecting_page_restores_the_open_thread_and_its_approval() {
    let mut fixture = Fixture::new(&json!([
        {"steps": [{"message": {"text": "I remove it. ", "phase": "commentary"}},
            call("exec_command", json!({"cmd": "rm -r notes"}))]},
        {"steps": [{"message": {"text": "Then I leave it.", "phase": "commentary"}}, "idle"]},
    ]));
    let line = Line::to(fixture.server);
    let folder = fixture.env.work();
    std::fs::create_dir(folder.join("notes")).unwrap();
    fixture.open("127.0.0.1");
    fixture.connect(line.port, TOKEN);
    fixture.browser.wait_for("#status[data-phase=open]", "Connected");
    fixture.start_thread(&folder);
    fixture.send("Remove the notes.");
    fixture.browser.wait_for(".approval", "rm -r notes");

    fixture.browser.evaluate("document.querySelector('.approval').dataset.before = 'the loss'; 0");
    line.cut();
    fixture
        .browser
        .wait_for("#status[data-phase=waiting]", "Connection lost: no reason given (1006)");
    fixture.browser.wait_for("#status[data-phase=open]", "Connected");
    // The earlier message is shown once, and the approval is requested again.
    fixture.browser.wait_for(".approval:not([data-before])", "rm -r notes");
    let texts = "[...document.querySelectorAll('.item p')].map((text) => text.textContent)";
    assert_eq!(fixture.browser.evaluate(texts), json!(["I remove it. "]));

    // With the keyboard alone: from the card through its buttons.
    let mut chosen = Value::Null;
    for _ in 0..10 {
        if chosen == "Decline" {
            break;
        }
        fixture.browser.press("Tab");
        chosen = fixture.browser.evaluate("document.activeElement.textContent");
    }
    assert_eq!(chosen, "Decline");
    fixture.browser.press("Enter");
    fixture.browser.wait_for(".commandExecution[data-status=declined]", "declined");
    fixture.browser.wait_for("#turns .hint", "Your answer: Decline");
    assert_eq!(fixture.browser.evaluate("document.activeElement.id"), "message");
    assert!(folder.join("notes").exists());

    fixture.browser.wait_for(".agentMessage", "Then I leave it.");
    fixture.browser.click("#interrupt");
    fixture.browser.wait_for(".turn[data-status=interrupted]", "Interrupted.");
    fixture.browser.wait("interrupt.hidden && !send.disabled");
    fixture.check_errors();
}

#[test]
fn the_page_grants_permissions_and_answers_questions() {
    // Unlike `/tmp`, no sandbox policy includes it.
    let granted_folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let granted = granted_folder.path().canonicalize().unwrap();
    let folders = json!({"file_system": {"write": [granted]}});
    let touch = |name: &str| {
        call("exec_command", json!({"cmd": format!("touch {}", granted.join(name).display())}))
    };
    let question = json!({
        "id": "db", "header": "Database", "question": "Which one?", "isOther": true,
        "options": [{"label": "SQLite", "description": "A file."}],
    });
    let mut fixture = Fixture::new(&json!([
        {"steps": [touch("before")]},
        {"steps": [call("request_permissions", json!({"permissions": folders}))]},
        {"steps": [touch("after")]},
        {"steps": [call("request_user_input", json!({"questions": [question]}))]},
        {"steps": [{"message": "Thank you."}]},
    ]));
    let folder = fixture.env.work();
    fixture.open("127.0.0.1");
    let port = fixture.server.port();
    fixture.connect(port, TOKEN);
    fixture.browser.wait_for("#status[data-phase=open]", "Connected");
    fixture.start_thread(&folder);
    fixture.send("Build it.");
    // The page asks about each command; both stay in the sandbox.
    fixture.browser.wait_for(".approval code", "/before");
    fixture.browser.click(".approval .primary");
    fixture.browser.wait_for(".approval", "Give commands these permissions?");
    fixture.browser.wait_for(".approval code", granted.to_str().unwrap());
    assert!(!granted.join("before").exists());
    fixture.browser.click(".approval .primary");
    fixture.browser.wait_for("#turns .hint", "Your answer: Grant until the turn ends");
    fixture.browser.wait_for(".approval code", "/after");
    fixture.browser.click(".approval .primary");

    fixture.browser.wait_for(".approval legend", "Database");
    assert!(granted.join("after").exists(), "the sandbox permits it from the next command on");
    fixture.browser.wait_for(".approval label", "SQLite");
    fixture.browser.click(".approval fieldset > input");
    fixture.browser.type_text("Redis");
    fixture.browser.press("Enter");
    fixture.browser.wait_for("#turns .hint", "You answered.");
    fixture.browser.wait_for(".agentMessage", "Thank you.");
    fixture.check_errors();
}

#[test]
fn the_page_explains_a_wrong_token_and_accepts_the_right_one() {
    let mut fixture = Fixture::new(&json!([{"steps": [{"message": "Unused."}]}]));
    fixture.open("127.0.0.1");
    let port = fixture.server.port();
    fixture.connect(port, "a-token-of-another-server-0123456789");
    fixture.browser.wait_for("#status[data-phase=failed]", "refused this page. Check the token");
    fixture.browser.wait("workspace.hidden && !connect.hidden");
    fixture.connect(port, TOKEN);
    fixture.browser.wait_for("#status[data-phase=open]", "Connected");
    fixture.check_errors();
}

#[test]
fn a_page_of_another_origin_is_refused_even_with_the_token() {
    let mut fixture = Fixture::new(&json!([{"steps": [{"message": "Unused."}]}]));
    let port = fixture.server.port();
    fixture.open("localhost");
    fixture.connect(port, TOKEN);
    let words = format!("--ws-allow-origin http://localhost:{}", fixture.site);
    fixture.browser.wait_for("#status[data-phase=failed]", &words);
    fixture.open("127.0.0.1");
    fixture.connect(port, TOKEN);
    fixture.browser.wait_for("#status[data-phase=open]", "Connected");
    fixture.check_errors();
}

#[test]
fn an_absent_server_is_distinguished_from_one_that_refuses() {
    let mut fixture = Fixture::new(&json!([{"steps": [{"message": "Unused."}]}]));
    fixture.open("127.0.0.1");
    fixture.connect(hang_up(), TOKEN);
    fixture.browser.wait_for("#status[data-phase=failed]", "No server responds at");
    fixture.check_errors();
}

#[test]
fn a_request_refused_for_overload_is_sent_again() {
    let site = serve_example();
    let mut browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{site}/"));
    // A server that accepts a request at the third attempt and refuses another permanently.
    let answers = browser.evaluate(
        "(async () => {
            let overloads = 2;
            const sent = [];
            window.WebSocket = class {
                constructor() { queueMicrotask(() => this.onopen()); }
                send(text) {
                    const { id, method } = JSON.parse(text);
                    if (id === undefined) return;
                    sent.push([id, method]);
                    const refused = method === 'refused' && { code: -32600, message: 'No.' };
                    const busy = method === 'taken' && overloads-- > 0 && { code: -32001, message: 'Later.' };
                    const error = refused || busy || undefined;
                    const answer = JSON.stringify({ id, error, result: error ? undefined : 'done' });
                    queueMicrotask(() => this.onmessage({ data: answer }));
                }
            };
            const { Connection } = await import('/connection.js');
            const connection = await new Promise((resolve) => {
                const made = new Connection('ws://x', '', { onState() {}, onReady: () => resolve(made) });
            });
            const answer = await connection.call('taken', {});
            const refusal = await connection.call('refused', {}).catch((error) => error.code);
            return [answer, refusal, sent];
        })()",
    );
    let sent = [(0, "initialize"), (1, "taken"), (2, "taken"), (3, "taken"), (4, "refused")];
    assert_eq!(answers, json!(["done", -32600, sent]));
    browser.check_errors();
}
