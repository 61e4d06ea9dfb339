//! Stored shapes of policies.

use std::path::PathBuf;

use policy::RootedPolicy;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use session::{
    Access, ApprovalPolicy, ApprovalsReviewer, Granular, PolicyBound, ReadAccess, SandboxPolicy,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "ApprovalPolicy", rename_all = "camelCase")]
pub(super) enum ApprovalShape {
    Never,
    UnlessTrusted,
    OnRequest,
    Granular(#[serde(with = "GranularShape")] Granular),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Granular", rename_all = "camelCase")]
struct GranularShape {
    sandbox_approval: bool,
    rules: bool,
    mcp_elicitations: bool,
    request_permissions: bool,
    skill_approval: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ApprovalsReviewer", rename_all = "camelCase")]
pub(super) enum ReviewerShape {
    User,
    AutoReview,
    GuardianSubagent,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SandboxPolicy", rename_all = "camelCase")]
pub(super) enum SandboxShape {
    DangerFullAccess,
    ReadOnly {
        #[serde(with = "ReadShape")]
        read: ReadAccess,
        network: bool,
    },
    WorkspaceWrite {
        writable_roots: Vec<PathBuf>,
        #[serde(with = "ReadShape")]
        read: ReadAccess,
        network: bool,
        exclude_slash_tmp: bool,
        exclude_tmpdir: bool,
    },
    Profile {
        name: String,
        #[serde(with = "rules")]
        rules: Vec<(PathBuf, Access)>,
        platform_defaults: bool,
        network: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        managed: bool,
    },
    External {
        network: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReadAccess", rename_all = "camelCase")]
enum ReadShape {
    Full,
    Restricted { platform_defaults: bool, roots: Vec<PathBuf> },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Access", rename_all = "camelCase")]
enum AccessShape {
    None,
    Read,
    Write,
}

/// The rules of a profile: pairs.
mod rules {
    use super::{Access, AccessShape, Deserialize, Deserializer, PathBuf, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Rule(PathBuf, #[serde(with = "AccessShape")] Access);

    pub(super) fn serialize<S: Serializer>(
        rules: &[(PathBuf, Access)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(rules.iter().map(|(path, access)| Rule(path.clone(), *access)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(PathBuf, Access)>, D::Error> {
        let rules = Vec::<Rule>::deserialize(deserializer)?;
        Ok(rules.into_iter().map(|Rule(path, access)| (path, access)).collect())
    }
}

/// A bound in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredBound {
    #[serde(with = "ApprovalShape")]
    approval: ApprovalPolicy,
    #[serde(default, with = "ReviewerShape")]
    reviewer: ApprovalsReviewer,
    #[serde(with = "SandboxShape")]
    sandbox: SandboxPolicy,
}

impl From<&PolicyBound> for StoredBound {
    /// Plan mode ends with the loaded thread.
    fn from(bound: &PolicyBound) -> Self {
        let PolicyBound { approval, reviewer, sandbox, planning: _ } = bound;
        Self { approval: *approval, reviewer: *reviewer, sandbox: sandbox.clone().into() }
    }
}

impl From<StoredBound> for PolicyBound {
    fn from(StoredBound { approval, reviewer, sandbox }: StoredBound) -> Self {
        let sandbox = RootedPolicy::rooted_before(sandbox);
        Self { approval, reviewer, sandbox, planning: None }
    }
}
