//! Upper bounds of a thread's policies: what the threads that started it may do.

use policy::{RootedPolicy, SandboxPolicy};

use super::settings::{ApprovalPolicy, ApprovalsReviewer, Granular, Mode, Settings};

/// Policies that bound others from above. Every policy within a bound allows no more than it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyBound {
    /// Approvals are asked at least as often.
    pub approval: ApprovalPolicy,
    /// Who decides; the user always may.
    pub reviewer: ApprovalsReviewer,
    /// The maximum access of commands and patches. A writable folder is named, even when it is the
    /// working folder: the bounded thread may work elsewhere.
    pub sandbox: RootedPolicy,
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
            sandbox: settings.sandbox.rooted(&settings.cwd),
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
            sandbox: self.sandbox.narrower(&other.sandbox),
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
        let own = settings.sandbox.rooted(&settings.cwd);
        if !own.is_within(&self.sandbox) {
            // A thread that is to write nothing gets no folder from its bound.
            settings.sandbox = match *own {
                SandboxPolicy::ReadOnly { .. } => own.narrower(&self.sandbox).into(),
                _ => self.sandbox.clone().into(),
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

#[cfg(test)]
mod tests;
