//! The remaining changes of an item: those that the existing files do not have yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bounds::{SETTINGS_BYTES, SKILL_BYTES};
use crate::error::Error;
use crate::item::{Change, Item, Kind, Part, Roots};
use crate::{hook_groups, instructions, leftovers, permissions, source};

/// The changes of an item. Nothing when all of it was taken over before.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Files to write first.
    pub files: Vec<FileWrite>,
    /// Keys to set then.
    pub settings: Vec<Setting>,
    /// Names of the parts that these change.
    pub parts: Vec<String>,
    /// Parts that are not taken over because something else has their place.
    pub conflicts: Vec<String>,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    pub path: PathBuf,
    pub contents: Vec<u8>,
    /// The file whose mode it gets, if it is a copy.
    pub mode_of: Option<PathBuf>,
}

/// A key of the configuration to set, which is not set yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub key_path: Vec<String>,
    pub value: Value,
}

/// Plans the changes of the chosen parts of an item. `configuration` is the file that settings go
/// to, as JSON.
///
/// # Errors
/// A file that would be changed cannot be read.
pub fn plan(
    item: &Item,
    roots: &Roots,
    configuration: &Value,
    is_chosen: IsChosen<'_>,
) -> Result<Plan, Error> {
    plan_together(&[(item, is_chosen)], roots, configuration)
}

/// Says which parts of an item are chosen.
pub type IsChosen<'c> = &'c dyn Fn(&Part) -> bool;

