//! Checks a parsed layer against the option table. Wrong types are errors; unknown, pending and
//! deprecated keys are warnings. Moves renamed keys to their new names and removes keys that the
//! layer may not set. Names every mistake, and leaves the layer without their values.

use crate::error::{Error, Origin, Warning, WarningKind};
use crate::foreign::{self, Meaning, RENAMED_KEYS};
use crate::key_path::{self, join};
use crate::kind::{Effect, Kind, MAX_NICKNAME, OptionEntry, Section, invalid, scope};
use crate::layer_name::LayerName;
use crate::suggest::closest;
use crate::table::{Agents, DEPRECATED, Keys, RENAMED};
use crate::value::{Node, Table, Value};

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

/// Keys of `config.toml` that grant or restrict permissions, including all keys below them.
const PERMISSION_KEYS: [&str; 6] = [
    "approval_policy",
    "approvals_reviewer",
    "default_permissions",
    "permissions",
    "sandbox_mode",
    "sandbox_workspace_write",
];

/// Tables whose entries are used one by one: a mistake in an entry that is not used is a warning.
const TABLES_OF_PARTS: [&str; 3] = ["mcp_servers", "model_providers", "profiles"];

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
            self.rename(table, "requires_openai_auth", "requires_default_auth");
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
        let keep = self.value(node, &entry.kind);
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
                    let keep = inner.value == Value::Unset || self.value(inner, of);
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
        let invalid = invalid(node, &key, &expected(kind), near.map(str::to_owned));
        let meaning = self.is_file().then(|| foreign::meaning(self.key(), &node.value, kind));
        match meaning.flatten() {
            Some(Meaning::As(value)) => {
                let (found, meant) = (node.value.describe(), value.describe());
                let message = format!("{found} is understood as {meant}; write that");
                self.warn(WarningKind::Note, &node.origin, message);
                node.value = value;
                true
            }
            Some(Meaning::LeftOut) => {
                let message = format!("{}; it is left out", invalid.mistake());
                self.warn(WarningKind::LeftOut, &node.origin, message);
                false
            }
            None if self.is_file() && self.is_in_part() => {
                let value = std::mem::replace(&mut node.value, Value::Unset);
                node.value = Value::Wrong(Box::new((value, invalid)));
                true
            }
            None => {
                self.errors.push(Error::Invalid(Box::new(invalid)));
                false
            }
        }
    }

    /// Returns whether the key is in an entry of [`TABLES_OF_PARTS`].
    fn is_in_part(&self) -> bool {
        self.path.len() > 1 && TABLES_OF_PARTS.contains(&self.path[0].as_str())
    }

    /// Warns about a key that does not exist. In a thread's overrides, a misspelled permission is
    /// an error: the thread would be allowed more than its client intends.
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
        let warning = Warning { origin: origin.clone(), key: join(&self.path), message, kind };
        self.warnings.push(warning);
    }
}

/// Returns whether an alternative accepts values of this shape.
fn same_shape(value: &Value, kind: &Kind) -> bool {
    match (value, kind) {
        (Value::Table(_), Kind::Table(_) | Kind::Map(..) | Kind::Profile)
        | (Value::Array(_), Kind::List(_)) => true,
        (Value::Table(_) | Value::Array(_), _) => false,
        (_, leaf) => leaf_fits(value, leaf),
    }
}

fn leaf_fits(value: &Value, kind: &Kind) -> bool {
    match (value, kind) {
        (Value::Boolean(_), Kind::Boolean) | (Value::Text(_), Kind::Text) => true,
        (Value::Text(path), Kind::Path) => !path.is_empty() && !path.contains('\0'),
        (Value::Integer(_) | Value::Other(_), Kind::Whole { min, max }) => {
            value.whole().is_some_and(|n| (*min..=*max).contains(&n))
        }
        (Value::Integer(_) | Value::Other(_), Kind::Time { min, max, .. }) => {
            match (value.whole(), value.float()) {
                (Some(n), _) => (*min..=*max).contains(&n),
                // Bounds are small enough to be floats.
                #[allow(clippy::cast_precision_loss)]
                (None, Some(n)) => (*min as f64..=*max as f64).contains(&n),
                (None, None) => false,
            }
        }
        (Value::Text(name), Kind::Choice(names, also)) => {
            names.contains(&name.as_str()) || also.contains(&name.as_str())
        }
        (Value::Text(url), Kind::Url) => is_url(url),
        (Value::Text(uuid), Kind::Uuid) => is_uuid(uuid),
        (Value::Text(name), Kind::Nickname) => is_nickname(name),
        (Value::Text(code), Kind::Country) => is_country(code),
        (Value::Text(name), Kind::TimeZone) => is_time_zone(name),
        (Value::Text(name), Kind::Host) => is_host(name),
        _ => false,
    }
}

