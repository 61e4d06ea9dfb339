//! Merges layers and resolves them to a typed [`Config`] with every default applied. Has no
//! effects; the caller supplies the environment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::environment::Environment;
use crate::error::{Error, Warning, WarningKind};
use crate::key_path::{self, join};
use crate::kind::{Setting, unexpected_value};
use crate::layer::Layer;
use crate::layer_name::LayerName;
use crate::origin::Origin;
use crate::pending;
use crate::permissions::{self, PermissionProfile};
use crate::plugin::PluginParts;
use crate::provider::{Provider, Providers, providers};
use crate::requirements::{FileHooks, Replaced, Requirements};
use crate::stack::Stack;
use crate::suggest::closest;
use crate::table::{
    AgentRole, ApprovalsReviewer, Features, Keys, Stage, WebSearch, WebSearchTool, stage,
};
use crate::thread_database::{ThreadDatabase, thread_database};
use crate::unused_parts;
use crate::value::{Node, Table, Value, merge, table_to_json};

/// Name of the file of hooks, in the home and in a project's configuration folder.
const HOOKS_FILE: &str = "hooks.json";

/// The configuration of one thread, or of the server itself. Dereferences to [`Keys`], which has a
/// field for every key.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub(crate) keys: Keys,
    /// The provider that `model_provider` selects.
    pub provider: Provider,
    /// Every provider by id, `default` and `offline` among them.
    pub providers: BTreeMap<String, Provider>,
    /// Environment variables that hold credentials of providers and collectors. No child process may see
    /// them.
    pub secret_variables: Vec<String>,
    /// The permission profile that `default_permissions` selects.
    pub permission_profile: Option<PermissionProfile>,
    /// Every permission profile by name.
    pub permission_profiles: BTreeMap<String, PermissionProfile>,
    /// MCP servers whose entries come in part from a project or a client: what such a server says of
    /// its tools is not believed.
    pub untrusted_servers: BTreeSet<String>,
    /// Apps whose entries come in part from a project or a client: such an entry lets no tool run
    /// unasked.
    pub untrusted_apps: BTreeSet<String>,
    /// Absolute path of the state database's folder.
    pub sqlite_home: PathBuf,
    /// The database of threads; `None`: they are in SQLite, in `sqlite_home`.
    pub thread_database: Option<ThreadDatabase>,
    /// Absolute path of the log's folder.
    pub log_dir: PathBuf,
    /// Absolute path of the folder of the worktrees of threads; `None` where neither the key nor a home of
    /// the user says where it is.
    pub worktrees_dir: Option<PathBuf>,
    /// The selected profile.
    pub profile: Option<String>,
    /// The administrator's requirements.
    pub requirements: Arc<Requirements>,
    /// The root of the project of the working folder.
    pub project_root: PathBuf,
    /// True if the user trusts the working folder.
    pub trusted: bool,
    /// Folders whose `.rules` files apply: the user's, then those of trusted projects.
    pub rule_folders: Vec<PathBuf>,
    /// Folders that the user trusts, from the project's root to the working folder.
    pub project_folders: Vec<PathBuf>,
    /// The settings that installed plugins add, in the order of their ids.
    pub plugin_parts: Arc<[PluginParts]>,
    /// Roles of `agents.<name>` whose file cannot be used, each with the reason.
    pub broken_roles: BTreeMap<String, String>,
    /// Providers of `model_providers` that cannot be used and are not selected, each with the reason.
    pub broken_providers: BTreeMap<String, String>,
    /// Real paths of the folders that the user trusts. Commands must not write to their `.agent`
    /// folders.
    pub trusted_folders: Vec<PathBuf>,
}

impl Deref for Config {
    type Target = Keys;

    fn deref(&self) -> &Keys {
        &self.keys
    }
}

impl Config {
    /// Who decides about approvals.
    pub fn reviewer(&self) -> ApprovalsReviewer {
        let by_feature = ApprovalsReviewer::default_with(self.keys.features.smart_approvals);
        self.keys.approvals_reviewer.unwrap_or(by_feature)
    }

