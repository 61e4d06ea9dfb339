//! What makes a thread an agent. It is stored with the thread.

use serde::{Deserialize, Serialize};
use session::{ApprovalPolicy, ApprovalsReviewer, ReadAccess, SandboxPolicy, Settings};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentIdentity {
    /// The thread that started it.
    pub(crate) parent: String,
    /// The thread at the root of its tree.
    pub(crate) root: String,
    /// Its distance from the root.
    pub(crate) depth: u32,
    /// A name for people, unique in its tree.
    pub(crate) nickname: String,
    /// Its role in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// The job whose row it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    /// The policies of its parent when it was started: no configuration gives it more.
    pub(crate) bound: PolicyBound,
}

/// Policies that bound others from above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyBound {
    pub(crate) approval: ApprovalPolicy,
    #[serde(default)]
    pub(crate) reviewer: ApprovalsReviewer,
    pub(crate) sandbox: SandboxPolicy,
}

impl PolicyBound {
    /// The policies of a thread that starts an agent.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            approval: settings.approval,
            reviewer: settings.reviewer,
            sandbox: settings.sandbox.clone(),
        }
    }

    /// Replaces each policy that allows more than its bound by the bound. Each replacement is one
    /// sentence for the clients.
    pub(crate) fn limit(&self, settings: &mut Settings) -> Vec<String> {
        let mut replaced = Vec::new();
        if !asks_as_much(settings.approval, self.approval) {
            settings.approval = self.approval;
            replaced.push(wider("approval policy"));
        }
        if settings.reviewer != self.reviewer && settings.reviewer != ApprovalsReviewer::User {
            settings.reviewer = self.reviewer;
            replaced.push(wider("approvals reviewer"));
        }
        if !is_within(&settings.sandbox, &self.sandbox) {
            settings.sandbox = self.sandbox.clone();
            replaced.push(wider("sandbox"));
        }
        replaced
    }
}

fn wider(what: &str) -> String {
    format!(
        "the {what} of an agent's role allows more than that of the thread that started the agent; \
         the thread's is used instead"
    )
}

/// Whether `policy` asks the user at least as often as `bound`, and no user that `bound` does not.
fn asks_as_much(policy: ApprovalPolicy, bound: ApprovalPolicy) -> bool {
    policy == bound || policy == ApprovalPolicy::UnlessTrusted && bound != ApprovalPolicy::Never
}

/// Whether everything that `policy` allows is allowed by `bound`. When that is hard to tell, it is not.
fn is_within(policy: &SandboxPolicy, bound: &SandboxPolicy) -> bool {
    use SandboxPolicy::{DangerFullAccess, ReadOnly, WorkspaceWrite};
    if policy == bound {
        return true;
    }
    match (policy, bound) {
        (_, DangerFullAccess) => true,
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
            // No root stands for the working folder, which the agent has from its parent.
            let same_roots = writable_roots.iter().all(|root| roots.contains(root))
                && writable_roots.is_empty() == roots.is_empty();
            same_roots
                && reads_within(read, most)
                && network <= may
                && exclude_slash_tmp >= no_tmp
                && exclude_tmpdir >= no_tmpdir
        }
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(roots: &[&str], network: bool, exclude_slash_tmp: bool) -> SandboxPolicy {
        SandboxPolicy::WorkspaceWrite {
            writable_roots: roots.iter().map(Into::into).collect(),
            read: ReadAccess::Full,
            network,
            exclude_slash_tmp,
            exclude_tmpdir: false,
        }
    }

    fn profile(network: bool) -> SandboxPolicy {
        SandboxPolicy::Profile {
            name: "p".into(),
            rules: Vec::new(),
            platform_defaults: true,
            network,
            managed: false,
        }
    }

    #[test]
    fn a_sandbox_stays_within_its_bound() {
        use SandboxPolicy::{DangerFullAccess, External, ReadOnly};
        let reads = |read, network| ReadOnly { read, network };
        let full = || reads(ReadAccess::Full, false);
        let some = || ReadAccess::Restricted { platform_defaults: true, roots: vec!["/r".into()] };
        let none = || ReadAccess::Restricted { platform_defaults: false, roots: Vec::new() };
        for (policy, bound, expected) in [
            (workspace(&[], true, false), DangerFullAccess, true),
            (DangerFullAccess, workspace(&[], true, false), false),
            (External { network: false }, workspace(&[], true, false), false),
            (full(), workspace(&[], false, false), true),
            (full(), profile(true), false),
            (profile(false), profile(true), false),
            (profile(true), profile(true), true),
            (reads(ReadAccess::Full, true), full(), false),
            (reads(none(), false), reads(some(), false), true),
            (reads(some(), false), reads(none(), false), false),
            (reads(ReadAccess::Full, false), reads(some(), false), false),
            (workspace(&[], false, false), full(), false),
            (workspace(&[], false, false), workspace(&[], true, false), true),
            (workspace(&[], true, false), workspace(&[], false, false), false),
            (workspace(&["/w"], false, false), workspace(&["/w", "/x"], false, false), true),
            (workspace(&["/w", "/y"], false, false), workspace(&["/w"], false, false), false),
            (workspace(&[], false, false), workspace(&["/x"], false, false), false),
            (workspace(&[], false, true), workspace(&[], false, false), true),
            (workspace(&[], false, false), workspace(&[], false, true), false),
        ] {
            assert_eq!(is_within(&policy, &bound), expected, "{policy:?} within {bound:?}");
        }
    }

    #[test]
    fn an_approval_policy_asks_at_least_as_often_as_its_bound() {
        use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
        for (policy, bound, expected) in [
            (OnRequest, OnRequest, true),
            (UnlessTrusted, OnRequest, true),
            (OnRequest, UnlessTrusted, false),
            (Never, OnRequest, false),
            (Never, UnlessTrusted, false),
            (OnRequest, Never, false),
            (UnlessTrusted, Never, false),
        ] {
            assert_eq!(asks_as_much(policy, bound), expected, "{policy:?} within {bound:?}");
        }
    }
}
