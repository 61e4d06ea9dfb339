//! Skills of a server (the extension `io.modelcontextprotocol/skills`, SEP-2640): the list, within bounds,
//! and their files, which are read as resources and checked against the manifest of the skill. They are
//! data of the server: nothing of them is run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ListSkillsRequest, PaginatedRequestParams, Skill as Entry, SkillResource,
    SkillResources,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::calls::ActiveCall;
use crate::error::{Error, ErrorKind, quoted};
use crate::server::requests::page;
use crate::server::{Live, Server, Shared};

/// Skills of a server.
const MAX_SKILLS: usize = 64;
/// Pages of a list.
const MAX_PAGES: usize = 16;
/// Entries that are looked at, also of unusable skills.
const MAX_ENTRIES: usize = 1_000;
/// Largest `SKILL.md`, in bytes.
const MAX_SKILL_MD: u64 = 64 << 10;
/// Largest other file that can be read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Files of a skill, as the extension allows.
const MAX_FILES: usize = 512;
/// Longest URI of a file, in bytes.
const MAX_URI: usize = 2_048;
/// Kept of a description, in characters; the format allows no more.
const MAX_DESCRIPTION: usize = 1_024;
/// Reasons that are reported.
const MAX_WARNINGS: usize = 5;
/// Longest wait for the list: a server whose tools are listed is not kept from starting.
const LIMIT: Duration = Duration::from_secs(5);

/// A skill that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// What it is for and when to use it.
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

    fn file(&self, uri: &str) -> Option<&SkillResource> {
        self.files.iter().find(|file| file.uri == uri)
    }
}

/// The skills of all pages.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) skills: Vec<Arc<Skill>>,
    /// What was left out, or why the list could not be read.
    pub(crate) warnings: Vec<String>,
    /// For how long the server allows the list to be kept; zero: until it reports a change.
    pub(crate) age: Duration,
}

/// Lists the skills of a server that declares the extension. A list that cannot be read leaves the
/// previous one in force.
pub(crate) async fn list(shared: &Shared, live: &Live) -> Listed {
    if !live.capabilities.supports_skills() {
        return Listed::default();
    }
    let definition = &shared.definition;
    let limit = LIMIT.min(definition.tool_timeout).min(definition.startup_timeout / 2);
    let problem = match timeout(limit, pages(shared, live)).await {
        Ok(Ok(listed)) => return listed,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("there is no answer within {} s", limit.as_secs_f64()),
    };
    let warning =
        format!("the skills of the server `{}` cannot be listed: {problem}", definition.name);
    Listed { skills: shared.known_skills(), warnings: vec![warning], age: Duration::ZERO }
}

async fn pages(shared: &Shared, live: &Live) -> Result<Listed, Error> {
    let active = ActiveCall::new(None, None, None);
    let _ended = active.end_on_drop();
    let (mut entries, mut cursor) = (Vec::new(), None);
    let mut age = Duration::MAX;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListSkillsRequest(ListSkillsRequest::with_param(params));
        let answer = shared.send(live, &active, None, request).await?;
        let page = page(&answer, "skills")?;
        entries.extend(page.entries);
        age = age.min(page.age);
        cursor = page.next;
        if cursor.is_none() || entries.len() > MAX_ENTRIES {
            break;
        }
    }
    let is_whole = cursor.is_none() && entries.len() <= MAX_ENTRIES;
    entries.truncate(MAX_ENTRIES);
    Ok(Listed { age, ..usable(&shared.definition.name, entries, is_whole) })
}

/// The entries that can be used, in the server's order.
fn usable(server: &str, entries: Vec<Value>, is_whole: bool) -> Listed {
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

impl Server {
    /// Reads a file of a skill that the server offers, which must have the size and the digest of the
    /// manifest.
    ///
    /// # Errors
    /// No skill has the file, it is too long or no text, it is not that of the manifest, or as
    /// [`Server::call`].
    pub async fn read_skill_file(
        &self,
        holder: Option<String>,
        uri: &str,
    ) -> Result<String, Error> {
        let name = self.name();
        let catalog = self.catalog();
        let file = catalog.iter().flat_map(|catalog| &catalog.skills).find_map(|it| it.file(uri));
        let Some(file) = file else {
            let message = format!("no skill of the server `{name}` has the file `{}`", quoted(uri));
            return Err(Error::new(ErrorKind::Unknown, message));
        };
        if file.size > MAX_FILE {
            let message = format!("the file has {} bytes, at most {MAX_FILE} are read", file.size);
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        let mut read = self.read_resource(holder, uri).await?;
        let contents = match read.get_mut("contents").map(Value::take) {
            Some(Value::Array(contents)) => contents,
            _ => Vec::new(),
        };
        let is_it = |content: &&Value| content.get("uri").and_then(Value::as_str) == Some(uri);
        let content = contents.iter().find(is_it);
        let Some(text) = content.and_then(|content| content.get("text")?.as_str()) else {
            let problem = match content {
                Some(_) => "is not sent as text: only texts can be read",
                None => "is not in the answer of the server",
            };
            return Err(Error::new(ErrorKind::Protocol, format!("the file `{uri}` {problem}")));
        };
        file.verify(text.as_bytes()).map_err(|error| {
            // The server may have changed the skill without a report.
            self.shared.refresh.notify_one();
            let error = quoted(&error.to_string());
            let message = format!(
                "the file is not the one that the server listed: {error}; its skills are listed again \
                 for the next turn"
            );
            Error::new(ErrorKind::Protocol, message)
        })?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
