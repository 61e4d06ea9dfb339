//! An administrator's requirements (`requirements.toml`): constraints on the merged configuration
//! and on what clients request, not a layer.
//!
//! Three files can hold requirements: the system's, the cache of those fetched for a managed
//! account, and the user's own. Each can only narrow what the ones before it allow.

mod hooks;
mod limits;
mod plugins;
mod replacing;
mod servers;

use std::collections::BTreeMap;
use std::path::Path;

use ::hooks::Source;

pub use self::hooks::FileHooks;
use crate::error::{Error, Warning};
use crate::file_cache::FileCache;
use crate::key_path::join;
use crate::kind::{ReadContext, Setting};
use crate::layer_name::LayerName;
use crate::origin::Origin;
use crate::requirements_layer::RequirementsLayer;
use crate::table::{
    AllowedApproval, AllowedServer, ApprovalPolicy, ApprovalsReviewer, Granular, PrefixRule,
    SandboxMode, WebSearch,
};
use crate::value::{Table, Value};
use limits::Ceilings;
use plugins::AllowedSources;
pub use plugins::MarketplaceSource;
use replacing::{described, replace};
use servers::AllowedServers;

/// Name of the file in the system's folder and in the agent's home.
pub const REQUIREMENTS_FILE: &str = "requirements.toml";
/// Path below the agent's home of the requirements fetched for a managed account. The program that
/// fetches them replaces the file atomically; they apply as long as the file exists.
pub const FETCHED_REQUIREMENTS_FILE: &str = "cache/requirements.toml";

/// The feature that makes a model the reviewer of approvals.
const SMART_APPROVALS: &str = "smart_approvals";

/// The combined requirements of all files.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Requirements {
    approvals: Option<Allowed<AllowedApproval>>,
    reviewers: Option<Allowed<ApprovalsReviewer>>,
    sandbox: Option<Allowed<SandboxMode>>,
    web_search: Option<Allowed<WebSearch>>,
    features: BTreeMap<String, (bool, Origin)>,
    servers: Vec<AllowedServers>,
    marketplaces: Vec<AllowedSources>,
    rules: Vec<RequiredRule>,
    hooks: Vec<FileHooks>,
    ceilings: Ceilings,
}

/// The values that a key may have.
#[derive(Debug, Clone, PartialEq)]
struct Allowed<T> {
    /// The values that every file lists.
    values: Vec<T>,
    /// The values that each file lists, and where.
    files: Vec<(Vec<T>, Origin)>,
}

impl<T: PartialEq> Allowed<T> {
    /// Where a value is excluded: in the first file that does not list it.
    fn origin(&self, excluded: &T) -> &Origin {
        let excludes = |(listed, _): &&(Vec<T>, Origin)| !listed.contains(excluded);
        let (_, origin) = self.files.iter().find(excludes).unwrap_or(&self.files[0]);
        origin
    }
}

/// A required command rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RequiredRule {
    /// The rule.
    pub rule: PrefixRule,
    /// Where it was written.
    pub origin: Origin,
}

/// A value that a requirement replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced<T> {
    /// The nearest allowed value.
    pub by: T,
    /// The requirement and its origin, as part of a sentence.
    pub requirement: String,
    /// Where the requirement was written.
    pub origin: Origin,
}

impl Requirements {
    /// Reads and combines the files in the folders `system` and `home`.
    ///
    /// # Errors
    /// A file is invalid, or the files together allow no value of a key.
    pub fn load(files: &FileCache, system: &Path, home: &Path) -> Result<Self, Error> {
        let mut joined = Self::default();
        let sources = [Source::Managed, Source::Fetched, Source::Managed];
        for (file, source) in requirement_files(system, home).into_iter().zip(sources) {
            if let Some(layer) = files.requirements(&file)? {
                joined.narrow(&layer)?;
                joined.hooks.extend(FileHooks::of(&layer, source)?);
            }
        }
        joined.check_reviewers()?;
        Ok(joined)
    }

