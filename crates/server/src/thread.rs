//! Loaded threads: one actor each, which owns the session's machine and carries its effects out.

mod actor;
mod afterwards;
mod asks;
mod commands;
mod durable;
mod edits;
pub(crate) mod event_log;
mod following;
mod inspect;
mod log;
mod panicked;
mod patches;
pub(crate) mod reload;
mod subscribers;
mod tell;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use protocol::permission::PermissionProfileSelectionParams;
use session::{Answer, Goal, Id, Input, Live, Overrides, PatchPlan, Settings, Status, UserContent};
use store::{ThreadChanges, ThreadRecord};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument;

use crate::connection::{ConnectionId, Gate, Peer};
use crate::error::Error;

pub(crate) use actor::{Actor, Start};
pub(crate) use commands::environment;
use event_log::{Missed, Place};
use patches::PlannedPatch;

/// Inputs that may wait for a thread; at the bound whoever has one more waits.
const INBOX: usize = 256;

/// What can be asked of a thread.
pub(crate) enum Command {
    /// Something happened in the world.
    Input(Input),
    /// `turn/start`.
    StartTurn {
        content: Vec<UserContent>,
        overrides: Box<Overrides>,
        /// The permission profile that the client selects.
        permissions: Option<PermissionProfileSelectionParams>,
        output_schema: Option<Arc<str>>,
        answer: oneshot::Sender<Result<Answer, Error>>,
        gate: Gate,
    },
    /// What the session answers: it is made with the number of its reply.
    Ask {
        input: Box<dyn FnOnce(u64) -> Input + Send>,
        answer: oneshot::Sender<Result<Answer, Error>>,
        gate: Gate,
    },
    /// `thread/shellCommand`.
    Shell { script: String, answer: oneshot::Sender<Result<Answer, Error>>, gate: Gate },
    /// A patch was found to apply.
    Planned { call: u64, plan: PatchPlan, patch: PlannedPatch },
    /// A patch was written, or not.
    Applied { call: u64, turn: Id, patch: PlannedPatch, outcome: Result<(), Error> },
    /// A command of the thread wants to reach a host: the answer to the question `key`.
    Reach { key: u64, input: Input, answer: oneshot::Sender<bool> },
    /// `thread/rollback`.
    RollBack { turns: u32, answer: oneshot::Sender<Result<(), Error>> },
    /// Facts about the thread change; answered when they are stored.
    Change { changes: Box<ThreadChanges>, answer: oneshot::Sender<Result<(), Error>> },
    /// A connection follows the thread; with `announce` it hears `thread/started` too, with a place
    /// what it has missed since.
    Attach {
        peer: Arc<Peer>,
        since: Option<Place>,
        overrides: Overrides,
        announce: bool,
        snapshot: oneshot::Sender<Snapshot>,
        gate: Gate,
    },
    /// Everybody is told, in the order of the thread's events.
    Announce { method: &'static str, message: Bytes },
    /// What the thread is now.
    Look { snapshot: oneshot::Sender<Snapshot> },
    /// A connection ends its subscription; answers whether it had one.
    Unsubscribe { connection: ConnectionId, was_subscribed: oneshot::Sender<bool> },
    /// A connection is gone.
    Detach { connection: ConnectionId },
    /// The server is going to end: see `session::Input::Drain`.
    Drain,
    /// The server ends.
    Shutdown,
}

impl Command {
    /// Bytes of command output that it brings.
    fn text_bytes(&self) -> usize {
        match self {
            Self::Input(Input::Output { text, .. }) => text.len(),
            _ => 0,
        }
    }
}

/// A loaded thread at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) record: ThreadRecord,
    pub(crate) ephemeral: bool,
    pub(crate) settings: Settings,
    pub(crate) status: Status,
    pub(crate) instruction_sources: Vec<PathBuf>,
    /// What of the running turn is not final.
    pub(crate) live: Live,
    /// What the thread works towards.
    pub(crate) goal: Option<Goal>,
    /// Where its events are, for clients that want to know.
    pub(crate) place: Option<String>,
    /// Whether what a client has missed follows, and how many events that are.
    pub(crate) replay: Option<Result<usize, Missed>>,
    /// Requests to the clients that wait for an answer, as the client sees their ids.
    pub(crate) open_requests: Vec<i64>,
}

/// A loaded thread.
#[derive(Clone)]
pub(crate) struct ThreadHandle {
    sender: mpsc::Sender<Command>,
    /// `None` once the actor has ended.
    status: watch::Receiver<Option<Status>>,
}

impl ThreadHandle {
    /// Starts the thread's actor.
    pub(crate) fn spawn(start: Start) -> Self {
        let (sender, inbox) = mpsc::channel(INBOX);
        let (core, id) = (start.core.clone(), start.record.id.clone());
        let (told, status) = watch::channel(Some(start.machine.status()));
        let told = Arc::new(told);
        let actor = Actor::new(start, sender.clone(), inbox, told.clone());
        // A thread outlives the request that loads it.
        let span = tracing::error_span!(parent: None, "thread", thread = %id);
        let running = tokio::spawn(actor.run().instrument(span));
        tokio::spawn(async move {
            // Whatever its end was: whoever waits for the thread must not wait for ever, and whoever
            // asks for it next loads it anew.
            let _ = running.await;
            told.send_replace(None);
            core.threads().retain(|other, handle| *other != id || handle.status().is_some());
        });
        Self { sender, status }
    }

    /// Whether the actor has not ended.
    pub(crate) fn lives(&self) -> bool {
        self.status().is_some() && !self.sender.is_closed()
    }

    /// Gives the thread something to do; `false` when it has ended.
    pub(crate) async fn send(&self, command: Command) -> bool {
        self.sender.send(command).await.is_ok()
    }

    /// The runtime status; `None` when the thread has ended.
    pub(crate) fn status(&self) -> Option<Status> {
        *self.status.borrow()
    }

    /// Waits until no turn runs.
    pub(crate) async fn quiet(mut self) {
        let is_quiet = |status: &Option<Status>| !matches!(status, Some(Status::Active { .. }));
        // An actor that is gone is quiet.
        let _ = self.status.wait_for(is_quiet).await;
    }

    /// Waits until a turn that is about to run, or runs, does so no longer.
    pub(crate) async fn after_turn(mut self) {
        let runs =
            |status: &Option<Status>| !matches!(status, Some(Status::Idle | Status::SystemError));
        let _ = self.status.wait_for(runs).await;
        self.quiet().await;
    }

    /// Waits for the end of the actor.
    pub(crate) async fn ended(mut self) {
        let _ = self.status.wait_for(Option::is_none).await;
    }
}
