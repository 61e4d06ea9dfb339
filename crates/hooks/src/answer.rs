//! Parsing the answer of a handler: its exit code and one JSON object, or the verdict of a model.

mod output;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::event::{Event, EventName};

/// Bytes of an entry.
const MAX_ENTRY: usize = 16 << 10;
/// Bytes shown of what a model said in place of a verdict.
const MAX_SHOWN_VERDICT: usize = 500;
/// Bytes of context for the model from one handler: about 2,500 tokens.
const MAX_CONTEXT: usize = 10_000;

/// The end of a command. `output` and `errors` are what it wrote, which may be cut off.
#[derive(Clone, Copy, Debug)]
pub enum HandlerResult<'o> {
    Exited {
        code: i32,
        output: &'o [u8],
        errors: &'o [u8],
    },
    /// A signal ended it.
    Killed {
        errors: &'o [u8],
    },
    TimedOut {
        seconds: u64,
    },
    /// It wrote more than is read.
    TooMuchOutput {
        limit: usize,
    },
    /// It did not run: why.
    NotRun {
        message: &'o str,
    },
    /// It is no longer what the user trusts, and did not run: why.
    NotTrusted {
        message: &'o str,
    },
    /// A model's verdict: `{"ok": true}`, or `{"ok": false, "reason": "…"}`.
    Verdict {
        text: &'o str,
    },
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Completed,
    Failed,
    /// It refused what the event is about.
    Blocked,
    /// It ended the turn.
    Stopped,
}

/// A line about a run, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    pub text: String,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// For the user.
    Warning,
    /// Why the turn ends.
    Stop,
    /// Why it refuses.
    Feedback,
    /// For the model.
    Context,
    /// An error.
    Error,
}

/// A handler's decision about a tool call or an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    Allow,
    /// The user decides. With the reason, if it gives one.
    Ask(Option<String>),
    /// With the reason.
    Deny(String),
}

/// The parsed answer of a handler.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: Status,
    pub entries: Vec<Entry>,
    /// The turn ends: why.
    pub stop: Option<String>,
    /// The reason why the action that the event reports is refused. At the end of a turn: the turn
    /// goes on, with this.
    pub block: Option<String>,
    pub permission: Option<Permission>,
    /// Arguments in place of those of the call.
    pub updated_input: Option<Value>,
    /// A result in place of that of the call.
    pub updated_output: Option<Value>,
    /// For the model.
    pub context: Option<String>,
}

#[derive(Deserialize)]
struct Verdict {
    ok: bool,
    reason: Option<String>,
}

/// Reads what a handler of this event answered.
pub fn read_answer(event: EventName, result: HandlerResult<'_>) -> Answer {
    match result {
        HandlerResult::Exited { code: 0, output, .. } => read_output(event, output),
        HandlerResult::Exited { code: 2, errors, .. } => {
            let errors = text_of(errors);
            let reason = errors.trim();
            if !event.can_block() {
                let said = if reason.is_empty() { "it says no more" } else { reason };
                return Answer::failed(format!(
                    "the exit code 2 refuses, which a hook of {event} cannot do: {said}"
                ));
            }
            Answer::blocked(event, if reason.is_empty() { None } else { Some(reason) })
        }
        HandlerResult::Exited { code, errors, .. } => {
            Answer::failed(with_errors(format!("it ended with the exit code {code}"), errors))
        }
        HandlerResult::Killed { errors } => {
            Answer::failed(with_errors("it was ended by a signal".to_owned(), errors))
        }
        HandlerResult::TimedOut { seconds } => {
            Answer::failed(format!("it did not end within {seconds} s, and was ended"))
        }
        HandlerResult::TooMuchOutput { limit } => {
            Answer::failed(format!("it wrote more than {limit} bytes, which no answer has"))
        }
        HandlerResult::NotRun { message } => Answer::failed(message.to_owned()),
        HandlerResult::NotTrusted { message } => Answer::doubtful(event, message),
        HandlerResult::Verdict { text } => read_verdict(event, text),
    }
}

fn read_output(event: EventName, output: &[u8]) -> Answer {
    let text = text_of(output);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Answer::completed();
    }
    if text.starts_with('{') {
        return match output::read_object(event, text) {
            Ok(answer) => answer,
            Err(why) => Answer::malformed(event, &why),
        };
    }
    if holds_answer(text) {
        let why =
            "it has a JSON object that decides, and other text around it; print the object alone";
        return Answer::malformed(event, why);
    }
    let mut answer = Answer::completed();
    match event.takes_plain_context() {
        true => answer.add_context(text, true),
        false => answer.add(
            EntryKind::Warning,
            format!("it printed text, which hooks of {event} do not read; print a JSON object"),
        ),
    }
    answer
}

/// Returns whether text that is not an object contains one with a decision: a log line before it
/// must not lose it.
fn holds_answer(text: &str) -> bool {
    let decides = |value: &Value| {
        ["decision", "continue", "hookSpecificOutput"].iter().any(|name| value.get(name).is_some())
    };
    // Each line is looked at once, so that text without an answer costs no more than its length.
    let starts = text.lines().map(str::trim).filter(|line| line.starts_with(['{', '[']));
    starts.into_iter().any(|line| {
        let at = line.as_ptr().addr() - text.as_ptr().addr();
        let rest = text.get(at..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(Value::Array(values))) => values.iter().any(decides),
            Some(Ok(value)) => decides(&value),
            _ => false,
        }
    })
}