    /// Returns whether nothing is required.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn narrow(&mut self, layer: &RequirementsLayer) -> Result<(), Error> {
        let file = &layer.file;
        let at = |key: &str| layer.origin(&[key]);
        join_allowed(
            &mut self.approvals,
            file.allowed_approval_policies.as_deref(),
            "allowed_approval_policies",
            at("allowed_approval_policies"),
        )?;
        if let Some(listed) = &file.allowed_approvals_reviewers {
            let key = "allowed_approvals_reviewers";
            let mut values = listed.clone();
            if listed.iter().any(|reviewer| *reviewer != ApprovalsReviewer::User) {
                // Two names of one reviewer.
                values.extend([ApprovalsReviewer::AutoReview, ApprovalsReviewer::GuardianSubagent]);
            }
            join_allowed(&mut self.reviewers, Some(&values), key, at(key))?;
        }
        join_allowed(
            &mut self.sandbox,
            file.allowed_sandbox_modes.as_deref(),
            "allowed_sandbox_modes",
            at("allowed_sandbox_modes"),
        )?;
        if let Some(listed) = &file.allowed_web_search_modes {
            let mut values = listed.clone();
            values.push(WebSearch::Disabled);
            let origin = at("allowed_web_search_modes");
            let key = "allowed_web_search_modes";
            join_allowed(&mut self.web_search, Some(&values), key, origin)?;
        }
        for (name, on) in &file.features {
            let origin = layer.origin(&["features", name]);
            self.features.entry(name.clone()).or_insert((*on, origin));
        }
        if let Some(listed) = &file.mcp_servers {
            let origin = at("mcp_servers");
            let identity =
                |(id, server): (&String, &AllowedServer)| (id.clone(), server.identity.clone());
            let by_id = listed.iter().map(identity).collect();
            self.servers.push(AllowedServers { by_id, origin });
        }
        if let Some(listed) = &file.plugins.allowed_marketplaces {
            let origin = layer.origin(&["plugins", "allowed_marketplaces"]);
            self.marketplaces.push(AllowedSources { listed: listed.clone(), origin });
        }
        self.ceilings.narrow(layer);
        for (index, rule) in file.rules.prefix_rules.iter().enumerate() {
            self.rules.push(RequiredRule { rule: rule.clone(), origin: layer.rule_origin(index) });
        }
        Ok(())
    }

    /// The allowed approval policies; `None` allows all.
    pub fn allowed_approvals(&self) -> Option<&[AllowedApproval]> {
        self.approvals.as_ref().map(|allowed| allowed.values.as_slice())
    }

    /// A reviewer that is required, and a feature that switches it off.
    fn check_reviewers(&self) -> Result<(), Error> {
        let Some((false, origin)) = self.features.get(SMART_APPROVALS) else { return Ok(()) };
        match &self.reviewers {
            Some(allowed) if !allowed.values.contains(&ApprovalsReviewer::User) => {
                let required = described("allowed_approvals_reviewers", &allowed.files[0].1);
                let message = format!(
                    "`features.{SMART_APPROVALS} = false` switches off every reviewer that {required} \
                     allows; change one of them"
                );
                Err(Error::Requirements { origin: origin.clone(), message })
            }
            _ => Ok(()),
        }
    }

    /// The allowed reviewers of approvals; `None` allows all.
    pub fn allowed_reviewers(&self) -> Option<Vec<ApprovalsReviewer>> {
        const ALL: [ApprovalsReviewer; 3] = [
            ApprovalsReviewer::User,
            ApprovalsReviewer::AutoReview,
            ApprovalsReviewer::GuardianSubagent,
        ];
        let all = ALL.into_iter().filter(|reviewer| self.reviewer(*reviewer).is_none());
        let all: Vec<ApprovalsReviewer> = all.collect();
        (all.len() < ALL.len()).then_some(all)
    }

    /// The allowed sandbox modes; `None` allows all.
    pub fn allowed_sandbox_modes(&self) -> Option<&[SandboxMode]> {
        self.sandbox.as_ref().map(|allowed| allowed.values.as_slice())
    }

    /// The allowed web search modes; `None` allows all.
    pub fn allowed_web_search_modes(&self) -> Option<&[WebSearch]> {
        self.web_search.as_ref().map(|allowed| allowed.values.as_slice())
    }

    /// Features that must be on or off.
    pub fn features(&self) -> impl Iterator<Item = (&str, bool)> {
        self.features.iter().map(|(name, (on, _))| (name.as_str(), *on))
    }

    /// Why plugins of a marketplace cannot be used: a requirement that does not list it, as part of a
    /// sentence. `None` if it is allowed.
    #[must_use]
    pub fn forbidding_marketplace(&self, source: MarketplaceSource<'_>) -> Option<String> {
        let forbidding = self.marketplaces.iter().find(|file| !file.allows(source))?;
        Some(described("plugins.allowed_marketplaces", &forbidding.origin))
    }

    /// The requirement that lists marketplaces, as part of a sentence; `None` if all are allowed.
    #[must_use]
    pub fn restricting_marketplaces(&self) -> Option<String> {
        let first = self.marketplaces.first()?;
        Some(described("plugins.allowed_marketplaces", &first.origin))
    }

    /// The highest value of a limit of commands, by its key, as `command_limits.memory_mib`.
    pub fn ceiling(&self, key: &str) -> Option<u64> {
        self.ceilings.of(key)
    }

    /// Required command rules, which apply in addition to those of `.rules` files.
    pub fn prefix_rules(&self) -> &[RequiredRule] {
        &self.rules
    }

    /// The replacement for an approval policy; `None` if `wanted` is allowed.
    pub fn approval(&self, wanted: ApprovalPolicy) -> Option<Replaced<ApprovalPolicy>> {
        const ORDER: [AllowedApproval; 4] = [
            AllowedApproval::Untrusted,
            AllowedApproval::OnRequest,
            AllowedApproval::Granular,
            AllowedApproval::Never,
        ];
        let name = AllowedApproval::parse(wanted.as_str())?;
        let allowed = self.approvals.as_ref()?;
        let by = match nearest(&ORDER, &allowed.values, name)? {
            AllowedApproval::Untrusted => ApprovalPolicy::Untrusted,
            AllowedApproval::OnRequest => ApprovalPolicy::OnRequest,
            AllowedApproval::Never => ApprovalPolicy::Never,
            AllowedApproval::Granular => ApprovalPolicy::Granular(Granular {
                sandbox_approval: true,
                rules: true,
                mcp_elicitations: true,
                request_permissions: true,
                skill_approval: true,
            }),
        };
        Some(replaced(by, "allowed_approval_policies", allowed.origin(&name)))
    }

    /// The replacement for a reviewer of approvals; `None` if `wanted` is allowed.
    pub fn reviewer(&self, wanted: ApprovalsReviewer) -> Option<Replaced<ApprovalsReviewer>> {
        const ORDER: [ApprovalsReviewer; 3] = [
            ApprovalsReviewer::User,
            ApprovalsReviewer::AutoReview,
            ApprovalsReviewer::GuardianSubagent,
        ];
        if let (Some((false, origin)), true) =
            (self.features.get(SMART_APPROVALS), wanted != ApprovalsReviewer::User)
        {
            let key = join(&["features", SMART_APPROVALS]);
            return Some(replaced(ApprovalsReviewer::User, &key, origin));
        }
        let allowed = self.reviewers.as_ref()?;
        let by = nearest(&ORDER, &allowed.values, wanted)?;
        Some(replaced(by, "allowed_approvals_reviewers", allowed.origin(&wanted)))
    }

    /// The replacement for a sandbox mode; `None` if `wanted` is allowed.
    pub fn sandbox(&self, wanted: SandboxMode) -> Option<Replaced<SandboxMode>> {
        const ORDER: [SandboxMode; 3] =
            [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess];
        let allowed = self.sandbox.as_ref()?;
        let by = nearest(&ORDER, &allowed.values, wanted)?;
        Some(replaced(by, "allowed_sandbox_modes", allowed.origin(&wanted)))
    }

    /// The replacement for a web search mode; `None` if `wanted` is allowed.
    pub fn web_search(&self, wanted: WebSearch) -> Option<Replaced<WebSearch>> {
        const ORDER: [WebSearch; 3] = [WebSearch::Disabled, WebSearch::Cached, WebSearch::Live];
        let allowed = self.web_search.as_ref()?;
        let by = nearest(&ORDER, &allowed.values, wanted)?;
        Some(replaced(by, "allowed_web_search_modes", allowed.origin(&wanted)))
    }

    /// Replaces forbidden values in the merged configuration. Warns only about values that are set.
    pub(crate) fn constrain(
        &self,
        root: &mut Table,
        cx: &ReadContext<'_>,
    ) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        for key in ["approval_policy", "sandbox_mode", "web_search"] {
            let written = root.get(key);
            let replaced = match key {
                "approval_policy" => in_file_form(
                    self.approval(
                        written
                            .map(|node| ApprovalPolicy::read(node, cx))
                            .transpose()?
                            .unwrap_or(ApprovalPolicy::OnRequest),
                    ),
                ),
                "sandbox_mode" => in_file_form(
                    self.sandbox(
                        written
                            .map(|node| SandboxMode::read(node, cx))
                            .transpose()?
                            .unwrap_or(SandboxMode::ReadOnly),
                    ),
                ),
                // The default depends on the thread's sandbox, which is not known here.
                _ => match written {
                    Some(node) => in_file_form(self.web_search(WebSearch::read(node, cx)?)),
                    None => None,
                },
            };
            if let Some(Replacement { json, requirement, origin }) = replaced {
                warnings.extend(replace(root, &[key], &json, &requirement, &origin));
            }
        }
        for (name, (on, origin)) in &self.features {
            let now = root.get("features").and_then(|node| match &node.value {
                Value::Table(features) => features.get(name),
                _ => None,
            });
            if now.is_some_and(|now| now.value == Value::Boolean(*on)) {
                continue;
            }
            let requirement = described(&join(&["features", name]), origin);
            let json = (*on).into();
            warnings.extend(replace(root, &["features", name], &json, &requirement, origin));
        }
        warnings.extend(self.constrain_reviewer(root, cx)?);
        warnings.extend(self.ceilings.constrain(root));
        self.constrain_servers(root, &mut warnings)?;
        self.refuse_programs_of_clients(root)?;
        Ok(warnings)
    }

    /// Replaces a forbidden reviewer of approvals. The default depends on a feature, which is within
    /// the requirements already.
    fn constrain_reviewer(
        &self,
        root: &mut Table,
        cx: &ReadContext<'_>,
    ) -> Result<Option<Warning>, Error> {
        let key = "approvals_reviewer";
        let features = match root.get("features").map(|node| &node.value) {
            Some(Value::Table(features)) => features.get(SMART_APPROVALS),
            _ => None,
        };
        let is_on = features.is_some_and(|node| node.value == Value::Boolean(true));
        let wanted = match root.get(key) {
            Some(node) if node.value != Value::Unset => ApprovalsReviewer::read(node, cx)?,
            _ => ApprovalsReviewer::default_with(is_on),
        };
        let Some(replacement) = in_file_form(self.reviewer(wanted)) else { return Ok(None) };
        let Replacement { json, requirement, origin } = replacement;
        Ok(replace(root, &[key], &json, &requirement, &origin))
    }
}

