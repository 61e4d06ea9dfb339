//! The list of skills of a server, and the files of skills, which are read as resources and checked against
//! the manifest of the skill.

use std::time::Duration;

use rmcp::model::{ClientRequest, ListSkillsRequest};
use serde_json::Value;
use tokio::time::timeout;

use super::pages::Pages;
use super::requests::value;
use super::{Live, Server, Shared};
use crate::calls::ActiveCall;
use crate::error::{Error, ErrorKind, quoted};
use crate::skills::{Listed, MAX_ENTRIES, usable};

/// Pages of a list.
const MAX_PAGES: usize = 16;
/// Largest other file that can be read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Longest wait for the list: a server whose tools are listed is not kept from starting.
const LIMIT: Duration = Duration::from_secs(5);

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
    let (mut entries, mut pages) = (Vec::new(), Pages::default());
    for _ in 0..MAX_PAGES {
        let request =
            ClientRequest::ListSkillsRequest(ListSkillsRequest::with_param(pages.params()));
        let answer = shared.send(live, &active, None, request).await?;
        entries.extend(pages.take(&value(&answer)?, "skills")?);
        if pages.are_all() || entries.len() > MAX_ENTRIES {
            break;
        }
    }
    let (age, is_whole) = (pages.age(), pages.are_all() && entries.len() <= MAX_ENTRIES);
    entries.truncate(MAX_ENTRIES);
    Ok(Listed { age, ..usable(&shared.definition.name, entries, is_whole) })
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
