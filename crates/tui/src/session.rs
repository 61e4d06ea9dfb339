//! The thread on the screen: its settings, its turn, and the items that are not finished.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use protocol::{CollabAgentState, ReasoningEffort, ThreadTokenUsage, ThreadWorktree, TurnPlanStep};

use crate::cells::{Explored, Running};
use crate::context::MAX_CHANGE_ROWS;
use crate::server_queue::ServerQueue;

/// The thread on the screen.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Of the thread; none before the server has opened it.
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) model: String,
    /// Id of its provider.
    pub(crate) provider: String,
    /// Files of instructions that the model has.
    pub(crate) instructions: Vec<String>,
    pub(crate) effort: Option<ReasoningEffort>,
    /// The mode, which says what the agent may do.
    pub(crate) mode: &'static str,
    /// When the agent asks, in a word.
    pub(crate) approval: String,
    /// The access of commands, in words.
    pub(crate) sandbox: &'static str,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) branch: Option<String>,
    /// Its worktree, if it has one of its own.
    pub(crate) worktree: Option<ThreadWorktree>,
    pub(crate) usage: Option<ThreadTokenUsage>,
    /// True if there are turns to resume.
    pub(crate) has_turns: bool,
    /// The latest message of the agent.
    pub(crate) answer: Option<String>,
    /// True if earlier turns are still being read.
    pub(crate) is_loading: bool,
    pub(crate) turn: Option<ActiveTurn>,
    /// The items in progress, in the order in which they started.
    pub(crate) open: Vec<Open>,
    /// Ids of the items that were printed: after a reconnection they come again.
    pub(crate) printed: HashSet<String>,
    /// Ids of the turns whose end was reported, for the same reason.
    pub(crate) ended: HashSet<String>,
    /// The turn that was running when the connection was lost, until its state is known again.
    pub(crate) left: Option<String>,
    /// A sentence about where the thread comes from, until its turns are on the screen.
    pub(crate) arrival: Option<String>,
    pub(crate) plan: Vec<TurnPlanStep>,
    /// The explanation of a plan that is not printed yet.
    pub(crate) new_plan: Option<String>,
    /// The places that were explored since something else was printed.
    pub(crate) explored: Explored,
    pub(crate) change_rows: ChangeRows,
    /// The last line of a turn that ended while earlier turns are still being read.
    pub(crate) late_end: Option<String>,
    /// True if the agent did anything in the turn.
    pub(crate) has_worked: bool,
    /// True if the next turn plans and changes nothing.
    pub(crate) plans: bool,
    /// True if the latest turn proposed a plan.
    pub(crate) has_proposed: bool,
    /// All changes of the turn, as a unified diff.
    pub(crate) diff: String,
    /// The messages that wait on the server.
    pub(crate) queue: ServerQueue,
    /// By the id of their thread.
    pub(crate) agents: BTreeMap<String, CollabAgentState>,
}

/// A turn in progress.
#[derive(Debug)]
pub(crate) struct ActiveTurn {
    /// None until the server has named it.
    pub(crate) id: Option<String>,
    /// In milliseconds since the start of the program.
    pub(crate) started_ms: u64,
    /// Time that it had been running when it was joined, in milliseconds.
    pub(crate) before_ms: u64,
    /// The wait before the server asks the model again.
    pub(crate) retry: Option<Retry>,
    /// True if the last item was a whole message of the agent.
    pub(crate) has_message: bool,
    pub(crate) is_interrupting: bool,
}

impl ActiveTurn {
    /// A turn that was asked for; the server names it later.
    pub(crate) fn starting(now_ms: u64) -> Self {
        Self {
            id: None,
            started_ms: now_ms,
            before_ms: 0,
            retry: None,
            has_message: false,
            is_interrupting: false,
        }
    }
}

/// A wait of the server before it asks the model again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Why the last attempt failed.
    pub(crate) reason: String,
    /// Number of the next attempt, and of all.
    pub(crate) attempt: Option<(u32, u32)>,
    /// When it begins at the latest, in milliseconds since the start of the program.
    pub(crate) begins_ms: Option<u64>,
    /// The wait as a whole, in milliseconds.
    pub(crate) wait_ms: u64,
}

/// An item that is not printed as a whole yet.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: String,
    /// The turn that it belongs to. A command may outlive it.
    pub(crate) turn_id: String,
    pub(crate) started_ms: u64,
    pub(crate) running: Running,
    /// True if it is finished, and only waits for its turn to be printed.
    pub(crate) is_complete: bool,
    /// True if it is a text that was cut off, and the model may still be asked again.
    pub(crate) is_undecided: bool,
    /// True if the server named it since the connection was opened: after a crash it may not know
    /// it.
    pub(crate) is_confirmed: bool,
}

impl Session {
    pub(crate) fn open(&mut self, id: &str) -> Option<&mut Open> {
        self.open.iter_mut().find(|open| open.id == id)
    }

    /// The id of the turn in progress.
    pub(crate) fn turn_id(&self) -> Option<&str> {
        self.turn.as_ref()?.id.as_deref()
    }
}

/// Rows of all changes of files in a turn; of the others, their number is printed.
const MAX_TURN_CHANGE_ROWS: usize = 300;

/// The rows that the changes of the latest turn took.
#[derive(Debug, Default)]
pub(crate) struct ChangeRows {
    turn_id: String,
    used: usize,
}

impl ChangeRows {
    /// The rows that the next change of a turn may take.
    pub(crate) fn free(&mut self, turn_id: &str) -> usize {
        if self.turn_id != turn_id {
            *self = Self { turn_id: turn_id.to_owned(), used: 0 };
        }
        (MAX_TURN_CHANGE_ROWS - self.used).min(MAX_CHANGE_ROWS)
    }

    /// Takes rows of the turn.
    pub(crate) fn take(&mut self, rows: usize) {
        self.used = (self.used + rows).min(MAX_TURN_CHANGE_ROWS);
    }
}
