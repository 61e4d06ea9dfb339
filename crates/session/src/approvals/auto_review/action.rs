//! An action as a reviewer gets to see it: exactly as it would run, with the sandbox that it leaves.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::document::{self, visible};
use crate::context::sandbox_text;
use crate::port::approval::NetworkTarget;
use crate::port::auto_review::ReviewedAction;
use crate::port::item::{Change, ChangeKind};
use crate::port::permission::Permissions;
use crate::port::settings::Settings;
use crate::port::tool::ToolRequest;

/// Bytes of an action as the reviewer gets it, with the reason why it is asked; one that is larger is refused, because a reviewer
/// that sees a part cannot judge the whole.
pub(super) const MAX_ACTION_BYTES: usize = 128 * 1024;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Action {
    /// As clients see it.
    pub(crate) shown: ReviewedAction,
    /// What runs, as JSON. Two actions with one text are the same action.
    pub(super) text: String,
    /// Whether it leaves the sandbox.
    pub(super) unsandboxed: bool,
}

/// What runs.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Details<'a> {
    Script {
        script: &'a str,
        /// `None`: the user's.
        shell: Option<&'a str>,
        login_shell: bool,
        cwd: &'a str,
        terminal: bool,
        leaves_sandbox: bool,
    },
    Argv {
        argv: &'a [String],
        cwd: &'a str,
        leaves_sandbox: bool,
    },
    Patch {
        cwd: &'a str,
        changes: Vec<ShownChange<'a>>,
        leaves_sandbox: bool,
    },
    Permissions {
        read: Vec<String>,
        write: Vec<String>,
        network: bool,
        reason: Option<&'a str>,
        /// Until when commands have them.
        until: &'a str,
    },
    Network {
        host: &'a str,
        port: u16,
        protocol: &'a str,
        command: &'a str,
        cwd: &'a str,
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

impl Action {
    /// An action of any kind: as clients see it, as the reviewer does, and whether it leaves the
    /// sandbox.
    pub(crate) fn new(shown: ReviewedAction, details: &impl Serialize, unsandboxed: bool) -> Self {
        Self { shown, text: document::json(details), unsandboxed }
    }

    /// A command in the folder `cwd`.
    pub(crate) fn command(
        request: &ToolRequest,
        display: &str,
        cwd: &Path,
        terminal: bool,
        unsandboxed: bool,
    ) -> Self {
        let folder = cwd.display().to_string();
        match request {
            ToolRequest::Argv { argv, .. } => {
                let words = argv.iter().map(|word| visible(word)).collect();
                let shown = ReviewedAction::Argv { argv: words, cwd: cwd.to_owned() };
                let details = Details::Argv { argv, cwd: &folder, leaves_sandbox: unsandboxed };
                Self::new(shown, &details, unsandboxed)
            }
            other => {
                let (script, shell, login_shell) = match other {
                    ToolRequest::Script { script, shell, login, .. } => {
                        (script.as_str(), shell.as_deref(), *login)
                    }
                    _ => (display, None, false),
                };
                let details = Details::Script {
                    script,
                    shell,
                    login_shell,
                    cwd: &folder,
                    terminal,
                    leaves_sandbox: unsandboxed,
                };
                let (script, cwd) = (visible(script), cwd.to_owned());
                Self::new(ReviewedAction::Script { script, cwd }, &details, unsandboxed)
            }
        }
    }

    /// A patch in a thread that works in `cwd`.
    pub(crate) fn patch(changes: &[Change], cwd: &Path, unsandboxed: bool) -> Self {
        let folder = cwd.display().to_string();
        let mut files = Vec::new();
        let shown = changes.iter().map(|change| {
            files.push(visible(&change.path));
            let (kind, move_to) = match &change.kind {
                ChangeKind::Add => ("add", None),
                ChangeKind::Delete => ("delete", None),
                ChangeKind::Update { move_to } => ("update", move_to.as_deref()),
            };
            files.extend(move_to.map(visible));
            ShownChange { path: &change.path, kind, move_to, diff: &change.diff }
        });
        let changes = shown.collect();
        let details = Details::Patch { cwd: &folder, changes, leaves_sandbox: unsandboxed };
        let shown = ReviewedAction::Patch { cwd: cwd.to_owned(), files };
        Self::new(shown, &details, unsandboxed)
    }

    /// Permissions for all commands of the turn that follow.
    pub(crate) fn permissions(permissions: &Permissions, reason: Option<&str>) -> Self {
        let Permissions { read, write, network } = permissions;
        let names = |folders: &[PathBuf]| -> Vec<String> {
            folders.iter().map(|folder| folder.display().to_string()).collect()
        };
        let (read, write) = (names(read), names(write));
        let folders = |names: &[String]| -> Vec<PathBuf> {
            names.iter().map(|name| visible(name).into()).collect()
        };
        let shown = ReviewedAction::Permissions {
            reason: reason.map(visible),
            permissions: Permissions {
                read: folders(&read),
                write: folders(&write),
                network: *network,
            },
        };
        let until = "the end of the turn";
        let details = Details::Permissions { read, write, network: *network, reason, until };
        Self::new(shown, &details, false)
    }

    /// A host that `command`, which runs in `cwd`, wants to reach.
    pub(crate) fn network(target: &NetworkTarget, command: &str, cwd: &Path) -> Self {
        let NetworkTarget { host, port, protocol } = target;
        let cwd = cwd.display().to_string();
        let protocol = protocol.as_str();
        let details = Details::Network { host, port: *port, protocol, command, cwd: &cwd };
        let shown = NetworkTarget { host: visible(host), ..target.clone() };
        Self::new(ReviewedAction::Network(shown), &details, false)
    }

    /// Whether it can be shown whole, with the reason why it is asked.
    pub(super) fn fits(&self, reason: Option<&str>) -> bool {
        self.text.len() + reason.map_or(0, str::len) <= MAX_ACTION_BYTES
    }
}

/// The sandbox of a thread, in words.
pub(super) fn sandbox(settings: &Settings) -> String {
    sandbox_text(&settings.in_force())
}