/// Returns whether `text` is `http://` or `https://` followed by a host.
pub(crate) fn is_url(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        host.starts_with(|c: char| !matches!(c, '/' | '?' | '#' | ':'))
            && !host.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns whether people and the model can read `text` as a name, and cannot take it for a
/// thread's id.
fn is_nickname(text: &str) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= MAX_NICKNAME
        && !text.contains(visible::is_hidden)
        && !is_uuid(text.trim())
}

fn is_country(code: &str) -> bool {
    code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Areas of the IANA time zone database (its files `africa` to `southamerica`, `etcetera` and
/// `backward`).
const TIME_ZONE_AREAS: [&str; 16] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
];
/// Names of that database without an area.
const TIME_ZONES_WITHOUT_AREA: [&str; 44] = [
    "CET",
    "CST6CDT",
    "Cuba",
    "EET",
    "EST",
    "EST5EDT",
    "Egypt",
    "Eire",
    "GB",
    "GB-Eire",
    "GMT",
    "GMT+0",
    "GMT-0",
    "GMT0",
    "Greenwich",
    "HST",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "MET",
    "MST",
    "MST7MDT",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "PST8PDT",
    "Poland",
    "Portugal",
    "ROC",
    "ROK",
    "Singapore",
    "Turkey",
    "UCT",
    "UTC",
    "Universal",
    "W-SU",
    "WET",
    "Zulu",
];

/// Returns whether `name` is one of the database or, with an area of it, could be one: the names in
/// an area change every year.
fn is_time_zone(name: &str) -> bool {
    let Some((area, places)) = name.split_once('/') else {
        return TIME_ZONES_WITHOUT_AREA.contains(&name);
    };
    let is_place = |place: &str| {
        place.starts_with(|c: char| c.is_ascii_alphabetic())
            && place.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    TIME_ZONE_AREAS.contains(&area)
        && places.split('/').count() <= 2
        && places.split('/').all(is_place)
}

/// Returns whether `name` is that of a host (RFC 1123), without scheme, port and path.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Describes the values of a kind.
pub(crate) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Boolean => "true or false".to_owned(),
        Kind::Whole { min, max } if *max == i64::MAX as u64 => {
            format!("a whole number of at least {min}")
        }
        Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Time { min, max, .. } => format!("a number from {min} to {max}"),
        Kind::Text => "a string".to_owned(),
        Kind::Url => "a string with an address that starts with `https://` or `http://`".to_owned(),
        Kind::Uuid => "a string with a UUID".to_owned(),
        Kind::Nickname => format!(
            "a name of 1 to {MAX_NICKNAME} visible characters that is not the id of a thread"
        ),
        Kind::Country => "a country code of two letters, such as \"NL\"".to_owned(),
        Kind::TimeZone => {
            "the name of a time zone of the IANA database, such as \"Europe/Amsterdam\"".to_owned()
        }
        Kind::Host => {
            "the name of a host without scheme, port and path, such as \"docs.example\", \
                       with letters of other scripts as in \"xn--bcher-kva.example\""
                .to_owned()
        }
        Kind::Path => "a string with a path".to_owned(),
        Kind::Choice(names, _) => one_of(names),
        Kind::List(Kind::Table(_)) => "an array of tables".to_owned(),
        Kind::List(Kind::Text) => "an array of strings".to_owned(),
        Kind::List(Kind::Path) => "an array of strings with paths".to_owned(),
        Kind::List(Kind::Choice(names, _)) => format!("an array of {}", names.join(", ")),
        Kind::List(of) => format!("an array, each {}", expected(of)),
        Kind::Map(_, Kind::Text) => "a table of strings".to_owned(),
        Kind::Map(..) | Kind::Table(_) => "a table".to_owned(),
        Kind::Profile => "a table of keys".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.as_slice() {
        [only] => only.clone(),
        _ => format!("one of {}", quoted.join(", ")),
    }
}
