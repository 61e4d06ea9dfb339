//! Reads the model's calls of our own tools into what they ask for.

use crate::arguments::Arguments;
use crate::event::{PlanStep, PlanStepStatus};

/// A call, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Exec(ExecCall),
    Shell(ShellCall),
    WriteStdin(WriteStdin),
    Patch { text: String },
    Plan { explanation: Option<String>, plan: Vec<PlanStep> },
    Image { path: String },
    GetGoal,
    CompleteGoal,
    Dynamic { namespace: Option<String>, tool: String, arguments: String },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExecCall {
    pub(crate) cmd: String,
    pub(crate) workdir: Option<String>,
    pub(crate) shell: Option<String>,
    pub(crate) login: bool,
    pub(crate) tty: bool,
    pub(crate) yield_time_ms: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) sandbox_permissions: Option<String>,
    pub(crate) justification: Option<String>,
    pub(crate) prefix_rule: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ShellCall {
    pub(crate) command: Vec<String>,
    pub(crate) workdir: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) sandbox_permissions: Option<String>,
    pub(crate) justification: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteStdin {
    pub(crate) session_id: u64,
    pub(crate) chars: String,
    pub(crate) yield_time_ms: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
}

impl Call {
    /// What a command runs, told apart from everything else that may look the same. A script that
    /// has a normal form is known by that.
    pub(crate) fn identity(&self, normal_form: Option<&[String]>) -> Vec<String> {
        match self {
            Self::Exec(ExecCall { cmd, shell, login, .. }) => {
                let shell = shell.clone().unwrap_or_default();
                let kind = if normal_form.is_some() { "form" } else { "script" };
                let script = normal_form.map_or_else(|| vec![cmd.clone()], <[String]>::to_vec);
                [vec![kind.to_owned(), shell, login.to_string()], script].concat()
            }
            Self::Shell(ShellCall { command, .. }) => {
                std::iter::once("argv".to_owned()).chain(command.iter().cloned()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Reads the call of a tool of ours; `None` when there is no such tool. The error is for the
/// model.
pub(crate) fn read(name: &str, arguments: &str) -> Result<Option<Call>, String> {
    if name == "apply_patch" {
        let text = serde_json::from_str::<String>(arguments).ok();
        return read_patch_input(text.as_deref().unwrap_or(arguments)).map(Some);
    }
    let arguments = Arguments::read(name, arguments)?;
    let call = match name {
        "exec_command" => Call::Exec(read_exec(arguments)?),
        "shell" => Call::Shell(read_shell(arguments)?),
        "write_stdin" => Call::WriteStdin(read_stdin(arguments)?),
        "update_plan" => read_plan(arguments)?,
        "get_goal" => Call::GetGoal,
        "update_goal" => read_goal(arguments)?,
        "view_image" => read_image(arguments)?,
        _ => return Ok(None),
    };
    Ok(Some(call))
}

/// Reads the text of a patch, which models that know the function write as its arguments.
pub(crate) fn read_patch_input(input: &str) -> Result<Call, String> {
    if input.trim_start().starts_with('{') {
        return read_patch(Arguments::read("apply_patch", input)?);
    }
    Ok(Call::Patch { text: input.to_owned() })
}

fn read_exec(mut arguments: Arguments<'_>) -> Result<ExecCall, String> {
    let (cmd, shell) = arguments.script("cmd")?;
    if cmd.trim().is_empty() {
        return Err("exec_command: `cmd` is empty; give a shell command".into());
    }
    Ok(ExecCall {
        cmd,
        workdir: arguments.text("workdir")?,
        shell: arguments.text("shell")?.or(shell),
        login: arguments.flag("login")?,
        tty: arguments.flag("tty")?,
        yield_time_ms: arguments.number("yield_time_ms")?,
        max_output_tokens: arguments.number("max_output_tokens")?,
        sandbox_permissions: arguments.text("sandbox_permissions")?,
        justification: arguments.text("justification")?,
        prefix_rule: arguments.words("prefix_rule")?,
    })
}

fn read_shell(mut arguments: Arguments<'_>) -> Result<ShellCall, String> {
    let command = arguments.command("command")?;
    if command.is_empty() {
        return Err("shell: `command` is empty; give a program and its arguments".into());
    }
    Ok(ShellCall {
        command,
        workdir: arguments.text("workdir")?,
        timeout_ms: arguments.number("timeout_ms")?,
        sandbox_permissions: arguments.text("sandbox_permissions")?,
        justification: arguments.text("justification")?,
    })
}

fn read_stdin(mut arguments: Arguments<'_>) -> Result<WriteStdin, String> {
    Ok(WriteStdin {
        session_id: arguments.number("session_id")?.ok_or_else(|| {
            "write_stdin: `session_id` is missing; give the number that exec_command gave"
                .to_owned()
        })?,
        chars: arguments.text("chars")?.unwrap_or_default(),
        yield_time_ms: arguments.number("yield_time_ms")?,
        max_output_tokens: arguments.number("max_output_tokens")?,
    })
}

fn read_patch(mut arguments: Arguments<'_>) -> Result<Call, String> {
    // `patch` is what models call it that know no `input`.
    let text = match arguments.text("input")? {
        Some(text) => text,
        None => arguments.text("patch")?.ok_or_else(|| {
            "apply_patch: `input` is missing; give the text of the patch".to_owned()
        })?,
    };
    Ok(Call::Patch { text })
}

fn read_goal(mut arguments: Arguments<'_>) -> Result<Call, String> {
    match arguments.needed_text("status", "`complete`")?.as_str() {
        "complete" | "completed" => Ok(Call::CompleteGoal),
        other => Err(format!("update_goal: `status` must be `complete`, not `{other}`")),
    }
}

fn read_image(mut arguments: Arguments<'_>) -> Result<Call, String> {
    Ok(Call::Image { path: arguments.needed_text("path", "the path of an image file")? })
}

fn read_plan(mut arguments: Arguments<'_>) -> Result<Call, String> {
    let explanation = arguments.text("explanation")?;
    let mut plan = Vec::new();
    for mut step in arguments.objects("plan")? {
        plan.push(PlanStep {
            step: step.needed_text("step", "what is to be done")?,
            status: plan_status(&step.needed_text("status", PLAN_STATUSES)?)?,
        });
    }
    Ok(Call::Plan { explanation, plan })
}

const PLAN_STATUSES: &str = "`pending`, `in_progress` or `completed`";

/// A status in any spelling that means one thing only.
fn plan_status(text: &str) -> Result<PlanStepStatus, String> {
    let letters = |c: &char| c.is_ascii_alphabetic();
    let plain: String = text.chars().filter(letters).map(|c| c.to_ascii_lowercase()).collect();
    match plain.as_str() {
        "pending" | "todo" | "notstarted" => Ok(PlanStepStatus::Pending),
        "inprogress" | "active" | "started" => Ok(PlanStepStatus::InProgress),
        "completed" | "complete" | "done" => Ok(PlanStepStatus::Completed),
        _ => Err(format!("update_plan: `status` must be {PLAN_STATUSES}, not `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_models_write_them() {
        let patch = |text: &str| Call::Patch { text: text.to_owned() };
        let exec = ExecCall {
            cmd: "ls".into(),
            yield_time_ms: Some(1000),
            tty: true,
            ..ExecCall::default()
        };
        let stdin = |session_id| WriteStdin { session_id, ..WriteStdin::default() };
        for (name, arguments, expected) in [
            (
                "exec_command",
                r#"{"cmd":"ls","yield_time_ms":"1000","tty":"true","workdir":null}"#,
                Call::Exec(exec.clone()),
            ),
            (
                "exec_command",
                r#"{"cmd":["ls"],"yield_time_ms":1000.0,"tty":true,"login":null}"#,
                Call::Exec(exec),
            ),
            ("write_stdin", r#"{"session_id":"3","chars":null}"#, Call::WriteStdin(stdin(3))),
            ("write_stdin", r#"{"session_id":3.0}"#, Call::WriteStdin(stdin(3))),
            ("apply_patch", r#"{"input":"*** x"}"#, patch("*** x")),
            ("apply_patch", r#"{"patch":"*** x"}"#, patch("*** x")),
            ("apply_patch", "*** Begin Patch\n", patch("*** Begin Patch\n")),
            ("apply_patch", r#""*** Begin Patch""#, patch("*** Begin Patch")),
            ("apply_patch", r#""{\"input\":\"*** x\"}""#, patch("*** x")),
            ("update_goal", r#"{"status":"complete"}"#, Call::CompleteGoal),
            ("get_goal", "", Call::GetGoal),
        ] {
            assert_eq!(read(name, arguments), Ok(Some(expected)), "{name} {arguments}");
        }
        assert_eq!(read("none", "{}"), Ok(None));
    }

    #[test]
    fn plans_are_read_in_any_spelling() {
        use PlanStepStatus::{Completed, InProgress, Pending};
        for (status, expected) in [
            ("pending", Pending),
            ("todo", Pending),
            ("not started", Pending),
            ("in_progress", InProgress),
            ("inProgress", InProgress),
            ("In-Progress", InProgress),
            ("completed", Completed),
            ("done", Completed),
        ] {
            let list = format!(r#"[{{"step":"x","status":"{status}"}}]"#);
            let step = PlanStep { step: "x".into(), status: expected };
            for plan in [list.clone(), serde_json::Value::from(list).to_string()] {
                let call = Call::Plan { explanation: None, plan: vec![step.clone()] };
                assert_eq!(read("update_plan", &format!(r#"{{"plan":{plan}}}"#)), Ok(Some(call)));
            }
        }
    }

    #[test]
    fn errors_name_the_tool_and_the_member() {
        for (name, arguments, expected) in [
            ("exec_command", "{}", "exec_command: `cmd` is missing; give a shell command"),
            (
                "exec_command",
                r#"{"cmd":"ls","tty":3}"#,
                "exec_command: `tty` is `3`; give true or false",
            ),
            ("shell", r#"{"command":{}}"#, "shell: `command` is `{}`; give a list of strings"),
            (
                "write_stdin",
                "{}",
                "write_stdin: `session_id` is missing; give the number that exec_command gave",
            ),
            ("apply_patch", "{}", "apply_patch: `input` is missing; give the text of the patch"),
            ("view_image", "{}", "view_image: `path` is missing; give the path of an image file"),
            ("update_plan", "{}", "update_plan: `plan` is missing; give a list of objects"),
            (
                "update_plan",
                r#"{"plan":["x"]}"#,
                "update_plan: `plan` is `[\"x\"]`; give a list of objects",
            ),
            (
                "update_plan",
                r#"{"plan":[{"step":"x"}]}"#,
                "update_plan: `status` is missing; give `pending`, `in_progress` or `completed`",
            ),
            (
                "update_plan",
                r#"{"plan":[{"step":"x","status":"odd"}]}"#,
                "update_plan: `status` must be `pending`, `in_progress` or `completed`, not `odd`",
            ),
        ] {
            assert_eq!(read(name, arguments), Err(expected.to_owned()), "{name} {arguments}");
        }
    }
}
