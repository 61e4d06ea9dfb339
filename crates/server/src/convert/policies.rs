//! Policies from the configuration to the session, and from the session to the sandbox. No type of
//! the wire is involved.

use std::path::{Path, PathBuf};

use config::{PermissionBase, SandboxMode};
use session::{ApprovalPolicy, ApprovalsReviewer, Granular, ReadAccess, SandboxPolicy};

/// The approval policy of the configuration.
pub(crate) fn approval_policy(policy: config::ApprovalPolicy) -> ApprovalPolicy {
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
pub(crate) fn approvals_reviewer(reviewer: config::ApprovalsReviewer) -> ApprovalsReviewer {
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
pub(crate) fn configured_sandbox(
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
pub(crate) fn mode_policy(
    mode: SandboxMode,
    cwd: &Path,
    workspace: &config::WorkspaceWrite,
) -> SandboxPolicy {
    match mode {
        SandboxMode::ReadOnly => SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false },
        SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        SandboxMode::WorkspaceWrite => {
            let mut writable_roots = Vec::new();
            if !workspace.writable_roots.is_empty() {
                writable_roots.push(cwd.to_owned());
                writable_roots.extend(workspace.writable_roots.iter().cloned());
            }
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
pub(crate) fn profile_policy(
    profile: &config::PermissionProfile,
    project_root: &Path,
    tmpdir: Option<PathBuf>,
) -> SandboxPolicy {
    let mut rules = Vec::new();
    let mut platform_defaults = false;
    for rule in &profile.rules {
        let base = match &rule.base {
            PermissionBase::Root => PathBuf::from("/"),
            PermissionBase::ProjectRoots => project_root.to_owned(),
            PermissionBase::SlashTmp => PathBuf::from("/tmp"),
            PermissionBase::Path(path) => path.clone(),
            PermissionBase::Minimal => {
                platform_defaults = true;
                continue;
            }
            PermissionBase::Tmpdir => match &tmpdir {
                Some(tmpdir) => tmpdir.clone(),
                None => continue,
            },
        };
        let path = rule.subpath.as_ref().map_or_else(|| base.clone(), |sub| base.join(sub));
        let access = match rule.access {
            config::Access::None => session::Access::None,
            config::Access::Read => session::Access::Read,
            config::Access::Write => session::Access::Write,
        };
        rules.push((path, access));
    }
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

/// The policy that commands of a thread in `cwd` run under. With no roots given the working folder
/// is the one root; with roots given, nothing else is writable.
pub(crate) fn confinement(policy: &SandboxPolicy, cwd: &Path) -> sandbox::Policy {
    match policy {
        SandboxPolicy::DangerFullAccess => sandbox::Policy::DangerFullAccess,
        SandboxPolicy::ReadOnly { read, network } => {
            sandbox::Policy::ReadOnly { read: confined_read(read), network: *network }
        }
        SandboxPolicy::WorkspaceWrite {
            writable_roots,
            read,
            network,
            exclude_slash_tmp,
            exclude_tmpdir,
        } => sandbox::Policy::WorkspaceWrite {
            writable_roots: if writable_roots.is_empty() {
                vec![cwd.to_owned()]
            } else {
                writable_roots.clone()
            },
            read: confined_read(read),
            network: *network,
            exclude_slash_tmp: *exclude_slash_tmp,
            exclude_tmpdir: *exclude_tmpdir,
        },
        SandboxPolicy::Profile { rules, platform_defaults, network, .. } => {
            let access = |access: &session::Access| match access {
                session::Access::None => sandbox::Access::None,
                session::Access::Read => sandbox::Access::Read,
                session::Access::Write => sandbox::Access::Write,
            };
            sandbox::Policy::Profile {
                rules: rules.iter().map(|(path, a)| (path.clone(), access(a))).collect(),
                platform_defaults: *platform_defaults,
                network: *network,
            }
        }
        SandboxPolicy::External { network } => sandbox::Policy::External { network: *network },
    }
}

fn confined_read(access: &ReadAccess) -> sandbox::ReadAccess {
    match access {
        ReadAccess::Full => sandbox::ReadAccess::Full,
        ReadAccess::Restricted { platform_defaults, roots } => sandbox::ReadAccess::Restricted {
            include_platform_defaults: *platform_defaults,
            readable_roots: roots.clone(),
        },
    }
}
