//! Checks a parsed layer against the option table. In a file of the user, the administrator or a
//! project, a value that its key does not accept is a warning: it counts as the value that it stands
//! for, or is left out. Where more would be permitted then, and in all other layers, it is an error.
//! Unknown, pending and deprecated keys are warnings. Moves renamed keys to their new names and removes
//! keys that the layer may not set. Names every mistake, and leaves the layer without their values.

mod patterns;
mod shapes;
mod weight;

use crate::error::{Error, Invalid, Warning, WarningKind};
use crate::expected::expected;
use crate::foreign::{self, Meaning};
use crate::form::{leaf_fits, same_shape};
use crate::key_path::{self, join};
use crate::kind::{Effect, Kind, OptionEntry, Section, invalid, scope};
use crate::layer_name::LayerName;
use crate::origin::Origin;
use crate::renamed::{RENAMED_KEYS, RENAMED_PROVIDER_KEY, written_key};
use crate::suggest::closest;
use crate::table::{Agents, DEPRECATED, Keys, RENAMED, WebSearch};
use crate::value::{Node, Table, Value};
use patterns::instead_of_pattern;
pub(crate) use patterns::is_pattern;
use weight::{PERMISSION_KEYS, is, is_in_part, is_never_left_out, strictest};

/// The findings of a check.
pub(crate) struct Checked {
    pub(crate) warnings: Vec<Warning>,
    /// In the order of the lines.
    pub(crate) error: Option<Error>,
}

/// Checks a whole layer of `config.toml`, profiles included.
pub(crate) fn check_layer(root: &mut Table, layer: &LayerName) -> Checked {
    let mut checker = Checker { layer: Some(layer), ..Checker::default() };
    checker.root(root);
    checker.checked()
}

/// Checks a table that is not a layer of `config.toml`, such as `requirements.toml`.
pub(crate) fn check_section(root: &mut Table, section: &Section) -> Checked {
    let mut checker = Checker::default();
    checker.table(root, section);
    checker.checked()
}

/// Keys whose values, and those below them, can be credentials.
const SECRET_KEYS: [&str; 5] =
    ["env", "experimental_bearer_token", "headers", "http_headers", "set"];

/// Walks through a layer.
#[derive(Default)]
struct Checker<'w> {
    /// The key being checked.
    path: Vec<String>,
    /// Number of parts of `path` that name the profile, inside of one.
    profile: usize,
    /// `None` for a file other than `config.toml`.
    layer: Option<&'w LayerName>,
    warnings: Vec<Warning>,
    errors: Vec<Error>,
}