    /// Returns whether the hooks of the user, of projects and of plugins are on.
    pub fn has_hooks(&self) -> bool {
        let features = &self.keys.features;
        (features.codex_hooks || features.hooks == Some(true)) && !self.pins_hooks_off()
    }

    /// The hooks that requirements bring. They do not depend on the feature, which a user can switch off,
    /// unless a requirement does so.
    pub fn required_hooks(&self) -> &[FileHooks] {
        if self.pins_hooks_off() { &[] } else { self.requirements.hooks() }
    }

    /// Returns whether a requirement switches all hooks off.
    pub fn pins_hooks_off(&self) -> bool {
        let is_name = |name: &str| matches!(name, "codex_hooks" | "hooks");
        self.requirements.features().any(|(name, on)| is_name(name) && !on)
    }

    /// The files that can have hooks: the user's, then those of trusted projects. Each with whether it
    /// is the user's.
    pub fn hook_files(&self) -> impl Iterator<Item = (PathBuf, bool)> {
        let beside_rules = |folder: &PathBuf| Some(folder.parent()?.join(HOOKS_FILE));
        let files = self.rule_folders.iter().filter_map(beside_rules);
        files.enumerate().map(|(place, file)| (file, place == 0))
    }

    /// The roles of `agents.<name>` but for those whose file cannot be used.
    pub fn usable_roles(&self) -> impl Iterator<Item = (&String, &AgentRole)> {
        self.keys.agents.roles.iter().filter(|(name, _)| !self.broken_roles.contains_key(*name))
    }

    /// The web search mode of a thread, and how a requirement changed it.
    pub fn web_search_mode(&self, full_access: bool) -> (WebSearch, Option<Replaced<WebSearch>>) {
        let switched = match self.keys.tools.web_search {
            Some(WebSearchTool::Switch(true)) => Some(WebSearch::Live),
            Some(WebSearchTool::Switch(false)) => Some(WebSearch::Disabled),
            _ => None,
        };
        let features = &self.keys.features;
        let by_feature = match (features.web_search_request, features.web_search_cached) {
            (Some(true), _) => Some(WebSearch::Live),
            (_, Some(true)) => Some(WebSearch::Cached),
            _ if features.web_search == Some(true) => Some(WebSearch::Cached),
            _ => None,
        };
        let default = if full_access { WebSearch::Live } else { WebSearch::Cached };
        let mode = self.keys.web_search.or(switched).or(by_feature).unwrap_or(default);
        let replaced = self.requirements.web_search(mode);
        (replaced.as_ref().map_or(mode, |replaced| replaced.by), replaced)
    }
}

/// A merged and constrained configuration.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The typed configuration.
    pub config: Config,
    /// Warnings about layers, about trust, and about values that requirements replaced.
    pub warnings: Vec<Warning>,
    /// The version of each layer.
    layers: Vec<(LayerName, String)>,
    root: Table,
}

impl Resolved {
    /// The names of all profiles.
    pub fn profile_names(&self) -> impl Iterator<Item = &String> {
        let profiles = match self.root.get("profiles").map(|node| &node.value) {
            Some(Value::Table(profiles)) => Some(profiles),
            _ => None,
        };
        profiles.into_iter().flat_map(Table::keys)
    }

    /// The values that are set, without defaults, in the form of a file.
    pub fn to_json(&self) -> Json {
        table_to_json(&self.root)
    }

    /// All values in force, defaults included, in the form of a file with absolute paths. A value
    /// without an entry in [`Resolved::origins`] is a default.
    pub fn effective(&self) -> Json {
        let mut effective = self.config.keys.show().unwrap_or_default();
        fill(&mut effective, self.to_json());
        let computed =
            [("sqlite_home", &self.config.sqlite_home), ("log_dir", &self.config.log_dir)];
        for (key, path) in computed {
            effective[key] = path.to_string_lossy().into_owned().into();
        }
        if let Some(features) = effective.get_mut("features").and_then(Json::as_object_mut) {
            for (name, on) in features {
                *on = self.feature(name).into();
            }
        }
        effective
    }

