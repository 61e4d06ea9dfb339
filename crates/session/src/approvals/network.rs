//! Prompts about the managed network: a running command wants to reach a host that is on no list
//! (specification: Server-initiated requests, `networkApprovalContext`). One prompt to the clients
//! serves all commands that want the same host, protocol and port. A reviewer is shown one command,
//! and its verdict is for no other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::auto_review::{Action, ApprovalRequest};
use crate::Id;
use crate::cx::Cx;
use crate::port::approval::{Ask, Decision, NetworkTarget};
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::item::CommandItem;
use crate::port::settings::Settings;
use crate::terms::{CHANGED, Terms};

/// Open prompts; one more is refused.
const MAX_PROMPTS: usize = 32;

/// A command that waits for an answer about a host.
pub(crate) struct Question {
    /// The command.
    pub(crate) process: u64,
    /// Names the question in its answer.
    pub(crate) key: u64,
    /// The target that it wants to reach.
    pub(crate) target: NetworkTarget,
}

/// Prompts without an answer, by the number of their request. Only a running turn has any.
#[derive(Default)]
pub(super) struct Prompts(BTreeMap<u64, Prompt>);

struct Prompt {
    target: NetworkTarget,
    decider: Decider,
    /// The command that the prompt shows.
    shown: u64,
    waiting: Vec<Waiting>,
}

/// Who decides about a prompt.
enum Decider {
    /// It has not been put to anyone.
    Unasked,
    /// The clients.
    Clients,
    /// A reviewer, under these settings.
    Reviewer(Terms),
}

impl Prompt {
    fn asks_clients(&self) -> bool {
        matches!(self.decider, Decider::Clients)
    }

    /// Returns whether its answer is for this command too.
    fn covers(&self, process: u64) -> bool {
        self.asks_clients() || self.shown == process
    }
}

/// A question that a prompt will answer.
struct Waiting {
    process: u64,
    key: u64,
    item: Id,
    command: String,
    /// The real path of its working folder.
    cwd: PathBuf,
}

/// The effects of ending connections or commands.
#[derive(Default)]
pub(crate) struct Withdrawn {
    /// True if a prompt was withdrawn.
    pub(crate) any: bool,
    /// Reviews of prompts that were withdrawn.
    pub(super) reviews: Vec<u64>,
    /// Prompts for other commands, which the caller puts to who decides.
    pub(crate) again: Vec<ApprovalRequest>,
}

/// The effects of an answer.
pub(crate) struct Answered {
    /// True if the client ends the turn.
    pub(crate) cancels: bool,
    /// A prompt for the commands that the answer is not for, which the caller puts to who decides.
    pub(crate) again: Option<ApprovalRequest>,
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
    /// Returns whether clients are asked.
    pub(super) fn wait_for_clients(&self) -> bool {
        self.0.values().any(Prompt::asks_clients)
    }

    /// The requests that clients have.
    pub(super) fn put_to_clients_now(&self) -> Vec<u64> {
        let asked = self.0.iter().filter(|(_, prompt)| prompt.asks_clients());
        asked.map(|(request, _)| *request).collect()
    }

    /// The clients were asked.
    pub(super) fn put_to_clients(&mut self, request: u64) {
        if let Some(prompt) = self.0.get_mut(&request) {
            prompt.decider = Decider::Clients;
        }
    }

    /// A reviewer was asked, under these settings.
    pub(super) fn put_to_reviewer(&mut self, request: u64, settings: &Settings) {
        if let Some(prompt) = self.0.get_mut(&request) {
            prompt.decider = Decider::Reviewer(Terms::new(settings));
        }
    }

    /// Opens a prompt, which the caller puts to who decides, or joins one about the same target whose
    /// answer will be for this command too.
    pub(super) fn ask(
        &mut self,
        question: Question,
        (command, cwd): (&CommandItem, &Path),
        cx: &mut Cx,
    ) -> Option<ApprovalRequest> {
        let Question { process, key, target } = question;
        let waiting = Waiting {
            process,
            key,
            item: command.id.clone(),
            command: command.command.clone(),
            cwd: cwd.to_owned(),
        };
        let joins = |prompt: &&mut Prompt| prompt.target == target && prompt.covers(process);
        if let Some(prompt) = self.0.values_mut().find(joins) {
            prompt.waiting.push(waiting);
            return None;
        }
        if self.0.len() >= MAX_PROMPTS {
            answer(key, false, cx);
            return None;
        }
        let waiting = vec![waiting];
        self.show(Prompt { target, decider: Decider::Unasked, shown: process, waiting }, cx)
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
        prompt.decider = Decider::Unasked;
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
            match prompt.decider {
                Decider::Reviewer(_) => withdrawn.reviews.push(request),
                Decider::Clients => cx.emit(Event::RequestResolved { request }),
                Decider::Unasked => {}
            }
            withdrawn.any = true;
            withdrawn.again.extend(self.show(prompt, cx));
        }
        withdrawn
    }

    /// Closes the prompt of `request` with an answer. The caller answers the questions. An approval of
    /// a reviewer does not hold when the settings changed since.
    pub(super) fn decide(
        &mut self,
        request: u64,
        mut decision: Decision,
        settings: &Settings,
        cx: &mut Cx,
    ) -> Option<(NetworkTarget, Answered)> {
        let mut prompt = self.0.remove(&request)?;
        let waiting = std::mem::take(&mut prompt.waiting);
        let (waiting, others) = waiting.into_iter().partition(|it| prompt.covers(it.process));
        prompt.waiting = others;
        let target = prompt.target.clone();
        match &prompt.decider {
            Decider::Clients => cx.emit(Event::RequestResolved { request }),
            Decider::Reviewer(terms)
                if decision == Decision::Accept && *terms != Terms::new(settings) =>
            {
                decision = Decision::Undecided(CHANGED.into());
            }
            Decider::Reviewer(_) | Decider::Unasked => {}
        }
        let again = self.show(prompt, cx);
        let allowed = match decision {
            // No command prefix can be allowed permanently here, so an amendment is a plain acceptance.
            Decision::Accept | Decision::AcceptWithAmendment(_) | Decision::AcceptForSession => {
                true
            }
            Decision::Grant(_) | Decision::Undecided(_) | Decision::Decline | Decision::Cancel => {
                false
            }
        };
        let note = match &decision {
            Decision::Undecided(why) => {
                let NetworkTarget { host, port, .. } = &target;
                Some(format!("agentd: {host}:{port} was not allowed: {why}\n"))
            }
            _ => None,
        };
        let cancels = decision == Decision::Cancel;
        Some((target, Answered { cancels, again, note, allowed, waiting }))
    }

    /// Withdraws every prompt, and refuses what waits for them.
    pub(super) fn close(&mut self, cx: &mut Cx) {
        for (request, prompt) in std::mem::take(&mut self.0) {
            if prompt.asks_clients() {
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
