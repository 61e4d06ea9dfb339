//! The tools that the model is offered, and the reading of its calls.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::event::{PlanStep, PlanStepStatus};

/// How `apply_patch` is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchTool {
    /// A custom tool with a grammar, for models that support it.
    Custom,
    /// A function with one string.
    #[default]
    Function,
}

/// A call, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Exec(ExecCall),
    Shell(ShellCall),
    WriteStdin(WriteStdin),
    Patch { text: String },
    Plan { explanation: Option<String>, plan: Vec<PlanStep> },
    Image { path: String },
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct ExecCall {
    pub(crate) cmd: String,
    pub(crate) workdir: Option<String>,
    pub(crate) shell: Option<String>,
    #[serde(default)]
    pub(crate) login: bool,
    #[serde(default)]
    pub(crate) tty: bool,
    pub(crate) yield_time_ms: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) sandbox_permissions: Option<String>,
    pub(crate) justification: Option<String>,
    pub(crate) prefix_rule: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct ShellCall {
    pub(crate) command: Vec<String>,
    pub(crate) workdir: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) sandbox_permissions: Option<String>,
    pub(crate) justification: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct WriteStdin {
    pub(crate) session_id: u64,
    #[serde(default)]
    pub(crate) chars: String,
    pub(crate) yield_time_ms: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
}

