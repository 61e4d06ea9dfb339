//! Who decides about an approval: the clients, or a reviewer in the user's place; and what an
//! approval is about.

use super::Turn;
use crate::approvals::{Action, ApprovalRequest, UserWords, Verdict};
use crate::calls::{AskedAbout, JobOutputRequest, PermissionRequest, TypingRequest};
use crate::plan_mode::Reach;
use crate::port::effect::Effect;
use crate::port::settings::{ApprovalPolicy, Settings};
use crate::thread::Thread;
use crate::tools::CommandCall;

/// To whom a request was put.
pub(crate) enum Put {
    /// The clients are asked.
    ToClients,
    /// A reviewer is asked.
    ToReviewer,
    /// It is refused at once, for this reason.
    Refused(String),
}

impl Turn {
    /// Asks the clients or the reviewer.
    pub(crate) fn put(&self, request: ApprovalRequest, thread: &mut Thread) -> Put {
        let settings = thread.configuration.settings();
        if settings.reviewer.is_user() {
            let ApprovalRequest { number, item, ask, .. } = request;
            thread.cx.show_approval();
            let (turn, at) = (self.view.id.clone(), thread.cx.now);
            thread.cx.push(Effect::Ask { request: number, turn, item, ask, at });
            return Put::ToClients;
        }
        let words = self.words_for_reviewers(thread);
        let Thread { approvals, configuration, cx, .. } = thread;
        let facts = configuration.facts_for_reviewers(&words);
        match approvals.review(request, &self.view.id, &facts, cx) {
            Ok(()) => Put::ToReviewer,
            Err(reason) => Put::Refused(reason),
        }
    }

    /// Returns the policy's verdict on a call, combined with the hooks' decision about it.
    pub(super) fn weigh(&self, number: u64, verdict: Verdict, thread: &Thread) -> Verdict {
        let can_ask = thread.configuration.settings().approval != ApprovalPolicy::Never;
        self.calls.weigh(number, verdict, can_ask)
    }

    /// Returns the user's messages until now in the thread, and in the one at the root of the tree.
    pub(crate) fn words_for_reviewers(&self, thread: &Thread) -> UserWords {
        // What the model has not seen yet is the newest.
        thread.user_words(&self.pending).under(thread.approvals.root_words())
    }
}

/// A call as a reviewer gets to see it.
pub(super) fn reviewed_action(about: &AskedAbout, unsandboxed: bool, thread: &Thread) -> Action {
    match about {
        AskedAbout::Command(command, _) => {
            let CommandCall { request, assessment, tty, .. } = &**command;
            Action::command(request, assessment, *tty, unsandboxed)
        }
        AskedAbout::Patch(change) => {
            let cwd = &thread.configuration.settings().cwd;
            Action::patch(&change.changes, &change.targets, cwd, unsandboxed)
        }
        AskedAbout::Typing(TypingRequest { call, command, .. }) => {
            Action::input(&call.chars, call.session_id, command)
        }
        AskedAbout::Permissions(PermissionRequest { permissions, reason, .. }) => {
            Action::permissions(permissions, reason.as_deref())
        }
        AskedAbout::ServerTool(call) => Action::server_tool(&call.target, &call.arguments),
        AskedAbout::JobOutput(JobOutputRequest { job, output, .. }) => {
            let cwd = &thread.configuration.settings().cwd;
            Action::job_output(job, output, cwd, unsandboxed)
        }
    }
}

/// The settings that a decision is about: a grant extends those that the user chose, everything else
/// runs under those in force.
pub(super) fn decided_under<'a>(about: &AskedAbout, thread: &'a Thread) -> &'a Settings {
    match about {
        AskedAbout::Permissions(_) => thread.configuration.chosen(),
        AskedAbout::Command(..)
        | AskedAbout::Patch(_)
        | AskedAbout::Typing(_)
        | AskedAbout::JobOutput(_)
        | AskedAbout::ServerTool(_) => thread.configuration.settings(),
    }
}

/// The user allows the same again for the session.
pub(super) fn grant(about: &AskedAbout, unsandboxed: bool, thread: &mut Thread) {
    match about {
        AskedAbout::Command(command, _) => {
            let reach = Reach::new(thread.configuration.settings().mode, unsandboxed);
            let (identity, cwd) = (command.identity.clone(), &command.assessment.real_cwd);
            thread.approvals.grant_command(identity, cwd, reach);
        }
        AskedAbout::Patch(change) | AskedAbout::JobOutput(JobOutputRequest { change, .. }) => {
            thread.approvals.grant_changes(&change.targets);
        }
        AskedAbout::Typing(TypingRequest { call, .. }) => {
            thread.processes.allow_text(call.session_id, &call.chars);
        }
        AskedAbout::ServerTool(call) => thread.approvals.grant_server_tool(&call.target),
        AskedAbout::Permissions(_) => {}
    }
}

/// Allows a command prefix permanently. Patches have no prefix, the empty prefix would allow
/// everything, and plan mode allows nothing for later: all of these count as a plain yes.
pub(super) fn amend(about: &AskedAbout, prefix: Vec<String>, thread: &mut Thread) {
    let is_command = matches!(about, AskedAbout::Command(..));
    if is_command && !prefix.is_empty() && !thread.configuration.is_planning() {
        let cwd = thread.configuration.settings().cwd.clone();
        thread.cx.push(Effect::Allow { cwd, prefix });
    }
}
