//! Which tools a thread offers to the model.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use super::server_tool::ServerTool;
use super::tool_index::ToolIndex;

/// The form in which `apply_patch` is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchTool {
    /// A custom tool with a grammar, for models that support it.
    Custom,
    /// A function with one string.
    #[default]
    Function,
    /// As a command of the shell, which the instructions describe. Calls of the tool are read too.
    Shell,
    /// Not at all.
    Off,
}

/// The form in which commands are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandTool {
    /// `exec_command` and `write_stdin`: commands may outlive the call.
    #[default]
    Terminal,
    /// `shell`: one call, one command.
    OneShot,
    /// None: the model cannot run commands.
    Off,
}

/// The form in which `tool_search` is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchTool {
    /// As the provider's own kind of tool: found tools become part of the history, so that requests
    /// begin as those before.
    Native,
    /// A function. Found tools follow the other definitions of later requests.
    #[default]
    Function,
}

/// The tools that a thread offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    /// The form in which `apply_patch` is offered.
    pub patch: PatchTool,
    /// The form in which commands are offered.
    pub commands: CommandTool,
    /// `view_image`.
    pub view_image: bool,
    /// `get_goal` and `update_goal`: the thread has a goal that is open.
    pub goal: bool,
    /// `request_user_input`.
    pub user_input: bool,
    /// `request_permissions`.
    pub request_permissions: bool,
    /// True if the model may ask for a login shell.
    pub login_shell: bool,
    /// The provider's own web search, as the JSON that offers it: while commands are confined, and
    /// while they are not.
    pub web_search: [Option<Arc<str>>; 2],
    /// Tools for other agents; `None`: there are none.
    pub agents: Option<Arc<AgentTools>>,
    /// Tools that the client runs. It knows the mode, so that they are its own business.
    pub dynamic: Arc<[DynamicTool]>,
    /// Tools of MCP servers, in an order that does not change while they are offered.
    pub server_tools: Arc<[ServerTool]>,
    /// The form in which `tool_search` is offered.
    pub search: SearchTool,
    /// Place among the external tools (`dynamic`, then `server_tools`) from which on they are deferred, whether they ask for it or not; see
    /// [`ToolSet::deferring`]. `None`: no tool is deferred.
    pub deferred_from: Option<usize>,
    /// Names of built-in tools that the model is not offered, though the configuration has them.
    pub withheld: Arc<[Arc<str>]>,
    /// Plan mode: what changes something is not offered. A call of it is understood, to be refused
    /// with the reason.
    pub reads_only: bool,
}

impl ToolSet {
    /// The tools that are not in the request until a search finds them.
    pub(crate) fn deferred(&self) -> impl Iterator<Item = ExternalTool<'_>> {
        let numbered = self.external().enumerate();
        numbered.filter(|(place, tool)| self.is_deferred(*place, *tool)).map(|(_, tool)| tool)
    }

    /// The tools that are not built in and are in each request.
    pub(crate) fn listed(&self) -> impl Iterator<Item = ExternalTool<'_>> {
        let numbered = self.external().enumerate();
        numbered.filter(|(place, tool)| !self.is_deferred(*place, *tool)).map(|(_, tool)| tool)
    }

    /// The tools that are not built in.
    pub(crate) fn external(&self) -> impl Iterator<Item = ExternalTool<'_>> {
        let clients = self.dynamic.iter().map(ExternalTool::Client);
        clients.chain(self.server_tools.iter().map(ExternalTool::Server))
    }

    fn is_deferred(&self, place: usize, tool: ExternalTool<'_>) -> bool {
        self.deferred_from.is_some_and(|first| place >= first || tool.defer_loading())
    }
}

impl Default for ToolSet {
    fn default() -> Self {
        Self {
            patch: PatchTool::default(),
            commands: CommandTool::default(),
            view_image: true,
            goal: false,
            user_input: true,
            request_permissions: true,
            login_shell: true,
            web_search: [None, None],
            agents: None,
            dynamic: Arc::default(),
            server_tools: Arc::default(),
            search: SearchTool::default(),
            deferred_from: None,
            withheld: Arc::default(),
            reads_only: false,
        }
    }
}

/// The settings of the tools for other agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTools {
    /// True if they are offered: to a thread that may start agents, and to one that has the history
    /// of its parent, whose requests begin as those of its parent. The driver refuses what a call
    /// may not do.
    pub are_offered: bool,
    /// The roles that the configuration describes.
    pub roles: Vec<AgentRole>,
    /// True if the thread works on a row of a job, so that it reports a result.
    pub is_job_worker: bool,
}

/// A role for agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRole {
    /// Its name.
    pub name: String,
    /// The description of its purpose.
    pub description: Option<String>,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicTool {
    /// Group of tools that it belongs to.
    pub namespace: Option<String>,
    /// Its name in the group.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: String,
    /// True if the model gets its definition only from a search.
    pub defer_loading: bool,
}

impl DynamicTool {
    /// Returns the model's name for it.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}__{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A tool that is not built in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExternalTool<'t> {
    /// Of a client.
    Client(&'t DynamicTool),
    /// Of an MCP server.
    Server(&'t ServerTool),
}

impl<'t> ExternalTool<'t> {
    /// Returns the model's name for it.
    pub(crate) fn full_name(self) -> Cow<'t, str> {
        match self {
            Self::Client(tool) => tool.full_name().into(),
            Self::Server(tool) => tool.name.as_str().into(),
        }
    }

    pub(crate) fn description(self) -> &'t str {
        match self {
            Self::Client(tool) => &tool.description,
            Self::Server(tool) => &tool.description,
        }
    }

    /// JSON Schema of its arguments.
    pub(crate) fn schema(self) -> &'t str {
        match self {
            Self::Client(tool) => &tool.schema,
            Self::Server(tool) => &tool.schema,
        }
    }

    /// The group that it belongs to: a server is one.
    pub(crate) fn group(self) -> Option<&'t str> {
        match self {
            Self::Client(tool) => tool.namespace.as_deref(),
            Self::Server(tool) => Some(&tool.target.server),
        }
    }

    /// Returns whether it asks to be deferred.
    pub(crate) fn defer_loading(self) -> bool {
        matches!(self, Self::Client(tool) if tool.defer_loading)
    }
}

/// The model's name for the search for deferred tools.
pub(crate) const TOOL_SEARCH: &str = "tool_search";

/// A tool that a search found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundTool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Its definition.
    pub(crate) definition: serde_json::Value,
}

/// Tools, with their definitions written as the JSON array of a request. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Offer {
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) confined: Arc<str>,
    pub(crate) unconfined: Arc<str>,
    /// The built-in base instructions for a model that is offered them.
    pub(crate) instructions: Arc<str>,
    /// The deferred tools, when they are first searched.
    pub(crate) index: Arc<OnceLock<ToolIndex>>,
}

impl Offer {
    /// The tools.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// The definitions, while commands are confined or while they are not.
    pub(crate) fn json(&self, is_unconfined: bool) -> Arc<str> {
        if is_unconfined { self.unconfined.clone() } else { self.confined.clone() }
    }
}
