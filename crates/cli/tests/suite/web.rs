//! `agentd web` in a real browser, with a scripted model.

mod pages;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::Browser;
use crate::common::{Running, TestEnvironment, stderr};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-this-test-~0123456789";

/// A server with the page.
struct Site {
    env: TestEnvironment,
    running: Option<Running>,
    url: String,
    arguments: Vec<String>,
}

impl Site {
    fn new(responses: &Value) -> Self {
        Self::configured(responses, "")
    }

    /// A server with a configuration of the user.
    fn configured(responses: &Value, config: &str) -> Self {
        let env = TestEnvironment::new();
        std::fs::write(env.home().join("config.toml"), config).unwrap();
        let token = env.home().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let model = format!("model={}", json!(env.script(responses)));
        let fixed =
            ["-c", "model_provider=\"offline\"", "-c", "approval_policy=\"untrusted\"", "-c"];
        let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
        arguments.extend([model, "--token-file".to_owned(), token.display().to_string()]);
        let mut site = Self { env, running: None, url: String::new(), arguments };
        site.start("127.0.0.1:0");
        site
    }

    fn start(&mut self, listen: &str) {
        let mut command: Command = self.env.agentd(&["web", "--no-open", "--listen", listen]);
        let running = Running::start(command.args(&self.arguments));
        self.url = running.line_with("http://127.0.0.1:");
        self.running = Some(running);
    }

    /// Host and port.
    fn host(&self) -> String {
        self.url["http://".len()..].split('/').next().unwrap().to_owned()
    }

    /// Ends the server as `kill -9` does.
    fn kill(&mut self) {
        let running = self.running.take().unwrap();
        running.signal("KILL");
        running.end_with_input_open();
    }
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"function_call": {"name": name, "arguments": arguments}})
}

/// Starts a thread in a folder with the dialog of the page.
fn start_thread(browser: &mut Browser, folder: &Path) {
    browser.wait_for("#status[data-phase=open]", "Connected");
    browser.click("#new-thread");
    browser.evaluate("cwd.select()");
    browser.type_text(folder.to_str().unwrap());
    browser.press("Enter");
    browser.wait("!send.disabled && !composer.hidden");
}

fn send(browser: &mut Browser, text: &str) {
    browser.click("#message");
    browser.type_text(text);
    browser.press("Enter");
}

/// Waits until a request that has just appeared can be answered.
fn settle(browser: &mut Browser) {
    browser.evaluate(
        "new Promise((resolve) => {
            const end = performance.now() + 450;
            const look = () => (performance.now() < end ? setTimeout(look, 50) : resolve());
            look();
        })",
    );
}

/// Requests are not answered by what comes in the moment in which they appear.
fn answer(browser: &mut Browser, selector: &str) {
    settle(browser);
    browser.click(selector);
}

/// Fails if the page reported an error or caused one.
fn check_errors(browser: &mut Browser) {
    assert_eq!(browser.evaluate("document.getElementById('notice-text').textContent"), "");
    browser.check_errors();
}

/// A shop whose check fails.
fn shop() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("shop-").tempdir().unwrap();
    let check = folder.path().join("check.sh");
    let script = "#!/bin/sh\necho apples: ok\necho pears: 2.5 has one decimal\nexit 1\n";
    std::fs::write(&check, script).unwrap();
    std::fs::set_permissions(&check, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("price.txt"), "apples 3.00\npears 2.5\n").unwrap();
    folder
}

