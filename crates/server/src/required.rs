//! What an administrator's requirements make of the policies that a client asks for.

use std::path::{Path, PathBuf};

use config::{Requirements, SandboxMode};
use session::{Access, ApprovalPolicy, Granular, Overrides, SandboxPolicy, Settings};

use crate::convert::settings::{configured_approval, configured_mode, mode_policy};

/// Replaces what is not allowed by the nearest that is; each replacement is one sentence for the
/// client.
pub(crate) fn constrain(
    overrides: &mut Overrides,
    requirements: &Requirements,
    workspace: &config::WorkspaceWrite,
    cwd: &Path,
) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(approval) = &mut overrides.approval
        && let Some(replaced) = requirements.approval(as_configured(*approval))
    {
        told.push(format!(
            "the approval policy `{}` is not allowed by {}; `{}` is used instead",
            as_configured(*approval).as_str(),
            replaced.requirement,
            replaced.by.as_str(),
        ));
        *approval = configured_approval(replaced.by);
    }
    if let Some(sandbox) = &mut overrides.sandbox
        && let Some(replaced) = requirements.sandbox(mode(sandbox))
    {
        told.push(format!(
            "the sandbox `{}` is not allowed by {}; `{}` is used instead",
            mode(sandbox).as_str(),
            replaced.requirement,
            replaced.by.as_str(),
        ));
        *sandbox = mode_policy(configured_mode(replaced.by), cwd, workspace);
    }
    told
}

/// The same for settings that were allowed when they were made: a stored thread's, or a loaded one's
/// after the requirements changed.
pub(crate) fn constrain_settings(settings: &mut Settings, config: &config::Config) -> Vec<String> {
    let mut overrides = Overrides {
        approval: Some(settings.approval),
        sandbox: Some(settings.sandbox.clone()),
        ..Overrides::default()
    };
    let workspace = &config.sandbox_workspace_write;
    let cwd = settings.cwd.clone();
    let told = constrain(&mut overrides, &config.requirements, workspace, &cwd);
    settings.apply(overrides);
    told
}

/// The mode that a policy counts as. A sandbox of somebody else's confines nothing that we know of.
fn mode(policy: &SandboxPolicy) -> SandboxMode {
    match policy {
        SandboxPolicy::ReadOnly { .. } => SandboxMode::ReadOnly,
        SandboxPolicy::WorkspaceWrite { .. } => SandboxMode::WorkspaceWrite,
        SandboxPolicy::Profile { rules, network, managed, .. } => {
            let writes = |(_, access): &&(PathBuf, Access)| *access == Access::Write;
            match rules.iter().find(writes) {
                Some(_) if rules.iter().filter(writes).any(|(path, _)| path == Path::new("/")) => {
                    SandboxMode::DangerFullAccess
                }
                None if !network && !managed => SandboxMode::ReadOnly,
                _ => SandboxMode::WorkspaceWrite,
            }
        }
        SandboxPolicy::DangerFullAccess | SandboxPolicy::External { .. } => {
            SandboxMode::DangerFullAccess
        }
    }
}

fn as_configured(policy: ApprovalPolicy) -> config::ApprovalPolicy {
    match policy {
        ApprovalPolicy::UnlessTrusted => config::ApprovalPolicy::Untrusted,
        ApprovalPolicy::OnRequest => config::ApprovalPolicy::OnRequest,
        ApprovalPolicy::Never => config::ApprovalPolicy::Never,
        ApprovalPolicy::Granular(granular) => config::ApprovalPolicy::Granular(kinds(granular)),
    }
}

fn kinds(granular: Granular) -> config::Granular {
    config::Granular {
        sandbox_approval: granular.sandbox_approval,
        rules: granular.rules,
        mcp_elicitations: granular.mcp_elicitations,
        request_permissions: granular.request_permissions,
        skill_approval: granular.skill_approval,
    }
}
