//! The beginning of the program: the first thread, its folder, and what must be known before it opens.

use std::path::{Path, PathBuf};

use protocol::{AskForApproval, OpeningOverrides, SandboxMode, ThreadWorktreeParams};

use crate::app::events::{Start, StartThread};

/// The command line, and how far the beginning has come.
#[derive(Debug)]
pub(super) struct Beginning {
    /// None after the first thread is open.
    start: Option<Start>,
    /// Settings of the first thread, which a thread with another provider keeps.
    overrides: OpeningOverrides,
    cwd: PathBuf,
    /// True if the answer to `config/read` is still to come.
    is_configuring: bool,
    /// Why the configuration cannot be read, until that is said.
    unread_config: Option<String>,
    /// True if the first thread was asked for over this connection.
    has_begun: bool,
    /// True if the hint about the first keys was shown.
    has_hinted: bool,
}

impl Beginning {
    pub(super) fn new(start: Start, cwd: PathBuf) -> Self {
        Self {
            overrides: start.overrides.clone(),
            start: Some(start),
            cwd,
            is_configuring: false,
            unread_config: None,
            has_begun: false,
            has_hinted: false,
        }
    }

    /// The working folder of the program.
    pub(super) fn cwd(&self) -> &Path {
        &self.cwd
    }

    pub(super) fn cwd_text(&self) -> String {
        self.cwd.to_string_lossy().into_owned()
    }

    pub(super) fn overrides(&self) -> &OpeningOverrides {
        &self.overrides
    }

    /// The settings of the first thread, if it is still to be opened.
    pub(super) fn start_overrides(&self) -> Option<OpeningOverrides> {
        self.start.as_ref().map(|start| start.overrides.clone())
    }

    /// The worktree of the first thread, if it is a new one that is still to be opened.
    pub(super) fn worktree(&self) -> Option<ThreadWorktreeParams> {
        self.start.as_ref()?.worktree.clone()
    }

    /// True if the first thread is a new one, and the command line does not say what it may do.
    pub(super) fn takes_defaults(&self) -> bool {
        let decides = |given: &OpeningOverrides| {
            given.sandbox.is_some()
                || given.approval_policy.is_some()
                || given.permissions.is_some()
        };
        !self.has_begun
            && self
                .start
                .as_ref()
                .is_some_and(|start| start.thread == StartThread::New && !decides(&start.overrides))
    }

    /// Decides what the first thread may do.
    pub(super) fn restrict(&mut self, approval: AskForApproval, sandbox: SandboxMode) {
        for given in
            self.start.iter_mut().map(|start| &mut start.overrides).chain([&mut self.overrides])
        {
            (given.approval_policy, given.sandbox) = (Some(approval.clone()), Some(sandbox));
        }
    }

    /// The first thread is open, or another one takes its place.
    pub(super) fn take_start(&mut self) -> Option<Start> {
        self.start.take()
    }

    /// The first thread, if it is to be opened now: once in each connection.
    pub(super) fn begin(&mut self) -> Option<(StartThread, OpeningOverrides)> {
        if std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        self.start.clone().map(|start| (start.thread, start.overrides))
    }

    /// There is a new connection.
    pub(super) fn connected(&mut self) {
        self.has_begun = false;
    }

    pub(super) fn is_configuring(&self) -> bool {
        self.is_configuring
    }

    pub(super) fn set_configuring(&mut self, is_configuring: bool) {
        self.is_configuring = is_configuring;
    }

    /// Keeps why the configuration cannot be read, until it is known whether the thread fails for the same
    /// reason.
    pub(super) fn set_unread_config(&mut self, why: String) {
        self.unread_config = Some(why);
    }

    pub(super) fn take_unread_config(&mut self) -> Option<String> {
        self.unread_config.take()
    }

    /// True if the hint about the first keys is to be shown, which it is once.
    pub(super) fn takes_hint(&mut self) -> bool {
        !std::mem::replace(&mut self.has_hinted, true)
    }
}
