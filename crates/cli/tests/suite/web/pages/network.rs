//! A network that fails between the page and a server that stays, and pages of one browser that share a thread.

use std::process::Command;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::browser::net::Line;
use crate::common::stdout;
use crate::web::{MESSAGES, Site, answer, call, check_errors, send, start_thread};

/// So many times faster passes the page's time: its handshakes may take a second in place of ten.
const HASTE: u32 = 10;

/// A browser whose connections to the site go through a line.
fn through_a_line(site: &Site) -> (Line, Browser) {
    let line = Line::to(site.host().parse().unwrap());
    let rule = format!("--host-resolver-rules=MAP {} 127.0.0.1:{}", site.host(), line.port);
    let mut browser = Browser::start_with(&[&rule]);
    browser.hasten(HASTE);
    (line, browser)
}

fn question() -> Value {
    json!({"id": "q", "header": "Reason", "question": "Why?", "isOther": true, "options": [
        {"label": "A", "description": "The first."}, {"label": "B", "description": "The second."}]})
}

fn says(text: &str) -> Value {
    json!({"steps": [{"message": {"text": text, "phase": "final_answer"}}]})
}

/// Has the page keep what its status line says from now on.
fn watch_status(browser: &mut Browser) {
    browser.evaluate(
        "(() => {
            window.statuses = [];
            const status = document.getElementById('status');
            const look = () => statuses.push(status.textContent);
            new MutationObserver(look).observe(status, {attributes: true});
        })()",
    );
}

fn wait_for_status(browser: &mut Browser, words: &str) {
    browser.wait(&format!("statuses.some((words) => words.includes({}))", json!(words)));
}

/// Cuts the connection, and waits until the page is back.
fn cut(line: &Line, browser: &mut Browser) {
    watch_status(browser);
    line.cut();
    wait_for_status(browser, "Disconnected");
    browser.wait_for("#status[data-phase=open]", "Connected");
}

#[test]
fn a_page_comes_back_to_a_server_that_stays_without_losing_or_doubling_anything() {
    let words: String = (0..400).map(|at| format!("w{at} ")).collect();
    let slow = json!({"message":
        {"text": words, "chunk_chars": 12, "chunk_delay_ms": 5, "phase": "commentary"}});
    let ask = call("request_user_input", json!({"questions": [question()]}));
    let site = Site::new(&json!([
        {"steps": [slow, ask]}, says("Because: {{last_tool_output}}"), says("Answer to {{last_user_text}}"),
        says("Answer to {{last_user_text}}"),
    ]));
    let (line, mut browser) = through_a_line(&site);
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    send(&mut browser, "Begin.");
    for word in ["w30 ", "w150 "] {
        browser.wait_for(".agentMessage", word);
        cut(&line, &mut browser);
    }
    browser.wait_for(".request legend", "Reason");
    assert_eq!(browser.evaluate(MESSAGES), json!([words.trim_end()]));
    // What has been filled in stays, and can be sent.
    browser.evaluate("document.querySelector('.request [type=text]').focus()");
    browser.type_text("a reason");
    cut(&line, &mut browser);
    browser.wait("document.querySelector('.request [type=text]').value === 'a reason'");
    answer(&mut browser, ".request .primary");
    browser.wait_for(".turn[data-status=completed]", "a reason");

    // The answer to a message is kept back, and then lost. The page says why, and sends it no second time.
    watch_status(&mut browser);
    line.hold(true);
    send(&mut browser, "Once.");
    let thread = browser.evaluate("new URLSearchParams(location.hash.slice(1)).get('thread')");
    let mut show: Command = site.env.agentd(&["threads", "show", thread.as_str().unwrap()]);
    while !stdout(&show.output().unwrap()).contains("Answer to Once.") {
        std::thread::yield_now();
    }
    wait_for_status(&mut browser, "the server no longer answers");
    wait_for_status(&mut browser, "no answer to the handshake; a proxy may block it");
    line.cut();
    line.hold(false);
    browser.wait_for("#status[data-phase=open]", "Connected");
    browser.wait_for(".turn[data-status=completed]", "Answer to Once.");
    browser.wait("!send.disabled && message.value === ''");
    let said = browser
        .evaluate("[...document.querySelectorAll('.userMessage')].map((one) => one.textContent)");
    assert_eq!(said, json!(["You: Begin.", "You: Once."]));

    // A message that did not arrive is given back, and a setting that goes with it is not forgotten.
    browser.click("#settings-open");
    browser.evaluate("document.getElementById('approval-policy').value = 'never'");
    browser.click("#settings .primary");
    browser.evaluate(
        "WebSocket.prototype.kept = WebSocket.prototype.send; WebSocket.prototype.send = () => {}",
    );
    send(&mut browser, "Not yet.");
    browser.evaluate("WebSocket.prototype.send = WebSocket.prototype.kept");
    cut(&line, &mut browser);
    browser.wait("message.value === 'Not yet.' && !send.disabled");
    browser.wait_for("#notice-text", "The connection was lost before your message arrived");
    browser.wait_for("#status-line", "never asks");
    browser.click("#message");
    browser.press("Enter");
    browser.wait_for(".turn[data-status=completed]", "Answer to Not yet.");
    browser.follow(|browser| {
        browser.evaluate("location.reload()");
    });
    browser.wait_for("#status-line", "never asks");
    check_errors(&mut browser);
}

#[test]
fn tabs_of_one_browser_send_what_waits_once() {
    let ask = call("request_user_input", json!({"questions": [question()]}));
    let site = Site::new(&json!([
        {"steps": [ask]}, says("Because."), says("Answer to {{last_user_text}}"), says("Too much."),
    ]));
    let mut browser = Browser::start();
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    send(&mut browser, "Begin.");
    browser.wait_for(".request legend", "Reason");
    browser.click("#message");
    browser.type_text("Queued.");
    browser.press("Alt+Enter");
    browser.wait_for("#queue .grow", "Queued.");
    // A tab that is duplicated begins with what the first one has stored.
    let (stored, address) = (
        browser.evaluate("JSON.stringify({...sessionStorage})"),
        browser.evaluate("location.href"),
    );
    let first = browser.open_tab();
    browser.open(&format!("http://{}/style.css", site.host()));
    browser.evaluate(&format!("Object.assign(sessionStorage, {})", stored.as_str().unwrap()));
    browser.open(address.as_str().unwrap());
    browser.wait_for(".request legend", "Reason");
    browser.wait_for("#queue .grow", "Queued.");
    answer(&mut browser, ".request label");
    browser.click(".request .primary");
    let second = browser.switch_to(first);
    browser.wait_for(".note.answered", "Answered elsewhere, or no longer needed.");
    for tab in [None, Some(second)] {
        if let Some(tab) = tab {
            browser.switch_to(tab);
        }
        browser.wait_for(".turn[data-status=completed]", "Answer to Queued.");
        browser.wait("!interrupt.checkVisibility() && !document.querySelector('#queue li')");
        assert_eq!(browser.evaluate(MESSAGES), json!(["Because.", "Answer to Queued."]));
    }
    check_errors(&mut browser);
}
