//! Compares one parsed layer with the table of keys: wrong types are errors, keys without effect and
//! unknown keys are warnings. Changes nothing but the names of renamed keys.

use crate::error::{Error, Invalid, Warning};
use crate::key_path::join;
use crate::keys::{KEYS, Key, Kind, RENAMED};
use crate::suggest::closest;
use crate::types::ApprovalPolicy;
use crate::value::{Node, Table, Value};

/// Checks a whole layer, profiles included, and moves renamed keys to their new names.
pub(crate) fn check_layer(root: &mut Table) -> Result<Vec<Warning>, Error> {
    let mut warnings = Vec::new();
    let profiles = root.remove("profiles");
    Walk { prefix: vec![], warnings: &mut warnings }.scope(root)?;
    let Some(mut profiles) = profiles else { return Ok(warnings) };
    let Value::Table(all) = &mut profiles.value else {
        return Err(wrong_type(&profiles, "profiles", "a table of profiles", None));
    };
    for (name, profile) in all.iter_mut() {
        let prefix = vec!["profiles".to_owned(), name.clone()];
        match &mut profile.value {
            Value::Table(table) => Walk { prefix, warnings: &mut warnings }.scope(table)?,
            Value::Unset => {}
            _ => return Err(wrong_type(profile, &join(&prefix), "a table of keys", None)),
        }
    }
    root.insert("profiles".to_owned(), profiles);
    Ok(warnings)
}

/// Says that `node`, the value of `key`, does not fit.
pub(crate) fn wrong_type(
    node: &Node,
    key: &str,
    expected: &str,
    suggestion: Option<String>,
) -> Error {
    Error::Invalid(Box::new(Invalid {
        origin: node.origin.clone(),
        key: key.to_owned(),
        expected: expected.to_owned(),
        found: node.value.describe(),
        suggestion,
    }))
}

/// The walk through one scope: the root of a layer, or one profile.
struct Walk<'w> {
    /// `profiles.<name>` inside a profile, for messages.
    prefix: Vec<String>,
    warnings: &'w mut Vec<Warning>,
}

impl Walk<'_> {
    fn scope(&mut self, table: &mut Table) -> Result<(), Error> {
        for (old, new) in RENAMED {
            self.rename(table, old, new);
        }
        let mut path = Vec::new();
        self.table(table, &mut path)
    }

    fn rename(&mut self, table: &mut Table, old: &str, new: &str) {
        let Some(node) = table.remove(old) else { return };
        self.warn(&node, &[old.to_owned()], format!("was renamed; write `{new}` instead"));
        table.entry(new.to_owned()).or_insert(node);
    }

    fn table(&mut self, table: &Table, path: &mut Vec<String>) -> Result<(), Error> {
        for (name, node) in table {
            path.push(name.clone());
            self.node(node, path)?;
            path.pop();
        }
        Ok(())
    }

    fn node(&mut self, node: &Node, path: &mut Vec<String>) -> Result<(), Error> {
        if !self.prefix.is_empty() && path.as_slice() == ["profile"] {
            self.warn(node, path, "a profile cannot select a profile; remove it".to_owned());
            return Ok(());
        }
        let exact = best(path, |key| matched(key, path) == Match::Exact);
        let group = best(path, |key| matched(key, path) == Match::Group);
        match (&node.value, exact, group) {
            (Value::Unset, _, _) => Ok(()),
            (Value::Table(table), exact, Some(group))
                if exact.is_none_or(|exact| {
                    literals(group, path.len()) >= literals(exact, path.len())
                }) =>
            {
                self.table(table, path)
            }
            (_, Some(key), _) => self.leaf(node, key, path),
            (_, None, Some(_)) => {
                Err(wrong_type(node, &self.full(path), "a table", suggestion(path)))
            }
            (_, None, None) => {
                let hint = suggestion(path)
                    .map(|near| format!("; did you mean `{near}`?"))
                    .unwrap_or_else(|| "; remove it".to_owned());
                self.warn(node, path, format!("no such key, it is ignored{hint}"));
                Ok(())
            }
        }
    }

    fn leaf(&mut self, node: &Node, key: &Key, path: &[String]) -> Result<(), Error> {
        if let Some(problem) = misfit(node, key.kind) {
            let near = match (&node.value, key.kind) {
                (Value::Text(text), Kind::Choice(names)) => closest(text, names.iter().copied()),
                _ => None,
            };
            let (at, expected) = problem;
            return Err(wrong_type(at, &self.full(path), &expected, near.map(str::to_owned)));
        }
        if !key.acted_on {
            self.warn(node, path, "this version does not act on this key yet".to_owned());
        }
        if key.path == "approval_policy" && node.value == Value::Text("on-failure".to_owned()) {
            let message = "`on-failure` is deprecated and counts as `on-request`; write `on-request`, \
                           or `never` where nobody can answer";
            self.warn(node, path, message.to_owned());
        }
        Ok(())
    }

    fn warn(&mut self, node: &Node, path: &[String], message: String) {
        let warning = Warning { origin: node.origin.clone(), key: self.full(path), message };
        self.warnings.push(warning);
    }

    fn full(&self, path: &[String]) -> String {
        let parts: Vec<&str> = self.prefix.iter().chain(path).map(String::as_str).collect();
        join(&parts)
    }
}

