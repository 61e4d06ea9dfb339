//! The skills that a server lists (the extension `io.modelcontextprotocol/skills`, SEP-2640): which of them
//! can be used, within bounds. They are data of the server: nothing of them is run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Skill as Entry, SkillResource, SkillResources};
use serde::Deserialize;
use serde_json::Value;

use crate::error::quoted;

/// Skills of a server.
const MAX_SKILLS: usize = 64;
/// Maximum number of examined entries, unusable skills included.
pub(crate) const MAX_ENTRIES: usize = 1_000;
/// Largest `SKILL.md`, in bytes.
const MAX_SKILL_MD: u64 = 64 << 10;
/// Files of a skill, as the extension allows.
const MAX_FILES: usize = 512;
/// Longest URI of a file, in bytes.
const MAX_URI: usize = 2_048;
/// Kept of a description, in characters; the format allows no more.
const MAX_DESCRIPTION: usize = 1_024;
/// Reasons that are reported.
const MAX_WARNINGS: usize = 5;

/// A skill that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// Its purpose and when to use it.
    pub description: String,
    /// The resource that is its `SKILL.md`.
    pub uri: String,
    /// All its files, with its `SKILL.md`.
    files: Vec<SkillResource>,
}

impl Skill {
    /// The URIs of its files other than `SKILL.md`.
    pub fn other_files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.uri.as_str()).filter(|uri| *uri != self.uri)
    }

    pub(crate) fn file(&self, uri: &str) -> Option<&SkillResource> {
        self.files.iter().find(|file| file.uri == uri)
    }
}

/// The skills of all pages.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) skills: Vec<Arc<Skill>>,
    /// The skills that were left out, or the reason why the list could not be read.
    pub(crate) warnings: Vec<String>,
    /// For how long the server allows the list to be kept; zero: until it reports a change.
    pub(crate) age: Duration,
}

/// The entries that can be used, in the server's order.
pub(crate) fn usable(server: &str, entries: Vec<Value>, is_whole: bool) -> Listed {
    let mut listed = Listed::default();
    let mut uris = HashSet::new();
    let (mut names, mut reasons) = (HashSet::new(), Vec::new());
    let mut omitted = 0;
    for entry in entries {
        let uri = entry.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        let checked = skill(&entry).and_then(|skill| {
            match uris.insert(skill.uri.clone()) && names.insert(skill.name.clone()) {
                true => Ok(skill),
                false => Err("is listed twice; the first one counts".to_owned()),
            }
        });
        match checked {
            Ok(_) if listed.skills.len() >= MAX_SKILLS => omitted += 1,
            Ok(skill) => listed.skills.push(Arc::new(skill)),
            Err(reason) => reasons.push(format!("`{}` {reason}", quoted(&uri))),
        }
    }
    if !reasons.is_empty() {
        let more = reasons.len().saturating_sub(MAX_WARNINGS);
        reasons.truncate(MAX_WARNINGS);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let reasons = reasons.join("; ");
        listed.warnings.push(format!(
            "the server `{server}` lists skills that cannot be used and are left out: {reasons}{more}"
        ));
    }
    if omitted > 0 || !is_whole {
        listed.warnings.push(format!(
            "the server `{server}` lists too many skills: only the first {} are used",
            listed.skills.len()
        ));
    }
    listed
}

/// The skill of an entry, or why it cannot be used.
fn skill(entry: &Value) -> Result<Skill, String> {
    let entry = Entry::deserialize(entry)
        .map_err(|error| format!("has no valid form: {}", quoted(&error.to_string())))?;
    entry.validate().map_err(|error| format!("breaks a rule: {}", quoted(&error.to_string())))?;
    let description = entry.frontmatter.description.trim();
    if description.is_empty() {
        return Err("has no description".to_owned());
    }
    let SkillResources::Files(files) = entry.resources else {
        return Err("has changing contents (`dynamic`), which cannot be verified".to_owned());
    };
    if files.len() > MAX_FILES {
        return Err(format!("has more than {MAX_FILES} files"));
    }
    let is_unusable = |file: &SkillResource| {
        file.uri.len() > MAX_URI
            || file.uri.chars().any(|c| visible::is_hidden(c) || c.is_whitespace())
    };
    if files.iter().any(is_unusable) {
        return Err("has a file whose URI is too long or has hidden characters".to_owned());
    }
    let main = files.iter().find(|file| file.uri == entry.uri);
    if main.is_some_and(|file| file.size > MAX_SKILL_MD) {
        return Err(format!("has a SKILL.md of more than {} KiB", MAX_SKILL_MD >> 10));
    }
    Ok(Skill {
        description: description.chars().take(MAX_DESCRIPTION).collect(),
        name: entry.frontmatter.name,
        uri: entry.uri,
        files,
    })
}

#[cfg(test)]
mod tests;
