//! The arguments of the tools, read strictly: a member that does not exist is refused by its name.

use std::collections::BTreeMap;

use protocol::{AskForApproval, SandboxMode, ThreadStartParams};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tools::{AGENT, AGENT_REPLY};
use crate::turn::Task;

/// Names of arguments in another spelling that clients of other servers use. Messages name the schema's.
const OTHER_NAMES: [(&str, &str); 3] = [
    ("approval-policy", "approvalPolicy"),
    ("base-instructions", "baseInstructions"),
    ("developer-instructions", "developerInstructions"),
];

/// Values of `sandbox`, as the schema has them.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Sandbox {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

/// Values of `approvalPolicy`, as the schema has them.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Approval {
    Untrusted,
    OnFailure,
    OnRequest,
    Never,
}

/// Arguments of `agent`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentArguments {
    prompt: String,
    cwd: Option<String>,
    model: Option<String>,
    sandbox: Option<Sandbox>,
    approval_policy: Option<Approval>,
    profile: Option<String>,
    config: Option<BTreeMap<String, Value>>,
    base_instructions: Option<String>,
    developer_instructions: Option<String>,
}

/// Arguments of `agent-reply`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReplyArguments {
    thread_id: String,
    prompt: String,
}

/// The task of a call; `None` for a tool that does not exist.
pub(crate) fn task(tool: &str, arguments: JsonObject) -> Option<Result<Task, String>> {
    match tool {
        AGENT => Some(respelled(arguments).and_then(|it| read(AGENT, it)).and_then(start)),
        AGENT_REPLY => Some(read(AGENT_REPLY, arguments).and_then(reply)),
        _ => None,
    }
}

/// The arguments by the names of the schema.
fn respelled(mut arguments: JsonObject) -> Result<JsonObject, String> {
    for (other, name) in OTHER_NAMES {
        if let Some(value) = arguments.shift_remove(other)
            && arguments.insert(name.to_owned(), value).is_some()
        {
            return Err(format!("{AGENT}: `{name}` is given twice: give it once"));
        }
    }
    Ok(arguments)
}

fn start(arguments: AgentArguments) -> Result<Task, String> {
    let prompt = checked(AGENT, "prompt", arguments.prompt)?;
    let mut config = arguments.config.unwrap_or_default();
    if let Some(profile) = arguments.profile
        && config.insert("profile".to_owned(), Value::String(profile)).is_some()
    {
        return Err(format!(
            "{AGENT}: `profile` is given twice, once of them in `config`: give it once"
        ));
    }
    let params = ThreadStartParams {
        cwd: arguments.cwd.map(|cwd| checked(AGENT, "cwd", cwd)).transpose()?,
        model: arguments.model,
        sandbox: arguments.sandbox.map(|sandbox| match sandbox {
            Sandbox::ReadOnly => SandboxMode::ReadOnly,
            Sandbox::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            Sandbox::DangerFullAccess => SandboxMode::DangerFullAccess,
        }),
        approval_policy: arguments.approval_policy.map(|approval| match approval {
            Approval::Untrusted => AskForApproval::UnlessTrusted,
            Approval::OnFailure => AskForApproval::OnFailure,
            Approval::OnRequest => AskForApproval::OnRequest,
            Approval::Never => AskForApproval::Never,
        }),
        config: (!config.is_empty()).then_some(config),
        base_instructions: arguments.base_instructions,
        developer_instructions: arguments.developer_instructions,
        ..ThreadStartParams::default()
    };
    Ok(Task::Start { params: Box::new(params), prompt })
}

fn reply(arguments: ReplyArguments) -> Result<Task, String> {
    let thread_id = checked(AGENT_REPLY, "threadId", arguments.thread_id)?;
    let prompt = checked(AGENT_REPLY, "prompt", arguments.prompt)?;
    Ok(Task::Continue { thread_id, prompt })
}

fn read<T: DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| format!("{tool}: the arguments do not fit: {error}"))
}

fn checked(tool: &str, member: &str, text: String) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err(format!("{tool}: `{member}` is empty")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_task(tool: &str, arguments: Value) -> Result<Task, String> {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        task(tool, arguments).expect("a tool")
    }

    #[test]
    fn arguments_become_parameters() {
        let arguments = json!({
            "prompt": "hi", "cwd": "/w", "model": "m", "sandbox": "read-only",
            "approval-policy": "on-request", "profile": "p", "config": { "a.b": 1 },
            "baseInstructions": "b", "developer-instructions": "d",
        });
        let Ok(Task::Start { params, prompt }) = read_task("agent", arguments) else {
            panic!("no start")
        };
        let expect = json!({
            "cwd": "/w", "model": "m", "sandbox": "readOnly", "approvalPolicy": "onRequest",
            "config": { "a.b": 1, "profile": "p" },
            "baseInstructions": "b", "developerInstructions": "d",
        });
        assert_eq!((prompt.as_str(), serde_json::to_value(params).unwrap()), ("hi", expect));
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused_by_name() {
        let check = |tool: &str, arguments: Value, expect: &str| {
            let refused = read_task(tool, arguments).err().unwrap_or_default();
            assert!(refused.contains(expect), "{refused} does not contain {expect}");
        };
        check("agent", json!({}), "missing field `prompt`");
        check("agent", json!({ "prompt": null }), "invalid type: null");
        check("agent", json!({ "prompt": " " }), "`prompt` is empty");
        check("agent", json!({ "prompt": "a", "promt": "b" }), "unknown field `promt`");
        check("agent", json!({ "prompt": "a", "sandbox": "none" }), "unknown variant `none`");
        check("agent", json!({ "prompt": "a", "cwd": "" }), "`cwd` is empty");
        let twice = json!({ "prompt": "a", "profile": "p", "config": { "profile": "q" } });
        check("agent", twice, "`profile` is given twice");
        let policy = json!({ "prompt": "a", "approvalPolicy": "always" });
        let values = "expected one of `untrusted`, `on-failure`, `on-request`, `never`";
        check("agent", policy, values);
        let twice = json!({ "prompt": "a", "approvalPolicy": "never", "approval-policy": "never" });
        check("agent", twice, "`approvalPolicy` is given twice");
        let unknown = read_task("agent", json!({ "x": 1 })).err().unwrap_or_default();
        assert!(unknown.contains("`approvalPolicy`, `profile`"), "{unknown}");
        assert!(!unknown.contains('-'), "{unknown}");
        check("agent-reply", json!({ "prompt": "a" }), "missing field `threadId`");
        check("agent-reply", json!({ "prompt": "a", "threadId": "" }), "`threadId` is empty");
        let model = json!({ "prompt": "a", "threadId": "t", "model": "m" });
        check("agent-reply", model, "unknown field `model`");
    }
}
