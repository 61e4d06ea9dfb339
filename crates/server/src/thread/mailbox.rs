//! The actor's side of its [`ThreadHandle`]: commands that wait, inputs that come before them, the
//! answers to callers, and the status that the handle shows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use session::Status;
use tokio::sync::{mpsc, watch};

use crate::allowed::MachineInput;
use crate::connection::Peer;
use crate::loaded_threads::LoadedThreads;
use crate::thread::elicitations::PausableClock;
use crate::thread::handle::{Command, ThreadHandle};
use crate::thread::replies::Replies;

/// Commands that may wait for a thread; at the bound senders wait.
const INBOX: usize = 256;

/// See the module.
pub(crate) struct Mailbox {
    thread: String,
    sender: mpsc::Sender<Command>,
    receiver: mpsc::Receiver<Command>,
    /// Inputs that the actor's own work produced, taken before any command. Bounded by the tool calls
    /// of a response: each produces one such input at most.
    soon: VecDeque<MachineInput>,
    status: Arc<watch::Sender<Option<Status>>>,
    threads: Arc<LoadedThreads>,
    replies: Replies,
    is_closed: bool,
}

impl Mailbox {
    pub(crate) fn new(thread: String, status: Status, threads: Arc<LoadedThreads>) -> Self {
        let (sender, receiver) = mpsc::channel(INBOX);
        let status = Arc::new(watch::Sender::new(Some(status)));
        let (soon, replies) = (VecDeque::new(), Replies::default());
        Self { thread, sender, receiver, soon, status, threads, replies, is_closed: false }
    }

    /// The callers that wait for an answer.
    pub(super) fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// For tasks that report to the thread.
    pub(crate) fn sender(&self) -> mpsc::Sender<Command> {
        self.sender.clone()
    }

    pub(super) fn handle(&self, clients: watch::Receiver<Vec<Arc<Peer>>>) -> ThreadHandle {
        ThreadHandle::new(self.sender.clone(), self.status.subscribe(), clients)
    }

    /// What to do when the actor has ended, in whatever way: waiting callers are woken, and the next
    /// request for the thread loads it again.
    pub(super) fn at_end(&self) -> impl FnOnce() + Send + use<> {
        let (status, threads) = (self.status.clone(), self.threads.clone());
        let thread = self.thread.clone();
        move || {
            status.send_replace(None);
            threads.remove_ended(&thread);
        }
    }

    /// The next command; `None` when no sender is left.
    pub(super) async fn next(&mut self) -> Option<Command> {
        self.receiver.recv().await
    }

    /// A command that has arrived already.
    pub(super) fn try_next(&mut self) -> Option<Command> {
        self.receiver.try_recv().ok()
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

    /// The server ends, so the actor does.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Accepts no further command; those that wait can still be taken.
    pub(super) fn refuse_commands(&mut self) {
        self.receiver.close();
    }

    /// Drops everything that waits, and accepts nothing more.
    pub(super) fn clear(&mut self) {
        self.receiver.close();
        while self.receiver.try_recv().is_ok() {}
        self.soon.clear();
    }
}
