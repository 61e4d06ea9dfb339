//! Policies and settings: between the wire and the session.

use std::path::PathBuf;

use config::SandboxMode;
use protocol::policy as wire;
use session::{
    ApprovalPolicy, ApprovalsReviewer, Granular, Mode, ReadAccess, SandboxPolicy, Settings,
};

use crate::error::{Error, start_of};
use crate::folders::absolute;

/// The approval policy that a client names.
pub fn client_approval(policy: &wire::AskForApproval) -> ApprovalPolicy {
    match policy {
        wire::AskForApproval::UnlessTrusted => ApprovalPolicy::UnlessTrusted,
        // Deprecated: the specification replaces it by asking on request.
        wire::AskForApproval::OnFailure | wire::AskForApproval::OnRequest => {
            ApprovalPolicy::OnRequest
        }
        wire::AskForApproval::Never => ApprovalPolicy::Never,
        wire::AskForApproval::Granular(granular) => ApprovalPolicy::Granular(Granular {
            sandbox_approval: granular.sandbox_approval,
            rules: granular.rules,
            mcp_elicitations: granular.mcp_elicitations,
            request_permissions: granular.request_permissions,
            skill_approval: granular.skill_approval,
        }),
    }
}

/// The approval policy as clients see it.
pub fn wire_approval(policy: ApprovalPolicy) -> wire::AskForApproval {
    match policy {
        ApprovalPolicy::UnlessTrusted => wire::AskForApproval::UnlessTrusted,
        ApprovalPolicy::OnRequest => wire::AskForApproval::OnRequest,
        ApprovalPolicy::Never => wire::AskForApproval::Never,
        ApprovalPolicy::Granular(granular) => {
            wire::AskForApproval::Granular(wire::GranularApproval {
                sandbox_approval: granular.sandbox_approval,
                rules: granular.rules,
                mcp_elicitations: granular.mcp_elicitations,
                request_permissions: granular.request_permissions,
                skill_approval: granular.skill_approval,
            })
        }
    }
}

/// The approvals reviewer that a client names.
pub fn client_reviewer(reviewer: wire::ApprovalsReviewer) -> ApprovalsReviewer {
    match reviewer {
        wire::ApprovalsReviewer::User => ApprovalsReviewer::User,
        wire::ApprovalsReviewer::AutoReview => ApprovalsReviewer::AutoReview,
        wire::ApprovalsReviewer::GuardianSubagent => ApprovalsReviewer::GuardianSubagent,
    }
}

/// The approvals reviewer as clients see it.
pub fn wire_reviewer(reviewer: ApprovalsReviewer) -> wire::ApprovalsReviewer {
    match reviewer {
        ApprovalsReviewer::User => wire::ApprovalsReviewer::User,
        ApprovalsReviewer::AutoReview => wire::ApprovalsReviewer::AutoReview,
        ApprovalsReviewer::GuardianSubagent => wire::ApprovalsReviewer::GuardianSubagent,
    }
}

/// The sandbox mode that a client names.
pub fn client_mode(mode: wire::SandboxMode) -> SandboxMode {
    match mode {
        wire::SandboxMode::ReadOnly => SandboxMode::ReadOnly,
        wire::SandboxMode::WorkspaceWrite => SandboxMode::WorkspaceWrite,
        wire::SandboxMode::DangerFullAccess => SandboxMode::DangerFullAccess,
    }
}

/// A sandbox mode as clients see it.
pub(crate) fn wire_mode(mode: SandboxMode) -> wire::SandboxMode {
    match mode {
        SandboxMode::ReadOnly => wire::SandboxMode::ReadOnly,
        SandboxMode::WorkspaceWrite => wire::SandboxMode::WorkspaceWrite,
        SandboxMode::DangerFullAccess => wire::SandboxMode::DangerFullAccess,
    }
}

/// The sandbox policy that a client gives.
///
/// # Errors
/// `-32602` for a path that is not absolute.
pub fn client_sandbox(policy: &wire::SandboxPolicy) -> Result<SandboxPolicy, Error> {
    Ok(match policy {
        wire::SandboxPolicy::DangerFullAccess {} => SandboxPolicy::DangerFullAccess,
        wire::SandboxPolicy::ReadOnly { access, network_access } => SandboxPolicy::ReadOnly {
            read: read_access(access.as_ref())?,
            network: *network_access,
        },
        wire::SandboxPolicy::WorkspaceWrite {
            writable_roots,
            read_only_access,
            network_access,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        } => SandboxPolicy::WorkspaceWrite {
            writable_roots: absolute_paths("sandboxPolicy.writableRoots", writable_roots)?,
            read: read_access(read_only_access.as_ref())?,
            network: *network_access,
            exclude_slash_tmp: *exclude_slash_tmp,
            exclude_tmpdir: *exclude_tmpdir_env_var,
        },
        wire::SandboxPolicy::ExternalSandbox { network_access } => {
            SandboxPolicy::External { network: *network_access == wire::NetworkAccess::Enabled }
        }
    })
}

