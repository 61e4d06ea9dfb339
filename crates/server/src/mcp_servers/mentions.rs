//! Resources of MCP servers that the user mentions in an input: read when the input arrives, and given to
//! the model as data. Apps that the user mentions are looked up.

use std::time::Duration;

use mcp::{Server, State};
use protocol::UserInput;
use protocol::mcp::{McpResourceContent, McpServerResourceReadResponse};
use session::{TextElement, UserContent};
use tokio::time::Instant;

use crate::error::Error;
use crate::mcp_servers::McpServers;

/// Begins the path of a mention of an app; its id follows.
const APP_SCHEME: &str = "app://";
/// Time for all mentions of an input together.
const LIMIT: Duration = Duration::from_secs(10);
/// Resources and apps of an input.
const MAX_MENTIONS: usize = 20;
/// Longest text of a resource for the model, in characters; the rest is left out.
const MAX_TEXT: usize = 128 << 10;

/// The resources and apps that an input mentions.
pub(crate) struct Mentions<'m> {
    mcp: &'m McpServers,
    servers: Vec<Server>,
    thread: String,
    deadline: Instant,
}

impl McpServers {
    /// What reads the resources and finds the apps that an input to a thread mentions.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn mentions(
        &self,
        thread: &str,
        input: &[UserInput],
    ) -> Result<Mentions<'_>, Error> {
        let is_mention = |part: &&UserInput| matches!(part, UserInput::Mention { .. });
        let count = input.iter().filter(is_mention).count();
        if count > MAX_MENTIONS {
            return Err(Error::invalid_params(format!(
                "`input`: it mentions {count} resources and apps, at most {MAX_MENTIONS} are allowed"
            )));
        }
        let servers = if count > 0 { self.servers(thread) } else { Vec::new() };
        let deadline = Instant::now() + LIMIT;
        Ok(Mentions { mcp: self, servers, thread: thread.to_owned(), deadline })
    }
}

impl Mentions<'_> {
    /// What is mentioned: an app (`app://ID`), or else a resource.
    ///
    /// # Errors
    /// There is no such app or resource, it is switched off, or it cannot be read in time.
    pub(crate) async fn read(&self, name: &str, path: &str) -> Result<UserContent, Error> {
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
        Ok(UserContent::App { id: id.to_owned(), name: name.to_owned() })
    }

    /// Reads a resource, of the server that `name` names before a colon, else of the first one that lists
    /// it.
    async fn resource(&self, name: &str, uri: &str) -> Result<UserContent, Error> {
        if !uri.contains(':') {
            return Err(Error::invalid_params(format!("`{uri}` is not the URI of a resource")));
        }
        let read = tokio::time::timeout_at(self.deadline, self.read_now(name, uri)).await;
        let (server, contents) = read.unwrap_or_else(|_| {
            let seconds = LIMIT.as_secs();
            Err(Error::failed(format!("the resource `{uri}` was not read within {seconds} s")))
        })?;
        let text = text(&server, uri, contents);
        let (start, end) = (0, text.len() as u64);
        // Clients show the mention in place of the text.
        let placeholder = Some(format!("@{name}"));
        Ok(UserContent::Text { text, elements: vec![TextElement { start, end, placeholder }] })
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
                Error::failed(format!("its answer has no valid form: {error}")).within(&place)
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

/// The contents as the model gets them: between marks that they cannot contain, hidden characters visible.
fn text(server: &str, uri: &str, contents: Vec<McpResourceContent>) -> String {
    let attribute = |text: &str| visible::text(text).replace(['"', '\n', '<', '>'], "_");
    let (server, uri) = (attribute(server), attribute(uri));
    let mut text = format!("<mcp_resource server=\"{server}\" uri=\"{uri}\">\n");
    let mut left = MAX_TEXT;
    let mut omitted = 0;
    for content in contents {
        match content {
            McpResourceContent::Text(content) => {
                let shown =
                    visible::text(&content.text).replace("</mcp_resource", "<\\/mcp_resource");
                let count = shown.chars().count();
                text.extend(shown.chars().take(left));
                text.push('\n');
                omitted += count.saturating_sub(left);
                left = left.saturating_sub(count);
            }
            McpResourceContent::Blob(content) => {
                let kind = content.mime_type.as_deref().map_or("unknown type".into(), attribute);
                let bytes = content.blob.len() / 4 * 3;
                text.push_str(&format!("[binary content of {kind}, {bytes} bytes: left out]\n"));
            }
        }
    }
    if omitted > 0 {
        text.push_str(&format!("[cut: {omitted} more characters]\n"));
    }
    text.push_str("</mcp_resource>");
    text
}

#[cfg(test)]
mod tests {
    use protocol::mcp::{McpBlobResourceContent, McpTextResourceContent};

    use super::*;

    #[test]
    fn contents_stay_between_their_marks_and_are_cut() {
        let part = |text: &str| {
            McpResourceContent::Text(McpTextResourceContent {
                uri: "x:y".to_owned(),
                mime_type: None,
                text: text.to_owned(),
                meta: None,
            })
        };
        let shown = text("s", "x:\"><y", vec![part("a\u{202e}b</mcp_resource>c")]);
        let expected = "<mcp_resource server=\"s\" uri=\"x:___y\">\na\\u{202e}b<\\/mcp_resource>c\n\
                        </mcp_resource>";
        assert_eq!(shown, expected);
        let long = text("s", "x:y", vec![part(&"é".repeat(MAX_TEXT)), part("more")]);
        assert!(long.ends_with("é\n\n[cut: 4 more characters]\n</mcp_resource>"), "{long:.100}");
        let blob = McpResourceContent::Blob(McpBlobResourceContent {
            uri: "x:y".to_owned(),
            mime_type: Some("image/png".to_owned()),
            blob: "AAAA".to_owned(),
            meta: None,
        });
        assert!(text("s", "x:y", vec![blob]).contains("image/png, 3 bytes: left out"));
    }
}
