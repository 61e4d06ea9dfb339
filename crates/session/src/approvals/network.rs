//! Prompts about the managed network: a running command wants to reach a host that is on no list
//! (specification: Server-initiated requests, `networkApprovalContext`). One prompt serves all
//! commands that want the same host, protocol and port.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::auto_review::{Action, ApprovalRequest};
use crate::Id;
use crate::cx::Cx;
use crate::port::approval::{Ask, Decision, NetworkTarget};
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::item::CommandItem;

/// Open prompts; one more is refused.
const MAX_PROMPTS: usize = 32;

/// A command that waits for an answer about a host.
pub(crate) struct Question {
    /// The command.
    pub(crate) process: u64,
    /// Names the question in its answer.
    pub(crate) key: u64,
    /// What it wants to reach.
    pub(crate) target: NetworkTarget,
}

/// Prompts without an answer, by the number of their request. Only a running turn has any.
#[derive(Default)]
pub(super) struct Prompts(BTreeMap<u64, Prompt>);

struct Prompt {
    target: NetworkTarget,
    /// Whether a reviewer decides in place of the clients.
    is_reviewed: bool,
    /// The command that the prompt shows.
    shown: u64,
    waiting: Vec<Waiting>,
}

/// A question that a prompt will answer.
struct Waiting {
    process: u64,
    key: u64,
    item: Id,
    command: String,
    cwd: PathBuf,
}

/// What follows from the end of connections or commands.
#[derive(Default)]
pub(crate) struct Withdrawn {
    /// Whether a prompt was withdrawn.
    pub(crate) any: bool,
    /// Reviews of prompts that were withdrawn.
    pub(super) reviews: Vec<u64>,
    /// Prompts for other commands, which the caller puts to who decides.
    pub(crate) again: Vec<ApprovalRequest>,
}

/// What follows from an answer.
pub(crate) struct Answered {
    /// Whether the client ends the turn.
    pub(crate) cancels: bool,
    /// For the output of the commands that waited, when no client could decide.
    note: Option<String>,
    allowed: bool,
    waiting: Vec<Waiting>,
}

impl Answered {
    /// A note for the output of each command that waited, when no client could decide.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (u64, String)> {
        let processes: BTreeSet<u64> = self.waiting.iter().map(|it| it.process).collect();
        self.note.iter().flat_map(move |note| {
            let note = note.clone();
            processes.clone().into_iter().map(move |process| (process, note.clone()))
        })
    }

    /// Answers the questions that waited.
    pub(crate) fn answer(&self, cx: &mut Cx) {
        for waiting in &self.waiting {
            answer(waiting.key, self.allowed, cx);
        }
    }
}

impl Prompts {
    /// Whether clients are asked.
    pub(super) fn wait_for_clients(&self) -> bool {
        self.0.values().any(|prompt| !prompt.is_reviewed)
    }

    /// A reviewer decides about this request.
    pub(super) fn set_reviewed(&mut self, request: u64) {
        if let Some(prompt) = self.0.get_mut(&request) {
            prompt.is_reviewed = true;
        }
    }

    /// Opens a prompt, which the caller puts to who decides, or joins the one about the same target.
    pub(super) fn ask(
        &mut self,
        question: Question,
        command: &CommandItem,
        cx: &mut Cx,
    ) -> Option<ApprovalRequest> {
        let Question { process, key, target } = question;
        let waiting = Waiting {
            process,
            key,
            item: command.id.clone(),
            command: command.command.clone(),
            cwd: command.cwd.clone(),
        };
        if let Some(prompt) = self.0.values_mut().find(|prompt| prompt.target == target) {
            prompt.waiting.push(waiting);
            return None;
        }
        if self.0.len() >= MAX_PROMPTS {
            answer(key, false, cx);
            return None;
        }
        let waiting = vec![waiting];
        self.show(Prompt { target, is_reviewed: false, shown: process, waiting }, cx)
    }

