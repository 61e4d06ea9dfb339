//! Messages about a turn that did not complete: what happened, and what to do next.

use protocol::{AgentErrorInfo, SandboxPolicy, ThreadStartResponse, TurnError};

use crate::commands::transcript::{clean, sandbox_name};

/// A failed turn in words.
pub(super) fn failure(error: Option<&TurnError>, thread: &ThreadStartResponse) -> String {
    let Some(error) = error else {
        return format!("the turn failed. {}", how_to_resume(thread));
    };
    let details = error.additional_details.as_ref().map(|details| format!(" ({details})"));
    let message = clean(&format!("{}{}", error.message, details.unwrap_or_default()));
    format!("the turn failed: {message}\n{}", next(error.agent_error_info, thread))
}

/// Returns advice about changes and commands that were declined.
pub(super) fn declined(thread: &ThreadStartResponse) -> String {
    let advice = match &thread.sandbox {
        SandboxPolicy::ReadOnly { .. } => {
            "To allow changes in the folder, use --sandbox workspace-write; to allow one command, add \
             a command rule"
        }
        SandboxPolicy::WorkspaceWrite { network_access: false, .. } => {
            "To allow changes in another folder, use --add-dir; for the network, use -c \
             sandbox_workspace_write.network_access=true; to allow one command, add a command rule"
        }
        SandboxPolicy::WorkspaceWrite { network_access: true, .. } => {
            "To allow changes in another folder, use --add-dir; to allow one command, add a command \
             rule"
        }
        SandboxPolicy::DangerFullAccess {} | SandboxPolicy::ExternalSandbox { .. } => {
            "The sandbox allows everything: check the command rules and the requirements"
        }
    };
    format!(
        "a command or change was declined, because `exec` cannot ask for approval (sandbox: {}). \
         {advice}",
        sandbox_name(&thread.sandbox)
    )
}

/// Returns the command that continues a stored thread.
pub(super) fn how_to_resume(thread: &ThreadStartResponse) -> String {
    if thread.thread.ephemeral {
        return "The thread was not stored.".to_owned();
    }
    format!("To continue: agentd exec --resume {} \"…\"", thread.thread.id)
}