    /// Returns whether a feature is on.
    pub fn feature(&self, name: &str) -> bool {
        self.requested(&["features".to_owned(), name.to_owned()]) == Some(true.into())
    }

    /// The value as written, or the default.
    fn requested(&self, path: &[String]) -> Option<Json> {
        let default = || match path {
            [features, name] if features == "features" => Features::SECTION.entry(name),
            _ => None,
        };
        let set = find(&self.root, path).map(|node| node.value.to_json());
        set.or_else(|| (default()?.default)())
    }

    /// Why the value of a dotted key is not in force: the part of the program that uses it is
    /// missing.
    pub fn pending_reason(&self, key_path: &str) -> Option<String> {
        let path = key_path::parse(key_path).ok()?;
        let part = pending::missing_part(&path)?;
        Some(format!("has no effect yet: it requires {part}"))
    }

    /// The origin of each value by dotted key, in the order of the keys.
    pub fn origins(&self) -> Vec<(String, &Origin)> {
        let mut origins = Vec::new();
        collect_origins(&self.root, &mut Vec::new(), &mut origins);
        origins
    }

    /// The value of a dotted key, in which numbers name elements of lists, and its origin; `None` if it
    /// is not set.
    pub fn value(&self, key_path: &str) -> Option<(Json, &Origin)> {
        let path = key_path::parse(key_path).ok()?;
        let node = find(&self.root, &path)?;
        Some((node.value.to_json(), &node.origin))
    }

    /// The origin of a dotted key, or of the nearest key around it that is set.
    pub fn origin_near(&self, key_path: &str) -> Option<&Origin> {
        let mut path = key_path::parse(key_path).ok()?;
        loop {
            if let Some(node) = find(&self.root, &path) {
                return Some(&node.origin);
            }
            path.pop()?;
        }
    }

    /// Checks the file of each role with `check`. A role whose file cannot be used is not offered, and
    /// a warning says why.
    pub fn check_roles(&mut self, check: impl Fn(&Path) -> Result<(), Error>) {
        let roles = self.config.keys.agents.roles.iter();
        let broken: Vec<(String, Error)> = roles
            .filter_map(|(name, role)| {
                Some((name.clone(), check(role.config_file.as_ref()?).err()?))
            })
            .collect();
        for (name, error) in broken {
            let key = join(&["agents", &name, "config_file"]);
            let origin = self.value(&key).map_or(Origin::Process, |(_, origin)| origin.clone());
            self.warnings.push(Warning {
                origin,
                key,
                message: format!(
                    "the role is not offered, because its file cannot be used: {error}"
                ),
                kind: WarningKind::Ignored,
            });
            self.config.broken_roles.insert(name, error.to_string());
        }
    }

    /// The files of the roles.
    pub fn role_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.config.keys.agents.roles.values().filter_map(|role| role.config_file.as_ref())
    }

    /// The version of the layer that a value comes from.
    pub fn version(&self, origin: &Origin) -> String {
        let name = origin.layer();
        if let Some((_, version)) = self.layers.iter().find(|(known, _)| *known == name) {
            return version.clone();
        }
        // A requirements file is not a layer.
        let text = origin.range().map_or("", |place| place.file.text.as_str());
        crate::layer::version(text.as_bytes())
    }
}

/// Merges and constrains a stack. The selected profile overrides the files; everything else
/// overrides the profile.
///
/// # Errors
/// A value matches its key and still cannot be used, or requirements cannot be satisfied.
pub fn resolve(stack: &Stack, environment: &Environment<'_>) -> Result<Resolved, Error> {
    let (resolved, errors) = resolve_usable(stack, environment)?;
    Error::of_all(errors).map_or(Ok(resolved), Err)
}

