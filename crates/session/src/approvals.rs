//! What may run: the approval policy, the grants of the session, and open prompts about hosts.

mod grants;
mod network;
mod policy;

use std::path::Path;

use crate::Id;
use crate::cx::Cx;
use crate::plan_mode::Reach;
use crate::port::approval::Decision;
use crate::port::item::{Change, CommandItem};
use crate::port::settings::{ApprovalPolicy, Settings};
use crate::port::tool::PatchPlan;
use grants::Grants;
use network::Prompts;
pub(crate) use network::{Answered, Question};
pub(crate) use policy::{CommandRequest, Verdict};

/// See the module.
#[derive(Default)]
pub(crate) struct Approvals {
    grants: Grants,
    prompts: Prompts,
}

impl Approvals {
    /// Decides about a command of the agent.
    pub(crate) fn command(&self, settings: &Settings, request: &CommandRequest<'_>) -> Verdict {
        policy::command(settings, &self.grants, request)
    }

    /// Decides about a patch of the agent.
    pub(crate) fn patch(&self, settings: &Settings, plan: &PatchPlan) -> Verdict {
        policy::patch(settings, &self.grants, plan)
    }

    /// The user allows a command for the session.
    pub(crate) fn grant_command(&mut self, identity: Vec<String>, cwd: &Path, reach: Reach) {
        self.grants.allow_command(identity, cwd, reach);
    }

    /// The user allows changes of these files for the session.
    pub(crate) fn grant_changes(&mut self, changes: &[Change]) {
        self.grants.allow_changes(changes);
    }

    /// Whether a prompt about a host is open.
    pub(crate) fn has_prompts(&self) -> bool {
        !self.prompts.is_empty()
    }

    /// A running command wants to reach a host. `turn` and `command` are the running turn and the
    /// command's item: without either, no approval can be requested. The caller reports a new prompt.
    pub(crate) fn network_asked(
        &mut self,
        question: Question,
        policy: ApprovalPolicy,
        turn: Option<&Id>,
        command: Option<&CommandItem>,
        cx: &mut Cx,
    ) {
        if self.grants.has_host(&question.target) {
            return network::answer(question.key, true, cx);
        }
        let may_ask = match policy {
            ApprovalPolicy::Never => false,
            ApprovalPolicy::Granular(granular) => granular.sandbox_approval,
            ApprovalPolicy::OnRequest | ApprovalPolicy::UnlessTrusted => true,
        };
        match (turn, command) {
            (Some(turn), Some(command)) if may_ask => {
                self.prompts.ask(question, turn, command, cx);
            }
            _ => network::answer(question.key, false, cx),
        }
    }

    /// The connection that asked is gone. Returns whether a prompt was withdrawn.
    pub(crate) fn network_withdrawn(&mut self, key: u64, cx: &mut Cx) -> bool {
        self.prompts.withdraw(|_, asked| asked == key, cx)
    }

    /// A command ended: no prompt shows it. Returns whether a prompt was withdrawn.
    pub(crate) fn command_ended(&mut self, process: u64, cx: &mut Cx) -> bool {
        self.prompts.withdraw(|asking, _| asking == process, cx)
    }

    /// A client answered; `None` when the request is not about a host.
    pub(crate) fn network_decided(
        &mut self,
        request: u64,
        decision: &Decision,
        cx: &mut Cx,
    ) -> Option<Answered> {
        let (target, answered) = self.prompts.decide(request, decision, cx)?;
        if *decision == Decision::AcceptForSession {
            self.grants.allow_host(target);
        }
        Some(answered)
    }

    /// The turn ends: withdraws every prompt.
    pub(crate) fn close_prompts(&mut self, cx: &mut Cx) {
        self.prompts.close(cx);
    }
}
