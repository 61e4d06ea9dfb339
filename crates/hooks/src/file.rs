//! Reads `hooks.json`: `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command",
//! "command": "…"}]}]}}`. A part that cannot be read is reported, and the others are kept.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::event::EventName;
use crate::hook::{Handler, Hook, Origin};
use crate::matcher::Matcher;

/// Hooks of one file. Further ones are left out with a warning.
pub const MAX_HOOKS: usize = 256;
/// Bytes of a command or prompt.
const MAX_TEXT: usize = 64 << 10;
/// The longest timeout, in seconds: a day.
const MAX_TIMEOUT: u64 = 86_400;

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    pub hooks: Vec<Hook>,
    pub warnings: Vec<Warning>,
}

/// A part of a file that is left out or has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The part, as in `PreToolUse[0].hooks[1]`.
    pub part: String,
    pub message: String,
}

/// A file that cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.message)
    }
}

/// Reads the contents of a `hooks.json`.
///
/// # Errors
/// It is no JSON, has a member twice, or has no object `hooks`: a sentence with line and column.
pub fn read_file(text: &[u8], origin: &Origin) -> Result<Definitions, FileError> {
    let file = crate::json::read(text)
        .map_err(|error| FileError(format!("it is not valid JSON: {error}")))?;
    let Value::Object(mut file) = file else {
        return Err(FileError("it must be an object with the member `hooks`".into()));
    };
    let Some(Value::Object(groups)) = file.shift_remove("hooks") else {
        return Err(FileError("the member `hooks` must be an object of events".into()));
    };
    let mut read = read_groups(groups, origin);
    for name in file.keys().filter(|name| !matches!(name.as_str(), "description" | "$schema")) {
        read.warn(name, "this member is not known and has no effect");
    }
    Ok(read)
}

/// Reads the groups of each event.
pub fn read_groups(groups: Map<String, Value>, origin: &Origin) -> Definitions {
    let mut read = Definitions::default();
    // In the order of the events, so that a hook's place does not depend on the file's.
    let mut known: Vec<(EventName, Value)> = Vec::new();
    for (name, value) in groups {
        match EventName::from_str(&name) {
            Ok(event) => known.push((event, value)),
            Err(_) => read.warn(&name, "there is no event of this name; its hooks never run"),
        }
    }
    known.sort_by_key(|(event, _)| *event);
    for (event, groups) in known {
        let Value::Array(groups) = groups else {
            read.warn(event.as_str(), "it must be an array of groups");
            continue;
        };
        for (index, group) in groups.into_iter().enumerate() {
            read_group(event, index, group, origin, &mut read);
        }
    }
    read
}

fn read_group(
    event: EventName,
    index: usize,
    group: Value,
    origin: &Origin,
    read: &mut Definitions,
) {
    let part = format!("{event}[{index}]");
    let Value::Object(mut group) = group else {
        return read.warn(&part, "a group must be an object with the member `hooks`");
    };
    let matcher_text = match group.shift_remove("matcher") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return read.warn(&part, "the matcher must be a string"),
    };
    let matcher = match Matcher::parse(matcher_text.as_deref()) {
        Ok(matcher) => matcher,
        Err(error) => return read.warn(&part, &error.to_string()),
    };
    if matcher_text.is_some() && !event.has_subject() {
        read.warn(&part, "this event has nothing that a matcher could be about; it is ignored");
    }
    let Some(Value::Array(handlers)) = group.shift_remove("hooks") else {
        return read.warn(&part, "the member `hooks` must be an array of handlers");
    };
    read.warn_unknown(&part, &group);
    if handlers.is_empty() {
        read.warn(&part, "it has no handlers, and does nothing");
    }
    for (place, handler) in handlers.into_iter().enumerate() {
        let part = format!("{part}.hooks[{place}]");
        if read.hooks.len() == MAX_HOOKS {
            let message = format!("a file has at most {MAX_HOOKS} hooks; this one is left out");
            return read.warn(&part, &message);
        }
        let hook = read_handler(handler, &part, read).map(|settings| Hook {
            key: format!("{}:{event}:{index}:{place}", origin.path.display()),
            event,
            matcher_text: matcher_text.clone(),
            matcher: matcher.clone(),
            timeout_sec: settings.timeout.unwrap_or(settings.handler.default_timeout()),
            handler: settings.handler,
            is_async: settings.is_async,
            status_message: settings.status_message,
            origin: origin.clone(),
            order: i64::try_from(read.hooks.len()).unwrap_or(i64::MAX),
        });
        match hook {
            Ok(hook) => read.hooks.push(hook),
            Err(message) => read.warn(&part, &message),
        }
    }
}

