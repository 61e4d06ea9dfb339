//! Policies from the configuration to the session. No type of the wire is involved.

use std::path::{Path, PathBuf};

use config::SandboxMode;
use policy::ProfileFiles;
use session::{ApprovalPolicy, ApprovalsReviewer, Granular, ReadAccess, SandboxPolicy};

/// The approval policy of the configuration.
pub fn approval_policy(policy: config::ApprovalPolicy) -> ApprovalPolicy {
    match policy {
        config::ApprovalPolicy::Untrusted => ApprovalPolicy::UnlessTrusted,
        config::ApprovalPolicy::OnRequest => ApprovalPolicy::OnRequest,
        config::ApprovalPolicy::Never => ApprovalPolicy::Never,
        config::ApprovalPolicy::Granular(granular) => ApprovalPolicy::Granular(Granular {
            sandbox_approval: granular.sandbox_approval,
            rules: granular.rules,
            mcp_elicitations: granular.mcp_elicitations,
            request_permissions: granular.request_permissions,
            skill_approval: granular.skill_approval,
        }),
    }
}

/// The approvals reviewer of the configuration.
pub fn approvals_reviewer(reviewer: config::ApprovalsReviewer) -> ApprovalsReviewer {
    match reviewer {
        config::ApprovalsReviewer::User => ApprovalsReviewer::User,
        config::ApprovalsReviewer::AutoReview => ApprovalsReviewer::AutoReview,
        config::ApprovalsReviewer::GuardianSubagent => ApprovalsReviewer::GuardianSubagent,
    }
}

/// The approvals reviewer as the configuration names it.
pub(crate) fn configured_reviewer(reviewer: ApprovalsReviewer) -> config::ApprovalsReviewer {
    match reviewer {
        ApprovalsReviewer::User => config::ApprovalsReviewer::User,
        ApprovalsReviewer::AutoReview => config::ApprovalsReviewer::AutoReview,
        ApprovalsReviewer::GuardianSubagent => config::ApprovalsReviewer::GuardianSubagent,
    }
}

/// The sandbox policy of the configuration.
pub fn configured_sandbox(
    config: &config::Config,
    cwd: &Path,
    tmpdir: Option<PathBuf>,
) -> SandboxPolicy {
    match &config.permission_profile {
        Some(profile) => profile_policy(profile, &config.project_root, tmpdir),
        None => mode_policy(config.sandbox_mode, cwd, &config.sandbox_workspace_write),
    }
}

/// The policy that a mode stands for; `workspace` holds the configuration's additions.
pub fn mode_policy(
    mode: SandboxMode,
    cwd: &Path,
    workspace: &config::WorkspaceWrite,
) -> SandboxPolicy {
    match mode {
        SandboxMode::ReadOnly => SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false },
        SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        SandboxMode::WorkspaceWrite => {
            let mut writable_roots = Vec::new();
            let more = workspace.writable_roots.iter().cloned();
            policy::add_roots(&mut writable_roots, cwd.to_owned(), more);
            SandboxPolicy::WorkspaceWrite {
                writable_roots,
                read: ReadAccess::Full,
                network: workspace.network_access,
                exclude_slash_tmp: workspace.exclude_slash_tmp,
                exclude_tmpdir: workspace.exclude_tmpdir_env_var,
            }
        }
    }
}

/// The policy of a permission profile of the configuration. With any key besides `enabled`, the
/// network is the managed one.
pub fn profile_policy(
    profile: &config::PermissionProfile,
    project_root: &Path,
    tmpdir: Option<PathBuf>,
) -> SandboxPolicy {
    let ProfileFiles { rules, platform_defaults } =
        ProfileFiles::new(&profile.rules, project_root, tmpdir.as_deref());
    let managed = profile.network.enabled && profile.network.needs_proxy();
    let network = profile.network.enabled && !managed;
    SandboxPolicy::Profile {
        name: profile.name.clone(),
        rules,
        platform_defaults,
        network,
        managed,
    }
}
