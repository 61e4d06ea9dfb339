//! Values within an administrator's requirements. Only an [`Allowed`] value reaches the session's
//! machine, a command or the store, and [`Allowed::new`] is the one place that makes it from what a
//! client or a configuration asks for: a path that forgets the requirements does not compile.

mod bound;
mod machine;

use std::ops::Deref;
use std::path::Path;

use config::{Config, SandboxMode};
use mcp::Confinement;
use policy::{ReadAccess, RootedPolicy};
use session::{
    ApprovalPolicy, ApprovalsReviewer, Configured, Context, ExecSpec, Grant, Granular, Limits,
    Offer, Overrides, Permissions, SandboxPolicy, Settings,
};

use crate::convert::policies::{
    approval_policy, approvals_reviewer, configured_reviewer, mode_policy,
};
use crate::error::Error;
use crate::stored;

pub use bound::{BoundedBy, PresentPolicies, ThreadAbove, ThreadBound, replacements};
pub use machine::{LimitedMachine, MachineInput};

/// A value that the requirements allow.
#[derive(Clone, Debug)]
pub struct Allowed<T>(T);

impl<T> Deref for Allowed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Allowed<T> {
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// A value with policies that requirements limit.
pub trait Limited {
    /// Those that are set.
    fn policies(&mut self) -> LimitedPolicies<'_>;
}

/// The policies of a value that requirements limit; `None` where one is not set.
#[derive(Default)]
pub struct LimitedPolicies<'a> {
    approval: Option<&'a mut ApprovalPolicy>,
    reviewer: Option<&'a mut ApprovalsReviewer>,
    sandbox: Option<&'a mut SandboxPolicy>,
}

impl Limited for Settings {
    fn policies(&mut self) -> LimitedPolicies<'_> {
        LimitedPolicies {
            approval: Some(&mut self.approval),
            reviewer: Some(&mut self.reviewer),
            sandbox: Some(&mut self.sandbox),
        }
    }
}

impl Limited for Overrides {
    fn policies(&mut self) -> LimitedPolicies<'_> {
        LimitedPolicies {
            approval: self.approval.as_mut(),
            reviewer: self.reviewer.as_mut(),
            sandbox: self.sandbox.as_mut(),
        }
    }
}

impl Limited for SandboxPolicy {
    fn policies(&mut self) -> LimitedPolicies<'_> {
        LimitedPolicies { sandbox: Some(self), ..LimitedPolicies::default() }
    }
}

impl<T: Limited> Allowed<T> {
    /// Replaces each policy that the requirements of `config` forbid by the nearest one that they
    /// allow. Each replacement is one sentence for the client. `cwd` is where commands run.
    pub fn new(mut value: T, config: &Config, cwd: &Path) -> (Self, Vec<String>) {
        let mut replacements = Vec::new();
        let LimitedPolicies { approval, reviewer, sandbox } = value.policies();
        if let Some(approval) = approval
            && let Some(replaced) = config.requirements.approval(configured_approval(*approval))
        {
            replacements.push(format!(
                "the approval policy `{}` is not allowed by {}; `{}` is used instead",
                configured_approval(*approval).as_str(),
                replaced.requirement,
                replaced.by.as_str(),
            ));
            *approval = approval_policy(replaced.by);
        }
        if let Some(reviewer) = reviewer
            && let Some(replaced) = config.requirements.reviewer(configured_reviewer(*reviewer))
        {
            replacements.push(format!(
                "the approvals reviewer `{}` is not allowed by {}; `{}` is used instead",
                configured_reviewer(*reviewer).as_str(),
                replaced.requirement,
                replaced.by.as_str(),
            ));
            *reviewer = approvals_reviewer(replaced.by);
        }
        if let Some(sandbox) = sandbox
            && let Some(replaced) = config.requirements.sandbox(sandbox.reach().into())
        {
            replacements.push(format!(
                "the sandbox `{}` is not allowed by {}; `{}` is used instead",
                SandboxMode::from(sandbox.reach()).as_str(),
                replaced.requirement,
                replaced.by.as_str(),
            ));
            *sandbox = mode_policy(replaced.by, cwd, &config.sandbox_workspace_write);
        }
        (Self(value), replacements)
    }
}

impl Allowed<Settings> {
    /// The settings, with the rest of what a thread takes from its configuration.
    pub fn configured(
        self,
        context: Context,
        offer: Offer,
        limits: Limits,
        plan_effort: Option<String>,
    ) -> Allowed<Configured> {
        Allowed(Configured { settings: self.0, context, offer, limits, plan_effort })
    }

    /// The policy that commands run under.
    pub fn sandbox(&self) -> Allowed<SandboxPolicy> {
        Allowed(self.0.sandbox.clone())
    }

    /// As they are stored.
    pub fn to_json(&self) -> String {
        stored::settings_json(&self.0)
    }
}

