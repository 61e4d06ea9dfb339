//! An action as a reviewer gets to see it: exactly as it would run, with the sandbox that it leaves.

use std::path::Path;

use serde::Serialize;

use super::document;
use crate::port::agent_request::AgentJob;
use crate::port::approval::NetworkTarget;
use crate::port::auto_review::{ReviewedAction, ShownPermissions};
use crate::port::item::{Change, ChangeKind};
use crate::port::permission::Permissions;
use crate::port::server_tool::{Connector, ToolEffect, ToolTarget};
use crate::port::tool::{Assessment, JobOutput, PatchTarget, ToolRequest};
use crate::processes::OutsideCommand;

/// Bytes of an action as the reviewer gets it, with the reason why it is asked; one that is larger is refused, because a reviewer
/// that sees a part cannot judge the whole.
pub(super) const MAX_ACTION_BYTES: usize = 128 * 1024;

/// An action in the form that a reviewer sees.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Action {
    /// As clients see it.
    pub(crate) shown: ReviewedAction,
    /// The action that runs, as JSON. Two actions with one text are the same action.
    pub(super) text: String,
    /// True if it leaves the sandbox.
    pub(super) unsandboxed: bool,
}

/// The kind and parameters of the action. Paths are written so that no two look the same.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Details<'a> {
    Script {
        script: &'a str,
        /// `None`: the user's.
        shell: Option<&'a str>,
        login_shell: bool,
        cwd: String,
        /// Where `cwd` leads, with links resolved.
        real_cwd: String,
        terminal: bool,
        leaves_sandbox: bool,
    },
    Argv {
        argv: &'a [String],
        cwd: String,
        real_cwd: String,
        leaves_sandbox: bool,
    },
    Patch {
        cwd: String,
        changes: Vec<ShownChange<'a>>,
        /// Every path that is written or removed, and where it leads.
        targets: Vec<ShownTarget>,
        leaves_sandbox: bool,
    },
    JobOutput {
        /// The table, and what the agent of each row is to do.
        csv_path: &'a str,
        instruction: &'a str,
        /// The file with the results, and where it leads.
        output: ShownTarget,
        /// True if results that the job wrote earlier are replaced.
        replaces: bool,
        cwd: String,
        leaves_sandbox: bool,
    },
    Input {
        /// The text to type.
        text: &'a str,
        /// The number of the running command, and the item that shows it, which is unique.
        session: u64,
        item: &'a str,
        command: &'a str,
        cwd: String,
        leaves_sandbox: bool,
    },
    Permissions {
        read: Vec<String>,
        write: Vec<String>,
        network: bool,
        reason: Option<&'a str>,
        /// Lifetime of the permissions.
        until: &'a str,
    },
    ServerTool {
        server: &'a str,
        tool: &'a str,
        /// As the server names and describes it: its words, not ours.
        title: Option<&'a str>,
        connector: Option<&'a str>,
        /// The server's description of the tool's effect, as far as it is believed.
        effect: &'static str,
        arguments: serde_json::Value,
        leaves_sandbox: bool,
    },
    Network {
        host: &'a str,
        port: u16,
        protocol: &'a str,
        command: &'a str,
        cwd: String,
    },
}

/// One file of a patch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownChange<'a> {
    path: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    move_to: Option<&'a str>,
    diff: &'a str,
}

/// One path that a patch writes or removes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownTarget {
    path: String,
    real_path: String,
}

impl ShownTarget {
    fn new(target: &PatchTarget) -> Self {
        Self { path: visible::path(&target.path), real_path: visible::path(&target.real) }
    }

    /// Its path, and where that leads when it is elsewhere.
    fn names(&self) -> impl Iterator<Item = String> {
        let led = (self.real_path != self.path).then(|| self.real_path.clone());
        std::iter::once(self.path.clone()).chain(led)
    }
}

impl Action {
    /// An action of any kind: as clients see it, as the reviewer does, and whether it leaves the
    /// sandbox.
    pub(crate) fn new(shown: ReviewedAction, details: &impl Serialize, unsandboxed: bool) -> Self {
        Self { shown, text: document::json(details), unsandboxed }
    }

    /// A command as it was assessed.
    pub(crate) fn command(
        request: &ToolRequest,
        assessment: &Assessment,
        terminal: bool,
        unsandboxed: bool,
    ) -> Self {
        let Assessment { display, cwd, real_cwd, .. } = assessment;
        let (cwd, real_cwd) = (visible::path(cwd), visible::path(real_cwd));
        let shown_cwd = real_cwd.clone();
        match request {
            ToolRequest::Argv { argv, .. } => {
                let words = argv.iter().map(|word| shown(word)).collect();
                let shown = ReviewedAction::Argv { argv: words, cwd: shown_cwd };
                let details = Details::Argv { argv, cwd, real_cwd, leaves_sandbox: unsandboxed };
                Self::new(shown, &details, unsandboxed)
            }
            other => {
                let (script, shell, login_shell) = match other {
                    ToolRequest::Script { script, shell, login, .. } => {
                        (script.as_str(), shell.as_deref(), *login)
                    }
                    _ => (display.as_str(), None, false),
                };
                let shown = ReviewedAction::Script { script: shown(script), cwd: shown_cwd };
                let details = Details::Script {
                    script,
                    shell,
                    login_shell,
                    cwd,
                    real_cwd,
                    terminal,
                    leaves_sandbox: unsandboxed,
                };
                Self::new(shown, &details, unsandboxed)
            }
        }
    }