    /// Opens a prompt that shows the first command that waits, if any does.
    fn show(&mut self, mut prompt: Prompt, cx: &mut Cx) -> Option<ApprovalRequest> {
        let first = prompt.waiting.first()?;
        prompt.shown = first.process;
        let NetworkTarget { host, port, protocol } = &prompt.target;
        let ask = Ask::Network {
            reason: format!("to reach {host}:{port} ({})", protocol.as_str()),
            host: host.clone(),
            protocol: *protocol,
            command: first.command.clone(),
            cwd: first.cwd.clone(),
        };
        let action = Action::network(&prompt.target, &first.command, &first.cwd);
        let (number, item) = (cx.number(), first.item.clone());
        prompt.is_reviewed = false;
        self.0.insert(number, prompt);
        Some(ApprovalRequest { number, item, ask, action })
    }

    /// Refuses the questions that `is_gone` names by process and key. A prompt that showed their
    /// command is withdrawn, and opened again for another one that waits.
    pub(super) fn withdraw(
        &mut self,
        is_gone: impl Fn(u64, u64) -> bool,
        cx: &mut Cx,
    ) -> Withdrawn {
        let gone = |waiting: &Waiting| is_gone(waiting.process, waiting.key);
        let concerned: Vec<u64> = self
            .0
            .iter()
            .filter(|(_, prompt)| prompt.waiting.iter().any(gone))
            .map(|(request, _)| *request)
            .collect();
        let mut withdrawn = Withdrawn::default();
        for request in concerned {
            let Some(mut prompt) = self.0.remove(&request) else { continue };
            let (lost, kept) = prompt.waiting.into_iter().partition(gone);
            prompt.waiting = kept;
            let lost: Vec<Waiting> = lost;
            for waiting in lost {
                answer(waiting.key, false, cx);
            }
            if prompt.waiting.iter().any(|waiting| waiting.process == prompt.shown) {
                self.0.insert(request, prompt);
                continue;
            }
            match prompt.is_reviewed {
                true => withdrawn.reviews.push(request),
                false => cx.emit(Event::RequestResolved { request }),
            }
            withdrawn.any = true;
            withdrawn.again.extend(self.show(prompt, cx));
        }
        withdrawn
    }

    /// Closes the prompt of `request` with the clients' answer. The caller answers the questions.
    pub(super) fn decide(
        &mut self,
        request: u64,
        decision: &Decision,
        cx: &mut Cx,
    ) -> Option<(NetworkTarget, Answered)> {
        let Prompt { target, is_reviewed, waiting, .. } = self.0.remove(&request)?;
        if !is_reviewed {
            cx.emit(Event::RequestResolved { request });
        }
        let allowed = match decision {
            // No command prefix can be allowed permanently here, so an amendment is a plain acceptance.
            Decision::Accept | Decision::AcceptWithAmendment(_) | Decision::AcceptForSession => {
                true
            }
            Decision::Grant(_) | Decision::Undecided(_) | Decision::Decline | Decision::Cancel => {
                false
            }
        };
        let note = match decision {
            Decision::Undecided(why) => {
                let NetworkTarget { host, port, .. } = &target;
                Some(format!("agentd: {host}:{port} was not allowed: {why}\n"))
            }
            _ => None,
        };
        let cancels = *decision == Decision::Cancel;
        Some((target, Answered { cancels, note, allowed, waiting }))
    }

    /// Withdraws every prompt, and refuses what waits for them.
    pub(super) fn close(&mut self, cx: &mut Cx) {
        for (request, prompt) in std::mem::take(&mut self.0) {
            if !prompt.is_reviewed {
                cx.emit(Event::RequestResolved { request });
            }
            for waiting in prompt.waiting {
                answer(waiting.key, false, cx);
            }
        }
    }
}

/// Answers a question about a host.
pub(super) fn answer(key: u64, allowed: bool, cx: &mut Cx) {
    cx.push(Effect::NetworkAnswer { key, allowed });
}