/// The requirements files, the one with precedence first.
pub(crate) fn requirement_files(system: &Path, home: &Path) -> [LayerName; 3] {
    [
        LayerName::Requirements { file: system.join(REQUIREMENTS_FILE) },
        LayerName::Requirements { file: home.join(FETCHED_REQUIREMENTS_FILE) },
        LayerName::Requirements { file: home.join(REQUIREMENTS_FILE) },
    ]
}

fn join_allowed<T: Copy + PartialEq>(
    so_far: &mut Option<Allowed<T>>,
    listed: Option<&[T]>,
    key: &str,
    origin: Origin,
) -> Result<(), Error> {
    let Some(listed) = listed else { return Ok(()) };
    let Some(allowed) = so_far else {
        let files = vec![(listed.to_vec(), origin)];
        *so_far = Some(Allowed { values: listed.to_vec(), files });
        return Ok(());
    };
    allowed.values.retain(|value| listed.contains(value));
    if allowed.values.is_empty() {
        let others: Vec<String> =
            allowed.files.iter().map(|(_, origin)| origin.to_string()).collect();
        let message = format!(
            "this `{key}` and the one at {} have no common value; change one of them",
            others.join(" and at ")
        );
        return Err(Error::Requirements { origin, message });
    }
    allowed.files.push((listed.to_vec(), origin));
    Ok(())
}

/// The allowed value nearest to `wanted` in `order`, from strict to loose; of two that are equally
/// near, the stricter. `None` if `wanted` is allowed.
fn nearest<T: Copy + PartialEq>(order: &[T], allowed: &[T], wanted: T) -> Option<T> {
    if allowed.contains(&wanted) {
        return None;
    }
    let at = order.iter().position(|value| *value == wanted)?;
    let candidates = order.iter().enumerate().filter(|(_, value)| allowed.contains(value));
    candidates.min_by_key(|(index, _)| index.abs_diff(at)).map(|(_, value)| *value)
}

fn replaced<T>(by: T, key: &str, origin: &Origin) -> Replaced<T> {
    Replaced { by, requirement: described(key, origin), origin: origin.clone() }
}

/// A replacement in the form of a file.
struct Replacement {
    json: serde_json::Value,
    requirement: String,
    origin: Origin,
}

fn in_file_form<T: Setting>(replaced: Option<Replaced<T>>) -> Option<Replacement> {
    let Replaced { by, requirement, origin } = replaced?;
    Some(Replacement { json: by.show()?, requirement, origin })
}