impl Checker<'_> {
    fn checked(self) -> Checked {
        Checked { warnings: self.warnings, error: Error::of_all(self.errors) }
    }

    fn root(&mut self, table: &mut Table) {
        for renamed in RENAMED {
            self.rename(table, renamed.old, renamed.new);
        }
        for (old, new) in RENAMED_KEYS {
            self.rename(table, old, new);
        }
        self.built_in_profile(table);
        self.search_mode(table);
        self.table(table, Keys::SECTION);
    }

    /// Replaces a built-in permission profile by the sandbox mode that it stands for.
    fn built_in_profile(&mut self, table: &mut Table) {
        const KEY: &str = "default_permissions";
        let Some(Node { value: Value::Text(name), origin }) = table.get(KEY) else { return };
        let Some(mode) = foreign::sandbox_mode(name) else { return };
        let message = format!("`{name}` is understood as `sandbox_mode = \"{mode}\"`; write that");
        let origin = origin.clone();
        self.path.push(KEY.to_owned());
        self.warn(WarningKind::Note, &origin, message);
        self.path.pop();
        table.insert(KEY.to_owned(), Node { value: Value::Unset, origin: origin.clone() });
        let mode = Node { value: Value::Text(mode.to_owned()), origin };
        table.insert("sandbox_mode".to_owned(), mode);
    }

    /// Moves a mode of the web search from `tools.web_search`, which has its settings, to its own key.
    fn search_mode(&mut self, table: &mut Table) {
        if !self.is_file() {
            return;
        }
        let Some(Node { value: Value::Table(tools), .. }) = table.get_mut("tools") else { return };
        let Some(Node { value: Value::Text(mode), origin }) = tools.get("web_search") else {
            return;
        };
        if !WebSearch::NAMES.contains(&mode.as_str()) {
            return;
        }
        let message = format!("is understood as `web_search = \"{mode}\"`; write that");
        let origin = origin.clone();
        self.path.extend(["tools", "web_search"].map(str::to_owned));
        self.warn(WarningKind::Converted, &origin, message);
        self.path.truncate(self.path.len() - 2);
        if let Some(node) = tools.remove("web_search") {
            table.entry("web_search".to_owned()).or_insert(node);
        }
    }

    /// Returns whether the layer is a file that people may have brought along from another program.
    fn is_file(&self) -> bool {
        matches!(
            self.layer,
            Some(LayerName::System { .. } | LayerName::User { .. } | LayerName::Project { .. })
        )
    }

    /// The key without the profile that contains it.
    fn key(&self) -> &[String] {
        self.path.get(self.profile..).unwrap_or_default()
    }

    fn rename(&mut self, table: &mut Table, old: &str, new: &str) {
        let Some(node) = table.remove(old) else { return };
        let message = format!("was renamed; write `{new}` instead");
        self.path.push(old.to_owned());
        self.warn(WarningKind::Deprecated, &node.origin.at_key(), message);
        self.path.pop();
        let parts = key_path::parse(new).unwrap_or_default();
        let Some((last, parents)) = parts.split_last() else { return };
        let mut at = table;
        for part in parents {
            let parent = at.entry(part.clone()).or_insert_with(|| Node {
                value: Value::Table(Table::new()),
                origin: node.origin.clone(),
            });
            // A parent that is not a table is reported when it is checked.
            let Value::Table(inner) = &mut parent.value else { return };
            at = inner;
        }
        at.entry(last.clone()).or_insert(node);
    }

    fn table(&mut self, table: &mut Table, section: &Section) {
        if matches!(self.key(), [providers, _] if providers == "model_providers") {
            self.rename(table, RENAMED_PROVIDER_KEY.0, RENAMED_PROVIDER_KEY.1);
        }
        let names: Vec<String> = table.keys().cloned().collect();
        for name in names {
            let Some(node) = table.get_mut(&name) else { continue };
            self.path.push(name);
            let keep = match section.entry(self.path.last().map_or("", String::as_str)) {
                Some(entry) => self.entry(node, entry),
                None => {
                    self.unknown(node, section);
                    true
                }
            };
            let name = self.path.pop().unwrap_or_default();
            if !keep {
                table.remove(&name);
            }
        }
    }

    /// Checks the value of one key; returns whether to keep it.
    fn entry(&mut self, node: &mut Node, entry: &OptionEntry) -> bool {
        if node.value == Value::Unset {
            return true;
        }
        let is_role = entry.name.starts_with('<') && self.key().len() == 2;
        if is_role && self.key()[0] == "agents" && !matches!(node.value, Value::Table(_)) {
            // A setting of another program, and no role.
            self.unknown(node, Agents::SECTION);
            return false;
        }
        if self.profile > 0
            && self.path.len() == self.profile + 1
            && entry.name.starts_with("profile")
        {
            let message = "a profile cannot select or hold profiles; remove it".to_owned();
            self.warn(WarningKind::Ignored, &node.origin.at_key(), message);
            return false;
        }
        let outsider = match self.layer {
            Some(LayerName::Project { .. }) => Some("a project's file"),
            Some(LayerName::Role { .. }) => Some("the file of a role"),
            _ => None,
        };
        if let Some(outsider) = outsider.filter(|_| entry.scope & scope::USER != 0) {
            let message = format!(
                "ignored, because {outsider} cannot set this key; set it in your own `config.toml`"
            );
            self.warn(WarningKind::Ignored, &node.origin.at_key(), message);
            return false;
        }
        let pattern = entry.name.starts_with('<').then(|| self.path.last().cloned()).flatten();
        let keep = match pattern.and_then(|name| self.name(&name, node)) {
            Some(keep) => return keep,
            None => self.value(node, &entry.kind),
        };
        if keep {
            self.warn_about_effect(node, entry);
        }
        keep
    }

    /// Checks a value, and the values inside of it, against a kind; returns whether to keep it.
    fn value(&mut self, node: &mut Node, kind: &Kind) -> bool {
        match (kind, &mut node.value) {
            (Kind::Either(kinds), value) => {
                match kinds.iter().find(|kind| same_shape(value, kind)) {
                    Some(kind) => return self.value(node, kind),
                    None => return self.misfit(node, kind),
                }
            }
            (Kind::Table(section), Value::Table(table)) => self.table(table, section),
            (Kind::Profile, Value::Table(table)) => {
                let outer = std::mem::replace(&mut self.profile, self.path.len());
                self.root(table);
                self.profile = outer;
            }
            (Kind::Map(_, of), Value::Table(table)) => {
                table.retain(|name, inner| {
                    self.path.push(name.clone());
                    let keep = inner.value == Value::Unset
                        || self.name(name, inner).unwrap_or_else(|| self.value(inner, of));
                    self.path.pop();
                    keep
                });
            }
            (Kind::List(of), Value::Array(all)) => {
                let mut index = 0_usize;
                all.retain_mut(|inner| {
                    self.path.push(index.to_string());
                    let keep = self.value(inner, of);
                    self.path.pop();
                    index += 1;
                    keep
                });
            }
            (leaf, value) if leaf_fits(value, leaf) => {
                if let Value::Text(text) = value
                    && let Some(expected) = instead_of_pattern(self.key(), text)
                {
                    return self.pattern(node, &expected);
                }
                // TOML and JSON have one kind of number: `30.0` is the 30 that every layer then holds.
                if let (Kind::Whole { .. } | Kind::Time { .. }, Value::Other(_)) = (leaf, &*value)
                    && let Some(whole) = value.whole().and_then(|n| i64::try_from(n).ok())
                {
                    *value = Value::Integer(whole);
                }
            }
            _ => return self.misfit(node, kind),
        }
        true
    }

    /// Decides about a value that its key does not accept; returns whether to keep the key.
    fn misfit(&mut self, node: &mut Node, kind: &Kind) -> bool {
        let names: Vec<&str> = match kind {
            Kind::Choice(names, _) => names.to_vec(),
            Kind::Either(kinds) => kinds
                .iter()
                .flat_map(|kind| if let Kind::Choice(names, _) = kind { *names } else { &[] })
                .copied()
                .collect(),
            _ => Vec::new(),
        };
        let near = match &node.value {
            Value::Text(text) => closest(text, names.into_iter()),
            _ => None,
        };
        let key = join(&self.path);
        let mut invalid = invalid(node, &key, &expected(kind), near.map(str::to_owned));
        if self.is_secret() {
            "a value of another kind".clone_into(&mut invalid.found);
        }
        if !self.is_file() {
            return self.refuse(invalid);
        }
        match foreign::meaning(self.key(), &node.value, kind) {
            Some(Meaning::As(value)) => {
                self.understand(node, value, WarningKind::Note, "; write that");
                return true;
            }
            Some(Meaning::LeftOut) => return self.leave_out(invalid),
            None => {}
        }
        if let Some(value) = shapes::understood(self.key(), &node.value, kind, &node.origin) {
            self.understand(node, value, WarningKind::Converted, "; write that");
            return self.value(node, kind);
        }
        if let Some(value) = strictest(self.key(), &node.origin) {
            let why = format!(", the strictest value, since it {}", invalid.mistake());
            self.understand(node, value, WarningKind::Converted, &why);
            return true;
        }
        self.unusable(node, invalid)
    }

    /// Decides about text that is not the name that it would be taken for; returns whether to keep it.
    fn pattern(&mut self, node: &mut Node, expected: &str) -> bool {
        let invalid = invalid(node, &join(&self.path), expected, None);
        if self.is_file() { self.unusable(node, invalid) } else { self.refuse(invalid) }
    }

    /// Decides about an entry whose name is a pattern: returns whether to keep it. `None` for a name that can
    /// be used.
    fn name(&mut self, name: &str, node: &mut Node) -> Option<bool> {
        let expected = instead_of_pattern(self.key(), name)?;
        let value = Value::Text(name.to_owned());
        let mut named = Node { value, origin: node.origin.at_key() };
        let keep = self.pattern(&mut named, &expected);
        *node = named;
        Some(keep)
    }

    /// Decides about a value of a file of which nothing is understood; returns whether to keep the key.
    fn unusable(&mut self, node: &mut Node, invalid: Invalid) -> bool {
        let is_in_profile = self.profile > 0 && is_never_left_out(self.key());
        if is_in_profile || is_in_part(self.key()) {
            let value = std::mem::replace(&mut node.value, Value::Unset);
            node.value = Value::Wrong(Box::new((value, invalid)));
            return true;
        }
        if is_never_left_out(self.key()) { self.refuse(invalid) } else { self.leave_out(invalid) }
    }

    /// Returns whether the value can be a credential, which messages do not quote.
    fn is_secret(&self) -> bool {
        self.path.iter().any(|part| SECRET_KEYS.contains(&part.as_str()))
    }

    /// Puts `value` in the place of what was written.
    fn understand(&mut self, node: &mut Node, value: Value, kind: WarningKind, then: &str) {
        let is_secret = self.is_secret();
        let found = if is_secret { "the value".to_owned() } else { node.value.describe() };
        let meant = match &value {
            _ if is_secret => "a string".to_owned(),
            Value::Array(_) | Value::Table(_) => format!("`{}`", value.inline()),
            scalar => scalar.describe(),
        };
        let message = format!("{found} is understood as {meant}{then}");
        self.warn(kind, &node.origin, message);
        node.value = value;
    }

    fn leave_out(&mut self, invalid: Invalid) -> bool {
        let message = format!("{}; it is left out", invalid.mistake());
        self.warn(WarningKind::LeftOut, &invalid.origin, message);
        false
    }

    fn refuse(&mut self, invalid: Invalid) -> bool {
        self.errors.push(Error::Invalid(Box::new(invalid)));
        false
    }

    /// Warns about a key that does not exist. In a thread's overrides, a misspelled permission is
    /// an error: the thread would be allowed more than its client intends. So is one in the network of a
    /// permission profile: without its list of hosts, the network would be open.
    fn unknown(&mut self, node: &Node, section: &Section) {
        let (last, parents) = self.path.split_last().expect("an unknown key has a name");
        let renamed = RENAMED.iter().map(|renamed| renamed.old).filter(|_| parents.is_empty());
        let names = section.entries.iter().map(|entry| entry.name).chain(renamed);
        let near = closest(last, names);
        let within_profile = parents.get(self.profile..).unwrap_or_default();
        let intended = within_profile.first().map(String::as_str).or(near);
        let hint = match near {
            Some(near) => {
                let parts = parents.iter().map(String::as_str).chain([near]);
                format!("did you mean `{}`?", join(&parts.collect::<Vec<_>>()))
            }
            None => "remove it".to_owned(),
        };
        if matches!(self.layer, Some(LayerName::Thread | LayerName::Role { .. }))
            && intended.is_some_and(|key| PERMISSION_KEYS.contains(&key))
        {
            let message = format!("there is no such key; {hint}");
            self.errors.push(Error::refused(&node.origin.at_key(), join(&self.path), message));
            return;
        }
        if is(self.key(), "permissions.*.network.*") {
            let hint = match last.as_str() {
                "domains" => "list the hosts in `allowed_domains` and `denied_domains`",
                "unix_sockets" => "list the sockets in `allow_unix_sockets`",
                _ => hint.as_str(),
            };
            let message =
                format!("there is no such key, and without it more could be allowed: {hint}");
            self.errors.push(Error::refused(&node.origin.at_key(), join(&self.path), message));
            return;
        }
        self.warn(WarningKind::Unknown, &node.origin.at_key(), hint);
    }

    fn warn_about_effect(&mut self, node: &Node, entry: &OptionEntry) {
        if self.layer.is_none() {
            return;
        }
        let key = join(&self.path[self.profile..]);
        let deprecated = DEPRECATED.iter().find(|deprecated| {
            deprecated.key == key && deprecated.value.is_none_or(|value| node.value.is_json(value))
        });
        match (deprecated, entry.effect) {
            (Some(deprecated), _) => {
                let what = deprecated.value.map_or_else(String::new, |value| format!("{value} "));
                let message = format!("{what}is deprecated: {}", deprecated.instead);
                self.warn(WarningKind::Deprecated, &node.origin, message);
            }
            (None, Effect::Pending(part)) => {
                let message = format!("has no effect yet: it requires {part}");
                self.warn(WarningKind::Pending(part), &node.origin.at_key(), message);
            }
            (None, Effect::Active | Effect::Group) => {}
        }
    }

    fn warn(&mut self, kind: WarningKind, origin: &Origin, message: String) {
        let key = written_key(&join(&self.path), origin);
        let warning = Warning { origin: origin.clone(), key, message, kind };
        self.warnings.push(warning);
    }
}