/// As [`resolve`], but without the parts that cannot be used, and the mistakes in these: for a check of
/// the rest.
///
/// # Errors
/// A mistake that leaves nothing to check.
pub fn resolve_usable(
    stack: &Stack,
    environment: &Environment<'_>,
) -> Result<(Resolved, Vec<Error>), Error> {
    let layers: Vec<&Layer> = stack.enabled().collect();
    let Merged { mut root, profile, undefined } = merge_layers(&layers, &stack.access);
    #[cfg(debug_assertions)]
    crate::ignored_key::remove(&mut root, environment);
    let cx = environment.read_context();
    let (mut warnings, mut errors) = (stack.warnings.clone(), Vec::from_iter(undefined));
    let unused = unused_parts::leave_out(&mut root, profile.as_deref(), &mut warnings, &mut errors);
    warnings.extend(stack.requirements.constrain(&mut root, &cx)?);
    let mut config = typed(&root, profile, stack, environment, (&mut warnings, &mut errors))?;
    config.broken_providers.extend(unused.mistakes);
    config.secret_variables.extend(unused.secret_variables);
    constrain_permissions(&mut config, &root, &mut warnings);
    unstable_features(&config, &root, &mut warnings);
    networks_without_effect(&config, &root, &mut warnings);
    let layers =
        layers.iter().map(|layer| (layer.name().clone(), layer.version().to_owned())).collect();
    Ok((Resolved { config, warnings, layers, root }, errors))
}

pub(crate) struct Merged {
    pub(crate) root: Table,
    profile: Option<String>,
    /// Why the selected profile, which is left out, cannot be used.
    pub(crate) undefined: Option<Error>,
}

/// Merges layers, the later over the earlier, and the selected profile between files and overrides.
/// `access` is the user's entry for the project, above the user's other values.
pub(crate) fn merge_layers(layers: &[&Layer], access: &Table) -> Merged {
    let merged = merge_in_order(layers, access);
    let profile = match merged.get("profile").map(|node| &node.value) {
        Some(Value::Text(name)) => name.clone(),
        _ => return Merged { root: merged, profile: None, undefined: None },
    };
    let selected = match profile_table(&merged, &profile) {
        Ok(selected) => selected,
        Err(error) => return Merged { root: merged, profile: None, undefined: Some(error) },
    };
    let (files, given): (Vec<&Layer>, Vec<&Layer>) =
        layers.iter().partition(|layer| layer.name.is_below_profile());
    let mut root = merge_in_order(&files, access);
    merge(&mut root, selected);
    for layer in given {
        merge(&mut root, &layer.root);
    }
    Merged { root, profile: Some(profile), undefined: None }
}

fn merge_in_order(layers: &[&Layer], access: &Table) -> Table {
    let is_own =
        |layer: &&Layer| matches!(layer.name, LayerName::System { .. } | LayerName::User { .. });
    let (own, above) = layers.split_at(layers.partition_point(is_own));
    let mut root = Table::new();
    own.iter().for_each(|layer| merge(&mut root, &layer.root));
    merge(&mut root, access);
    above.iter().for_each(|layer| merge(&mut root, &layer.root));
    root
}

fn profile_table<'t>(merged: &'t Table, name: &str) -> Result<&'t Table, Error> {
    let profiles = match merged.get("profiles") {
        Some(Node { value: Value::Table(all), .. }) => Some(all),
        _ => None,
    };
    if let Some(Node { value: Value::Table(table), .. }) = profiles.and_then(|all| all.get(name)) {
        return Ok(table);
    }
    if let Some(node @ Node { value: Value::Wrong(_), .. }) = profiles.and_then(|all| all.get(name))
    {
        return Err(unexpected_value(node));
    }
    let known: Vec<&str> =
        profiles.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
    Err(PROFILES.undefined(merged, name, &known))
}

/// A key whose value names an entry of a table.
struct Reference {
    key: &'static str,
    /// The name for an entry in messages.
    what: &'static str,
    table: &'static str,
}

const PROFILES: Reference = Reference { key: "profile", what: "profile", table: "profiles" };
const PROVIDERS: Reference =
    Reference { key: "model_provider", what: "model provider", table: "model_providers" };
const PERMISSIONS: Reference =
    Reference { key: "default_permissions", what: "permission profile", table: "permissions" };

