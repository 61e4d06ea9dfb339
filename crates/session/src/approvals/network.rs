//! Prompts about the managed network: a running command wants to reach a host that is on no list
//! (specification: Server-initiated requests, `networkApprovalContext`). One prompt serves all
//! commands that want the same host, protocol and port.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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
    turn: Id,
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
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks the clients, or joins the prompt about the same target.
    pub(super) fn ask(
        &mut self,
        question: Question,
        turn: &Id,
        command: &CommandItem,
        cx: &mut Cx,
    ) {
        let Question { process, key, target } = question;
        let waiting = Waiting {
            process,
            key,
            item: command.id.clone(),
            command: command.command.clone(),
            cwd: command.cwd.clone(),
        };
        if let Some(prompt) = self.0.values_mut().find(|prompt| prompt.target == target) {
            return prompt.waiting.push(waiting);
        }
        if self.0.len() >= MAX_PROMPTS {
            return answer(key, false, cx);
        }
        let turn = turn.clone();
        self.show(Prompt { target, turn, shown: process, waiting: vec![waiting] }, cx);
    }

    /// Puts a prompt to the clients that shows the first command that waits, if any does.
    fn show(&mut self, mut prompt: Prompt, cx: &mut Cx) {
        let Some(first) = prompt.waiting.first() else { return };
        prompt.shown = first.process;
        let NetworkTarget { host, port, protocol } = &prompt.target;
        let ask = Ask::Network {
            reason: format!("to reach {host}:{port} ({})", protocol.as_str()),
            host: host.clone(),
            protocol: *protocol,
            command: first.command.clone(),
            cwd: first.cwd.clone(),
        };
        let (turn, item) = (prompt.turn.clone(), first.item.clone());
        let request = cx.number();
        self.0.insert(request, prompt);
        cx.show_approval();
        let at = cx.now;
        cx.push(Effect::Ask { request, turn, item, ask, at });
    }

    /// Refuses the questions that `is_gone` names by process and key. A prompt that showed their
    /// command is withdrawn, and asked again for another one that waits. Returns whether one was
    /// withdrawn.
    pub(super) fn withdraw(&mut self, is_gone: impl Fn(u64, u64) -> bool, cx: &mut Cx) -> bool {
        let gone = |waiting: &Waiting| is_gone(waiting.process, waiting.key);
        let concerned: Vec<u64> = self
            .0
            .iter()
            .filter(|(_, prompt)| prompt.waiting.iter().any(gone))
            .map(|(request, _)| *request)
            .collect();
        let mut withdrawn = false;
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
            withdrawn = true;
            cx.emit(Event::RequestResolved { request });
            self.show(prompt, cx);
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
        let Prompt { target, waiting, .. } = self.0.remove(&request)?;
        cx.emit(Event::RequestResolved { request });
        let allowed = match decision {
            // No command prefix can be allowed permanently here, so an amendment is a plain acceptance.
            Decision::Accept | Decision::AcceptWithAmendment(_) | Decision::AcceptForSession => {
                true
            }
            Decision::Undecided(_) | Decision::Decline | Decision::Cancel => false,
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
            cx.emit(Event::RequestResolved { request });
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