fn shop_script() -> Value {
    let patch = "*** Begin Patch\n*** Update File: price.txt\n@@\n apples 3.00\n-pears 2.5\n\
                 +pears 2.50\n*** End Patch\n";
    let question = json!({
        "id": "vat", "header": "Tax", "question": "Do the prices include the tax?", "isOther": true,
        "options": [{"label": "Yes", "description": "They are what customers pay."},
            {"label": "No", "description": "It is added at the till."}],
    });
    let plan = json!({"plan": [
        {"step": "Run the checks", "status": "completed"},
        {"step": "Correct the price", "status": "in_progress"},
        {"step": "Run the checks again", "status": "pending"},
    ]});
    let answer = "One price had a **single decimal**. I added the other one:\n\n\
                  | fruit | before | after |\n|---|---|---|\n| pears | `2.5` | `2.50` |\n\n\
                  Next:\n\n1. run `./check.sh price.txt`\n2. read <script>alert(1)</script>\n\n\
                  ```sh\n./check.sh price.txt && echo ok\n```\n";
    json!([
        {"steps": [
            {"reasoning": "The checks come first."},
            {"message": {"text": "I run the checks to see **what is wrong**.", "phase": "commentary", "chunk_chars": 6}},
            call("update_plan", plan),
            call("exec_command", json!({"cmd": "./check.sh price.txt"}))]},
        {"steps": [
            {"message": {"text": "A price needs two decimals.", "phase": "commentary"}},
            {"custom_tool_call": {"name": "apply_patch", "input": patch}}]},
        {"steps": [call("request_user_input", json!({"questions": [question]}))]},
        {"steps": [{"message": {"text": answer, "phase": "final_answer"}}]},
    ])
}

/// Where screenshots go, when they are asked for.
fn screenshot(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("AGENTD_SCREENSHOTS") {
        // Texts and fonts are drawn, and animations begun.
        browser.evaluate("new Promise((resolve) => setTimeout(resolve, 300))");
        browser.screenshot(&PathBuf::from(folder).join(format!("web-{name}.png")));
    }
}

#[test]
fn a_turn_with_an_approval_a_change_and_a_question() {
    let mut site = Site::new(&shop_script());
    let folder = shop();
    let mut browser = Browser::start();
    browser.resize(1280, 800);
    browser.open(&site.url);
    let kept = "[location.href, localStorage.length, sessionStorage.getItem('agentd.token')]";
    let page = format!("http://{}/", site.host());
    assert_eq!(browser.evaluate(kept), json!([page, 0, TOKEN]), "the address loses the token");

    start_thread(&mut browser, folder.path());
    send(&mut browser, "Why do the checks fail?");
    browser.wait_for(".request", "Run this command?");
    browser.wait_for(".request code", "./check.sh price.txt");
    browser.wait_for(".agentMessage strong", "what is wrong");
    browser.wait_for(".plan-steps li[data-status=inProgress]", "Correct the price");
    browser.wait_for("#threads [data-status=active]", "Why do the checks fail?");
    let focused = browser.evaluate("document.activeElement.className");
    assert_eq!(focused, "request", "the card has the focus, and no button of it");
    screenshot(&mut browser, "approval");
    answer(&mut browser, ".request .primary");
    browser.wait_for(".commandExecution[data-status=failed]", "exit code 1");
    browser.wait_for(".commandExecution pre", "pears: 2.5 has one decimal");

    browser.wait_for(".request", "Make these changes?");
    browser.wait_for(".fileChange .added .line", "pears 2.50");
    browser.wait_for(".fileChange .removed .number", "2");
    answer(&mut browser, ".request .primary");

    browser.wait_for(".request legend", "Tax");
    browser.wait_for(".request label", "They are what customers pay.");
    answer(&mut browser, ".request label");
    browser.click(".request .primary");
    browser.wait_for(".note.answered", "You answered.");
    browser.wait_for(".turn[data-status=completed] .markdown td", "pears");
    browser.wait_for(".markdown li", "<script>alert(1)</script>");
    browser.wait("interrupt.hidden && !document.querySelector('.request')");
    let price = std::fs::read_to_string(folder.path().join("price.txt")).unwrap();
    assert_eq!(price, "apples 3.00\npears 2.50\n");

    // The whole turn's diff, the files, and the themes.
    browser.click("#panel-toggle");
    browser.wait_for("#pane-changes .added .line", "pears 2.50");
    screenshot(&mut browser, "light");
    browser.prefer("dark");
    screenshot(&mut browser, "dark");
    browser.click("#tab-files");
    browser.wait_for("#pane-files .entry", "price.txt");
    browser.evaluate("[...document.querySelectorAll('.entry')].at(-1).click()");
    browser.wait_for("#pane-files .file .line", "pears 2.50");
    browser.evaluate("document.getElementById('tab-files').focus()");
    browser.evaluate(
        "panel.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))",
    );
    assert_eq!(
        browser.evaluate("[panel.hidden, document.activeElement.id]"),
        json!([true, "panel-toggle"])
    );
    browser.resize(360, 740);
    browser.wait("document.documentElement.scrollWidth <= 360");
    screenshot(&mut browser, "phone");
    check_errors(&mut browser);
    let running = site.running.take().unwrap();
    running.signal("INT");
    assert!(running.end_with_input_open().0.success(), "Ctrl+C ends it in an orderly way");
}