impl Reference {
    /// The error about a name that no entry has.
    fn undefined(&self, root: &Table, name: &str, known: &[&str]) -> Error {
        let Self { key, what, table } = self;
        let defined = format!("define it as `[{}]`", join(&[table, name]));
        let listed = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let next_step = match closest(name, known.iter().copied()) {
            _ if known.is_empty() => format!("{defined}, or remove `{key}`"),
            Some(near) => format!("did you mean `{near}`? Defined: {listed}"),
            None => format!("use one that is defined ({listed}), or {defined}"),
        };
        let message = format!("the {what} `{name}` is not defined; {next_step}");
        let origin = root.get(*key).map_or(Origin::Process, |node| node.origin.clone());
        Error::refused(&origin, (*key).to_owned(), message)
    }
}

fn typed(
    root: &Table,
    profile: Option<String>,
    stack: &Stack,
    environment: &Environment<'_>,
    (warnings, errors): (&mut Vec<Warning>, &mut Vec<Error>),
) -> Result<Config, Error> {
    let cx = environment.read_context();
    let keys = Keys::from_table(root, &cx)?;
    let Providers { by_id, mut secret_variables, broken } =
        providers(root, &keys, environment, errors);
    let mut broken_providers = BTreeMap::new();
    for (id, error) in broken {
        warnings.push(unused_parts::warning(&["model_providers", &id], &error));
        broken_providers.insert(id, error.to_string());
    }
    let provider = by_id.get(&keys.model_provider).cloned();
    let has_mistake = |error: &Error| {
        let key = join(&["model_providers", &keys.model_provider]);
        error.gist().0.is_some_and(|wrong| wrong.starts_with(&key))
    };
    if provider.is_none() && !errors.iter().any(has_mistake) {
        let known: Vec<&str> = by_id.keys().map(String::as_str).collect();
        errors.push(PROVIDERS.undefined(root, &keys.model_provider, &known));
    }
    let mut permission_profiles = BTreeMap::new();
    for (name, permissions) in &keys.permissions {
        match permissions::profile(name, permissions, root, &cx) {
            Ok(profile) => drop(permission_profiles.insert(name.clone(), profile)),
            Err(mistakes) => errors.extend(mistakes),
        }
    }
    let permission_profile = match &keys.default_permissions {
        Some(name) if !keys.permissions.contains_key(name) => {
            let known: Vec<&str> = permission_profiles.keys().map(String::as_str).collect();
            errors.push(PERMISSIONS.undefined(root, name, &known));
            None
        }
        named => named.as_ref().and_then(|name| permission_profiles.get(name).cloned()),
    };
    secret_variables.extend(keys.store.env_key.clone());
    let thread_database = thread_database(root, &keys.store, environment, errors);
    Ok(Config {
        // One that cannot be used is an error.
        provider: provider.unwrap_or(Provider::Offline),
        providers: by_id,
        secret_variables,
        permission_profile,
        permission_profiles,
        untrusted_servers: untrusted_entries(root, "mcp_servers"),
        untrusted_apps: untrusted_entries(root, "apps"),
        sqlite_home: keys.sqlite_home.clone().unwrap_or_else(|| environment.home.to_owned()),
        thread_database,
        log_dir: keys.log_dir.clone().unwrap_or_else(|| environment.home.join("log")),
        worktrees_dir: keys.worktrees_dir.clone().or_else(|| environment.worktrees_dir()),
        profile,
        requirements: stack.requirements.clone(),
        project_root: stack.project_root.clone(),
        trusted: stack.trusted,
        rule_folders: stack.rule_folders.clone(),
        project_folders: stack.project_folders.clone(),
        trusted_folders: stack.trusted_folders.clone(),
        plugin_parts: Arc::default(),
        broken_roles: BTreeMap::new(),
        broken_providers,
        keys,
    })
}

