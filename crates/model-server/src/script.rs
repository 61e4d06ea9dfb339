//! The scripted model: responses read from a JSON file, for tests and demonstrations without a key.
//! This module defines the format (described for users in `docs/model-server.md`); it neither
//! listens on a socket nor interprets texts.
//!
//! A script is a list of responses, each a list of steps. The n-th request of a *conversation* gets
//! the n-th response; requests with the same `prompt_cache_key` are one conversation, so any number
//! of threads can run one script independently. A request that fails a response's `expect` is
//! refused with status 400 and does not count. The last 4096 conversations are remembered.
//!
//! In the texts of messages, `{{last_user_text}}` stands for the text of the last user message of
//! the request, `{{last_tool_output}}` for the tool outputs that came after it, and `{{review_id}}` for
//! the id in a request to review an approval.

use std::{collections::BTreeMap, fmt, marker::PhantomData, path::Path};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

pub(crate) mod engine;
mod expect;
pub(crate) mod player;
pub(crate) mod request;
mod validate;

pub use expect::{Expect, OneOrMany};

/// Largest script file, in bytes.
pub const MAX_SCRIPT_BYTES: u64 = 64 << 20;

/// Bytes of text per estimated token, if a script gives no usage.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// Names of the built-in scripts.
pub const BUILT_IN: [&str; 2] = ["demo", "echo"];

/// A script as its file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    pub on_exhausted: OnExhausted,
    pub responses: Vec<Scripted>,
}

/// The behaviour after the script's last response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// Refuse the request with status 400.
    #[default]
    Error,
    /// Repeat the last response.
    RepeatLast,
    /// Start again from the first response.
    Restart,
}

/// One response of a script.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scripted {
    /// Restricts the response to one conversation, counted from 0 in the order of their first
    /// requests; absent, it applies to all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    pub steps: Vec<Step>,
}

/// One step of a response. A response without an ending step (`error`, `cut`, `idle`) completes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    #[serde(deserialize_with = "text_or_object")]
    Message(Message),
    #[serde(deserialize_with = "text_or_object")]
    Reasoning(Reasoning),
    FunctionCall(FunctionCall),
    CustomToolCall(CustomToolCall),
    ToolSearchCall(ToolSearchCall),
    #[serde(deserialize_with = "text_or_object")]
    WebSearch(WebSearch),
    #[serde(deserialize_with = "text_or_object")]
    ImageGeneration(ImageGeneration),
    /// Token counts of the response, at any position; absent, they are estimated.
    Usage(Usage),
    /// A pause, in milliseconds.
    DelayMs(u64),
    Error(ErrorStep),
    /// Closes the connection in the middle of the response, after sending an optional raw text.
    #[serde(deserialize_with = "text_or_object")]
    Cut(Cut),
    /// Sends nothing more and keeps the connection open.
    Idle,
    /// The whole response has a fault, whatever its place among the steps.
    Fault(Fault),
}

/// A fault of a response over HTTP, as broken servers have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Each block, item or call of a stream has the index 0.
    RepeatedIndex,
    /// Calls have no ids.
    MissingId,
    /// The end is missing: the last event, or the reason to finish.
    MissingEnd,
    /// Another model answers.
    OtherModel,
    /// The usage at the beginning of a stream is larger than that at its end.
    ShrinkingUsage,
    /// Signatures and encrypted reasoning were changed.
    FalseSignature,
    /// Arguments of calls end in their middle.
    CutArguments,
}

/// A message; as a plain string, its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Message {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The individual deltas, instead of `text`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<String>,
    /// Characters of `text` in one delta (32 when absent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_chars: Option<usize>,
    /// Pause after each delta, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub chunk_delay_ms: u64,
    /// Number of times that the deltas are sent (1 when absent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<usize>,
    /// `commentary` or `final_answer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// Reasoning; as a plain string, a summary of one part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reasoning {
    pub summary: Vec<String>,
    /// Raw reasoning, which most providers do not reveal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_chars: Option<usize>,
    #[serde(skip_serializing_if = "is_zero")]
    pub chunk_delay_ms: u64,
}

/// A call of a function tool. `arguments` is an object, or a string that is sent verbatim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionCall {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Pause after each delta, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chunk_delay_ms: u64,
}

/// A call of a free-text tool such as `apply_patch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomToolCall {
    pub name: String,
    pub input: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Pause after each delta, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub chunk_delay_ms: u64,
}

/// A call of `tool_search` that the client carries out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSearchCall {
    pub arguments: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// A web search by the provider; as a plain string, its query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebSearch {
    pub query: String,
    /// The item's `action`; absent, a `search` for the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Value>,
    /// True if the item's `status` is `failed`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// An image that the provider generated; as a plain string, its base64.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageGeneration {
    /// Base64; absent, the item's `result` is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revised_prompt: Option<String>,
    /// True if the item's `status` is `failed`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

/// Token counts; `total_tokens` defaults to input plus output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    pub input_tokens: u64,
    pub cached_input_tokens: u64,
    pub cache_write_input_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

/// A failure: with `status` a refused request (first step only, delays aside), with `incomplete`
/// an incomplete response of that reason, else a failed response with `code` and `message`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorStep {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Headers of the refusal, such as `retry-after`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Body of the refusal: a string verbatim, any other value as JSON; absent, an error object of
    /// `code` and `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// An end without completion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cut {
    /// Sent verbatim before the end, such as half an event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bytes: String,
}

