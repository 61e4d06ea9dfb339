//! Headless Chromium, driven over its DevTools protocol. It uses a pipe: there is no open port, and
//! the browser ends with the test, however the test ends. Test programs of other crates include it
//! by path.
#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod net;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for any change in a page; far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for an orderly exit.
const PARTING: Duration = Duration::from_secs(5);

/// The program, and the Debian package that contains it.
const PROGRAM: &str = "chromium";
const FLAGS: [&str; 12] = [
    "--headless",
    // Its own sandbox does not work as root, and all pages in tests are ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1000,700",
    "--remote-debugging-pipe",
];

/// A browser. Its commands go to one page, the current one. Dropping it ends all its processes.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    next_id: i64,
    /// DevTools session of the current page.
    session: Option<String>,
    /// Number of events of each name that have arrived and were not yet waited for.
    events: HashMap<String, usize>,
    /// Script errors, and violations of the page's own security policy.
    errors: Vec<String>,
    profile: TempDir,
}

/// A page that is not the current one.
pub(crate) struct Tab(Option<String>);

impl Browser {
    /// Starts a browser with an empty page of 1000 by 700 pixels.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a browser with further flags.
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and writes to 4.
        let redirect = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2";
        let log = File::create(profile.path().join("log")).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", redirect, PROGRAM])
            .args(FLAGS)
            .args(flags)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let read = serde_json::from_slice(&message).expect("messages are JSON");
                if sender.send(read).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let (events, errors) = (HashMap::new(), Vec::new());
        let mut browser =
            Self { child, input, messages, next_id: 0, session: None, events, errors, profile };
        browser.open_page();
        browser
    }

    /// Opens another page in the same browser, which becomes the current one. Returns the page that was.
    pub(crate) fn open_tab(&mut self) -> Tab {
        let before = Tab(self.session.take());
        self.open_page();
        before
    }

    /// Makes another page the current one. Returns the page that was.
    pub(crate) fn switch_to(&mut self, tab: Tab) -> Tab {
        Tab(std::mem::replace(&mut self.session, tab.0))
    }

    /// Lets the time of pages that are opened from now on pass so many times faster.
    pub(crate) fn hasten(&mut self, times: u32) {
        let source = format!(
            "(() => {{
                const {{setTimeout: later, setInterval: often}} = window;
                window.setTimeout = (f, ms, ...rest) => later(f, ms / {times}, ...rest);
                window.setInterval = (f, ms, ...rest) => often(f, ms / {times}, ...rest);
                window.setTimeoutOfTests = later;
                const [now, start] = [Date.now, Date.now()];
                Date.now = () => start + (now() - start) * {times};
            }})()"
        );
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": source}));
    }

    fn open_page(&mut self) {
        let page = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": page["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}));
        }
        self.resize(1000, 700);
    }

    /// Changes the size of the page.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred color scheme: `light` or `dark`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// Returns role and name of every node of the accessibility tree, in the order of the page.
    pub(crate) fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Loads a page with its resources.
    pub(crate) fn open(&mut self, url: &str) {
        self.events.remove("Page.loadEventFired");
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert_eq!(answer.get("errorText"), None, "{url}");
        while !self.events.contains_key("Page.loadEventFired") {
            let message = self.receive("the page to load");
            self.note(&message);
        }
    }

    /// Evaluates an expression in the page; promises are awaited.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert_eq!(answer.get("exceptionDetails"), None, "{expression}");
        answer["result"]["value"].clone()
    }

    /// Waits until the expression is true in the page; it is evaluated at each change.
    pub(crate) fn wait(&mut self, condition: &str) {
        let expression = format!(
            "new Promise((resolve) => {{
                const look = () => {{
                    if (!({condition})) return;
                    observer.disconnect();
                    clearTimeout(timer);
                    resolve(true);
                }};
                const observer = new MutationObserver(look);
                const whole = {{subtree: true, childList: true, characterData: true, attributes: true}};
                observer.observe(document, whole);
                const later = window.setTimeoutOfTests ?? setTimeout;
                const timer = later(() => resolve(document.body.innerText), {});
                look();
            }})",
            (PATIENCE / 2).as_millis()
        );
        let seen = self.evaluate(&expression);
        assert_eq!(
            seen, true,
            "never true: {condition}\nthe page says:\n{seen:#}\n{:?}",
            self.errors
        );
    }

    /// Waits until an element that matches `selector` contains `text`.
    pub(crate) fn wait_for(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.wait(&format!(
            "[...document.querySelectorAll({selector})].some((e) => e.textContent.includes({text}))"
        ));
    }

    /// Clicks the middle of an element.
    pub(crate) fn click(&mut self, selector: &str) {
        let env = self.evaluate(&format!(
            "(() => {{
                const element = document.querySelector({});
                element.scrollIntoView({{block: 'nearest'}});
                const {{x, y, width, height}} = element.getBoundingClientRect();
                return {{x: x + width / 2, y: y + height / 2}};
            }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": env["x"], "y": env["y"], "button": "left",
                "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Types into the focused element.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key: `Tab`, `Enter`, `Escape`, `Space`, `ArrowDown` or `ArrowRight`; behind `Shift+`
    /// or `Alt+`, with that.
    pub(crate) fn press(&mut self, key: &str) {
        let (held, key) = key.split_once('+').unwrap_or(("", key));
        let modifiers = ["Alt", "", "", "Shift"].iter().position(|name| *name == held);
        let modifiers = modifiers.filter(|_| !held.is_empty()).map_or(0, |bit| 1 << bit);
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "Space" => (32, " "),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            _ => (9, ""),
        };
        let name = if key == "Space" { " " } else { key };
        let event = |kind: &str, text: &str| {
            json!({"type": kind, "key": name, "code": key, "windowsVirtualKeyCode": code,
                "text": text, "modifiers": modifiers})
        };
        self.call("Input.dispatchKeyEvent", event("keyDown", text));
        self.call("Input.dispatchKeyEvent", event("keyUp", ""));
    }

    /// Saves a screenshot as a PNG file.
    pub(crate) fn screenshot(&mut self, path: &Path) {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let image = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, image).unwrap();
    }

    /// Runs `leave` and waits until another page is loaded.
    pub(crate) fn follow(&mut self, leave: impl FnOnce(&mut Self)) {
        self.events.remove("Page.loadEventFired");
        leave(self);
        while !self.events.contains_key("Page.loadEventFired") {
            let message = self.receive("the page to load");
            self.note(&message);
        }
    }

    /// Fails if a script failed, or the page violated its security policy.
    pub(crate) fn check_errors(&self) {
        assert!(self.errors.is_empty(), "{}", self.errors.join("\n"));
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let mut message = json!({"id": self.next_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let sent = self.input.write_all(format!("{message}\0").as_bytes());
        if sent.is_err() {
            panic!("{PROGRAM} is gone: {}", self.log());
        }
        loop {
            let answer = self.receive(method);
            if answer["id"] == self.next_id {
                assert_eq!(answer.get("error"), None, "{method}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn receive(&mut self, what: &str) -> Value {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("waited too long for {what}"),
            Err(RecvTimeoutError::Disconnected) => panic!(
                "{PROGRAM} does not run (on Debian: `apt-get install {PROGRAM}`): {}",
                self.log()
            ),
        }
    }

    fn note(&mut self, event: &Value) {
        let method = event["method"].as_str().unwrap_or_default();
        *self.events.entry(method.to_owned()).or_default() += 1;
        let entry = &event["params"]["entry"];
        if method == "Runtime.exceptionThrown"
            || (entry["level"] == "error" && entry["source"] != "network")
        {
            self.errors.push(event["params"].to_string());
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.profile.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asks for an orderly exit; processes that remain are killed.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        while self.messages.recv_timeout(PARTING).is_ok() {}
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}
