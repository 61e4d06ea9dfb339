//! Approvals of the managed network: a running command wants to reach a host that is on no list
//! (specification: Server-initiated requests, `networkApprovalContext`). One prompt serves all who
//! want the same host, protocol and port.

use std::collections::{BTreeMap, BTreeSet};

use crate::approvals::{Ask, Decision};
use crate::effect::Effect;
use crate::event::{Event, Status, TurnStatus};
use crate::machine::Machine;
use crate::settings::ApprovalPolicy;

/// Prompts about the network at once; one more is refused.
const MAX_PROMPTS: usize = 32;

/// How a command wants to reach a host.
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
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5Tcp => "socks5-tcp",
            Self::Socks5Udp => "socks5-udp",
        }
    }
}

/// What a command wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkTarget {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How.
    pub protocol: NetworkProtocol,
}

/// Prompts that have no answer yet, by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct Prompts(BTreeMap<u64, Prompt>);

#[derive(Debug)]
struct Prompt {
    target: NetworkTarget,
    /// The command that is shown.
    shown: u64,
    /// Who waits for the answer: the commands and the keys of their questions.
    waiting: Vec<(u64, u64)>,
}

impl Prompts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Machine {
    /// A command wants to reach a host; `key` names the question in the answer.
    pub(crate) fn network_ask(&mut self, process: u64, key: u64, target: NetworkTarget) {
        if self.grants.has_host(&target) {
            return self.network_answer(key, true);
        }
        let asks = match self.settings.approval {
            ApprovalPolicy::Never => false,
            ApprovalPolicy::Granular(granular) => granular.sandbox_approval,
            ApprovalPolicy::OnRequest | ApprovalPolicy::UnlessTrusted => true,
        };
        let shown = self.processes.contains_key(&process);
        let running = self.turn.as_ref().is_some_and(|turn| turn.ending.is_none());
        // Between turns nobody is there who would wait for the answer.
        if !(asks && shown && running) {
            return self.network_answer(key, false);
        }
        if let Some(prompt) = self.network.0.values_mut().find(|prompt| prompt.target == target) {
            return prompt.waiting.push((process, key));
        }
        if self.network.0.len() >= MAX_PROMPTS {
            return self.network_answer(key, false);
        }
        self.network_prompt(Prompt { target, shown: process, waiting: vec![(process, key)] });
    }

    fn network_prompt(&mut self, prompt: Prompt) {
        let Some(turn) = self.turn.as_ref().map(|turn| turn.view.id.clone()) else { return };
        let Some(process) = self.processes.get(&prompt.shown) else { return };
        let item = process.item.clone();
        let NetworkTarget { host, port, protocol } = &prompt.target;
        let ask = Ask::Network {
            reason: format!("to reach {host}:{port} ({})", protocol.as_str()),
            host: host.clone(),
            protocol: *protocol,
            command: item.command,
            cwd: item.cwd,
        };
        let request = self.number();
        self.network.0.insert(request, prompt);
        self.set_status(Status::Active { waiting_on_approval: true });
        let at = self.now;
        self.effect(Effect::Ask { request, turn, item: item.id, ask, at });
    }

    /// A connection that waited for an answer is gone.
    pub(crate) fn network_withdrawn(&mut self, key: u64) {
        self.no_longer_waiting(|_, waiting| waiting == key);
    }

    /// A command has ended: it is not shown in a prompt any more.
    pub(crate) fn network_unused(&mut self, process: u64) {
        self.no_longer_waiting(|waiting, _| waiting == process);
    }

    fn no_longer_waiting(&mut self, gone: impl Fn(u64, u64) -> bool) {
        let concerned = |prompt: &Prompt| prompt.waiting.iter().any(|(p, key)| gone(*p, *key));
        let requests: Vec<u64> =
            self.network.0.iter().filter(|(_, it)| concerned(it)).map(|(id, _)| *id).collect();
        for request in requests {
            let Some(prompt) = self.network.0.get_mut(&request) else { continue };
            let (lost, kept) = prompt.waiting.iter().partition(|(p, key)| gone(*p, *key));
            prompt.waiting = kept;
            let still_shown = prompt.waiting.iter().any(|(process, _)| *process == prompt.shown);
            let lost: Vec<(u64, u64)> = lost;
            for (_, key) in lost {
                self.network_answer(key, false);
            }
            if still_shown {
                continue;
            }
            let Some(mut prompt) = self.network.0.remove(&request) else { continue };
            self.emit(Event::RequestResolved { request });
            if let Some((process, _)) = prompt.waiting.first() {
                prompt.shown = *process;
                self.network_prompt(prompt);
            } else if self.turn.is_some() {
                self.show_waiting();
            }
        }
    }

    /// An answer of a client; false when it answers something else.
    pub(crate) fn network_decided(&mut self, request: u64, decision: &Decision) -> bool {
        let Some(Prompt { target, waiting, .. }) = self.network.0.remove(&request) else {
            return false;
        };
        self.emit(Event::RequestResolved { request });
        let allowed = match decision {
            // There is no command prefix here to allow for good: a plain yes.
            Decision::Accept | Decision::AcceptWithAmendment(_) => true,
            Decision::AcceptForSession => {
                self.grants.allow_host(target);
                true
            }
            Decision::Undecided(why) => {
                let NetworkTarget { host, port, .. } = &target;
                let text = format!("agentd: {host}:{port} was not allowed: {why}\n");
                self.note_in_outputs(waiting.iter().map(|(process, _)| *process), &text);
                false
            }
            Decision::Decline | Decision::Cancel => false,
        };
        for (_, key) in waiting {
            self.network_answer(key, allowed);
        }
        if *decision == Decision::Cancel {
            self.end(TurnStatus::Interrupted, None);
        } else if self.turn.is_some() {
            self.show_waiting();
        }
        true
    }

    /// Tells in the output of these commands what the clients have to do with their failure.
    fn note_in_outputs(&mut self, processes: impl Iterator<Item = u64>, text: &str) {
        for process in processes.collect::<BTreeSet<u64>>() {
            self.process_output(process, text.to_owned());
        }
    }

    /// The turn ends: nobody answers any more.
    pub(crate) fn close_network_prompts(&mut self) {
        for (request, prompt) in std::mem::take(&mut self.network.0) {
            self.emit(Event::RequestResolved { request });
            for (_, key) in prompt.waiting {
                self.network_answer(key, false);
            }
        }
    }

    fn network_answer(&mut self, key: u64, allowed: bool) {
        self.effect(Effect::NetworkAnswer { key, allowed });
    }
}
