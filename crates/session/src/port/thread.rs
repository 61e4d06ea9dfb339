//! The parts that a thread is made from: its ids, bounds, configuration, and its stored state.

use std::path::PathBuf;
use std::sync::Arc;

use super::auto_review::ApprovedAction;
use super::concession::Conceded;
use super::fragment::Fragment;
use super::goal::Goal;
use super::hook::ThreadStart;
use super::memory::MemoryNotes;
use super::model::Usage;
use super::settings::Settings;
use super::tool_set::Offer;
use crate::Id;

/// Where new ids come from.
pub trait Ids: Send {
    /// A new turn id.
    fn turn(&mut self) -> Id;
    /// A new item id.
    fn item(&mut self) -> Id;
}

/// Bounds of a thread's work.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Kept of a command's output in its item, in bytes: head and tail.
    pub output_bytes: usize,
    /// Streamed of a command's output, in bytes; the rest is only in the item.
    pub streamed_bytes: usize,
    /// Given to the model of a tool's output, in tokens of about four bytes.
    pub tool_output_tokens: u64,
    /// Commands that may run at once, those in the background included.
    pub processes: usize,
    /// Tool calls of one response.
    pub calls: usize,
    /// Text of one response, in bytes.
    pub response_bytes: usize,
    /// Retries of a request that failed before its response began.
    pub request_retries: u32,
    /// Retries of a stream that broke.
    pub stream_retries: u32,
    /// The longest wait of an empty `write_stdin`, in milliseconds.
    pub max_poll_ms: u64,
    /// Steering inputs waiting for the model.
    pub pending_inputs: usize,
    /// Tokens of history from which on it is compacted before the next request.
    pub compact_at_tokens: Option<u64>,
    /// Project documents, in bytes, those of folders below the working folder included.
    pub project_doc_bytes: usize,
    /// True if a reviewer of approvals may let an action leave the sandbox. Off where full access
    /// is forbidden: there only the user may.
    pub reviewer_leaves_sandbox: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            output_bytes: 1024 * 1024,
            streamed_bytes: 4 * 1024 * 1024,
            tool_output_tokens: 10_000,
            processes: 64,
            calls: 128,
            response_bytes: 64 * 1024 * 1024,
            request_retries: 4,
            stream_retries: 5,
            max_poll_ms: 300_000,
            pending_inputs: 1_000,
            compact_at_tokens: None,
            project_doc_bytes: 32 * 1024,
            reviewer_leaves_sandbox: true,
        }
    }
}

/// The state of a stored thread.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The thread's id.
    pub thread: Id,
    /// The model's history; `None`: it comes later, by [`Machine::restore`].
    pub history: Option<Vec<Fragment>>,
    /// The settings that the model was last introduced to; `None` for a thread without a turn.
    pub introduced: Option<Settings>,
    /// Tokens so far.
    pub usage: Usage,
    /// Picodollars so far; `None`: the price of a part is not known.
    pub cost: Option<i64>,
    /// True if the last turn failed.
    pub failed: bool,
    /// True if the thread has its preview.
    pub previewed: bool,
    /// Actions that the user approved after a review refused them, and that have not run.
    pub approved_actions: Vec<ApprovedAction>,
    /// Parts of requests that its providers refused.
    pub concessions: Vec<Conceded>,
    /// The project documents of folders below the working folder that the model has.
    pub documents: Vec<String>,
    /// The goal of the thread.
    pub goal: Option<Goal>,
    /// The way in which the thread began, for its hooks.
    pub start: ThreadStart,
}

impl Default for Restored {
    /// A thread that has used nothing.
    fn default() -> Self {
        Self {
            thread: Id::default(),
            history: None,
            introduced: None,
            usage: Usage::default(),
            cost: Some(0),
            failed: false,
            previewed: false,
            goal: None,
            approved_actions: Vec::new(),
            concessions: Vec::new(),
            documents: Vec::new(),
            start: ThreadStart::default(),
        }
    }
}

/// The configuration of a thread.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The settings from now on.
    pub settings: Settings,
    /// Facts for the model.
    pub context: Context,
    /// The tools that the model can call.
    pub offer: Offer,
    /// Bounds.
    pub limits: Limits,
    /// Reasoning effort while a plan is made, in place of the settings'.
    pub plan_effort: Option<String>,
}

/// Facts for the model that the driver looked up.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Base instructions; `None` means the built-in ones.
    pub instructions: Option<Arc<str>>,
    /// Developer instructions of the client or the configuration.
    pub developer: Option<String>,
    /// The project's own document for agents.
    pub project_doc: Option<String>,
    /// Notes of earlier threads.
    pub memories: Option<Arc<MemoryNotes>>,
    /// Co-author trailer for commit messages.
    pub commit_attribution: Option<String>,
    /// True if the model takes a personality.
    pub takes_personality: bool,
    /// The user's shell, by name.
    pub shell: String,
    /// `$TMPDIR` of commands, when it names an absolute folder.
    pub tmpdir: Option<PathBuf>,
    /// The parts of the sandbox that do not work on this machine, in whole sentences.
    pub sandbox_limits: Option<Arc<str>>,
    /// Today, `YYYY-MM-DD`.
    pub date: String,
    /// Name of the time zone.
    pub time_zone: String,
    /// The request text of a compaction; `None` means the built-in words.
    pub compact_prompt: Option<Arc<str>>,
}

/// A project document of a folder below the working folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectDocument {
    /// The absolute path of the file.
    pub path: String,
    /// Its contents, cut off beyond the largest size of all project documents; empty when the file is gone.
    pub text: String,
}