fn two_commands() -> Value {
    let run = |cmd: &str| call("exec_command", json!({"cmd": cmd}));
    json!([
        {"steps": [{"message": {"text": "First the notes.", "phase": "commentary"}}, run("touch one\u{202e}")]},
        {"steps": [{"message": {"text": "Then the rest.", "phase": "commentary"}}, run("touch two")]},
        {"steps": [{"message": {"text": "Both are there.", "phase": "final_answer"}}]},
    ])
}

const MESSAGES: &str =
    "[...document.querySelectorAll('.agentMessage')].map((one) => one.textContent)";

#[test]
fn two_pages_share_a_thread_and_one_is_loaded_again_in_the_middle_of_a_turn() {
    let site = Site::new(&two_commands());
    let (mut first, mut second) = (Browser::start(), Browser::start());
    first.open(&site.url);
    start_thread(&mut first, &site.env.work());
    send(&mut first, "Make the files.");
    first.wait_for(".request code", "touch one\\u{202e}");
    let thread = first.evaluate("location.hash");
    second.open(&format!("{}&{}", site.url, &thread.as_str().unwrap()[1..]));
    second.wait_for(".request code", "touch one");
    // What one page answers is no longer asked in the other.
    answer(&mut second, ".request .primary");
    first.wait_for(".note.answered", "Answered elsewhere, or no longer needed.");
    first.wait_for(".request code", "touch two");
    first.follow(|browser| {
        browser.evaluate("location.reload()");
    });
    first.wait_for(".request code", "touch two");
    assert_eq!(first.evaluate(MESSAGES), json!(["First the notes.", "Then the rest."]));
    answer(&mut first, ".request .primary");
    for browser in [&mut first, &mut second] {
        browser.wait_for(".turn[data-status=completed]", "Both are there.");
        let messages = json!(["First the notes.", "Then the rest.", "Both are there."]);
        assert_eq!(browser.evaluate(MESSAGES), messages);
        browser.wait("!document.querySelector('.request')");
        check_errors(browser);
    }
}

#[test]
fn a_message_that_broke_off_says_so() {
    let message = json!({"type": "message", "id": "m", "role": "assistant", "content": []});
    let events = [
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": message}),
        json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 0,
            "content_index": 0, "delta": "Half a"}),
    ];
    let events = events.map(|event| format!("data: {event}\n\n")).concat();
    let site = Site::new(&json!([
        {"steps": [{"cut": events}]},
        {"steps": [{"message": "The whole answer."}]},
    ]));
    let mut browser = Browser::start();
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    send(&mut browser, "Talk.");
    browser.wait_for(".turn[data-status=completed]", "The whole answer.");
    let notes = "[...document.querySelectorAll('.agentMessage')]
        .map((one) => one.querySelector('.note')?.textContent.split(':')[0] ?? null)";
    let expected = json!(["Broken off", null]);
    assert_eq!(browser.evaluate(notes), expected);
    browser.follow(|browser| {
        browser.evaluate("location.reload()");
    });
    browser.wait_for(".turn[data-status=completed]", "The whole answer.");
    assert_eq!(browser.evaluate(notes), expected);
    check_errors(&mut browser);
}

#[test]
fn a_page_comes_back_after_the_server_was_killed() {
    let mut site = Site::new(&two_commands());
    let mut browser = Browser::start();
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    send(&mut browser, "Make the files.");
    browser.wait_for(".request code", "touch one");
    browser.click("#message");
    browser.type_text("What I have written");
    let host = site.host();
    site.kill();
    browser.wait_for("#status[data-phase=waiting]", "Disconnected");
    browser.wait("send.disabled && !retry.hidden");
    site.start(&host);
    browser.wait_for("#status[data-phase=open]", "Connected");
    // A turn that the server did not end is interrupted, and its question no longer open.
    browser.wait_for(".turn[data-status=interrupted]", "Interrupted.");
    browser.wait("!document.querySelector('.request')");
    assert_eq!(browser.evaluate(MESSAGES), json!(["First the notes."]));
    assert_eq!(browser.evaluate("message.value"), "What I have written");
    check_errors(&mut browser);
}