/// As [`plan`], for several items of one project or of the user: each builds on what those before it change.
///
/// # Errors
/// As [`plan`].
pub fn plan_together(
    items: &[(&Item, IsChosen<'_>)],
    roots: &Roots,
    configuration: &Value,
) -> Result<Plan, Error> {
    let project = items.first().and_then(|(item, _)| item.project.as_deref());
    let root = roots.write_root(project);
    let mut planner = Planner { root: &root, texts: BTreeMap::new(), plan: Plan::default() };
    for (item, is_chosen) in items {
        for part in item.parts.iter().filter(|part| is_chosen(part)) {
            planner.take(item.kind, part, configuration)?;
        }
    }
    Ok(planner.finish())
}

struct Planner<'r> {
    root: &'r Path,
    /// Files that several parts change: as they were, and as they will be.
    texts: BTreeMap<PathBuf, (Option<String>, String)>,
    plan: Plan,
}

impl Planner<'_> {
    fn take(&mut self, kind: Kind, part: &Part, configuration: &Value) -> Result<(), Error> {
        let is_new = match &part.change {
            Change::Block { path, origin, text } => {
                self.edit(path, |old| Ok(Some(instructions::with_block(old, origin, text))))?
            }
            Change::Hook { path, event, group } => {
                self.edit(path, |old| hook_groups::with_group(old, event, group))?
            }
            Change::Rule { path, line } => {
                self.edit(path, |old| Ok(permissions::with_rule(old, line)))?
            }
            Change::Setting { key_path, value } => {
                match self.setting(key_path, value, configuration) {
                    Ok(is_new) => is_new,
                    Err(why) => return self.conflict(part, &why),
                }
            }
            Change::Files { at, files, from, role } => {
                let mut writes = Vec::new();
                for (relative, contents) in files {
                    let is_file = relative.as_os_str().is_empty();
                    let path = if is_file { at.clone() } else { at.join(relative) };
                    match source::bytes(self.root, &path, SKILL_BYTES)? {
                        Some(found) if found == *contents => {}
                        Some(_) => {
                            let why = format!("{} has other contents", path.display());
                            return self.conflict(part, &why);
                        }
                        None => writes.push(FileWrite {
                            path,
                            contents: contents.clone(),
                            mode_of: from.as_ref().map(|from| from.join(relative)),
                        }),
                    }
                }
                let mut is_new = !writes.is_empty();
                // A folder of the user's with the same name, or of an import that was cut short.
                if is_new && kind != Kind::Subagents && has_others(at, files) {
                    let why = format!("{} exists", at.display());
                    return self.conflict(part, &why);
                }
                if let Some((role, value)) = role {
                    let key_path = ["agents".to_owned(), role.clone()];
                    match self.setting(&key_path, value, configuration) {
                        Ok(is_unset) => is_new |= is_unset,
                        Err(why) => return self.conflict(part, &why),
                    }
                }
                self.plan.files.extend(writes);
                is_new
            }
        };
        if is_new {
            self.plan.parts.push(part.name.clone());
        }
        Ok(())
    }

    fn conflict(&mut self, part: &Part, why: &str) -> Result<(), Error> {
        self.plan.conflicts.push(format!("`{}`: {why}", visible::exact(&part.name)));
        Ok(())
    }

    /// Changes the text of a file, in the plan. Returns whether anything changed.
    fn edit(
        &mut self,
        path: &Path,
        change: impl FnOnce(&str) -> Result<Option<String>, String>,
    ) -> Result<bool, Error> {
        if !self.texts.contains_key(path) {
            let before = source::bytes(self.root, path, SETTINGS_BYTES)?;
            let before = before.map(|bytes| source::decoded(path, bytes)).transpose()?;
            let text = before.clone().unwrap_or_default();
            self.texts.insert(path.to_owned(), (before, text));
        }
        let Some((_, text)) = self.texts.get_mut(path) else { return Ok(false) };
        let changed = change(text).map_err(|why| Error::contents(path, why))?;
        let Some(changed) = changed.filter(|changed| changed != text) else { return Ok(false) };
        *text = changed;
        Ok(true)
    }

    fn setting(
        &mut self,
        key_path: &[String],
        value: &Value,
        configuration: &Value,
    ) -> Result<bool, String> {
        let found = key_path.iter().try_fold(configuration, |at, key| at.get(key));
        match found {
            Some(found) if found == value => Ok(false),
            Some(_) => Err(format!("`{}` is set to something else", key_path.join("."))),
            None => {
                let (key_path, value) = (key_path.to_vec(), value.clone());
                self.plan.settings.push(Setting { key_path, value });
                Ok(true)
            }
        }
    }

    fn finish(mut self) -> Plan {
        for (path, (before, text)) in self.texts {
            if before.unwrap_or_default() != text {
                let contents = text.into_bytes();
                self.plan.files.push(FileWrite { path, contents, mode_of: None });
            }
        }
        self.plan
    }
}

/// Returns whether the folder at `at` exists with entries that are not in `files`.
fn has_others(at: &Path, files: &[(PathBuf, Vec<u8>)]) -> bool {
    let Ok(entries) = std::fs::read_dir(at) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        leftovers::writer(&name).is_none()
            && !files.iter().any(|(path, _)| path.iter().next() == Some(&*name))
    })
}

/// The file that settings go to, as JSON; an empty object when it does not exist.
///
/// # Errors
/// It cannot be read, or is not TOML.
pub fn configuration(roots: &Roots, project: Option<&Path>, name: &str) -> Result<Value, Error> {
    let Some(text) = configuration_text(roots, project, name)? else {
        return Ok(Value::Object(serde_json::Map::new()));
    };
    let path = roots.own_folder(project).join(name);
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::contents(&path, error.message().to_owned()))?;
    serde_json::to_value(table).map_err(|error| Error::contents(&path, error.to_string()))
}

/// The text of that file. The user's own may be a link; in a project none is followed.
///
/// # Errors
/// It cannot be read.
pub fn configuration_text(
    roots: &Roots,
    project: Option<&Path>,
    name: &str,
) -> Result<Option<String>, Error> {
    let path = roots.own_folder(project).join(name);
    if project.is_some() {
        return source::text(&roots.write_root(project), &path);
    }
    match files::read_text(&path, SETTINGS_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