fn next(info: Option<AgentErrorInfo>, thread: &ThreadStartResponse) -> String {
    let provider = &thread.model_provider;
    match info {
        Some(AgentErrorInfo::Unauthorized) => format!(
            "Check the credentials of the provider `{provider}`: `default` takes AGENT_API_KEY or \
             OPENAI_API_KEY, else the login (`agentd login status`), others the variable that their \
             `env_key` names. {}",
            how_to_resume(thread)
        ),
        Some(AgentErrorInfo::UsageLimitExceeded) => {
            "Wait until the limit resets, raise it, or choose another model (-m) or provider \
             (--model-provider)."
                .to_owned()
        }
        Some(AgentErrorInfo::ContextWindowExceeded) => {
            "Compact the thread (`/compact`), start a new one, split the task, or choose another model (-m)."
                .to_owned()
        }
        Some(AgentErrorInfo::BadRequest) => format!(
            "The provider `{provider}` refused the request. Where it does not say why: check the name of the model (now \
             `{}`), the schema and the images.",
            thread.model
        ),
        Some(
            AgentErrorInfo::HttpConnectionFailed { http_status_code: Some(404) }
            | AgentErrorInfo::ResponseStreamConnectionFailed { http_status_code: Some(404) },
        ) => format!(
            "Check the name of the model (now `{}`), and `base_url` and `wire_api` of the provider `{provider}` in \
             config.toml. {}",
            thread.model,
            how_to_resume(thread)
        ),
        Some(
            AgentErrorInfo::HttpConnectionFailed { http_status_code: Some(403) }
            | AgentErrorInfo::ResponseStreamConnectionFailed { http_status_code: Some(403) },
        ) => format!(
            "The provider `{provider}` does not permit this: check the permissions of its key, and the name of the model \
             (now `{}`). {}",
            thread.model,
            how_to_resume(thread)
        ),
        Some(
            AgentErrorInfo::HttpConnectionFailed { .. }
            | AgentErrorInfo::ResponseStreamConnectionFailed { .. },
        ) => format!(
            "Check the network, and `base_url` of the provider `{provider}` in config.toml. {}",
            how_to_resume(thread)
        ),
        Some(AgentErrorInfo::SandboxError) => {
            "`agentd doctor` says what the sandbox lacks here; or choose another --sandbox mode."
                .to_owned()
        }
        _ => how_to_resume(thread),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thread(is_ephemeral: bool) -> ThreadStartResponse {
        serde_json::from_value(json!({
            "thread": {"id": "t1", "sessionId": "t1", "preview": "", "ephemeral": is_ephemeral,
                "modelProvider": "p", "createdAt": 1, "updatedAt": 1, "status": {"type": "idle"},
                "cwd": "/w", "cliVersion": "1", "source": "exec", "turns": []},
            "model": "m", "modelProvider": "p", "cwd": "/w", "approvalPolicy": "never",
            "approvalsReviewer": "user", "sandbox": {"type": "readOnly"}
        }))
        .unwrap()
    }

    #[test]
    fn advice_for_what_was_declined_widens_the_sandbox_that_is_on() {
        let check = |sandbox: serde_json::Value, expect: &[&str], never: &[&str]| {
            let mut thread = thread(false);
            thread.sandbox = serde_json::from_value(sandbox).unwrap();
            let text = declined(&thread);
            assert!(expect.iter().all(|part| text.contains(part)), "{text}");
            assert!(!never.iter().any(|part| text.contains(part)), "{text}");
        };
        check(json!({"type": "readOnly"}), &["--sandbox workspace-write", "command rule"], &[]);
        let advised = ["--sandbox workspace-write"];
        let network = "network_access=true";
        check(json!({"type": "workspaceWrite"}), &["--add-dir", network], &advised);
        let open = json!({"type": "workspaceWrite", "networkAccess": true});
        check(open, &["--add-dir", "command rule"], &[advised[0], network]);
        check(json!({"type": "dangerFullAccess"}), &["requirements"], &[advised[0], "--add-dir"]);
    }

    #[test]
    fn every_failure_has_advice() {
        let check = |info: Option<AgentErrorInfo>, is_ephemeral, expect: &str| {
            let error = TurnError {
                message: "it broke\x1b[2J".into(),
                agent_error_info: info,
                additional_details: Some("at 5".into()),
            };
            let text = failure(Some(&error), &thread(is_ephemeral));
            assert!(text.starts_with("the turn failed: it broke (at 5)\n"), "{text}");
            assert!(text.contains(expect), "{text}");
        };
        check(Some(AgentErrorInfo::Unauthorized), false, "OPENAI_API_KEY");
        check(Some(AgentErrorInfo::UsageLimitExceeded), false, "another model");
        check(Some(AgentErrorInfo::ContextWindowExceeded), false, "start a new one");
        let http_status_code = Some(404);
        check(Some(AgentErrorInfo::HttpConnectionFailed { http_status_code }), false, "(now `m`)");
        let http_status_code = Some(403);
        check(
            Some(AgentErrorInfo::HttpConnectionFailed { http_status_code }),
            false,
            "permissions",
        );
        check(Some(AgentErrorInfo::BadRequest), false, "`m`");
        let http_status_code = Some(503);
        check(Some(AgentErrorInfo::HttpConnectionFailed { http_status_code }), false, "`base_url`");
        check(Some(AgentErrorInfo::SandboxError), false, "agentd doctor");
        check(Some(AgentErrorInfo::Other), false, "--resume t1");
        check(None, true, "The thread was not stored");
        assert!(failure(None, &thread(false)).contains("--resume t1"));
    }
}
