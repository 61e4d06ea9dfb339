//! The parts of a plugin that its marketplace declares: members of a manifest that stand in the entry of
//! the marketplace's list, for a plugin without a manifest or in addition to one.
//!
//! An installed plugin has them in a file of its own, [`FILE`], so that its digest covers them and its
//! folder says all of it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::json;

/// The place of what the marketplace declares, relative to the folder of an installed plugin.
pub const FILE: &str = ".agent-plugin/marketplace-entry.json";
/// Members that name parts which are used here.
pub(crate) const PARTS: [&str; 4] = ["skills", "hooks", "mcpServers", "apps"];
/// Members that name parts which only other agents use.
pub(crate) const OTHER_PARTS: [&str; 9] = [
    "agents",
    "channels",
    "commands",
    "lspServers",
    "monitors",
    "outputStyles",
    "settings",
    "themes",
    "userConfig",
];
/// Members of an entry that mean the same in a manifest.
const FACTS: [&str; 4] = ["name", "version", "description", "keywords"];

/// The members of a manifest in an entry of a marketplace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declared {
    members: Map<String, Value>,
    /// True if the entry says that it is the whole definition (`strict: false`).
    is_whole: bool,
    /// True if other plugins have the same folder, so that its usual places are not this plugin's alone.
    pub(crate) shares_folder: bool,
}

/// The members of a manifest and an entry together.
pub(crate) struct Merged {
    pub(crate) all: Map<String, Value>,
    /// Parts of which nothing is read but what the members name.
    pub(crate) without_default: Vec<&'static str>,
}

impl Declared {
    /// # Errors
    /// `strict` is neither true nor false.
    pub(crate) fn from_entry(entry: &Map<String, Value>) -> Result<Self, String> {
        let is_whole = match entry.get("strict") {
            None | Some(Value::Null | Value::Bool(true)) => false,
            Some(Value::Bool(false)) => true,
            Some(_) => return Err("`strict` must be true or false".to_owned()),
        };
        let mut members = Map::new();
        for name in FACTS.into_iter().chain(PARTS).chain(OTHER_PARTS) {
            if let Some(value) = entry.get(name).filter(|value| !value.is_null()) {
                members.insert(name.to_owned(), value.clone());
            }
        }
        Ok(Self { members, is_whole, shares_folder: false })
    }

    /// The record of an installed plugin; `None` if there is none.
    pub(crate) fn read(root: &Path) -> Result<Option<Self>, Error> {
        let Some(members) = json::read_object(root, Path::new(FILE))? else { return Ok(None) };
        match serde_json::from_value(Value::Object(members)) {
            Ok(declared) => Ok(Some(declared)),
            Err(error) => {
                let why =
                    format!("it is not as it was written ({error}); install the plugin again");
                Err(Error::refused(root.join(FILE), why))
            }
        }
    }

    /// Returns whether the entry names a part, for this or another agent.
    pub(crate) fn has_parts(&self) -> bool {
        has_parts(&self.members)
    }

    /// The members of a plugin without a manifest.
    pub(crate) fn alone(&self) -> Merged {
        let without_default = match self.shares_folder && self.has_parts() {
            true => PARTS.to_vec(),
            false => Vec::new(),
        };
        Merged { all: self.members.clone(), without_default }
    }

    /// The members of a plugin with the manifest `own`. Of facts, those of the manifest count; parts of both
    /// do, unless the entry is the whole definition.
    ///
    /// # Errors
    /// The entry is the whole definition, and the manifest names parts, too.
    pub(crate) fn merged(&self, own: Map<String, Value>) -> Result<Merged, String> {
        if self.is_whole && self.has_parts() {
            if let Some(part) = parts_of(&own).next() {
                return Err(format!(
                    "the manifest names `{part}`, and the entry of the marketplace says with `\"strict\": \
                     false` that it is the whole definition; remove the parts from one of them"
                ));
            }
            let Merged { all, without_default } = self.alone();
            let mut merged = own;
            merged.extend(all);
            return Ok(Merged { all: merged, without_default });
        }
        // A file that the manifest names takes the place of the usual one.
        let replaces = |part: &str| own.get(part).is_some_and(|value| !value.is_null());
        let replaced = ["mcpServers", "apps"].into_iter().filter(|part| replaces(part));
        let without_default = replaced.collect();
        let mut all = own;
        for (name, value) in &self.members {
            match all.get_mut(name) {
                None | Some(Value::Null) => drop(all.insert(name.clone(), value.clone())),
                Some(before) if is_part(name) => {
                    let both = listed(before.take()).into_iter().chain(listed(value.clone()));
                    *before = Value::Array(both.collect());
                }
                Some(_) => {}
            }
        }
        Ok(Merged { all, without_default })
    }
}

fn has_parts(members: &Map<String, Value>) -> bool {
    parts_of(members).next().is_some()
}

fn parts_of(members: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let named = members.iter().filter(|(name, value)| is_part(name) && !value.is_null());
    named.map(|(name, _)| name.as_str())
}

fn is_part(name: &str) -> bool {
    PARTS.contains(&name) || OTHER_PARTS.contains(&name)
}

/// The values of a member that holds one or a list of them.
pub(crate) fn listed(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        Value::Null => Vec::new(),
        value => vec![value],
    }
}