/// Where `node` does not fit `kind`, and what was expected there.
fn misfit(node: &Node, kind: Kind) -> Option<(&Node, String)> {
    let text = |node: &Node| matches!(node.value, Value::Text(_));
    let expected = match (&node.value, kind) {
        (Value::Boolean(_), Kind::Boolean | Kind::Loose)
        | (Value::Text(_), Kind::Text | Kind::Path | Kind::Loose) => return None,
        (Value::Integer(n), Kind::Whole(max)) if u64::try_from(*n).is_ok_and(|n| n <= max) => {
            return None;
        }
        (Value::Text(name), Kind::Choice(names)) if names.contains(&name.as_str()) => return None,
        (Value::Array(all), Kind::Texts | Kind::Loose) => {
            return all
                .iter()
                .find(|one| !text(one))
                .map(|one| (one, "an array of strings".into()));
        }
        (Value::Table(all), Kind::TextMap) => {
            let wrong = all.values().find(|one| !text(one) && one.value != Value::Unset);
            return wrong.map(|one| (one, "a table of strings".into()));
        }
        (Value::Array(_) | Value::Table(_), Kind::Tables) => return None,
        (_, Kind::Boolean) => "true or false".to_owned(),
        (_, Kind::Whole(max)) => format!("a whole number from 0 to {max}"),
        (_, Kind::Text) => "a string".to_owned(),
        (_, Kind::Path) => "a string with a path".to_owned(),
        (_, Kind::Texts) => "an array of strings".to_owned(),
        (_, Kind::TextMap) => "a table of strings".to_owned(),
        (_, Kind::Tables) => "an array of tables".to_owned(),
        (_, Kind::Loose) => "true, false or an array of strings".to_owned(),
        (_, Kind::Choice(names)) => one_of(names),
    };
    Some((node, expected))
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match (quoted.as_slice(), names == ApprovalPolicy::NAMES) {
        ([only], _) => only.clone(),
        (_, true) => format!("one of {} or a table `granular`", quoted.join(", ")),
        (_, false) => format!("one of {}", quoted.join(", ")),
    }
}

#[derive(PartialEq)]
enum Match {
    Exact,
    /// The key lies below the path.
    Group,
    No,
}

fn matched(key: &Key, path: &[String]) -> Match {
    let mut parts = key.path.split('.');
    for name in path {
        match parts.next() {
            Some(part) if fits(part, name) => {}
            _ => return Match::No,
        }
    }
    if parts.next().is_some() { Match::Group } else { Match::Exact }
}

/// A part of a key's path stands for itself, or, around `<…>`, for any text.
fn fits(part: &str, name: &str) -> bool {
    match (part.split_once('<'), part.split_once('>')) {
        (Some((start, _)), Some((_, end))) => {
            name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
                || start.is_empty() && end.is_empty()
        }
        _ => part == name,
    }
}

/// The matching key whose path says most literally what `path` says.
fn best(path: &[String], matches: impl Fn(&Key) -> bool) -> Option<&'static Key> {
    KEYS.iter().filter(|key| matches(key)).max_by_key(|key| literals(key, path.len()))
}

fn literals(key: &Key, parts: usize) -> usize {
    key.path.split('.').take(parts).filter(|part| !part.contains('<')).count()
}

/// The known neighbour that the last part of `path` was probably meant to be, as a full key.
fn suggestion(path: &[String]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    let siblings =
        KEYS.iter().filter(|key| parents.is_empty() || matched(key, parents) == Match::Group);
    let names = siblings.filter_map(|key| key.path.split('.').nth(parents.len()));
    let near = closest(
        last,
        names.filter(|name| !name.contains('<')).chain(parents.is_empty().then_some("profiles")),
    )?;
    Some(join(&parents.iter().map(String::as_str).chain([near]).collect::<Vec<_>>()))
}
