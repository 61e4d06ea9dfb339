//! A configured hook: one handler of one event.

use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::event::{Event, EventName};
use crate::matcher::Matcher;

/// Where hooks are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The user's home.
    User,
    /// A project.
    Project,
    /// An installed plugin.
    Plugin,
    /// The administrator of the machine.
    Managed,
    /// The administrator of the account.
    Fetched,
}

impl Source {
    /// Returns whether its hooks run outside of the sandbox: those of the user and the
    /// administrator do, who could start anything themselves.
    pub fn is_unconfined(self) -> bool {
        self == Self::User || self.is_managed()
    }

    /// Returns whether the user has no say in its hooks.
    pub fn is_managed(self) -> bool {
        matches!(self, Self::Managed | Self::Fetched)
    }
}

/// The file that has a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub source: Source,
    pub path: PathBuf,
    /// The plugin that the file belongs to.
    pub plugin: Option<String>,
}

/// The action of a hook.
#[derive(Clone, Debug, PartialEq)]
pub enum Handler {
    /// A command line, for the shell.
    Command(String),
    /// A prompt for a model, which answers whether the event may go on. `$ARGUMENTS` stands for what a
    /// command would read.
    Prompt { prompt: String, model: Option<String> },
    /// As [`Self::Prompt`], for an agent that can read files first.
    Agent { prompt: String, model: Option<String> },
    /// A tool of an MCP server, which answers as a command would.
    McpTool { server: String, tool: String, arguments: Value },
}

impl Handler {
    /// Seconds that it has unless the file says otherwise.
    pub(crate) fn default_timeout(&self) -> u64 {
        match self {
            Self::Command(_) => 600,
            Self::McpTool { .. } | Self::Agent { .. } => 60,
            Self::Prompt { .. } => 30,
        }
    }
}

/// A configured hook: one handler of one event.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Names the hook in lists and in the configuration: `path:event:group:handler`, unless the caller
    /// sets another.
    pub key: String,
    pub event: EventName,
    /// As the file has it.
    pub matcher_text: Option<String>,
    pub matcher: Matcher,
    pub handler: Handler,
    /// Time limit in seconds.
    pub timeout_sec: u64,
    /// True if the event does not wait for it; its answer then changes nothing.
    pub is_async: bool,
    /// Shown while it runs.
    pub status_message: Option<String>,
    pub origin: Origin,
    /// Where it stands among the hooks of its file.
    pub order: i64,
}

impl Hook {
    /// Returns whether the event starts it. `agent_type`: of the agent that the thread is.
    pub fn is_for(&self, event: &Event, agent_type: Option<&str>) -> bool {
        let name = event.name();
        self.event == name && self.matcher.matches(name.has_subject(), &event.subjects(agent_type))
    }

    /// The digest that the user trusts: of everything that decides when and what it runs, as
    /// `sha256:` and hexadecimal digits. `files`: the contents of the project's files that its
    /// command names.
    pub fn digest<'f>(&self, files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> String {
        let mut digest = Sha256::new();
        // Every part has its length before it, so that no two hooks have the same bytes.
        let mut add = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        add(self.event.as_str().as_bytes());
        add(self.matcher_text.as_deref().unwrap_or_default().as_bytes());
        add(&[u8::from(self.is_async)]);
        add(&self.timeout_sec.to_le_bytes());
        match &self.handler {
            Handler::Command(command) => {
                add(b"command");
                add(command.as_bytes());
            }
            Handler::Prompt { prompt, model } | Handler::Agent { prompt, model } => {
                let is_agent = matches!(self.handler, Handler::Agent { .. });
                add(if is_agent { b"agent" } else { b"prompt" });
                add(prompt.as_bytes());
                add(model.as_deref().unwrap_or_default().as_bytes());
            }
            Handler::McpTool { server, tool, arguments } => {
                add(b"mcpTool");
                add(server.as_bytes());
                add(tool.as_bytes());
                // The order of members is none of a hook's meaning: another one needs no new trust.
                let mut arguments = arguments.clone();
                arguments.sort_all_objects();
                add(arguments.to_string().as_bytes());
            }
        }
        for (path, contents) in files {
            add(path.as_bytes());
            add(contents);
        }
        format!("sha256:{}", const_hex::encode(digest.finalize()))
    }
}
