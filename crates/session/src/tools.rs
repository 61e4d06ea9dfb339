//! The tools that the model is offered, and the reading of its calls.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::client_tools::DynamicTool;
use crate::tool_calls;
pub(crate) use crate::tool_calls::{Call, ExecCall, ShellCall, WriteStdin};

/// How `apply_patch` is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchTool {
    /// A custom tool with a grammar, for models that support it.
    Custom,
    /// A function with one string.
    #[default]
    Function,
    /// Not at all.
    Off,
}

/// How commands are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandTool {
    /// `exec_command` and `write_stdin`: commands may outlive the call.
    #[default]
    Terminal,
    /// `shell`: one call, one command.
    OneShot,
    /// None: the model cannot run commands.
    Off,
}

/// The tools that a thread offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    /// How `apply_patch` is offered.
    pub patch: PatchTool,
    /// How commands are offered.
    pub commands: CommandTool,
    /// `view_image`.
    pub view_image: bool,
    /// `get_goal` and `update_goal`: the thread has a goal that is open.
    pub goal: bool,
    /// Whether the model may ask for a login shell.
    pub login_shell: bool,
    /// The provider's own web search, as the JSON that offers it: while commands are confined, and
    /// while they are not.
    pub web_search: [Option<Arc<str>>; 2],
    /// Tools that the client runs. It knows the mode, so that they are its own business.
    pub dynamic: Arc<[DynamicTool]>,
    /// Plan mode: what changes something is not offered. A call of it is understood, to be refused
    /// with the reason.
    pub reads_only: bool,
}

impl Default for ToolSet {
    fn default() -> Self {
        Self {
            patch: PatchTool::default(),
            commands: CommandTool::default(),
            view_image: true,
            goal: false,
            login_shell: true,
            web_search: [None, None],
            dynamic: Arc::default(),
            reads_only: false,
        }
    }
}

impl ToolSet {
    fn names(&self) -> Vec<&'static str> {
        self.names_where(!self.reads_only)
    }

    fn names_where(&self, changes: bool) -> Vec<&'static str> {
        let commands: &[&str] = match self.commands {
            CommandTool::Terminal => &["exec_command", "write_stdin"],
            CommandTool::OneShot => &["shell"],
            CommandTool::Off => &[],
        };
        let mut names = commands.to_vec();
        names.extend((changes && self.patch != PatchTool::Off).then_some("apply_patch"));
        names.push("update_plan");
        names.extend(self.goal.then_some("get_goal"));
        names.extend((changes && self.goal).then_some("update_goal"));
        names.extend(self.view_image.then_some("view_image"));
        names
    }

    /// The client's tool of that name.
    pub(crate) fn dynamic(&self, name: &str) -> Option<&DynamicTool> {
        self.dynamic.iter().find(|tool| tool.full_name() == name)
    }

    /// Whether a call of that name may be made. A plain `shell` is understood from models that
    /// know it, offered or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        let known = name == "shell" && self.commands != CommandTool::Off;
        known || self.names_where(true).contains(&name)
    }
}

/// Reads a function call; the error is for the model.
pub(crate) fn read_function(tools: &ToolSet, name: &str, arguments: &str) -> Result<Call, String> {
    if let Some(tool) = tools.dynamic(name) {
        return Ok(Call::Dynamic {
            namespace: tool.namespace.clone(),
            tool: tool.name.clone(),
            arguments: Arguments::read(name, arguments)?.into_json(),
        });
    }
    if !tools.has(name) {
        return Err(unknown(tools, name));
    }
    tool_calls::read(name, arguments)?.ok_or_else(|| unknown(tools, name))
}

/// Reads a custom tool call; the error is for the model.
pub(crate) fn read_custom(tools: &ToolSet, name: &str, input: &str) -> Result<Call, String> {
    match name {
        "apply_patch" if tools.has(name) => tool_calls::read_patch_input(input),
        _ => Err(unknown(tools, name)),
    }
}

