//! Upper bounds of a thread's policies: what the threads that started it may do.

use std::path::Path;

use super::settings::{
    ApprovalPolicy, ApprovalsReviewer, Granular, Mode, ReadAccess, SandboxPolicy, Settings,
};

/// Policies that bound others from above. Every policy within a bound allows no more than it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyBound {
    /// Approvals are asked at least as often.
    pub approval: ApprovalPolicy,
    /// Who decides; the user always may.
    pub reviewer: ApprovalsReviewer,
    /// The maximum access of commands and patches. A writable folder is named, even when it is the
    /// working folder: the bounded thread may work elsewhere.
    pub sandbox: SandboxPolicy,
    /// Plan mode, while it lasts; it is not stored.
    pub planning: Option<Planning>,
}

/// Plan mode of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planning {
    /// Its developer instructions; `None` means the built-in ones.
    pub instructions: Option<String>,
}

/// A setting that a bound replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundedSetting {
    /// [`Settings::approval`].
    Approval,
    /// [`Settings::reviewer`].
    Reviewer,
    /// [`Settings::sandbox`].
    Sandbox,
    /// [`Settings::mode`].
    Mode,
}

impl PolicyBound {
    /// Returns the bound that a thread with these settings sets.
    pub fn of(settings: &Settings) -> Self {
        let is_planning = settings.mode == Mode::Plan;
        Self {
            approval: settings.approval,
            reviewer: settings.reviewer,
            sandbox: rooted(&settings.sandbox, &settings.cwd),
            planning: is_planning
                .then(|| Planning { instructions: settings.mode_instructions.clone() }),
        }
    }

    /// The bound without plan mode, which ends.
    #[must_use]
    pub fn lasting(self) -> Self {
        Self { planning: None, ..self }
    }

    /// A bound within both. Two approval policies of which neither is within the other may have none
    /// in common: then the user is asked about everything.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let reviewer = match self.reviewer == other.reviewer {
            true => self.reviewer,
            false => ApprovalsReviewer::User,
        };
        Self {
            approval: stricter(self.approval, other.approval),
            reviewer,
            sandbox: narrower(&self.sandbox, &other.sandbox),
            planning: other.planning.clone().or_else(|| self.planning.clone()),
        }
    }

    /// Replaces each policy that allows more than its bound. Returns what was replaced.
    pub fn limit(&self, settings: &mut Settings) -> Vec<BoundedSetting> {
        let mut replaced = Vec::new();
        if !asks_as_much(settings.approval, self.approval) {
            settings.approval = self.approval;
            replaced.push(BoundedSetting::Approval);
        }
        if settings.reviewer != self.reviewer && settings.reviewer != ApprovalsReviewer::User {
            settings.reviewer = self.reviewer;
            replaced.push(BoundedSetting::Reviewer);
        }
        let bound = rooted(&self.sandbox, &settings.cwd);
        let own = rooted(&settings.sandbox, &settings.cwd);
        if !is_within(&own, &bound) {
            // A thread that is to write nothing gets no folder from its bound.
            settings.sandbox = match own {
                SandboxPolicy::ReadOnly { .. } => narrower(&own, &bound),
                _ => bound,
            };
            replaced.push(BoundedSetting::Sandbox);
        }
        if let Some(planning) = &self.planning
            && settings.mode != Mode::Plan
        {
            settings.mode = Mode::Plan;
            settings.mode_instructions.clone_from(&planning.instructions);
            replaced.push(BoundedSetting::Mode);
        }
        replaced
    }
}

/// The policy with its writable folders named.
fn rooted(policy: &SandboxPolicy, cwd: &Path) -> SandboxPolicy {
    let mut policy = policy.clone();
    if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &mut policy
        && writable_roots.is_empty()
    {
        writable_roots.push(cwd.to_owned());
    }
    policy
}

/// A policy as one that asks about some kinds of action and refuses the others; `None` for one that
/// is of another sort.
fn kinds(policy: ApprovalPolicy) -> Option<Granular> {
    match policy {
        ApprovalPolicy::Granular(granular) => Some(granular),
        ApprovalPolicy::OnRequest => Some(ALL_KINDS),
        ApprovalPolicy::Never | ApprovalPolicy::UnlessTrusted => None,
    }
}

const ALL_KINDS: Granular = Granular {
    sandbox_approval: true,
    rules: true,
    mcp_elicitations: true,
    request_permissions: true,
    skill_approval: true,
};

const NO_KINDS: Granular = Granular {
    sandbox_approval: false,
    rules: false,
    mcp_elicitations: false,
    request_permissions: false,
    skill_approval: false,
};

/// The kinds that both ask about.
fn both(a: Granular, b: Granular) -> Granular {
    Granular {
        sandbox_approval: a.sandbox_approval && b.sandbox_approval,
        rules: a.rules && b.rules,
        mcp_elicitations: a.mcp_elicitations && b.mcp_elicitations,
        request_permissions: a.request_permissions && b.request_permissions,
        skill_approval: a.skill_approval && b.skill_approval,
    }
}

/// Returns whether `policy` asks the user at least as often as `bound`, refuses what `bound`
/// refuses, and asks no user where `bound` does not.
fn asks_as_much(policy: ApprovalPolicy, bound: ApprovalPolicy) -> bool {
    match (kinds(policy), kinds(bound)) {
        (Some(asked), Some(most)) => both(asked, most) == asked,
        (None, Some(most)) => policy == ApprovalPolicy::UnlessTrusted && most == ALL_KINDS,
        _ => policy == bound,
    }
}

