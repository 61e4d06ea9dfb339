//! An administrator's requirements as clients see them.

use config::Requirements;
use config::table::AllowedApproval;
use protocol::policy::{AskForApproval, GranularApproval, SandboxMode};
use protocol::requirements::{ConfigRequirements, WebSearchMode};

use crate::convert::policies::approvals_reviewer;
use crate::convert::settings::{wire_mode, wire_reviewer};

/// `None` when nothing is required.
pub(crate) fn wire(requirements: &Requirements) -> Option<ConfigRequirements> {
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

fn web_search(mode: config::WebSearch) -> WebSearchMode {
    match mode {
        config::WebSearch::Disabled => WebSearchMode::Disabled,
        config::WebSearch::Cached => WebSearchMode::Cached,
        config::WebSearch::Live => WebSearchMode::Live,
    }
}
