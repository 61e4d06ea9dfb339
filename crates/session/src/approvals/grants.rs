//! The user's grants for the rest of the session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Id;
use crate::plan_mode::Reach;
use crate::port::approval::NetworkTarget;
use crate::port::server_tool::ToolTarget;
use crate::port::tool::{JobOutput, PatchTarget};

/// The user's grants for the rest of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    commands: BTreeSet<(Vec<String>, PathBuf, Reach)>,
    /// Real paths: a link that comes to lead elsewhere is another file.
    files: BTreeSet<PathBuf>,
    hosts: BTreeSet<NetworkTarget>,
    /// Jobs, with the real paths of the files that they may write.
    job_outputs: BTreeSet<(Id, PathBuf)>,
    server_tools: BTreeSet<ServerToolGrant>,
}

/// A tool of an MCP server: the definition that was allowed, of the server that was shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ServerToolGrant {
    server: String,
    server_digest: [u8; 16],
    tool: String,
    digest: [u8; 16],
}

impl ServerToolGrant {
    fn of_target(target: &ToolTarget) -> Self {
        Self {
            server: target.server.clone(),
            server_digest: target.server_digest,
            tool: target.tool.clone(),
            digest: target.digest,
        }
    }
}

/// Grants of one kind that are kept; past it the user is asked again.
const MAX_GRANTS: usize = 10_000;

impl Grants {
    /// `identity` says what runs (shell included, which the display form leaves out), `cwd` is the real
    /// path of where.
    pub(crate) fn allow_command(&mut self, identity: Vec<String>, cwd: &Path, reach: Reach) {
        if self.commands.len() < MAX_GRANTS {
            self.commands.insert((identity, cwd.to_owned(), reach));
        }
    }

    pub(crate) fn allow_changes(&mut self, targets: &[PatchTarget]) {
        for target in targets {
            if self.files.len() < MAX_GRANTS {
                self.files.insert(target.real.clone());
            }
        }
    }

    pub(crate) fn allow_host(&mut self, target: NetworkTarget) {
        if self.hosts.len() < MAX_GRANTS {
            self.hosts.insert(target);
        }
    }

    /// Whenever the job goes on, it may write the file.
    pub(crate) fn allow_job_output(&mut self, output: &JobOutput) {
        if self.job_outputs.len() < MAX_GRANTS {
            self.job_outputs.insert((output.job.clone(), output.target.real.clone()));
        }
    }

    pub(crate) fn has_job_output(&self, output: &JobOutput) -> bool {
        self.job_outputs.contains(&(output.job.clone(), output.target.real.clone()))
    }

    pub(crate) fn allow_server_tool(&mut self, tool: &ToolTarget) {
        if self.server_tools.len() < MAX_GRANTS {
            self.server_tools.insert(ServerToolGrant::of_target(tool));
        }
    }

    pub(crate) fn has_server_tool(&self, tool: &ToolTarget) -> bool {
        self.server_tools.contains(&ServerToolGrant::of_target(tool))
    }

    pub(crate) fn has_host(&self, target: &NetworkTarget) -> bool {
        self.hosts.contains(target)
    }

    /// Returns whether the command was granted. A grant within the sandbox also covers a command
    /// that can only read.
    pub(crate) fn has_command(&self, identity: &[String], cwd: &Path, reach: Reach) -> bool {
        let granted: &[Reach] = match reach {
            Reach::ReadOnly => &[Reach::ReadOnly, Reach::Sandbox],
            Reach::Sandbox => &[Reach::Sandbox],
            Reach::Outside => &[Reach::Outside],
        };
        let allows =
            |reach: &Reach| self.commands.contains(&(identity.to_owned(), cwd.to_owned(), *reach));
        granted.iter().any(allows)
    }

    pub(crate) fn has_changes(&self, targets: &[PatchTarget]) -> bool {
        !targets.is_empty() && targets.iter().all(|target| self.files.contains(&target.real))
    }
}
