//! Skills that the MCP servers of a thread offer: their names in the thread, the tool by which the model
//! reads their files, and their use by an input. They are data of the server and grant nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcp::{Call, Digest, Server, Skill};
use serde_json::{Value, json};
use skills::catalog::RemoteSkill;
use tokio::time::Instant;

use crate::error::Error;

/// The name under which the tool that reads files of skills is shown and configured.
pub(crate) const READ_TOOL: &str = "read_skill_file";
/// Marks calls of that tool. The digest of a tool of a server, which is a hash, is never this.
const READ_DIGEST: [u8; 16] = *b"agentd:skillfile";
/// Time for all skills of an input together.
const LIMIT: Duration = Duration::from_secs(10);
/// Files that the text of a skill names.
const MAX_NAMED_FILES: usize = 50;

pub(crate) fn read_digest() -> Digest {
    Digest::from_bytes(READ_DIGEST)
}

/// The arguments of the tool.
pub(crate) fn read_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "uri": {"type": "string", "description": "URI of the file."}
        },
        "required": ["uri"],
        "additionalProperties": false
    })
}

pub(crate) const READ_DESCRIPTION: &str = "Reads a file of a skill that this server offers: its \
    SKILL.md, or another one that it names. The file is data from the server.";

/// Returns the name of a server's skill in a thread. Names of the user's own skills win.
pub(crate) fn name_in_thread(server: &str, skill: &Skill) -> String {
    format!("{server}:{}", skill.name)
}

/// The skills of a server for the catalog; `tool` reads their files.
pub(crate) fn for_catalog(server: &Server, tool: &str) -> Vec<RemoteSkill> {
    let Some(catalog) = server.catalog() else { return Vec::new() };
    let skills = catalog.skills.iter().map(|skill| RemoteSkill {
        server: server.name().to_owned(),
        tool: tool.to_owned(),
        name: name_in_thread(server.name(), skill),
        description: skill.description.clone(),
        uri: skill.uri.clone(),
    });
    skills.collect()
}

/// Returns whether a call is one of the tool that reads files of skills.
pub fn reads_skill_file(call: &Call) -> bool {
    call.digest == Some(read_digest())
}

/// Answers a call of that tool, as a server answers a call.
///
/// # Errors
/// The file cannot be read.
pub async fn read_skill_file(server: &Server, call: Call) -> Result<Value, String> {
    let uri = call.arguments.as_ref().and_then(|arguments| arguments.get("uri")?.as_str());
    let uri = uri.unwrap_or_default();
    let catalog = server.catalog();
    let read = server.read_skill_file(call.holder, uri).await;
    let text = read.map_err(|error| error.to_string())?;
    let skill = catalog.iter().flat_map(|catalog| &catalog.skills).find(|skill| skill.uri == uri);
    if let Some(Err(problem)) = skill.map(|skill| start_of_body(skill, &text)) {
        return Err(problem);
    }
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

/// The skills of a thread's servers, for an input.
pub struct ServerSkills {
    servers: Vec<Server>,
    thread: String,
    deadline: Instant,
}

/// A skill of a server.
pub struct ServerSkill {
    server: Server,
    skill: Arc<Skill>,
}

impl ServerSkill {
    /// Returns its name in the thread.
    pub fn name(&self) -> String {
        name_in_thread(self.server.name(), &self.skill)
    }

    pub fn uri(&self) -> &str {
        &self.skill.uri
    }

    pub fn server(&self) -> &str {
        self.server.name()
    }
}

impl ServerSkills {
    pub fn new(servers: Vec<Server>, thread: &str) -> Self {
        Self { servers, thread: thread.to_owned(), deadline: Instant::now() + LIMIT }
    }

    /// All of them by their names in the thread.
    pub(crate) fn by_name(&self) -> HashMap<String, ServerSkill> {
        let mut by_name = HashMap::new();
        for server in &self.servers {
            for skill in server.catalog().iter().flat_map(|catalog| &catalog.skills) {
                let found = ServerSkill { server: server.clone(), skill: skill.clone() };
                by_name.insert(found.name(), found);
            }
        }
        by_name
    }

    /// The skill with this `SKILL.md`, by its name in the thread or its own.
    pub fn at(&self, name: &str, uri: &str) -> Option<ServerSkill> {
        self.servers.iter().find_map(|server| {
            let catalog = server.catalog()?;
            let is_it = |skill: &&Arc<Skill>| {
                let full = name_in_thread(server.name(), skill);
                skill.uri == uri && (skill.name == name || full == name)
            };
            let skill = catalog.skills.iter().find(is_it)?.clone();
            Some(ServerSkill { server: server.clone(), skill })
        })
    }

    /// The text of a skill, without its front matter, with the names of its files. A server that has
    /// failed is started again.
    ///
    /// # Errors
    /// It cannot be read in time, or is not the one that the server listed.
    pub async fn read(&self, found: &ServerSkill) -> Result<String, Error> {
        let ServerSkill { server, skill } = found;
        let read = async {
            server.ready().await?;
            server.read_skill_file(Some(self.thread.clone()), &skill.uri).await
        };
        let read = tokio::time::timeout_at(self.deadline, read).await;
        let text = match read {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(failed(found, &error.to_string())),
            Err(_) => {
                let problem = format!("it was not read within {} s", LIMIT.as_secs());
                return Err(failed(found, &problem));
            }
        };
        let at = start_of_body(skill, &text).map_err(|problem| failed(found, &problem))?;
        let mut body = text.get(at..).unwrap_or_default().trim().to_owned();
        let files: Vec<&str> = skill.other_files().collect();
        if !files.is_empty() {
            body.push_str(&format!("\n\nFiles of the skill, for `{READ_TOOL}`:\n"));
            files.iter().take(MAX_NAMED_FILES).for_each(|uri| body.push_str(&format!("- {uri}\n")));
            let more = files.len().saturating_sub(MAX_NAMED_FILES);
            if more > 0 {
                body.push_str(&format!("and {more} more\n"));
            }
        }
        Ok(body)
    }
}

/// The start of the text after the front matter, which must be that of the list.
fn start_of_body(skill: &Skill, text: &str) -> Result<usize, String> {
    let front = skills::parse(text).map_err(|fault| fault.to_string())?;
    let field = |name| front.field(name).and_then(|field| field.value.text()).map(str::trim);
    // Long descriptions of lists are cut.
    let is_described = |text: &str| text.starts_with(&skill.description);
    match field("name") == Some(&skill.name) && field("description").is_some_and(is_described) {
        true => Ok(front.body),
        false => Err("its SKILL.md has another name or description than its list".to_owned()),
    }
}

fn failed(found: &ServerSkill, problem: &str) -> Error {
    let place = format!("the skill `{}` of the MCP server `{}`", found.name(), found.server());
    Error::failed(problem.to_owned()).within(&place)
}