fn unknown(tools: &ToolSet, name: &str) -> String {
    let mut names: Vec<String> = tools.names().into_iter().map(str::to_owned).collect();
    names.extend(tools.dynamic.iter().map(DynamicTool::full_name));
    format!("there is no tool `{name}`; the tools are {}", names.join(", "))
}

/// Whether the model asks to leave the sandbox.
pub(crate) fn wants_escalation(permissions: Option<&str>) -> bool {
    matches!(permissions, Some("require_escalated" | "with_escalated_permissions"))
}

/// The tools as the JSON array of a request, while commands are confined and while they are not.
pub(crate) fn offered(tools: &ToolSet) -> [Arc<str>; 2] {
    // Most threads offer the same: written once, shared by all of them.
    static WRITTEN: Mutex<Vec<(ToolSet, [Arc<str>; 2])>> = Mutex::new(Vec::new());
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, offered)) = written.iter().find(|(known, _)| known == tools) {
        return offered.clone();
    }
    let confined = write(tools, tools.web_search[0].as_deref());
    let open = if tools.web_search[0] == tools.web_search[1] {
        confined.clone()
    } else {
        write(tools, tools.web_search[1].as_deref())
    };
    let offered = [confined, open];
    if written.len() < MAX_WRITTEN {
        written.push((tools.clone(), offered.clone()));
    }
    offered
}

/// Different sets of tools that are kept written.
const MAX_WRITTEN: usize = 32;

