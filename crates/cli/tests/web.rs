//! `agentd web` in a real browser, with a scripted model.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod browser;
mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::Browser;
use common::{Running, TestEnvironment, stderr};
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
        let env = TestEnvironment::new();
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

/// Requests are not answered by what comes in the moment in which they appear.
fn answer(browser: &mut Browser, selector: &str) {
    browser.evaluate("new Promise((resolve) => setTimeout(resolve, 450))");
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
    site.running.take().unwrap().signal("INT");
}
