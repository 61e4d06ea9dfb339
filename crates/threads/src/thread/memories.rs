//! A thread that rests leaves its notes (`features.memories`): one request to the model, without tools,
//! about what was said since the last time. The program writes the files.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use session::{Failure, Id, Prompt, Settings};
use store::{Direction, TurnsQuery};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::thread::model_stream::Asker;
use crate::thread::reviewer;
use services::allowed::MachineInput;
use services::memories::{self, Addition, Memories, Note, Progress};
use services::thread_port::Command;
use services::thread_store::ThreadStore;

/// Maximum number of requests to the model before the thread's next turn.
const ATTEMPTS: u32 = 3;
/// The wait before the second attempt; later ones are twice as long.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Longest conversation that the model gets, in bytes: its end counts.
const MAX_CONVERSATION: usize = 128 << 10;
/// Turns of one page, and pages, that are read.
const PAGE: u32 = 20;
const MAX_PAGES: usize = 10;
/// Time limit of one attempt.
const LIMIT: Duration = Duration::from_secs(300);

/// The notes of a thread. What runs for them ends with it.
pub struct ThreadMemories {
    memories: Arc<Memories>,
    store: Arc<ThreadStore>,
    sender: mpsc::Sender<Command>,
    running: Option<AbortHandle>,
    /// True if the thread takes part or does not, other than its context says.
    has_new_mode: bool,
}

/// A thread that rests.
pub(super) struct RestingThread {
    pub(super) id: Id,
    pub(super) turn: Id,
    pub(super) settings: Settings,
    pub(super) asker: Asker,
    pub(super) project: std::path::PathBuf,
    pub(super) rest: Duration,
    pub(super) max_bytes: usize,
}

impl ThreadMemories {
    pub fn new(
        memories: Arc<Memories>,
        store: Arc<ThreadStore>,
        sender: mpsc::Sender<Command>,
    ) -> Self {
        Self { memories, store, sender, running: None, has_new_mode: false }
    }

    /// The notes of the home.
    pub(super) fn shared(&self) -> &Memories {
        &self.memories
    }

    /// A turn has ended: the thread leaves its notes after a rest.
    pub(super) fn rest(&mut self, resting: RestingThread) {
        self.stop();
        let (store, sender) = (self.store.clone(), self.sender.clone());
        let notes = LeavingNotes { memories: self.memories.clone(), store, sender, resting };
        let removal = self.memories.removal();
        let running = tokio::spawn(async move {
            tokio::select! {
                () = removal => {}
                () = notes.run() => {}
            }
        });
        self.running = Some(running.abort_handle());
    }

    /// The thread works again, or leaves no notes.
    pub(super) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }

    /// The thread takes part from now on, or does not.
    pub(super) fn mode_changed(&mut self) {
        self.stop();
        self.has_new_mode = true;
    }

    /// Returns whether the thread's context has to follow a new mode.
    pub(super) fn take_new_mode(&mut self) -> bool {
        std::mem::take(&mut self.has_new_mode)
    }
}

impl Drop for ThreadMemories {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Why a thread leaves no notes.
enum Problem {
    /// The files of the notes, or the stored thread: names the path.
    Files(String),
    /// The model, or its answer.
    Model(String),
}

impl Problem {
    fn is_of_files(&self) -> bool {
        matches!(self, Self::Files(_))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(problem) => {
                write!(f, "{problem}; mend that, or remove all notes with memory/reset")
            }
            Self::Model(problem) => write!(
                f,
                "the model was asked for them and {problem}; choose another model, or set \
                 `features.memories` to false"
            ),
        }
    }
}

struct LeavingNotes {
    memories: Arc<Memories>,
    store: Arc<ThreadStore>,
    sender: mpsc::Sender<Command>,
    resting: RestingThread,
}