/// A handler with what all kinds of them have.
struct Settings {
    handler: Handler,
    timeout: Option<u64>,
    is_async: bool,
    status_message: Option<String>,
}

fn read_handler(value: Value, part: &str, read: &mut Definitions) -> Result<Settings, String> {
    let Value::Object(mut object) = value else {
        return Err("a handler must be an object with the member `type`".into());
    };
    let kind = text_of(&mut object, "type")?.ok_or("the member `type` is missing")?;
    let handler = match kind.as_str() {
        "command" => Handler::Command(required(&mut object, "command")?),
        "prompt" | "agent" => {
            let prompt = required(&mut object, "prompt")?;
            let model = text_of(&mut object, "model")?;
            match kind.as_str() {
                "agent" => Handler::Agent { prompt, model },
                _ => Handler::Prompt { prompt, model },
            }
        }
        "mcpTool" | "mcp_tool" => {
            let server = required(&mut object, "server")?;
            let tool = required(&mut object, "tool")?;
            let arguments =
                match object.shift_remove("arguments").or_else(|| object.shift_remove("input")) {
                    None | Some(Value::Null) => Value::Object(Map::new()),
                    Some(arguments @ Value::Object(_)) => arguments,
                    Some(_) => return Err("the member `arguments` must be an object".into()),
                };
            Handler::McpTool { server, tool, arguments }
        }
        other => {
            return Err(format!(
                "there are no handlers of the type `{}`; use `command`, `prompt`, `agent` or `mcpTool`",
                visible::text(other)
            ));
        }
    };
    let timeouts = [object.shift_remove("timeoutSec"), object.shift_remove("timeout")];
    let timeout = timeouts.into_iter().flatten().find(|value| !value.is_null());
    let timeout = timeout.map(seconds).transpose()?;
    let is_async = match object.shift_remove("async") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_async)) => is_async,
        Some(_) => return Err("the member `async` must be `true` or `false`".into()),
    };
    let status_message = text_of(&mut object, "statusMessage")?;
    read.warn_unknown(part, &object);
    Ok(Settings { handler, timeout, is_async, status_message })
}

/// A time limit: a whole number, or a fraction, which is rounded up.
fn seconds(value: Value) -> Result<u64, String> {
    let number = value.as_f64().filter(|seconds| *seconds > 0.0);
    let number = number.ok_or("the timeout must be a number of seconds above 0")?;
    // The cast saturates.
    Ok((number.ceil() as u64).min(MAX_TIMEOUT))
}

fn required(object: &mut Map<String, Value>, name: &str) -> Result<String, String> {
    let text = text_of(object, name)?.filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| format!("the member `{name}` is missing or empty"))
}

fn text_of(object: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match object.shift_remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() > MAX_TEXT => {
            Err(format!("the member `{name}` is longer than {MAX_TEXT} bytes"))
        }
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("the member `{name}` must be a string")),
    }
}

impl Definitions {
    fn warn(&mut self, part: &str, message: &str) {
        // One file cannot fill the list of warnings.
        if self.warnings.len() < MAX_HOOKS {
            let (part, message) = (visible::text(part).into_owned(), message.to_owned());
            self.warnings.push(Warning { part, message });
        }
    }

    fn warn_unknown(&mut self, part: &str, left: &Map<String, Value>) {
        for name in left.keys() {
            let message =
                format!("the member `{}` is not known and has no effect", visible::text(name));
            self.warn(part, &message);
        }
    }
}