#[test]
fn a_wrong_token_is_explained_and_another_one_can_be_entered() {
    let site = Site::new(&two_commands());
    let mut browser = Browser::start();
    browser.open(&format!("http://{}/#token=of-another-server-0123456789", site.host()));
    browser.wait_for("#status[data-phase=unauthorized]", "The server does not accept this token.");
    browser.wait("document.getElementById('token-dialog').open");
    browser.type_text(TOKEN);
    browser.press("Enter");
    browser.wait_for("#status[data-phase=open]", "Connected");
    check_errors(&mut browser);
}

/// The status of the response to a raw request, and the response.
fn request(host: &str, raw: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(host).unwrap();
    // The server may refuse a long head before it has read all of it.
    let _ = stream.write_all(raw.as_bytes());
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let response = String::from_utf8_lossy(&response).into_owned();
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_default(), response)
}

#[test]
fn only_its_own_page_and_host_are_served() {
    let site = Site::new(&two_commands());
    let host = site.host();
    let port = host.rsplit(':').next().unwrap();
    let own = format!("Host: {host}");
    let upgrade = "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let origin = format!("Origin: http://{host}");
    let long = format!("X-Long: {}", "x".repeat(64 << 10));
    let check = |line: &str, headers: &[&str], expect: u16| {
        let raw = format!("{line} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
        let (status, response) = request(&host, &raw);
        assert_eq!(status, expect, "{line} {headers:?}: {response}");
        response
    };
    let page = check("GET /", &[&own], 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "require-trusted-types-for 'script'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(page.contains(header), "{header}: {page}");
    }
    check("HEAD /app.js", &[&own], 200);
    check("GET /app.js", &[&own, &origin], 200);
    // Other names that lead to this machine, and other sites.
    check("GET /", &["Host: rebound.example"], 403);
    check("GET /", &[&format!("Host: localhost:{port}")], 403);
    check("GET /", &["Host: 127.0.0.1"], 403);
    check("GET http://rebound.example/", &[&own], 403);
    check("GET /", &[], 400);
    check("GET /app.js", &[&own, "Origin: http://rebound.example"], 403);
    // Methods and paths.
    check("POST /", &[&own, "Content-Length: 0"], 405);
    check("PUT /app.js", &[&own, "Content-Length: 0"], 405);
    for path in
        ["/../Cargo.toml", "/%2e%2e/app.js", "//app.js", "/app.js/", "/assets/app.js", "/APP.JS"]
    {
        check(&format!("GET {path}"), &[&own], 404);
    }
    check("GET /", &[&own, &long], 431);
    // The WebSocket, and the check of a token.
    check("GET /", &[&own, upgrade], 401);
    check("GET /", &[&own, upgrade, "Authorization: Bearer wrong"], 401);
    check("GET /", &[&own, upgrade, &bearer, "Origin: http://127.0.0.1:1"], 403);
    check("GET /", &["Host: rebound.example", upgrade, &bearer], 403);
    check("GET /token", &[&own], 401);
    check("GET /token", &[&own, "Authorization: Bearer wrong"], 401);
    check("GET /token", &[&own, &bearer], 200);
    check("GET /token", &["Host: rebound.example", &bearer], 403);
    check("POST /token", &[&own, &bearer, "Content-Length: 0"], 405);
}

#[test]
fn unsuitable_arguments_are_refused() {
    let site = Site::new(&two_commands());
    let check = |arguments: &[&str], expect: &str| {
        let output = site.env.run(&[&["web", "--no-open"], arguments].concat());
        assert!(!output.status.success());
        let message = stderr(&output);
        assert!(message.contains(expect), "{message}");
    };
    check(&["--listen", "0.0.0.0:0"], "serves the browsers of this machine only");
    check(&["--listen", "example.com"], "--listen");
    check(&["--listen", &site.host()], "another `agentd web` may be running there");
    check(&["--token-file", "token"], "the path is relative");
    check(&["--listen", "127.0.0.1:0", "--token-file", "/nonexistent"], "/nonexistent");
    let short = site.env.home().join("short");
    std::fs::write(&short, "short").unwrap();
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
    check(&["--token-file", short.to_str().unwrap()], "at least 16 characters");
}