impl Call {
    /// What a command runs, told apart from everything else that may look the same.
    pub(crate) fn identity(&self) -> Vec<String> {
        match self {
            Self::Exec(ExecCall { cmd, shell, login, .. }) => {
                let shell = shell.clone().unwrap_or_default();
                vec!["script".to_owned(), cmd.clone(), shell, login.to_string()]
            }
            Self::Shell(ShellCall { command, .. }) => {
                std::iter::once("argv".to_owned()).chain(command.iter().cloned()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Reads a function call; the error is for the model.
pub(crate) fn read_function(name: &str, arguments: &str) -> Result<Call, String> {
    #[derive(Deserialize)]
    struct Patch {
        input: String,
    }
    #[derive(Deserialize)]
    struct Image {
        path: String,
    }
    match name {
        "exec_command" => {
            let call: ExecCall = arguments_of(name, arguments)?;
            if call.cmd.trim().is_empty() {
                return Err("exec_command: `cmd` is empty; give a shell command".into());
            }
            Ok(Call::Exec(call))
        }
        "shell" => {
            let call: ShellCall = arguments_of(name, arguments)?;
            if call.command.is_empty() {
                return Err("shell: `command` is empty; give a program and its arguments".into());
            }
            Ok(Call::Shell(call))
        }
        "write_stdin" => Ok(Call::WriteStdin(arguments_of(name, arguments)?)),
        "apply_patch" => Ok(Call::Patch { text: arguments_of::<Patch>(name, arguments)?.input }),
        "update_plan" => read_plan(arguments),
        "view_image" => Ok(Call::Image { path: arguments_of::<Image>(name, arguments)?.path }),
        _ => Err(unknown(name)),
    }
}

/// Reads a custom tool call; the error is for the model.
pub(crate) fn read_custom(name: &str, input: &str) -> Result<Call, String> {
    match name {
        "apply_patch" => Ok(Call::Patch { text: input.to_owned() }),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    format!(
        "there is no tool `{name}`; the tools are exec_command, write_stdin, apply_patch, \
         update_plan and view_image"
    )
}

fn arguments_of<T: DeserializeOwned>(name: &str, arguments: &str) -> Result<T, String> {
    serde_json::from_str(arguments)
        .map_err(|error| format!("{name}: the arguments cannot be read: {error}"))
}

fn read_plan(arguments: &str) -> Result<Call, String> {
    #[derive(Deserialize)]
    struct Plan {
        explanation: Option<String>,
        plan: Vec<Step>,
    }
    #[derive(Deserialize)]
    struct Step {
        step: String,
        status: StepStatus,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum StepStatus {
        Pending,
        #[serde(alias = "inProgress")]
        InProgress,
        Completed,
    }
    let Plan { explanation, plan } = arguments_of("update_plan", arguments)?;
    let plan = plan
        .into_iter()
        .map(|Step { step, status }| PlanStep {
            step,
            status: match status {
                StepStatus::Pending => PlanStepStatus::Pending,
                StepStatus::InProgress => PlanStepStatus::InProgress,
                StepStatus::Completed => PlanStepStatus::Completed,
            },
        })
        .collect();
    Ok(Call::Plan { explanation, plan })
}

/// Whether the model asks to leave the sandbox.
pub(crate) fn wants_escalation(permissions: Option<&str>) -> bool {
    matches!(permissions, Some("require_escalated" | "with_escalated_permissions"))
}

/// The tools as the JSON array of a request.
pub(crate) fn offered(patch: PatchTool) -> Arc<str> {
    // Written once, shared by all threads.
    static CUSTOM: LazyLock<Arc<str>> = LazyLock::new(|| written(PatchTool::Custom));
    static FUNCTION: LazyLock<Arc<str>> = LazyLock::new(|| written(PatchTool::Function));
    match patch {
        PatchTool::Custom => CUSTOM.clone(),
        PatchTool::Function => FUNCTION.clone(),
    }
}

fn written(patch: PatchTool) -> Arc<str> {
    let tools =
        vec![exec_command(), write_stdin(), update_plan(), apply_patch(patch), view_image()];
    Value::Array(tools).to_string().into()
}

fn function(name: &str, description: &str, required: &[&str], properties: Value) -> Value {
    json!({
        "type": "function",
        "name": name,
        "description": description,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
    })
}

fn exec_command() -> Value {
    function(
        "exec_command",
        "Runs a shell command and gives its output, or a session id when it is still running.",
        &["cmd"],
        json!({
            "cmd": { "type": "string", "description": "The shell command." },
            "workdir": { "type": "string", "description": "Where to run it; default: the working folder." },
            "shell": { "type": "string", "description": "Shell to use; default: the user's." },
            "login": { "type": "boolean", "description": "Run the shell as a login shell." },
            "tty": { "type": "boolean", "description": "Give it a terminal, for interactive programs." },
            "yield_time_ms": { "type": "number", "description": "How long to wait for output, in milliseconds." },
            "max_output_tokens": { "type": "number", "description": "How much output to give back." },
            "sandbox_permissions": { "type": "string", "description": "`use_default`, or `require_escalated` to run outside the sandbox after approval." },
            "justification": { "type": "string", "description": "With `require_escalated`: one sentence to the user." },
            "prefix_rule": { "type": "array", "items": { "type": "string" }, "description": "With `require_escalated`: a command prefix that the user may allow for good." },
        }),
    )
}

fn write_stdin() -> Value {
    function(
        "write_stdin",
        "Types into a running command, or waits for more of its output.",
        &["session_id"],
        json!({
            "session_id": { "type": "number", "description": "The id that exec_command gave." },
            "chars": { "type": "string", "description": "What to type; empty to wait only." },
            "yield_time_ms": { "type": "number", "description": "How long to wait for output, in milliseconds." },
            "max_output_tokens": { "type": "number", "description": "How much output to give back." },
        }),
    )
}

fn update_plan() -> Value {
    function(
        "update_plan",
        "Shows the user the steps of the work and where each stands.",
        &["plan"],
        json!({
            "explanation": { "type": "string" },
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "step": { "type": "string" },
                        "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                    },
                    "required": ["step", "status"],
                    "additionalProperties": false,
                },
            },
        }),
    )
}

fn view_image() -> Value {
    function(
        "view_image",
        "Shows you an image file of this machine.",
        &["path"],
        json!({ "path": { "type": "string", "description": "The file." } }),
    )
}

fn apply_patch(kind: PatchTool) -> Value {
    let description = "Edits files with one patch. The patch begins with `*** Begin Patch` and \
        ends with `*** End Patch`. Between them: `*** Add File: PATH` and lines with `+`; \
        `*** Delete File: PATH`; `*** Update File: PATH`, perhaps `*** Move to: PATH`, and hunks \
        that begin with `@@` and hold lines with ` `, `-` or `+`.";
    match kind {
        PatchTool::Custom => json!({
            "type": "custom",
            "name": "apply_patch",
            "description": description,
            "format": { "type": "grammar", "syntax": "lark", "definition": include_str!("apply_patch.lark") },
        }),
        PatchTool::Function => function(
            "apply_patch",
            description,
            &["input"],
            json!({ "input": { "type": "string", "description": "The patch." } }),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read() {
        let call = read_function("exec_command", r#"{"cmd":"ls","yield_time_ms":5}"#).unwrap();
        let expected = ExecCall { cmd: "ls".into(), yield_time_ms: Some(5), ..ExecCall::default() };
        assert_eq!(call, Call::Exec(expected));
        let patch = read_custom("apply_patch", "*** Begin Patch").unwrap();
        assert_eq!(patch, Call::Patch { text: "*** Begin Patch".into() });
    }

    #[test]
    fn bad_calls_tell_the_model_what_is_wrong() {
        let check = |name: &str, arguments: &str, expected: &str| {
            let error = read_function(name, arguments).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("exec_command", "{}", "cmd");
        check("exec_command", r#"{"cmd":" "}"#, "empty");
        check("shell", r#"{"command":[]}"#, "empty");
        check("update_plan", r#"{"plan":[{"step":"x","status":"odd"}]}"#, "odd");
        check("nope", "{}", "no tool `nope`");
    }

    #[test]
    fn the_offer_is_json() {
        for kind in [PatchTool::Custom, PatchTool::Function] {
            let tools: Vec<Value> = serde_json::from_str(&offered(kind)).unwrap();
            assert_eq!(tools.len(), 5);
        }
    }
}
