//! The agent of a hook: a model that may read files before it gives its verdict. It is no thread: it has
//! a few tools that only read, within the thread's sandbox, and no hook runs within it.

use std::ffi::OsString;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use session::{Failure, ModelItem, Prompt};

use crate::thread::model_stream::Asker;
use crate::thread::reviewer::{self, ModelAnswer};
use services::thread_hooks::{HookPlace, HookRunner, UsageLog};

/// Requests of one agent; it has to give its verdict with the last of them.
const MAX_REQUESTS: usize = 16;
/// Calls of one response that are carried out; further ones are answered with an error.
const MAX_CALLS: usize = 8;
/// Bytes of the output of one call.
const MAX_OUTPUT: usize = 32 << 10;

/// The agent of a hook.
pub(super) struct HookAgent {
    pub(super) asker: Asker,
    /// Its task.
    pub(super) prompt: Prompt,
    pub(super) runner: Arc<HookRunner>,
    pub(super) place: Arc<HookPlace>,
    pub(super) usage: UsageLog,
}

impl HookAgent {
    /// Runs it to its verdict: the text of its last message.
    pub(super) async fn run(mut self) -> Result<String, String> {
        self.prompt.tools = tools().to_string().into();
        for left in (0..MAX_REQUESTS).rev() {
            if left == 0 {
                self.prompt.tools = "[]".into();
            }
            let response = self.asker.ask(self.prompt.clone()).map_err(|it| it.message)?;
            let ModelAnswer { items, usage } = match reviewer::read_items(response).await {
                Ok(answer) => answer,
                Err(failure) => return Err(self.failed(failure)),
            };
            self.usage.add(usage);
            let mut outputs = Vec::new();
            let mut last_message = None;
            for (_, item) in &items {
                match item {
                    ModelItem::Message { text, .. } => last_message = Some(text.clone()),
                    ModelItem::FunctionCall { call_id, name, arguments } => {
                        let is_one_too_many = outputs.len() >= MAX_CALLS;
                        let output = match is_one_too_many {
                            true => format!("at most {MAX_CALLS} calls in one response are made"),
                            false => self.call(name, arguments).await,
                        };
                        let output = json!({
                            "type": "function_call_output", "call_id": call_id, "output": output,
                        });
                        outputs.push(Arc::from(output.to_string()));
                    }
                    ModelItem::CustomToolCall { name, .. } => {
                        return Err(format!("its agent called `{name}`, which it does not have"));
                    }
                    // Others need no answer.
                    _ => {}
                }
            }
            if outputs.is_empty() {
                return last_message.ok_or_else(|| "its agent ended without a verdict".to_owned());
            }
            self.prompt.extend(items.into_iter().map(|(raw, _)| raw).chain(outputs));
        }
        Err(format!("its agent gave no verdict within {MAX_REQUESTS} requests"))
    }

    fn failed(&self, failure: Failure) -> String {
        if let Some(usage) = failure.usage {
            self.usage.add(*usage);
        }
        failure.message
    }

    /// Carries out a call. Returns its output, or a sentence about why there is none.
    async fn call(&self, name: &str, arguments: &str) -> String {
        let command = match ReadCall::read(name, arguments) {
            Ok(call) => call.command(),
            Err(message) => return message,
        };
        match self.runner.read(command, &self.place).await {
            Ok(output) if output.is_empty() => "(nothing)".to_owned(),
            Ok(output) => shortened(&output),
            Err(message) => format!("it failed: {message}"),
        }
    }
}

