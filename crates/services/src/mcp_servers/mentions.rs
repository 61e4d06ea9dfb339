//! Resources of MCP servers that the user mentions in an input: read when the input arrives, and given to
//! the model as data. Apps that the user mentions are looked up.

use std::time::Duration;

use mcp::{Server, State};
use protocol::UserInput;
use protocol::mcp::{McpResourceContent, McpServerResourceReadResponse};
use session::{TextElement, UserContent};
use tokio::time::Instant;

use super::resource_content::{ResourceImages, for_model};
use crate::error::Error;
use crate::mcp_servers::McpServers;

/// Begins the path of a mention of an app; its id follows.
const APP_SCHEME: &str = "app://";
/// Time for all mentions of an input together.
const LIMIT: Duration = Duration::from_secs(10);
/// Resources and apps of an input.
const MAX_MENTIONS: usize = 20;

/// The resources and apps that an input mentions.
pub struct Mentions<'m> {
    mcp: &'m McpServers,
    images: ResourceImages<'m>,
    servers: Vec<Server>,
    thread: String,
    deadline: Instant,
}

impl McpServers {
    /// Returns the reader of the resources and apps that an input to a thread mentions.
    ///
    /// # Errors
    /// There are too many.
    pub fn mentions<'m>(
        &'m self,
        thread: &str,
        input: &[UserInput],
        images: ResourceImages<'m>,
    ) -> Result<Mentions<'m>, Error> {
        let is_mention = |part: &&UserInput| matches!(part, UserInput::Mention { .. });
        let count = input.iter().filter(is_mention).count();
        if count > MAX_MENTIONS {
            return Err(Error::invalid_params(format!(
                "`input`: it mentions {count} resources and apps, at most {MAX_MENTIONS} are allowed"
            )));
        }
        let servers = if count > 0 { self.servers(thread) } else { Vec::new() };
        let deadline = Instant::now() + LIMIT;
        Ok(Mentions { mcp: self, images, servers, thread: thread.to_owned(), deadline })
    }
}

impl Mentions<'_> {
    /// Reads a mention: an app (`app://ID`), or else a resource.
    ///
    /// # Errors
    /// There is no such app or resource, it is switched off, or it cannot be read in time.
    pub async fn read(&self, name: &str, path: &str) -> Result<Vec<UserContent>, Error> {
        let Some(id) = path.strip_prefix(APP_SCHEME) else {
            return self.resource(name, path).await;
        };
        let found = self.mcp.mentioned_app(&self.thread, &self.servers, id);
        let found = tokio::time::timeout_at(self.deadline, found).await;
        found.unwrap_or_else(|_| {
            let seconds = LIMIT.as_secs();
            Err(Error::failed(format!(
                "no MCP server that was ready within {seconds} s has the app `{id}`"
            )))
        })?;
        Ok(vec![UserContent::App { id: id.to_owned(), name: name.to_owned() }])
    }

    /// Reads a resource, of the server that `name` names before a colon, else of the first one that lists
    /// it.
    async fn resource(&self, name: &str, uri: &str) -> Result<Vec<UserContent>, Error> {
        if !uri.contains(':') {
            return Err(Error::invalid_params(format!("`{uri}` is not the URI of a resource")));
        }
        let read = tokio::time::timeout_at(self.deadline, self.read_now(name, uri)).await;
        let (server, contents) = read.unwrap_or_else(|_| {
            let seconds = LIMIT.as_secs();
            Err(Error::failed(format!("the resource `{uri}` was not read within {seconds} s")))
        })?;
        let (text, images) = for_model((&server, uri), contents, &self.images).await;
        let (start, end) = (0, text.len() as u64);
        // Clients show the mention in place of the text.
        let placeholder = Some(format!("@{name}"));
        let elements = vec![TextElement { start, end, placeholder }];
        let mut content = vec![UserContent::Text { text, elements }];
        content.extend(images.into_iter().map(|url| UserContent::Image { url }));
        Ok(content)
    }

    async fn read_now(
        &self,
        name: &str,
        uri: &str,
    ) -> Result<(String, Vec<McpResourceContent>), Error> {
        let server = self.server_with(name, uri).await?;
        let place = format!("MCP server `{}`", server.name());
        let failed = |error: mcp::Error| Error::failed(error.to_string()).within(&place);
        server.ready().await.map_err(failed)?;
        let read = server.read_resource(Some(self.thread.clone()), uri).await.map_err(failed)?;
        let read: McpServerResourceReadResponse =
            serde_json::from_value(read).map_err(|error| {
                Error::failed(format!("its answer is invalid: {error}")).within(&place)
            })?;
        Ok((server.name().to_owned(), read.contents))
    }

    async fn server_with(&self, name: &str, uri: &str) -> Result<Server, Error> {
        let chosen = name.split_once(':').map_or(name, |(server, _)| server);
        if let Some(server) = self.servers.iter().find(|server| server.name() == chosen) {
            return Ok(server.clone());
        }
        // A server that is slow to start delays only what no other one has.
        let is_ready = |server: &&Server| matches!(server.state(), State::Ready(_));
        let (ready, others): (Vec<&Server>, Vec<&Server>) = self.servers.iter().partition(is_ready);
        let mut problems = Vec::new();
        for server in ready.into_iter().chain(others) {
            match lists(server, uri).await {
                Ok(true) => return Ok(server.clone()),
                Ok(false) => {}
                Err(error) => problems.push(format!("; `{}`: {error}", server.name())),
            }
        }
        let problems = problems.concat();
        let message = format!("no MCP server of the thread lists the resource `{uri}`{problems}");
        Err(Error::not_found(message).next_step(
            "choose one that `mcpServerStatus/list` names, or begin `name` with that of its server \
             and a colon",
        ))
    }
}

async fn lists(server: &Server, uri: &str) -> Result<bool, mcp::Error> {
    server.ready().await?;
    let listed = server.resources().await?;
    Ok(listed.iter().any(|resource| resource.get("uri").and_then(|uri| uri.as_str()) == Some(uri)))
}
