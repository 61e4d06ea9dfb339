//! Notes that threads leave for later ones (`features.memories`): what a thread gets, and the removal of
//! all notes. `folder` keeps the files; `thread/memories` has threads leave their notes.

mod folder;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use files::Pool;
use session::MemoryNotes;
use tokio::sync::watch;

use crate::connections::Connections;
use crate::error::Error;
use crate::warnings;

pub(crate) use folder::MemoryFolder;
pub use folder::{Addition, Progress};
pub use text::{INSTRUCTIONS, Note, SCHEMA, prompt, read_answer, transcript_part};

/// The notes of a home, for all threads of this server.
pub struct Memories {
    home: PathBuf,
    files: Pool,
    connections: Arc<Connections>,
    /// Counts the removals by this server: what runs stops then.
    removals: watch::Sender<u64>,
}

impl Memories {
    pub fn new(home: &Path, files: &Pool, connections: &Arc<Connections>) -> Self {
        let (files, connections) = (files.clone(), connections.clone());
        Self { home: home.to_owned(), files, connections, removals: watch::Sender::new(0) }
    }

    /// Informs the log, and each client once, why a thread leaves no notes.
    pub fn warn(&self, thread: &str, problem: &str) {
        tracing::warn!(target: "server::memories", "thread {thread} leaves no notes: {problem}");
        let message = format!("threads leave no notes for later ones: {problem}");
        for peer in self.connections.all() {
            warnings::send_warning(&peer, message.clone());
        }
    }

    pub fn folder(&self) -> MemoryFolder {
        MemoryFolder::new(&self.home)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn files(&self) -> &Pool {
        &self.files
    }

    /// Resolves when all notes are removed.
    pub fn removal(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut removals = self.removals.subscribe();
        async move {
            // The sender lives as long as the server.
            let _ = removals.changed().await;
        }
    }

    /// Leaves out what was said in a thread up to its turn `turn`.
    ///
    /// # Errors
    /// Files that cannot be written, or a lock that another server keeps.
    pub async fn skip(&self, thread: String, turn: String) -> Result<(), Error> {
        let folder = self.folder();
        let work = move || {
            let removals = folder.progress(&thread)?.removals;
            let (project, notes, max_bytes) = (PathBuf::new(), Vec::new(), 0);
            folder.add(&Addition { thread, turn, removals, project, notes, max_bytes })
        };
        let skipped = self.files.run(&self.home, work).await?;
        skipped.map(drop).map_err(|error| {
            Error::failed(format!(
                "what the thread said without memories cannot be left out: {error}"
            ))
            .next_step("mend the cause and call thread/memoryMode/set again")
        })
    }

    /// Removes all notes, and what is known of threads that left some. What runs writes nothing
    /// afterwards, in this server or another.
    ///
    /// # Errors
    /// Files that cannot be removed, or a lock that another server keeps.
    pub async fn reset(&self) -> Result<(), Error> {
        self.removals.send_modify(|count| *count += 1);
        let folder = self.folder();
        let removed = self.files.run(&self.home, move || folder.reset()).await?;
        removed.map_err(|error| {
            Error::failed(format!("the notes of threads cannot be removed: {error}"))
                .next_step("mend the cause and call memory/reset again")
        })
    }
}

/// The notes that a thread gets; `Err`: why there are none.
pub fn notes(home: &Path, config: &Config) -> Result<Option<Arc<MemoryNotes>>, String> {
    let notes = MemoryFolder::new(home).notes(&config.project_root, max_bytes(config));
    let notes =
        notes.map_err(|error| format!("the notes of earlier threads are left out: {error}"))?;
    Ok((!notes.files.is_empty()).then(|| Arc::new(notes)))
}

/// The bound on a file, and on what a thread gets.
pub fn max_bytes(config: &Config) -> usize {
    usize::try_from(*config.memories.max_bytes).unwrap_or(usize::MAX)
}