fn read_verdict(event: EventName, text: &str) -> Answer {
    // Models like to put JSON into a block of code.
    let object = text.find('{').zip(text.rfind('}'));
    let object = object.and_then(|(from, to)| text.get(from..=to)).unwrap_or(text);
    match serde_json::from_str::<Verdict>(object) {
        Ok(Verdict { ok: true, .. }) => Answer::completed(),
        Ok(Verdict { ok: false, reason }) if event.can_block() => {
            Answer::blocked(event, reason.as_deref().filter(|reason| !reason.trim().is_empty()))
        }
        Ok(Verdict { ok: false, reason }) => Answer::failed(format!(
            "the model refuses, which a hook of {event} cannot do: {}",
            reason.unwrap_or_default()
        )),
        Err(_) => {
            let said = shortened(text.trim(), MAX_SHOWN_VERDICT);
            let why =
                format!("the model gave no verdict of the form {{\"ok\": true}}, but: {said}");
            Answer::malformed(event, &why)
        }
    }
}

impl Answer {
    /// The answer of a hook that may not consent in the user's place. One of a project may not: the agent
    /// can rewrite what its command reads, and would consent to its own actions.
    pub fn without_consent(mut self) -> Self {
        if self.permission == Some(Permission::Allow) {
            self.permission = None;
            let text = "it allows the call, which only hooks of the user and the administrator can; the \
                        call is decided about as without it";
            self.add(EntryKind::Warning, text.to_owned());
        }
        self
    }

    /// The answer to this event. A result in place of that of a call is only for tools of MCP servers; it is
    /// named where it is for another one, and has no effect.
    pub fn without_foreign_output(mut self, event: &Event) -> Self {
        let is_foreign = match event {
            Event::PostToolUse { tool, .. } => !tool.name.starts_with("mcp__"),
            _ => false,
        };
        if is_foreign && self.updated_output.take().is_some() {
            let text = "`updatedMCPToolOutput` replaces only results of tools of MCP servers, and has no \
                        effect here";
            self.add(EntryKind::Warning, text.to_owned());
        }
        self
    }

    /// The answer of a hook that nothing waits for: it changes nothing, and says so where it meant to.
    pub fn without_effect(mut self) -> Self {
        if matches!(self.status, Status::Blocked | Status::Stopped) {
            self.status = Status::Completed;
            let text = "it is asynchronous: what it refuses or ends has happened already";
            self.add(EntryKind::Warning, text.to_owned());
        }
        self
    }

    fn completed() -> Self {
        Self {
            status: Status::Completed,
            entries: Vec::new(),
            stop: None,
            block: None,
            permission: None,
            updated_input: None,
            updated_output: None,
            context: None,
        }
    }

    fn failed(message: String) -> Self {
        let mut answer = Self { status: Status::Failed, ..Self::completed() };
        answer.add(EntryKind::Error, message);
        answer
    }

    fn blocked(event: EventName, reason: Option<&str>) -> Self {
        let mut answer = Self::completed();
        answer.block(event, reason);
        answer
    }

    /// An answer that cannot be read.
    fn malformed(event: EventName, why: &str) -> Self {
        Self::doubtful(event, &format!("its answer cannot be understood: {why}"))
    }

    /// A failure of a hook that may have wanted to refuse, so that it refuses where a refusal protects.
    fn doubtful(event: EventName, why: &str) -> Self {
        let mut answer = Self::failed(why.to_owned());
        let reason = shortened(&format!("a hook failed: {why}"), MAX_ENTRY);
        match event {
            EventName::PreToolUse | EventName::PermissionRequest => {
                answer.permission = Some(Permission::Deny(reason));
            }
            EventName::UserPromptSubmit | EventName::PreModelRequest | EventName::PreCompact => {
                answer.block = Some(reason);
            }
            _ => {}
        }
        answer
    }

    /// Refuses. About a call or an approval that is a permission.
    fn block(&mut self, event: EventName, reason: Option<&str>) {
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let reason = reason.unwrap_or("a hook refused it and gave no reason");
        self.status = Status::Blocked;
        self.add(EntryKind::Feedback, reason.to_owned());
        let reason = shortened(reason, MAX_ENTRY);
        match event {
            EventName::PreToolUse | EventName::PermissionRequest => {
                self.permission = Some(Permission::Deny(reason));
            }
            _ => self.block = Some(reason),
        }
    }

    fn add_context(&mut self, text: &str, is_shown: bool) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let text = shortened(text, MAX_CONTEXT);
        if is_shown {
            self.add(EntryKind::Context, text.clone());
        }
        self.context = Some(text);
    }

    fn add(&mut self, kind: EntryKind, text: String) {
        self.entries.push(Entry { kind, text: shortened(&text, MAX_ENTRY) });
    }
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn with_errors(message: String, errors: &[u8]) -> String {
    let errors = text_of(errors);
    match errors.trim() {
        "" => message,
        errors => format!("{message}: {errors}"),
    }
}

/// Text with its hidden characters made visible, of at most `limit` bytes, with a note of what is left
/// out.
fn shortened(text: &str, limit: usize) -> String {
    let text = visible::text(text);
    if text.len() <= limit {
        return text.into_owned();
    }
    let end = text.floor_char_boundary(limit);
    let (kept, rest) = text.split_at(end);
    format!("{kept}\n[{} further characters are left out]", rest.chars().count())
}

#[cfg(test)]
mod tests;