/// The sandbox policy as clients see it.
pub fn wire_sandbox(policy: &SandboxPolicy) -> wire::SandboxPolicy {
    match policy {
        SandboxPolicy::DangerFullAccess => wire::SandboxPolicy::DangerFullAccess {},
        SandboxPolicy::ReadOnly { read, network } => wire::SandboxPolicy::ReadOnly {
            access: wire_read_access(read),
            network_access: *network,
        },
        SandboxPolicy::WorkspaceWrite {
            writable_roots,
            read,
            network,
            exclude_slash_tmp,
            exclude_tmpdir,
        } => wire::SandboxPolicy::WorkspaceWrite {
            writable_roots: wire_paths(writable_roots),
            read_only_access: wire_read_access(read),
            network_access: *network,
            exclude_tmpdir_env_var: *exclude_tmpdir,
            exclude_slash_tmp: *exclude_slash_tmp,
        },
        // The wire has no such policy: the closest one that does not overstate the permissions.
        SandboxPolicy::Profile { rules, platform_defaults, network, .. } => {
            let of = |wanted: session::Access| -> Vec<PathBuf> {
                let rules = rules.iter().filter(|(_, access)| *access == wanted);
                rules.map(|(path, _)| path.clone()).collect()
            };
            let (written, read) = (of(session::Access::Write), of(session::Access::Read));
            let access = wire_read_access(&ReadAccess::Restricted {
                platform_defaults: *platform_defaults,
                roots: read,
            });
            if written.is_empty() {
                wire::SandboxPolicy::ReadOnly { access, network_access: *network }
            } else {
                wire::SandboxPolicy::WorkspaceWrite {
                    writable_roots: wire_paths(&written),
                    read_only_access: access,
                    network_access: *network,
                    exclude_tmpdir_env_var: true,
                    exclude_slash_tmp: true,
                }
            }
        }
        SandboxPolicy::External { network } => wire::SandboxPolicy::ExternalSandbox {
            network_access: if *network {
                wire::NetworkAccess::Enabled
            } else {
                wire::NetworkAccess::Restricted
            },
        },
    }
}

/// Checks the name of a model that a client chooses. The provider decides which names exist, but none
/// is empty.
///
/// # Errors
/// `-32602` naming the member.
pub fn check_model(member: &str, model: Option<&str>) -> Result<(), Error> {
    match model.map(str::trim) {
        Some("") => Err(Error::invalid_params(format!(
            "`{member}` must not be empty: name a model, or leave it out"
        ))),
        _ => Ok(()),
    }
}

/// The name of the provider's own tier, which requests do not name.
const DEFAULT_TIER: &str = "default";

/// Returns the service tier that a client chooses with `member`: nothing where it names none, and none for `default`.
///
/// # Errors
/// `-32602` naming the tiers that there are.
pub fn chosen_tier(member: &str, tier: Option<&str>) -> Result<Option<Option<String>>, Error> {
    match tier {
        None => Ok(None),
        Some(DEFAULT_TIER) => Ok(Some(None)),
        Some(tier) if config::ServiceTier::parse(tier).is_some() => Ok(Some(Some(tier.to_owned()))),
        Some(tier) => {
            let shown = start_of(tier);
            let known = config::ServiceTier::NAMES.join("`, `");
            Err(Error::invalid_params(format!(
                "`{member}`: there is no tier `{shown}`; give `{known}`, `{DEFAULT_TIER}`, or leave it out"
            )))
        }
    }
}

fn absolute_paths(member: &str, paths: &[String]) -> Result<Vec<PathBuf>, Error> {
    paths.iter().map(|path| absolute(member, path)).collect()
}

fn read_access(access: Option<&wire::ReadAccess>) -> Result<ReadAccess, Error> {
    Ok(match access {
        None | Some(wire::ReadAccess::FullAccess {}) => ReadAccess::Full,
        Some(wire::ReadAccess::Restricted { include_platform_defaults, readable_roots }) => {
            ReadAccess::Restricted {
                platform_defaults: *include_platform_defaults,
                roots: absolute_paths("sandboxPolicy.readableRoots", readable_roots)?,
            }
        }
    })
}

fn wire_read_access(access: &ReadAccess) -> Option<wire::ReadAccess> {
    match access {
        ReadAccess::Full => None,
        ReadAccess::Restricted { platform_defaults, roots } => Some(wire::ReadAccess::Restricted {
            include_platform_defaults: *platform_defaults,
            readable_roots: wire_paths(roots),
        }),
    }
}

fn wire_paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// A thread's settings, as its subscribers are sent them.
pub fn thread_settings(settings: &Settings) -> protocol::ThreadSettings {
    let effort = settings.effort.as_deref().and_then(named);
    protocol::ThreadSettings {
        cwd: settings.cwd.display().to_string(),
        model: settings.model.clone(),
        model_provider: settings.provider.clone(),
        approval_policy: wire_approval(settings.approval),
        approvals_reviewer: wire_reviewer(settings.reviewer),
        sandbox_policy: wire_sandbox(&settings.sandbox),
        collaboration_mode: protocol::CollaborationMode {
            mode: match settings.mode {
                Mode::Plan => protocol::ModeKind::Plan,
                Mode::Default => protocol::ModeKind::Default,
            },
            settings: protocol::CollaborationSettings {
                model: settings.model.clone(),
                reasoning_effort: effort,
                developer_instructions: settings.mode_instructions.clone(),
            },
        },
        effort,
        summary: settings.summary.as_deref().and_then(named),
        service_tier: settings.service_tier.clone(),
        personality: settings.personality.as_deref().and_then(named),
    }
}

/// The value of an enumeration that the wire names so; `None` for a name of a configuration that it lacks.
fn named<T: serde::de::DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(name.into()).ok()
}

/// The wire's name of a value of an enumeration.
pub fn name<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("enumerations serialise to strings, not {other:?}"),
    }
}
