//! The findings: items, which are shown to the user, made of parts, which are taken over one by
//! one.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::agent::Agent;
use crate::bounds::PARTS;
use crate::error::Error;

/// Where to read and where to write. All absolute.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The user's home folder.
    pub user_home: PathBuf,
    /// This agent's home.
    pub agent_home: PathBuf,
    /// The folder of the machine's settings, such as `/etc`.
    pub machine_settings: PathBuf,
    /// Name of the folder of this agent in a project, such as `.agent`.
    pub project_folder: &'static str,
}

impl Roots {
    /// The folder of this agent for the user or a project.
    #[must_use]
    pub fn own_folder(&self, project: Option<&Path>) -> PathBuf {
        project.map_or_else(|| self.agent_home.clone(), |root| root.join(self.project_folder))
    }

    /// The folder below which no link is followed when something is written.
    #[must_use]
    pub fn write_root(&self, project: Option<&Path>) -> PathBuf {
        project.map_or_else(|| self.agent_home.clone(), Path::to_owned)
    }
}

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Instructions,
    /// Keys of the configuration.
    Settings,
    /// Rules about commands.
    Permissions,
    Skills,
    McpServers,
    Subagents,
    Hooks,
    Commands,
}

impl Kind {
    /// The noun for the parts.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Settings => "settings",
            Self::Permissions => "permissions of commands",
            Self::Skills => "skills",
            Self::McpServers => "MCP servers",
            Self::Subagents => "sub-agents",
            Self::Hooks => "hooks",
            Self::Commands => "commands",
        }
    }
}

/// Something that can be taken over.
#[derive(Clone, Debug)]
pub struct Item {
    pub kind: Kind,
    pub agent: Agent,
    /// The project; `None` for what the user has everywhere.
    pub project: Option<PathBuf>,
    pub parts: Vec<Part>,
    /// The settings that have no counterpart here, and why.
    pub left_out: Vec<String>,
}

impl Item {
    pub(crate) fn new(kind: Kind, agent: Agent, project: Option<&Path>) -> Self {
        let project = project.map(Path::to_owned);
        Self { kind, agent, project, parts: Vec::new(), left_out: Vec::new() }
    }

    /// Adds a part, unless there is one of this name or there are too many.
    pub(crate) fn add(&mut self, name: &str, summary: String, change: Change) {
        let shown = visible::exact(name);
        if self.parts.len() >= PARTS {
            self.left_out.push(format!("`{shown}`: at most {PARTS} are taken over at a time"));
        } else if self.parts.iter().any(|part| part.name == name) {
            self.left_out.push(format!("`{shown}`: another one has the same name"));
        } else {
            self.parts.push(Part { name: name.to_owned(), summary, change });
        }
    }

    /// A digest of all that an import would write, in hexadecimal. Who was shown it and sends it back can
    /// be sure that the source has not changed meanwhile.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for part in &self.parts {
            hash.update(format!("{:?}\n{:?}\n", part.name, part.change));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn leave_out(&mut self, name: &str, why: &str) {
        self.left_out.push(format!("`{}`: {why}", visible::exact(name)));
    }
}

/// A part of an item, such as one MCP server.
#[derive(Clone, Debug)]
pub struct Part {
    /// Unique in its item.
    pub name: String,
    /// The effect of the part, on one line and without secrets.
    pub summary: String,
    pub change: Change,
}

/// The change that takes a part over.
#[derive(Clone, Debug)]
pub enum Change {
    /// Text that is put into a file between markers, which name its origin.
    Block { path: PathBuf, origin: String, text: String },
    /// A new file or folder of files, relative to `at`, which must not exist with other contents.
    Files {
        at: PathBuf,
        files: Vec<(PathBuf, Vec<u8>)>,
        /// The folder that they are copied from, if they are, with their modes.
        from: Option<PathBuf>,
        /// A role to define, and its value.
        role: Option<(String, Value)>,
    },
    /// A key of the configuration, which must not be set to anything else.
    Setting { key_path: Vec<String>, value: Value },
    /// A group of hooks of an event in a `hooks.json`.
    Hook { path: PathBuf, event: String, group: Map<String, Value> },
    /// A line of a file of command rules.
    Rule { path: PathBuf, line: String },
}

/// The result of a detection.
#[derive(Debug, Default)]
pub struct Detected {
    pub items: Vec<Item>,
    /// Files that cannot be used, and plugins, which are not taken over.
    pub problems: Vec<Error>,
}