fn write(tools: &ToolSet, web_search: Option<&str>) -> Arc<str> {
    let mut all = match tools.commands {
        CommandTool::Terminal => vec![exec_command(tools.login_shell), write_stdin()],
        CommandTool::OneShot => vec![shell()],
        CommandTool::Off => Vec::new(),
    };
    if tools.reads_only {
        all.iter_mut().for_each(without_escalation);
    }
    all.push(update_plan());
    let patches = !tools.reads_only && tools.patch != PatchTool::Off;
    all.extend(patches.then(|| apply_patch(tools.patch)));
    if tools.goal {
        let [get, update] = goal();
        all.push(get);
        all.extend((!tools.reads_only).then_some(update));
    }
    all.extend(tools.view_image.then(view_image));
    all.extend(tools.dynamic.iter().map(DynamicTool::offered));
    let mut written: Vec<String> = all.iter().map(Value::to_string).collect();
    written.extend(web_search.map(str::to_owned));
    format!("[{}]", written.join(",")).into()
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

fn exec_command(login_shell: bool) -> Value {
    let mut tool = function(
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
    );
    if !login_shell && let Some(offered) = tool["parameters"]["properties"].as_object_mut() {
        offered.remove("login");
    }
    tool
}

/// Nothing leaves the sandbox in plan mode, so that the model is not told how to ask for it.
fn without_escalation(tool: &mut Value) {
    if let Some(offered) = tool["parameters"]["properties"].as_object_mut() {
        for name in ["sandbox_permissions", "justification", "prefix_rule"] {
            offered.remove(name);
        }
    }
}

fn shell() -> Value {
    function(
        "shell",
        "Runs a program and gives its output.",
        &["command"],
        json!({
            "command": { "type": "array", "items": { "type": "string" }, "description": "The program and its arguments." },
            "workdir": { "type": "string", "description": "Where to run it; default: the working folder." },
            "timeout_ms": { "type": "number", "description": "How long it may take, in milliseconds." },
            "sandbox_permissions": { "type": "string", "description": "`use_default`, or `require_escalated` to run outside the sandbox after approval." },
            "justification": { "type": "string", "description": "With `require_escalated`: one sentence to the user." },
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

fn goal() -> [Value; 2] {
    let status = json!({ "type": "string", "enum": ["complete"] });
    [
        function("get_goal", "Gives the goal of this thread and what it has cost.", &[], json!({})),
        function(
            "update_goal",
            "Says that the goal of this thread is reached: everything that it asks for is done and \
             checked.",
            &["status"],
            json!({ "status": status }),
        ),
    ]
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
        PatchTool::Function | PatchTool::Off => function(
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
        let call =
            read_function(&ToolSet::default(), "exec_command", r#"{"cmd":"ls","yield_time_ms":5}"#)
                .unwrap();
        let expected = ExecCall { cmd: "ls".into(), yield_time_ms: Some(5), ..ExecCall::default() };
        assert_eq!(call, Call::Exec(expected));
        let patch = read_custom(&ToolSet::default(), "apply_patch", "*** Begin Patch").unwrap();
        assert_eq!(patch, Call::Patch { text: "*** Begin Patch".into() });
    }

    #[test]
    fn bad_calls_tell_the_model_what_is_wrong() {
        let check = |name: &str, arguments: &str, expected: &str| {
            let error = read_function(&ToolSet::default(), name, arguments).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("exec_command", "{}", "cmd");
        check("exec_command", r#"{"cmd":" "}"#, "empty");
        check("shell", r#"{"command":[]}"#, "empty");
        check("update_plan", r#"{"plan":[{"step":"x","status":"odd"}]}"#, "odd");
        check("nope", "{}", "no tool `nope`");
    }

    #[test]
    fn the_offer_is_what_may_be_called() {
        let search: Arc<str> = r#"{"type":"web_search"}"#.into();
        for (tools, names) in [
            (ToolSet::default(), "exec_command write_stdin update_plan apply_patch view_image"),
            (
                ToolSet { patch: PatchTool::Custom, view_image: false, ..ToolSet::default() },
                "exec_command write_stdin update_plan apply_patch",
            ),
            (
                ToolSet { commands: CommandTool::OneShot, ..ToolSet::default() },
                "shell update_plan apply_patch view_image",
            ),
            (
                ToolSet {
                    commands: CommandTool::Off,
                    web_search: [Some(search), None],
                    ..ToolSet::default()
                },
                "update_plan apply_patch view_image web_search",
            ),
        ] {
            let [confined, _] = offered(&tools);
            let offered: Vec<Value> = serde_json::from_str(&confined).unwrap();
            let name = |tool: &Value| {
                tool.get("name").unwrap_or(&tool["type"]).as_str().unwrap().to_owned()
            };
            let offered: Vec<String> = offered.iter().map(name).collect();
            assert_eq!(offered.join(" "), names);
            for name in ["exec_command", "write_stdin", "shell", "view_image"] {
                let refused = read_function(&tools, name, "{}").unwrap_err().contains("no tool");
                let callable = offered.iter().any(|offered| offered == name)
                    || name == "shell" && tools.commands != CommandTool::Off;
                assert_eq!(refused, !callable, "{name} of {names}");
            }
        }
    }

    #[test]
    fn in_plan_mode_what_changes_something_is_not_offered_and_still_understood() {
        for commands in [CommandTool::Terminal, CommandTool::OneShot] {
            let planning = ToolSet { reads_only: true, goal: true, commands, ..ToolSet::default() };
            let text = offered(&planning)[0].clone();
            for gone in ["apply_patch", "update_goal", "require_escalated", "prefix_rule"] {
                assert!(!text.contains(gone), "{gone}");
            }
            for there in ["update_plan", "get_goal", "view_image", "workdir"] {
                assert!(text.contains(there), "{there}");
            }
            let call = read_function(&planning, "apply_patch", r#"{"input":"x"}"#);
            assert_eq!(call, Ok(Call::Patch { text: "x".into() }));
            let unknown = read_function(&planning, "nope", "{}").unwrap_err();
            assert!(!unknown.contains("apply_patch"), "{unknown}");
        }
    }

    #[test]
    fn without_login_shells_none_is_offered() {
        let offer =
            |login_shell| offered(&ToolSet { login_shell, ..ToolSet::default() })[0].clone();
        assert!(offer(true).contains("\"login\"") && !offer(false).contains("\"login\""));
    }
}
