//! The requests for approval to clients, and their answers (specification: Server-initiated
//! requests).

use std::path::PathBuf;
use std::sync::Arc;

use super::item::Action;
use super::permission::{Grant, Permissions};
use super::server_tool::ToolTarget;

/// A question to the clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// May this command run?
    Command {
        /// Why it is asked.
        reason: Option<String>,
        /// The command in display form.
        command: String,
        /// Where it would run.
        cwd: PathBuf,
        /// The apparent actions of the command.
        actions: Vec<Action>,
        /// The prefix that could be allowed permanently.
        amendment: Option<Vec<String>>,
        /// See [`Assessment::amendable`].
        amendable: Vec<Vec<String>>,
    },
    /// May this host be reached?
    Network {
        /// The purpose, in words: host, port and protocol.
        reason: String,
        /// A name or an address.
        host: String,
        /// The protocol for reaching it.
        protocol: NetworkProtocol,
        /// The command that wants to reach it, in display form.
        command: String,
        /// Where that runs.
        cwd: PathBuf,
    },
    /// May commands have these permissions?
    Permissions {
        /// The reason why they are needed.
        reason: Option<String>,
        /// Where commands run.
        cwd: PathBuf,
        /// The permissions.
        permissions: Permissions,
    },
    /// May this patch be applied?
    Patch {
        /// Why it is asked.
        reason: Option<String>,
        /// The folder that [`Decision::AcceptForSession`] makes writable for the session.
        grant_root: Option<PathBuf>,
    },
    /// May this tool of an MCP server be called?
    ServerTool {
        /// Why it is asked.
        reason: Option<String>,
        /// The tool.
        target: Arc<ToolTarget>,
        /// Its arguments, JSON.
        arguments: String,
        /// True if the user may allow the tool for the session.
        can_remember: bool,
    },
}

impl Ask {
    /// Why it is asked.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Command { reason, .. }
            | Self::Patch { reason, .. }
            | Self::ServerTool { reason, .. }
            | Self::Permissions { reason, .. } => reason.as_deref(),
            Self::Network { reason, .. } => Some(reason),
        }
    }
}

/// A client's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Accept,
    /// Yes, and the same again without asking.
    AcceptForSession,
    /// Yes, and everything with this prefix from now on.
    AcceptWithAmendment(Vec<String>),
    /// These permissions.
    Grant(Grant),
    /// No; the turn continues.
    Decline,
    /// No, and the turn ends.
    Cancel,
    /// No client gave an answer that can be used: a no that is not the user's, with the reason.
    Undecided(String),
}

/// The protocol by which a command wants to reach a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkProtocol {
    /// A plain request.
    Http,
    /// A tunnel for TLS.
    Https,
    /// TCP over SOCKS5.
    Socks5Tcp,
    /// UDP over SOCKS5.
    Socks5Udp,
}

impl NetworkProtocol {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5Tcp => "socks5-tcp",
            Self::Socks5Udp => "socks5-udp",
        }
    }
}

/// The target that a command wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkTarget {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The protocol.
    pub protocol: NetworkProtocol,
}