/// An invalid script. The message names the file, and the line or the step.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot read script {path}: {cause}")]
    Read { path: String, cause: std::io::Error },
    #[error("script {path} is larger than {} MiB; split it", MAX_SCRIPT_BYTES >> 20)]
    TooLarge { path: String },
    #[error("script {origin}: {cause}")]
    Syntax { origin: String, cause: serde_json::Error },
    #[error("script {origin}: {problem}")]
    Invalid { origin: String, problem: validate::Problem },
    #[error(
        "there is no script `{name}`; use one of {} or the absolute path of a script file",
        BUILT_IN.join(", ")
    )]
    Unknown { name: String },
}

impl Script {
    /// Parses and validates the JSON of a script; `origin` names it in errors.
    ///
    /// # Errors
    /// `Syntax` with line and column, or `Invalid` with the response and the step.
    pub fn parse(origin: &str, json: &str) -> Result<Self, ScriptError> {
        let origin = || origin.to_owned();
        let script: Self = serde_json::from_str(json)
            .map_err(|cause| ScriptError::Syntax { origin: origin(), cause })?;
        validate::check(&script)
            .map_err(|problem| ScriptError::Invalid { origin: origin(), problem })?;
        Ok(script)
    }

    /// Reads a script file.
    ///
    /// # Errors
    /// As [`Self::parse`], or `Read` and `TooLarge`.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let text = files::read_text(path, MAX_SCRIPT_BYTES).map_err(|error| match error {
            files::Error::TooLarge { .. } => ScriptError::TooLarge { path: name.clone() },
            error => ScriptError::Read { path: name.clone(), cause: error.into_io() },
        })?;
        Self::parse(&name, &text)
    }

    /// One of the scripts in [`BUILT_IN`].
    ///
    /// # Errors
    /// `Unknown`, which lists the built-in scripts.
    pub fn built_in(name: &str) -> Result<Self, ScriptError> {
        match name {
            "demo" => Self::parse(name, include_str!("../scripts/demo.json")),
            "echo" => Self::parse(name, include_str!("../scripts/echo.json")),
            _ => Err(ScriptError::Unknown { name: name.to_owned() }),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Steps that may be written as a plain string.
trait FromText {
    fn from_text(text: &str) -> Self;
}

impl FromText for Message {
    fn from_text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl FromText for Reasoning {
    fn from_text(text: &str) -> Self {
        Self { summary: vec![text.to_owned()], ..Self::default() }
    }
}

impl FromText for WebSearch {
    fn from_text(text: &str) -> Self {
        Self { query: text.to_owned(), ..Self::default() }
    }
}

impl FromText for ImageGeneration {
    fn from_text(text: &str) -> Self {
        Self { result: Some(text.to_owned()), ..Self::default() }
    }
}

impl FromText for Cut {
    fn from_text(text: &str) -> Self {
        Self { bytes: text.to_owned() }
    }
}

/// Reads the string or the object form; unlike an untagged enum this keeps good error messages.
fn text_or_object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromText + Deserialize<'de>,
{
    struct Either<T>(PhantomData<T>);
    impl<'de, T: FromText + Deserialize<'de>> Visitor<'de> for Either<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or an object")
        }

        fn visit_str<E>(self, text: &str) -> Result<T, E> {
            Ok(T::from_text(text))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_any(Either(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(steps: &str) -> Result<Script, ScriptError> {
        Script::parse("s.json", &format!(r#"{{"responses": [{{"steps": {steps}}}]}}"#))
    }

    #[test]
    fn short_and_long_forms_are_the_same() {
        let check = |short: &str, long: &str| {
            assert_eq!(script(short).unwrap(), script(long).unwrap());
        };
        check(r#"[{"message": "a"}]"#, r#"[{"message": {"text": "a"}}]"#);
        check(r#"[{"reasoning": "a"}]"#, r#"[{"reasoning": {"summary": ["a"]}}]"#);
        check(r#"[{"web_search": "a"}]"#, r#"[{"web_search": {"query": "a"}}]"#);
        check(r#"[{"cut": "a"}]"#, r#"[{"cut": {"bytes": "a"}}]"#);
    }

    #[test]
    fn errors_name_their_position() {
        let check = |steps: &str, part: &str| {
            let error = script(steps).unwrap_err().to_string();
            assert!(error.contains("s.json") && error.contains(part), "{error}");
        };
        check(r#"[{"mesage": "a"}]"#, "mesage");
        check(r#"[{"message": {"txt": "a"}}]"#, "txt");
        check(r#"[{"message": 1}]"#, "a string or an object");
        check(r#"[{"error": {}}]"#, "response 1, step 1");
        check(r#"[{"message": "a"}, {"error": {"status": 500}}]"#, "step 2");
        check(r#"["idle", {"message": "a"}]"#, "step 2");
        check(r#"[{"message": {"text": "a", "phase": "x"}}]"#, "phase");
        check(r#"[{"message": {"text": "abc", "repeat": 99999999}}]"#, "MiB");
        check(r#"[{"error": {"status": 200}}]"#, "status");
        check(r#"[{"error": {"status": 500, "headers": {"a b": "c"}}}]"#, "header");
    }

    #[test]
    fn built_in_scripts_are_valid_and_read_back_as_written() {
        for name in BUILT_IN {
            let script = Script::built_in(name).unwrap();
            let json = serde_json::to_string(&script).unwrap();
            assert_eq!(Script::parse(name, &json).unwrap(), script);
        }
        let error = Script::built_in("nope").unwrap_err().to_string();
        assert!(error.contains("demo, echo"), "{error}");
    }
}