/// The entries of a table in which something was not written by the user or an administrator.
fn untrusted_entries(root: &Table, table: &str) -> BTreeSet<String> {
    let Some(Node { value: Value::Table(entries), .. }) = root.get(table) else {
        return BTreeSet::new();
    };
    let untrusted = entries.iter().filter(|(_, entry)| !is_users_own(entry));
    untrusted.map(|(name, _)| name.clone()).collect()
}

fn is_users_own(node: &Node) -> bool {
    match &node.value {
        Value::Table(members) => members.values().all(is_users_own),
        _ => !matches!(node.origin.layer(), LayerName::Project { .. } | LayerName::Thread),
    }
}

/// Replaces a profile that allows more than the requirements by the nearest allowed sandbox mode.
fn constrain_permissions(config: &mut Config, root: &Table, warnings: &mut Vec<Warning>) {
    let Some(profile) = &config.permission_profile else { return };
    let Some(replaced) = config.requirements.sandbox(profile.mode(&config.project_root)) else {
        return;
    };
    let key = "default_permissions".to_owned();
    let message = format!(
        "{} does not allow the permission profile `{}`; using `{}` instead",
        replaced.requirement,
        profile.name,
        replaced.by.as_str()
    );
    let origin = root.get(&key).map_or(Origin::Process, |node| node.origin.clone());
    warnings.push(Warning { origin, key, message, kind: WarningKind::Replaced });
    config.keys.sandbox_mode = replaced.by;
    config.permission_profile = None;
}

fn unstable_features(config: &Config, root: &Table, warnings: &mut Vec<Warning>) {
    if config.keys.suppress_unstable_features_warning {
        return;
    }
    let Some(Value::Table(features)) = root.get("features").map(|node| &node.value) else {
        return;
    };
    for (name, node) in features {
        if stage(name) == Stage::UnderDevelopment && node.value == Value::Boolean(true) {
            warnings.push(Warning {
                origin: node.origin.clone(),
                key: join(&["features", name]),
                message: "is under development and may break; \
                          `suppress_unstable_features_warning = true` hides this warning"
                    .to_owned(),
                kind: WarningKind::Note,
            });
        }
    }
}

/// Warns about profiles whose network has rules and is off.
fn networks_without_effect(config: &Config, root: &Table, warnings: &mut Vec<Warning>) {
    for (name, permissions) in &config.keys.permissions {
        if permissions.network.enabled || !permissions.network.needs_proxy() {
            continue;
        }
        let path = ["permissions", name, "network"].map(str::to_owned);
        let origin = find(root, &path).map_or(Origin::Process, |node| node.origin.clone());
        warnings.push(Warning {
            origin,
            key: join(&path),
            message: "has no effect while `enabled` is false; add `enabled = true`".to_owned(),
            kind: WarningKind::Note,
        });
    }
}

/// Adds the members that `object` does not have.
fn fill(object: &mut Json, written: Json) {
    match (object, written) {
        (Json::Object(object), Json::Object(written)) => {
            for (name, value) in written {
                fill(object.entry(name).or_insert(Json::Null), value);
            }
        }
        (object, written) if object.is_null() => *object = written,
        _ => {}
    }
}

fn collect_origins<'t>(
    table: &'t Table,
    path: &mut Vec<String>,
    origins: &mut Vec<(String, &'t Origin)>,
) {
    for (name, node) in table {
        path.push(name.clone());
        match &node.value {
            Value::Table(inner) if !inner.is_empty() => collect_origins(inner, path, origins),
            _ => origins.push((join(path), &node.origin)),
        }
        path.pop();
    }
}

fn find<'t>(root: &'t Table, path: &[String]) -> Option<&'t Node> {
    let (first, rest) = path.split_first()?;
    find_below(root.get(first)?, rest)
}

fn find_below<'t>(node: &'t Node, path: &[String]) -> Option<&'t Node> {
    let Some((first, rest)) = path.split_first() else { return Some(node) };
    match &node.value {
        Value::Table(inner) => find_below(inner.get(first)?, rest),
        Value::Array(all) => find_below(all.get(first.parse::<usize>().ok()?)?, rest),
        _ => None,
    }
}