impl Allowed<SandboxPolicy> {
    /// Returns whether a reviewer of approvals may let an action leave the sandbox: where full
    /// access is forbidden, only the user may.
    pub(crate) fn reviewer_leaves_sandbox(config: &Config) -> bool {
        config.requirements.sandbox(SandboxMode::DangerFullAccess).is_none()
    }

    /// Full access, for a command that a client runs outside the sandbox.
    ///
    /// # Errors
    /// The requirements forbid full access.
    pub fn full_access(config: &Config) -> Result<Self, Error> {
        match config.requirements.sandbox(SandboxMode::DangerFullAccess) {
            None => Ok(Self(SandboxPolicy::DangerFullAccess)),
            Some(replaced) => {
                let by = &replaced.requirement;
                Err(Error::denied(format!("commands outside the sandbox are not allowed by {by}"))
                    .next_step("use `command/exec` to run one in the sandbox"))
            }
        }
    }

    /// The policy of a command that the machine starts: the thread's, which was allowed when it was
    /// set, or full access when the user approved the command.
    pub fn of_spec(spec: &ExecSpec) -> Self {
        Self(spec.sandbox.clone())
    }

    /// Returns the policy that the sandbox enforces for a command of a thread in `cwd`.
    pub fn confinement(&self, cwd: &Path) -> Allowed<RootedPolicy> {
        Allowed(self.0.rooted(cwd))
    }
}

impl Allowed<Grant> {
    /// Returns the user's grant beyond the policy `sandbox`.
    ///
    /// # Errors
    /// The requirements forbid the widened policy.
    pub fn grant(
        grant: Grant,
        sandbox: &SandboxPolicy,
        config: &Config,
        cwd: &Path,
    ) -> Result<Self, Error> {
        check_grantable(&grant.permissions, sandbox, config, cwd)?;
        Ok(Self(grant))
    }
}

/// Checks that the requirements allow `sandbox` with these permissions too. The network counts as
/// more than reading.
///
/// # Errors
/// They do not, with where they are.
pub fn check_grantable(
    permissions: &Permissions,
    sandbox: &SandboxPolicy,
    config: &Config,
    cwd: &Path,
) -> Result<(), Error> {
    let mode = match sandbox.widened(cwd, permissions).reach().into() {
        SandboxMode::ReadOnly if permissions.network => SandboxMode::WorkspaceWrite,
        mode => mode,
    };
    match config.requirements.sandbox(mode) {
        None => Ok(()),
        Some(replaced) => Err(Error::denied(format!(
            "these permissions cannot be granted: the sandbox `{}` is not allowed by {}",
            mode.as_str(),
            replaced.requirement
        ))),
    }
}

impl Allowed<RootedPolicy> {
    /// For commands of the server itself, which no requirement needs to limit further.
    pub fn read_only() -> Self {
        Self(RootedPolicy::READ_ONLY)
    }

    /// For the program of an MCP server in `cwd`, which the configuration names and confines, and the
    /// requirements' list of servers limits.
    pub(crate) fn mcp_server(confinement: Confinement, cwd: &Path) -> Self {
        let (read, exclude_slash_tmp, exclude_tmpdir) = (ReadAccess::Full, false, false);
        let policy = match confinement {
            Confinement::None => return Self(RootedPolicy::FULL_ACCESS),
            Confinement::Sandboxed { writes: false, network } => {
                SandboxPolicy::ReadOnly { read, network }
            }
            Confinement::Sandboxed { writes: true, network } => SandboxPolicy::WorkspaceWrite {
                writable_roots: vec![cwd.to_owned()],
                read,
                network,
                exclude_slash_tmp,
                exclude_tmpdir,
            },
        };
        Self(policy.rooted(cwd))
    }

    /// For hooks of the user and of the administrator, who could start anything themselves.
    pub(crate) fn hook_program() -> Self {
        Self(RootedPolicy::FULL_ACCESS)
    }

    /// For the program of the system that keeps the machine awake.
    pub(crate) fn idle_lock() -> Self {
        Self(RootedPolicy::FULL_ACCESS)
    }

    /// For `notify`: a program that the user's configuration names, or that of a project that the user trusts.
    pub(crate) fn notify_program() -> Self {
        Self(RootedPolicy::FULL_ACCESS)
    }
}

fn configured_approval(policy: ApprovalPolicy) -> config::ApprovalPolicy {
    match policy {
        ApprovalPolicy::UnlessTrusted => config::ApprovalPolicy::Untrusted,
        ApprovalPolicy::OnRequest => config::ApprovalPolicy::OnRequest,
        ApprovalPolicy::Never => config::ApprovalPolicy::Never,
        ApprovalPolicy::Granular(granular) => {
            config::ApprovalPolicy::Granular(configured_kinds(granular))
        }
    }
}

fn configured_kinds(granular: Granular) -> config::Granular {
    config::Granular {
        sandbox_approval: granular.sandbox_approval,
        rules: granular.rules,
        mcp_elicitations: granular.mcp_elicitations,
        request_permissions: granular.request_permissions,
        skill_approval: granular.skill_approval,
    }
}
