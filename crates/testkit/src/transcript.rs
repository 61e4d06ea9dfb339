//! The messages of a connection as short lines that are the same in every run: ids become
//! `thread1`, `turn2`, `item3` in order of appearance, deltas of one text become one line, and
//! token usage and growing patches are left out.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

/// `>` marks a message from the client, `<` a response of the server, `*` a notification, `?` a
/// request of the server.
#[derive(Default)]
pub struct Transcript {
    lines: Vec<String>,
    names: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
    /// Texts to replace, such as temporary folders.
    masks: Vec<(String, &'static str)>,
    /// The stream of the last line: method and item.
    streaming: Option<(String, String)>,
}

impl Transcript {
    /// Creates a transcript that replaces each of `masks` by its name.
    #[must_use]
    pub fn new(masks: Vec<(String, &'static str)>) -> Self {
        Self { masks, ..Self::default() }
    }

    /// Returns the texts that it replaces.
    pub(crate) fn masks(&self) -> &[(String, &'static str)] {
        &self.masks
    }

    /// Returns the lines so far.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Discards the lines, and keeps the names.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.streaming = None;
    }

    pub(crate) fn called(&mut self, method: &str) {
        self.push(format!("> {method}"));
    }

    pub(crate) fn answered(&mut self, answer: &Value) {
        self.push(format!("> answer {answer}"));
    }

    pub(crate) fn result(&mut self, method: &str) {
        self.push(format!("< {method}"));
    }

    pub(crate) fn error(&mut self, method: &str, code: i64, message: &str) {
        self.push(format!("< {method} {code}: {message}"));
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) {
        let item = self.name("item", &params["itemId"]);
        let reason = quoted_after(" reason ", &params["reason"]);
        self.push(format!("? {method} {item}{reason}"));
    }

    pub(crate) fn notification(&mut self, method: &str, params: &Value) {
        // The position of a report depends on how the stream was split, its numbers on the
        // instructions; whether a patch is shown before it is whole depends on the time.
        let is_varying = ["thread/tokenUsage/updated", "item/fileChange/patchUpdated"];
        if is_varying.contains(&method) {
            return;
        }
        if let Some(delta) = params["delta"].as_str() {
            return self.delta(method, params, delta);
        }
        let what = self.summary(method, params);
        self.push(format!("* {method} {what}").trim_end().to_owned());
    }

    fn delta(&mut self, method: &str, params: &Value, delta: &str) {
        let index = params.get("summaryIndex").or(params.get("contentIndex"));
        let index = index.map(|index| format!("[{index}]")).unwrap_or_default();
        let item = self.name("item", &params["itemId"]) + &index;
        let delta = Value::from(self.masked(delta)).to_string();
        let stream = (method.to_owned(), item.clone());
        if self.streaming.as_ref() == Some(&stream)
            && let Some(line) = self.lines.last_mut()
        {
            line.pop();
            line.push_str(&delta[1..]);
            return;
        }
        self.push(format!("* {method} {item} {delta}"));
        self.streaming = Some(stream);
    }

    fn summary(&mut self, method: &str, params: &Value) -> String {
        match method {
            "thread/started" => self.name("thread", &params["thread"]["id"]),
            "thread/status/changed" => status(&params["status"]),
            "turn/started" | "turn/completed" => self.turn(&params["turn"]),
            "item/started" | "item/completed" => {
                let name = self.name("item", &params["item"]["id"]);
                format!("{name} {}", item(&params["item"]))
            }
            "item/reasoning/summaryPartAdded" => {
                format!("{}[{}]", self.name("item", &params["itemId"]), params["summaryIndex"])
            }
            "item/commandExecution/terminalInteraction" => {
                format!("{} {}", self.name("item", &params["itemId"]), params["stdin"])
            }
            "error" => {
                let retry = if params["willRetry"] == true { ", will retry" } else { "" };
                format!("{}{retry}", error(&params["error"]))
            }
            "turn/plan/updated" => plan(params),
            "turn/diff/updated" => params["diff"].to_string(),
            "configWarning" => format!("{} {}", params["summary"], params["details"]),
            _ => String::new(),
        }
    }

    fn turn(&mut self, turn: &Value) -> String {
        let mut text = format!("{} {}", self.name("turn", &turn["id"]), word(&turn["status"]));
        if !turn["error"].is_null() {
            let _ = write!(text, " {}", error(&turn["error"]));
        }
        text
    }

    fn name(&mut self, kind: &'static str, id: &Value) -> String {
        let id = word(id);
        if let Some(name) = self.names.get(&id) {
            return name.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{kind}{count}");
        self.names.insert(id, name.clone());
        name
    }

    fn push(&mut self, line: String) {
        self.streaming = None;
        let line = self.masked(&line);
        self.lines.push(line);
    }

    fn masked(&self, text: &str) -> String {
        let mask = |text: String, (from, to): &(String, &'static str)| text.replace(from, to);
        self.masks.iter().fold(text.to_owned(), mask)
    }
}

/// Compares the lines with an indented text, and prints the lines when they differ.
///
/// # Panics
/// If they differ.
#[track_caller]
pub fn assert_lines(found: &[String], expected: &str) {
    let expected: Vec<&str> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if found == expected {
        return;
    }
    let first = found.iter().zip(&expected).take_while(|(found, expected)| found == *expected);
    let first = first.count();
    panic!(
        "line {} differs: expected {:?}, found {:?}; the whole:\n{}\n",
        first + 1,
        expected.get(first),
        found.get(first),
        found.join("\n"),
    );
}

fn status(status: &Value) -> String {
    let flags: Vec<String> =
        status["activeFlags"].as_array().into_iter().flatten().map(word).collect();
    let flags = if flags.is_empty() { String::new() } else { format!(" {}", flags.join(",")) };
    word(&status["type"]) + &flags
}

fn item(item: &Value) -> String {
    let mut text = word(&item["type"]);
    match text.as_str() {
        "userMessage" => {
            for part in item["content"].as_array().into_iter().flatten() {
                let shown = ["text", "url", "path"].iter().find_map(|name| part.get(*name));
                let _ = write!(text, " {}", shown.unwrap_or(part));
            }
        }
        "reasoning" => {
            let _ = write!(text, " {} {}", item["summary"], item["content"]);
        }
        "commandExecution" => {
            let _ = write!(text, " {} {}", word(&item["status"]), item["command"]);
            let parts = [(" exit ", "exitCode"), (" output ", "aggregatedOutput")];
            parts.iter().for_each(|(label, name)| text += &quoted_after(label, &item[name]));
        }
        "fileChange" => {
            let _ = write!(text, " {}", word(&item["status"]));
            for change in item["changes"].as_array().into_iter().flatten() {
                let (kind, path) = (word(&change["kind"]["type"]), word(&change["path"]));
                let _ = write!(text, " {kind} {path}");
                text += &quoted_after(" to ", &change["kind"]["move_path"]);
            }
        }
        _ => {
            for member in ["phase", "text", "path", "query"] {
                text += &quoted_after(" ", &item[member]);
            }
        }
    }
    text
}

fn error(error: &Value) -> String {
    format!("{} {}", error["agentErrorInfo"], error["message"])
}

fn plan(params: &Value) -> String {
    let steps = params["plan"].as_array().into_iter().flatten();
    let steps: Vec<String> =
        steps.map(|step| format!("{} {}", word(&step["status"]), step["step"])).collect();
    format!("{} [{}]", params["explanation"], steps.join(", "))
}

/// Returns `label` and the value as JSON; an empty string for an absent value.
fn quoted_after(label: &str, value: &Value) -> String {
    if value.is_null() { String::new() } else { format!("{label}{value}") }
}

/// Returns a string without its quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