fn stricter(a: ApprovalPolicy, b: ApprovalPolicy) -> ApprovalPolicy {
    if asks_as_much(a, b) {
        return a;
    }
    if asks_as_much(b, a) {
        return b;
    }
    match (kinds(a), kinds(b)) {
        (Some(a), Some(b)) => ApprovalPolicy::Granular(both(a, b)),
        _ if a == ApprovalPolicy::UnlessTrusted || b == ApprovalPolicy::UnlessTrusted => {
            ApprovalPolicy::UnlessTrusted
        }
        // What `Never` refuses is refused, and what the other asks about besides is asked.
        _ => ApprovalPolicy::Granular(NO_KINDS),
    }
}

/// Returns whether everything that `policy` allows is allowed by `bound`. When that is hard to
/// tell, it is not. Writable folders are named.
fn is_within(policy: &SandboxPolicy, bound: &SandboxPolicy) -> bool {
    use SandboxPolicy::{DangerFullAccess, External, ReadOnly, WorkspaceWrite};
    if policy == bound {
        return true;
    }
    match (policy, bound) {
        (_, DangerFullAccess) => true,
        (DangerFullAccess, External { .. }) => false,
        (_, External { network }) => reaches_network(policy) <= *network,
        (ReadOnly { read, network }, ReadOnly { read: most, network: may })
        | (ReadOnly { read, network }, WorkspaceWrite { read: most, network: may, .. }) => {
            reads_within(read, most) && network <= may
        }
        (
            WorkspaceWrite { writable_roots, read, network, exclude_slash_tmp, exclude_tmpdir },
            WorkspaceWrite {
                writable_roots: roots,
                read: most,
                network: may,
                exclude_slash_tmp: no_tmp,
                exclude_tmpdir: no_tmpdir,
            },
        ) => {
            // A folder inside a root is not enough: it may be a link to elsewhere.
            writable_roots.iter().all(|root| roots.contains(root))
                && reads_within(read, most)
                && network <= may
                && exclude_slash_tmp >= no_tmp
                && exclude_tmpdir >= no_tmpdir
        }
        _ => false,
    }
}

fn reaches_network(policy: &SandboxPolicy) -> bool {
    match policy {
        SandboxPolicy::DangerFullAccess => true,
        SandboxPolicy::ReadOnly { network, .. }
        | SandboxPolicy::WorkspaceWrite { network, .. }
        | SandboxPolicy::External { network } => *network,
        SandboxPolicy::Profile { network, managed, .. } => *network || *managed,
    }
}

fn reads_within(read: &ReadAccess, bound: &ReadAccess) -> bool {
    match (read, bound) {
        (_, ReadAccess::Full) => true,
        (ReadAccess::Full, ReadAccess::Restricted { .. }) => false,
        (
            ReadAccess::Restricted { platform_defaults, roots },
            ReadAccess::Restricted { platform_defaults: may, roots: most },
        ) => platform_defaults <= may && roots.iter().all(|root| most.contains(root)),
    }
}

/// A policy within both. Writable folders are named.
fn narrower(a: &SandboxPolicy, b: &SandboxPolicy) -> SandboxPolicy {
    use SandboxPolicy::{Profile, ReadOnly, WorkspaceWrite};
    if is_within(a, b) {
        return a.clone();
    }
    if is_within(b, a) {
        return b.clone();
    }
    match (a, b) {
        (
            WorkspaceWrite { writable_roots, read, network, exclude_slash_tmp, exclude_tmpdir },
            WorkspaceWrite {
                writable_roots: roots,
                read: other,
                network: may,
                exclude_slash_tmp: no_tmp,
                exclude_tmpdir: no_tmpdir,
            },
        ) if writable_roots.iter().any(|root| roots.contains(root)) => WorkspaceWrite {
            writable_roots: common(writable_roots, roots),
            read: common_reads(read, other),
            network: *network && *may,
            exclude_slash_tmp: *exclude_slash_tmp || *no_tmp,
            exclude_tmpdir: *exclude_tmpdir || *no_tmpdir,
        },
        (
            ReadOnly { read, network } | WorkspaceWrite { read, network, .. },
            ReadOnly { read: other, network: may }
            | WorkspaceWrite { read: other, network: may, .. },
        ) => ReadOnly { read: common_reads(read, other), network: *network && *may },
        (profile @ Profile { .. }, other) | (other, profile @ Profile { .. })
            if reads_everything(other) =>
        {
            // The folder matters for policies that name none only.
            profile.reading_only(Path::new("/"))
        }
        // Two policies that cannot be compared have nothing in common for certain.
        _ => ReadOnly {
            read: ReadAccess::Restricted { platform_defaults: false, roots: Vec::new() },
            network: false,
        },
    }
}

fn reads_everything(policy: &SandboxPolicy) -> bool {
    match policy {
        SandboxPolicy::DangerFullAccess | SandboxPolicy::External { .. } => true,
        SandboxPolicy::ReadOnly { read, .. } | SandboxPolicy::WorkspaceWrite { read, .. } => {
            *read == ReadAccess::Full
        }
        SandboxPolicy::Profile { .. } => false,
    }
}

fn common_reads(a: &ReadAccess, b: &ReadAccess) -> ReadAccess {
    match (a, b) {
        (ReadAccess::Full, other) | (other, ReadAccess::Full) => other.clone(),
        (
            ReadAccess::Restricted { platform_defaults, roots },
            ReadAccess::Restricted { platform_defaults: others, roots: most },
        ) => ReadAccess::Restricted {
            platform_defaults: *platform_defaults && *others,
            roots: common(roots, most),
        },
    }
}

fn common<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().filter(|one| b.contains(one)).cloned().collect()
}

#[cfg(test)]
mod tests;
