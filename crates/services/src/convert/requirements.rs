//! An administrator's requirements as clients see them.

use config::Requirements;
use config::table::AllowedApproval;
use hooks::{EventName, Handler, Hook};
use protocol::policy::{AskForApproval, GranularApproval, SandboxMode};
use protocol::requirements::{
    ConfigRequirements, ConfiguredHookHandler, ConfiguredHookMatcherGroup,
    ManagedHooksRequirements, WebSearchMode,
};

use crate::convert::policies::approvals_reviewer;
use crate::convert::settings::{wire_mode, wire_reviewer};

/// `None` when nothing is required.
pub fn wire(requirements: &Requirements) -> Option<ConfigRequirements> {
    if requirements.is_empty() {
        return None;
    }
    let features: std::collections::BTreeMap<String, bool> =
        requirements.features().map(|(name, on)| (name.to_owned(), on)).collect();
    Some(ConfigRequirements {
        allowed_approval_policies: requirements
            .allowed_approvals()
            .map(|all| all.iter().map(|one| approval(*one)).collect()),
        allowed_approvals_reviewers: requirements
            .allowed_reviewers()
            .map(|all| all.into_iter().map(|one| wire_reviewer(approvals_reviewer(one))).collect()),
        allowed_sandbox_modes: requirements
            .allowed_sandbox_modes()
            .map(|all| all.iter().map(|mode| wire_mode(*mode)).collect::<Vec<SandboxMode>>()),
        allowed_web_search_modes: requirements
            .allowed_web_search_modes()
            .map(|all| all.iter().map(|mode| web_search(*mode)).collect()),
        hooks: hooks_of(requirements),
        feature_requirements: (!features.is_empty()).then_some(features),
        ..ConfigRequirements::default()
    })
}

fn approval(allowed: AllowedApproval) -> AskForApproval {
    match allowed {
        AllowedApproval::Untrusted => AskForApproval::UnlessTrusted,
        AllowedApproval::OnRequest => AskForApproval::OnRequest,
        AllowedApproval::Never => AskForApproval::Never,
        // The requirement allows any granular policy: the most permissive one represents them.
        AllowedApproval::Granular => AskForApproval::Granular(GranularApproval {
            sandbox_approval: true,
            rules: true,
            mcp_elicitations: true,
            request_permissions: true,
            skill_approval: true,
        }),
    }
}

/// The hooks of the events and kinds that this object has a place for; `hooks/list` has all.
fn hooks_of(requirements: &Requirements) -> Option<ManagedHooksRequirements> {
    let files = requirements.hooks().iter();
    let hooks: Vec<Hook> = files.flat_map(|file| file.definitions().hooks).collect();
    let of = |event: EventName| -> Vec<ConfiguredHookMatcherGroup> {
        let of_event = hooks.iter().filter(|hook| hook.event == event);
        let group = |hook: &Hook| {
            let hooks = vec![handler(hook)?];
            Some(ConfiguredHookMatcherGroup { matcher: hook.matcher_text.clone(), hooks })
        };
        of_event.filter_map(group).collect()
    };
    (!hooks.is_empty()).then(|| ManagedHooksRequirements {
        managed_dir: None,
        windows_managed_dir: None,
        pre_tool_use: of(EventName::PreToolUse),
        permission_request: of(EventName::PermissionRequest),
        post_tool_use: of(EventName::PostToolUse),
        pre_compact: of(EventName::PreCompact),
        post_compact: of(EventName::PostCompact),
        session_start: of(EventName::SessionStart),
        user_prompt_submit: of(EventName::UserPromptSubmit),
        stop: of(EventName::Stop),
    })
}

fn handler(hook: &Hook) -> Option<ConfiguredHookHandler> {
    match &hook.handler {
        Handler::Command(command) => Some(ConfiguredHookHandler::Command {
            command: command.clone(),
            is_async: hook.is_async,
            status_message: hook.status_message.clone(),
            timeout_sec: Some(hook.timeout_sec),
        }),
        Handler::Prompt { .. } => Some(ConfiguredHookHandler::Prompt),
        Handler::Agent { .. } => Some(ConfiguredHookHandler::Agent),
        Handler::McpTool { .. } => None,
    }
}

fn web_search(mode: config::WebSearch) -> WebSearchMode {
    match mode {
        config::WebSearch::Disabled => WebSearchMode::Disabled,
        config::WebSearch::Cached => WebSearchMode::Cached,
        config::WebSearch::Live => WebSearchMode::Live,
    }
}