    /// A patch in a thread that works in `cwd`.
    pub(crate) fn patch(
        changes: &[Change],
        targets: &[PatchTarget],
        cwd: &Path,
        unsandboxed: bool,
    ) -> Self {
        let changes = changes.iter().map(|change| {
            let (kind, move_to) = match &change.kind {
                ChangeKind::Add => ("add", None),
                ChangeKind::Delete => ("delete", None),
                ChangeKind::Update { move_to } => ("update", move_to.as_deref()),
            };
            ShownChange { path: &change.path, kind, move_to, diff: &change.diff }
        });
        let changes = changes.collect();
        let targets: Vec<ShownTarget> = targets.iter().map(ShownTarget::new).collect();
        let files = targets.iter().flat_map(ShownTarget::names).collect();
        let cwd = visible::path(cwd);
        let shown = ReviewedAction::Patch { cwd: cwd.clone(), files };
        let details = Details::Patch { cwd, changes, targets, leaves_sandbox: unsandboxed };
        Self::new(shown, &details, unsandboxed)
    }

    /// The file that a job writes its results to, in a thread that works in `cwd`.
    pub(crate) fn job_output(
        job: &AgentJob,
        output: &JobOutput,
        cwd: &Path,
        unsandboxed: bool,
    ) -> Self {
        let (cwd, target) = (visible::path(cwd), ShownTarget::new(&output.target));
        let files = target.names().collect();
        let details = Details::JobOutput {
            csv_path: &job.csv_path,
            instruction: &job.instruction,
            output: target,
            replaces: output.replaces,
            cwd: cwd.clone(),
            leaves_sandbox: unsandboxed,
        };
        Self::new(ReviewedAction::Patch { cwd, files }, &details, unsandboxed)
    }

    /// Text that is typed into the running command `session`, which is outside of the sandbox.
    pub(crate) fn input(text: &str, session: u64, command: &OutsideCommand) -> Self {
        let OutsideCommand { item, display, cwd } = command;
        let cwd = visible::path(cwd);
        let shown = ReviewedAction::Script { script: visible::exact(text), cwd: cwd.clone() };
        let command = display.as_str();
        let details = Details::Input { text, session, item, command, cwd, leaves_sandbox: true };
        Self::new(shown, &details, true)
    }

    /// Permissions for all commands of the turn that follow.
    pub(crate) fn permissions(permissions: &Permissions, reason: Option<&str>) -> Self {
        let permissions = ShownPermissions::new(permissions);
        let ShownPermissions { read, write, network } = permissions.clone();
        let until = "the end of the turn";
        let details = Details::Permissions { read, write, network, reason, until };
        let reason = reason.map(shown);
        Self::new(ReviewedAction::Permissions { reason, permissions }, &details, false)
    }

    /// A call of the tool of an MCP server, which runs outside of the sandbox.
    pub(crate) fn server_tool(target: &ToolTarget, arguments: &str) -> Self {
        let ToolTarget { server, tool, title, connector, .. } = target;
        let details = Details::ServerTool {
            server,
            tool,
            title: title.as_deref(),
            connector: connector.as_ref().map(|connector| connector.id.as_str()),
            effect: match target.effect {
                ToolEffect::ReadOnly => "changes nothing",
                ToolEffect::Additive => "destroys nothing",
                ToolEffect::Unknown => "unknown",
                ToolEffect::Destructive => "can destroy something",
            },
            arguments: serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into()),
            leaves_sandbox: true,
        };
        let action = ReviewedAction::ServerTool {
            server: shown(server),
            tool: shown(tool),
            title: title.as_deref().map(shown),
            connector: connector.as_ref().map(|connector| Connector {
                id: shown(&connector.id),
                name: connector.name.as_deref().map(shown),
            }),
        };
        Self::new(action, &details, true)
    }

    /// A host that `command`, which runs in `cwd`, wants to reach.
    pub(crate) fn network(target: &NetworkTarget, command: &str, cwd: &Path) -> Self {
        let NetworkTarget { host, port, protocol } = target;
        let cwd = visible::path(cwd);
        let protocol = protocol.as_str();
        let details = Details::Network { host, port: *port, protocol, command, cwd };
        let shown = NetworkTarget { host: shown(host), ..target.clone() };
        Self::new(ReviewedAction::Network(shown), &details, false)
    }

    /// Returns whether it can be shown whole, with the reason why it is asked.
    pub(super) fn fits(&self, reason: Option<&str>) -> bool {
        self.text.len() + reason.map_or(0, str::len) <= MAX_ACTION_BYTES
    }
}

fn shown(text: &str) -> String {
    visible::text(text).into_owned()
}