/// The tools of the agent, as requests have them.
fn tools() -> Value {
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "type": "function", "name": name, "description": description, "strict": false,
            "parameters": {
                "type": "object", "properties": properties, "required": required,
                "additionalProperties": false,
            },
        })
    };
    let path = json!({
        "type": "string", "description": "Absolute, or from the working folder.",
    });
    json!([
        tool(
            "read_file",
            "Reads part of a file.",
            json!({
                "path": path,
                "offset": { "type": "integer", "description": "The first byte, from 0." },
            }),
            &["path"],
        ),
        tool("list_folder", "Lists the entries of a folder.", json!({ "path": path }), &["path"]),
        tool(
            "search",
            "Finds lines that match an extended regular expression, below a folder or in a file.",
            json!({ "path": path, "pattern": { "type": "string" } }),
            &["path", "pattern"],
        ),
    ])
}

/// A call of one of the tools.
#[derive(Debug, PartialEq)]
enum ReadCall {
    File { path: String, offset: u64 },
    Folder { path: String },
    Search { path: String, pattern: String },
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<u64>,
    pattern: Option<String>,
}

impl ReadCall {
    fn read(name: &str, arguments: &str) -> Result<Self, String> {
        let Arguments { path, offset, pattern } =
            serde_json::from_str(arguments).map_err(|error| format!("the arguments: {error}"))?;
        match (name, pattern) {
            ("read_file", _) => Ok(Self::File { path, offset: offset.unwrap_or(0) }),
            ("list_folder", _) => Ok(Self::Folder { path }),
            ("search", Some(pattern)) => Ok(Self::Search { path, pattern }),
            ("search", None) => Err("the argument `pattern` is missing".to_owned()),
            (name, _) => Err(format!("there is no tool `{}`", visible::text(name))),
        }
    }

    /// The command that does it. Paths and patterns are arguments of their own, never part of a script.
    fn command(self) -> Vec<OsString> {
        const PART: &str = r#"[ -f "$1" ] || { echo "it is not a readable file" >&2; exit 2; }
            tail -c "+$2" -- "$1" | head -c "$3""#;
        let words: Vec<String> = match self {
            Self::File { path, offset } => {
                let first = offset.saturating_add(1).to_string();
                let most = (MAX_OUTPUT + 1).to_string();
                ["sh", "-c", PART, "sh", &path, &first, &most].map(str::to_owned).to_vec()
            }
            Self::Folder { path } => ["ls", "-lAp", "--", &path].map(str::to_owned).to_vec(),
            Self::Search { path, pattern } => {
                let options = ["grep", "-rnIE", "-D", "skip", "-m", "50", "--exclude-dir=.git"];
                let rest = ["-e", &pattern, "--", &path];
                options.into_iter().chain(rest).map(str::to_owned).collect()
            }
        };
        words.into_iter().map(OsString::from).collect()
    }
}

/// The output of a call for the model.
fn shortened(output: &[u8]) -> String {
    let shown = &output[..output.len().min(MAX_OUTPUT)];
    let text = String::from_utf8_lossy(shown);
    match output.len() > MAX_OUTPUT {
        true => format!("{text}\n[the rest is left out; narrow it down, or read with an offset]"),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_names_is_an_argument() {
        let words = |name: &str, arguments: Value| -> Vec<String> {
            let call = ReadCall::read(name, &arguments.to_string()).unwrap();
            call.command().into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        let path = "-x\"; touch y; \"";
        let file = words("read_file", json!({ "path": path, "offset": u64::MAX }));
        assert_eq!(file[3..6], ["sh", path, "18446744073709551615"]);
        assert_eq!(words("list_folder", json!({ "path": path }))[2..], ["--", path]);
        let search = words("search", json!({ "path": path, "pattern": "-f" }));
        assert_eq!(search[7..], ["-e", "-f", "--", path]);
        for (name, arguments, expected) in [
            ("exec_command", json!({ "path": "a" }), "there is no tool `exec_command`"),
            ("search", json!({ "path": "a" }), "`pattern` is missing"),
            ("read_file", json!({ "path": 1 }), "the arguments"),
            ("read_file", json!({ "path": "a", "offset": -1 }), "the arguments"),
        ] {
            let error = ReadCall::read(name, &arguments.to_string()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
