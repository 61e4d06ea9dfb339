//! Checks a parsed layer against the option table. Wrong types are errors; unknown, pending and
//! deprecated keys are warnings. Moves renamed keys to their new names and removes keys that the
//! layer may not set.

use crate::error::{Error, Origin, Warning, WarningKind};
use crate::key_path::{self, join};
use crate::kind::{Effect, Kind, MAX_NICKNAME, OptionEntry, Section, scope, wrong_type};
use crate::layer_name::LayerName;
use crate::suggest::closest;
use crate::table::{DEPRECATED, Keys, RENAMED};
use crate::value::{Node, Table, Value};

/// Checks a whole layer of `config.toml`, profiles included.
pub(crate) fn check_layer(root: &mut Table, layer: &LayerName) -> Result<Vec<Warning>, Error> {
    let mut checker =
        Checker { path: Vec::new(), profile: 0, layer: Some(layer), warnings: Vec::new() };
    checker.root(root)?;
    Ok(checker.warnings)
}

/// Checks a table that is not a layer of `config.toml`, such as `requirements.toml`.
pub(crate) fn check_section(root: &mut Table, section: &Section) -> Result<Vec<Warning>, Error> {
    let mut checker = Checker { path: Vec::new(), profile: 0, layer: None, warnings: Vec::new() };
    checker.table(root, section)?;
    Ok(checker.warnings)
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

/// Walks through a layer.
struct Checker<'w> {
    /// The key being checked.
    path: Vec<String>,
    /// Number of parts of `path` that name the profile, inside of one.
    profile: usize,
    /// `None` for a file other than `config.toml`.
    layer: Option<&'w LayerName>,
    warnings: Vec<Warning>,
}

impl Checker<'_> {
    fn root(&mut self, table: &mut Table) -> Result<(), Error> {
        for renamed in RENAMED {
            self.rename(table, renamed.old, renamed.new);
        }
        self.table(table, Keys::SECTION)
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

    fn table(&mut self, table: &mut Table, section: &Section) -> Result<(), Error> {
        let names: Vec<String> = table.keys().cloned().collect();
        for name in names {
            let Some(node) = table.get_mut(&name) else { continue };
            self.path.push(name);
            let keep = match section.entry(self.path.last().map_or("", String::as_str)) {
                Some(entry) => self.entry(node, entry)?,
                None => {
                    self.unknown(node, section)?;
                    true
                }
            };
            let name = self.path.pop().unwrap_or_default();
            if !keep {
                table.remove(&name);
            }
        }
        Ok(())
    }

    /// Checks the value of one key; returns whether to keep it.
    fn entry(&mut self, node: &mut Node, entry: &OptionEntry) -> Result<bool, Error> {
        if node.value == Value::Unset {
            return Ok(true);
        }
        if self.profile > 0
            && self.path.len() == self.profile + 1
            && entry.name.starts_with("profile")
        {
            let message = "a profile cannot select or hold profiles; remove it".to_owned();
            self.warn(WarningKind::Ignored, &node.origin.at_key(), message);
            return Ok(false);
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
            return Ok(false);
        }
        self.value(node, &entry.kind)?;
        self.warn_about_effect(node, entry);
        Ok(true)
    }

    /// Checks a value, and the values inside of it, against a kind.
    fn value(&mut self, node: &mut Node, kind: &Kind) -> Result<(), Error> {
        match kind {
            Kind::Either(kinds) => {
                let fitting = kinds.iter().find(|kind| same_shape(&node.value, kind));
                match fitting {
                    Some(kind) => self.value(node, kind),
                    None => Err(self.misfit(node, kind)),
                }
            }
            Kind::Table(section) => match &mut node.value {
                Value::Table(table) => self.table(table, section),
                _ => Err(self.misfit(node, kind)),
            },
            Kind::Profile => match &mut node.value {
                Value::Table(table) => {
                    let outer = std::mem::replace(&mut self.profile, self.path.len());
                    let checked = self.root(table);
                    self.profile = outer;
                    checked
                }
                _ => Err(self.misfit(node, kind)),
            },
            Kind::Map(_, of) => {
                let Value::Table(table) = &mut node.value else {
                    return Err(self.misfit(node, kind));
                };
                for (name, inner) in table.iter_mut() {
                    if inner.value == Value::Unset {
                        continue;
                    }
                    self.path.push(name.clone());
                    self.value(inner, of)?;
                    self.path.pop();
                }
                Ok(())
            }
            Kind::List(of) => {
                let Value::Array(all) = &mut node.value else {
                    return Err(self.misfit(node, kind));
                };
                for (index, inner) in all.iter_mut().enumerate() {
                    self.path.push(index.to_string());
                    self.value(inner, of)?;
                    self.path.pop();
                }
                Ok(())
            }
            leaf if leaf_fits(&node.value, leaf) => Ok(()),
            leaf => Err(self.misfit(node, leaf)),
        }
    }

    fn misfit(&self, node: &Node, kind: &Kind) -> Error {
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
        wrong_type(node, &join(&self.path), &expected(kind), near.map(str::to_owned))
    }

    /// Warns about a key that does not exist. In a thread's overrides, a misspelled permission is
    /// an error: the thread would be allowed more than its client intends.
    fn unknown(&mut self, node: &Node, section: &Section) -> Result<(), Error> {
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
            return Err(Error::refused(&node.origin.at_key(), join(&self.path), message));
        }
        self.warn(WarningKind::Unknown, &node.origin.at_key(), hint);
        Ok(())
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
        (Value::Integer(n), Kind::Whole { min, max }) => {
            u64::try_from(*n).is_ok_and(|n| (*min..=*max).contains(&n))
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
