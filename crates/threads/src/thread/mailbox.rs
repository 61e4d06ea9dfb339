//! The actor's side of its [`ThreadHandle`]: commands that wait, inputs that come before them, the
//! answers to callers, and the status that the handle shows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hooks::EndReason;
use session::Status;
use tokio::sync::{mpsc, watch};

use crate::thread::pausable_clock::PausableClock;
use crate::thread::replies::Replies;
use services::allowed::MachineInput;
use services::loaded_threads::LoadedThreads;
use services::peer::Peer;
use services::thread_port::{Command, ThreadHandle};

/// Commands that may wait for a thread; at the bound senders wait.
const INBOX: usize = 256;

/// Answers of agents that may wait for a thread: the tool calls of a response. At the bound senders
/// wait.
const AGENT_ANSWERS: usize = 128;

/// The actor's side of its [`ThreadHandle`].
pub struct Mailbox {
    thread: String,
    sender: mpsc::Sender<Command>,
    receiver: mpsc::Receiver<Command>,
    /// Answers to the thread's calls of agents. They pass all commands, and are taken even while the
    /// thread waits for slow clients: `wait_agent` ends in time.
    agent_answers: (mpsc::Sender<MachineInput>, mpsc::Receiver<MachineInput>),
    /// Inputs that the actor's own work produced, taken before any command. Bounded by the tool calls
    /// of a response: each produces one such input at most.
    soon: VecDeque<MachineInput>,
    status: Arc<watch::Sender<Option<Status>>>,
    threads: Arc<LoadedThreads>,
    replies: Replies,
    /// Why the actor ends.
    end: Option<EndReason>,
}

impl Mailbox {
    pub fn new(thread: String, status: Status, threads: Arc<LoadedThreads>) -> Self {
        let (sender, receiver) = mpsc::channel(INBOX);
        let status = Arc::new(watch::Sender::new(Some(status)));
        Self {
            thread,
            sender,
            receiver,
            agent_answers: mpsc::channel(AGENT_ANSWERS),
            soon: VecDeque::new(),
            status,
            threads,
            replies: Replies::default(),
            end: None,
        }
    }

    /// The callers that wait for an answer.
    pub(super) fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// For tasks that report to the thread.
    pub fn sender(&self) -> mpsc::Sender<Command> {
        self.sender.clone()
    }

    pub(super) fn handle(
        &self,
        clients: watch::Receiver<Vec<Arc<Peer>>>,
        paused: watch::Receiver<bool>,
    ) -> ThreadHandle {
        ThreadHandle::new(self.sender.clone(), self.status.subscribe(), clients, paused)
    }

    /// Returns the clean-up after the actor has ended, in whatever way: waiting callers are woken,
    /// and the next request for the thread loads it again.
    pub(super) fn at_end(&self) -> impl FnOnce() + Send + use<> {
        let (status, threads) = (self.status.clone(), self.threads.clone());
        let thread = self.thread.clone();
        move || {
            status.send_replace(None);
            threads.remove_ended(&thread);
        }
    }

    /// For calls of agents.
    pub fn agent_answers(&self) -> mpsc::Sender<MachineInput> {
        self.agent_answers.0.clone()
    }

    /// The next command; `None` when no sender is left. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Command> {
        loop {
            let command = tokio::select! {
                biased;
                Some(answer) = self.agent_answers.1.recv() => Command::Input(answer),
                command = self.receiver.recv() => command?,
            };
            if !command.is_withdrawn() {
                return Some(command);
            }
        }
    }

    /// A command that has arrived already.
    pub(super) fn try_next(&mut self) -> Option<Command> {
        let answer = self.agent_answers.1.try_recv().ok();
        answer.map(Command::Input).or_else(|| {
            let mut arrived = std::iter::from_fn(|| self.receiver.try_recv().ok());
            arrived.find(|command| !command.is_withdrawn())
        })
    }

    /// The first answer of agents that comes before `pause` is over.
    pub(super) async fn agent_answer_during(
        &mut self,
        pause: impl Future<Output = ()>,
    ) -> Option<MachineInput> {
        tokio::select! {
            biased;
            Some(answer) = self.agent_answers.1.recv() => Some(answer),
            () = pause => None,
        }
    }

    /// An input to take before any command.
    pub(super) fn next_soon(&mut self) -> Option<MachineInput> {
        self.soon.pop_front()
    }

    /// Takes `input` before any command.
    pub(super) fn push_soon(&mut self, input: MachineInput) {
        self.soon.push_back(input);
    }

    /// Delivers `input` after `wait`.
    pub(super) fn deliver_after(&self, wait: Duration, input: MachineInput) {
        self.send_after(wait, Command::Input(input));
    }

    /// Delivers `input` when `wait` has passed on `clock`.
    pub(super) fn deliver_on(&self, clock: PausableClock, wait: Duration, input: MachineInput) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            clock.elapse(wait).await;
            // A thread that has ended needs no reminder.
            let _ = sender.send(Command::Input(input)).await;
        });
    }

    /// Sends the thread `command` after `wait`.
    pub(super) fn send_after(&self, wait: Duration, command: Command) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // A thread that has ended needs no reminder.
            let _ = sender.send(command).await;
        });
    }

    pub(super) fn status(&self) -> Option<Status> {
        *self.status.borrow()
    }

    /// Shows another status to callers.
    pub(super) fn set_status(&self, status: Status) {
        self.status.send_replace(Some(status));
    }

    /// The threads that this one is among.
    pub(super) fn threads(&self) -> &Arc<LoadedThreads> {
        &self.threads
    }

    /// The actor ends, for this reason.
    pub(super) fn close(&mut self, reason: EndReason) {
        self.end.get_or_insert(reason);
    }

    /// Why the actor ends; `None` when nothing wants it to.
    pub(super) fn end(&self) -> Option<EndReason> {
        self.end
    }

    /// Accepts no further command; those that wait can still be taken.
    pub(super) fn refuse_commands(&mut self) {
        self.receiver.close();
    }

    /// Drops everything that waits, and accepts nothing more.
    pub(super) fn clear(&mut self) {
        self.receiver.close();
        while self.receiver.try_recv().is_ok() {}
        self.agent_answers.1.close();
        self.soon.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::{pending, ready};

    use super::*;
    use services::connections::Connections;

    #[tokio::test]
    async fn answers_of_agents_pass_commands_and_pauses() {
        let threads = Arc::new(LoadedThreads::new(Arc::new(Connections::default())));
        let mut mailbox = Mailbox::new("t".to_owned(), Status::Idle, threads);
        let answers = mailbox.agent_answers();
        let answer = || MachineInput::AgentsProgressed { request: 1, message: String::new() };
        for _ in 0..INBOX {
            mailbox.sender().send(Command::Drain).await.unwrap();
        }
        for _ in 0..3 {
            answers.send(answer()).await.unwrap();
        }
        assert!(mailbox.agent_answer_during(pending()).await.is_some());
        assert!(matches!(mailbox.next().await, Some(Command::Input(_))));
        assert!(matches!(mailbox.try_next(), Some(Command::Input(_))));
        assert!(mailbox.agent_answer_during(ready(())).await.is_none());
        assert!(matches!(mailbox.next().await, Some(Command::Drain)));
    }
}