impl LeavingNotes {
    async fn run(self) {
        tokio::time::sleep(self.resting.rest).await;
        let mut wait = RETRY_AFTER;
        let mut is_reported = false;
        for attempt in 1..=ATTEMPTS {
            let outcome = tokio::time::timeout(LIMIT, self.attempt()).await;
            let problem = match outcome {
                Ok(Ok(())) => return,
                Ok(Err(problem)) => problem,
                Err(_) => Problem::Model(format!("no answer within {} s", LIMIT.as_secs())),
            };
            let thread = &self.resting.id;
            tracing::info!(
                target: "server::memories",
                "thread {thread} leaves no notes (attempt {attempt} of {ATTEMPTS}): {problem}"
            );
            // What is wrong with a file seldom passes by itself; a model may answer better.
            if !is_reported && (problem.is_of_files() || attempt == ATTEMPTS) {
                self.memories.warn(thread, &problem.to_string());
                is_reported = true;
            }
            if attempt < ATTEMPTS {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        }
    }

    async fn attempt(&self) -> Result<(), Problem> {
        let RestingThread { id, turn, settings, asker, project, max_bytes, .. } = &self.resting;
        let (folder, thread) = (self.memories.folder(), id.to_string());
        let Progress { removals, turn: last } =
            self.on_files(move || folder.progress(&thread)).await?;
        let conversation = self.conversation(last.as_deref()).await?;
        if conversation.is_empty() {
            return Ok(());
        }
        let (folder, known_of, room) = (self.memories.folder(), project.clone(), *max_bytes);
        let known = self.on_files(move || folder.notes(&known_of, room)).await?;
        let lines = known.files.into_iter().flat_map(|file| file.lines).map(|line| line.text);
        let text = memories::prompt(&lines.collect::<Vec<_>>(), &conversation);
        let mut prompt = Prompt::alone(settings, memories::INSTRUCTIONS, &text);
        prompt.output_schema = Some(memories::SCHEMA.into());
        let notes = self.ask(asker, prompt).await?;
        let addition = Addition {
            thread: id.to_string(),
            turn: turn.to_string(),
            removals,
            project: project.clone(),
            notes,
            max_bytes: *max_bytes,
        };
        let folder = self.memories.folder();
        // Not kept: all notes were removed meanwhile.
        self.on_files(move || folder.add(&addition)).await.map(drop)
    }

    /// Asks the model; what that costs counts for the thread.
    async fn ask(&self, asker: &Asker, prompt: Prompt) -> Result<Vec<Note>, Problem> {
        let response = asker.ask(prompt).map_err(|failure| Problem::Model(failure.message))?;
        let answer = match reviewer::read(response).await {
            Ok(answer) => answer,
            Err(Failure { message, usage, .. }) => {
                if let Some(usage) = usage {
                    self.spent(*usage).await;
                }
                return Err(Problem::Model(message));
            }
        };
        self.spent(answer.usage).await;
        match answer.messages.last() {
            Some(text) => memories::read_answer(text).map_err(Problem::Model),
            None => Err(Problem::Model("its answer has no message".to_owned())),
        }
    }

    async fn spent(&self, usage: session::ResponseUsage) {
        let turn = self.resting.turn.clone();
        // A thread that ends stops this task too.
        let _ = self.sender.send(Command::Input(MachineInput::Spent { turn, usage })).await;
    }

    /// Returns the conversation after the turn `last`, as far as there is room for the end of it.
    async fn conversation(&self, last: Option<&str>) -> Result<String, Problem> {
        let store = self.store.get().await.map_err(|error| Problem::Files(error.to_string()))?;
        let mut parts = Vec::new();
        let (mut left, mut cursor) = (MAX_CONVERSATION, None);
        'pages: for _ in 0..MAX_PAGES {
            let query = TurnsQuery { limit: PAGE, cursor, direction: Direction::Descending };
            let page = store.turns_with_items(&self.resting.id, query).await;
            let page = page.map_err(|error| Problem::Files(error.to_string()))?;
            for (turn, items) in page.rows {
                if Some(turn.id.as_str()) == last {
                    break 'pages;
                }
                for item in items.iter().rev() {
                    let Some(part) = memories::transcript_part(&item.payload) else { continue };
                    let Some(rest) = left.checked_sub(part.len() + 2) else { break 'pages };
                    left = rest;
                    parts.push(part);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        parts.reverse();
        Ok(parts.join("\n\n"))
    }

    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, Problem> {
        let home = self.memories.home();
        let done = self.memories.files().run(home, work).await;
        done.map_err(|error| Problem::Files(error.to_string()))?.map_err(Problem::Files)
    }
}
