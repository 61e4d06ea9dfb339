//! Undo (`features.undo`): records what the tool calls of turns change in folders, and goes back.
//!
//! A call holds an [`OpenCall`] while it runs. A folder that cannot be recorded never stops a call: the
//! clients are warned, and what the call changes counts as coming from elsewhere.

mod shown;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::undo::{self as record, Plan, Turn, Undo, Window};
use files::Pool;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::error::Error;

pub(crate) use shown::NotedPath;
pub use shown::RestoredFiles;

/// The database, in `sqlite_home`.
const FILE: &str = "undo.sqlite";
/// Maximum wait of a call for the state of its folders. The first time, all files are read.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for going back.
const RESTORE_LIMIT: Duration = Duration::from_secs(300);
/// Time for which a folder that cannot be recorded is left alone before it is tried again.
const REFUSED_FOR: Duration = Duration::from_secs(600);
/// Interval of notes that the server runs, while calls do.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Maximum wait of going back for calls that are ending.
const QUIET_LIMIT: Duration = Duration::from_secs(2);

/// The undo records of a home.
#[derive(Default)]
pub struct UndoRecords {
    /// Not that of other files: a scan of a large folder must not make them wait.
    pool: Pool,
    opened: OnceCell<Arc<Undo>>,
    refused: Mutex<HashMap<PathBuf, Instant>>,
}

/// The way in which files are restored.
#[derive(Clone, Copy, Debug)]
pub enum FileRollback {
    /// Only says what would happen.
    Preview,
    /// Writes unless something else has changed any of the files, too.
    Restore,
    /// Writes in any case.
    Overwrite,
}

impl UndoRecords {
    /// The database in `folder`, opened or created the first time.
    async fn open(&self, folder: &Path) -> Result<Arc<Undo>, Error> {
        let open = || async {
            let path = folder.join(FILE);
            self.pool.run(folder, move || Undo::open(&path)).await?.map(Arc::new).map_err(failed)
        };
        self.opened.get_or_try_init(open).await.cloned()
    }

    /// The changes of a thread are forgotten: it was deleted.
    pub async fn forget(&self, folder: &Path, thread: &str) -> Result<(), Error> {
        if self.opened.get().is_none() && !folder.join(FILE).exists() {
            return Ok(());
        }
        let undo = self.open(folder).await?;
        let thread = thread.to_owned();
        self.pool.run(folder, move || undo.forget(&thread)).await?.map_err(failed)
    }

    /// Goes back to the beginning of `since`, or says what that would do.
    pub async fn go_back(
        &self,
        folder: &Path,
        since: Turn,
        how: FileRollback,
    ) -> Result<RestoredFiles, Error> {
        let undo = self.open(folder).await?;
        let work = move || {
            if !undo.wait_until_quiet(&since, QUIET_LIMIT) {
                return Err(Error::wrong_state("commands of the turns still run").next_step(
                    "wait for them, or end them with thread/backgroundTerminals/clean",
                ));
            }
            let plan = undo.plan(&since).map_err(failed)?;
            let shown = RestoredFiles::planned(&undo, &plan).map_err(failed)?;
            let overwrite = match how {
                FileRollback::Preview => return Ok(shown),
                FileRollback::Restore => false,
                FileRollback::Overwrite => true,
            };
            match undo.restore(&since, overwrite).map_err(failed)? {
                Err(plan) => Err(in_conflict(&plan)),
                Ok(outcome) if outcome.failed.is_empty() => Ok(shown.restored(&outcome)),
                Ok(outcome) => Err(incomplete(&outcome)),
            }
        };
        self.pool.run_within(RESTORE_LIMIT, folder, work).await?
    }

    fn is_refused(&self, root: &Path) -> bool {
        self.refused().get(root).is_some_and(|until| *until > Instant::now())
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<PathBuf, Instant>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records the calls of one turn.
#[derive(Clone)]
pub struct CallRecorder {
    pub records: Arc<UndoRecords>,
    /// Where the database is.
    pub home: PathBuf,
    /// The folders whose changes are recorded.
    pub roots: Vec<PathBuf>,
    pub turn: Turn,
    /// Sends the clients of the thread a warning.
    pub warn: Arc<dyn Fn(String) + Send + Sync>,
}

/// A call that runs. Dropping it ends the record of its changes.
#[derive(Default)]
pub struct OpenCall {
    _windows: Vec<OpenWindow>,
    /// Notes that the server runs.
    alive: Option<JoinHandle<()>>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if let Some(alive) = &self.alive {
            alive.abort();
        }
    }
}

/// Begins a call where its changes are recorded.
pub async fn begin_call(recorder: Option<CallRecorder>) -> OpenCall {
    match recorder {
        Some(recorder) => recorder.begin().await,
        None => OpenCall::default(),
    }
}

impl CallRecorder {
    /// Begins a call, after the folders' states are known.
    pub async fn begin(&self) -> OpenCall {
        let undo = match self.records.open(&self.home).await {
            Ok(undo) => undo,
            Err(error) => {
                self.warn(&error);
                return OpenCall::default();
            }
        };
        let mut windows = Vec::with_capacity(self.roots.len());
        for root in &self.roots {
            if self.records.is_refused(root) {
                self.note_unrecorded(&undo).await;
                continue;
            }
            match self.begin_in(&undo, root).await {
                Ok(window) => windows.push(window),
                Err(error) => {
                    let until = Instant::now() + REFUSED_FOR;
                    self.records.refused().insert(root.clone(), until);
                    self.warn(&error);
                    self.note_unrecorded(&undo).await;
                }
            }
        }
        let alive = (!windows.is_empty()).then(|| tokio::spawn(self.clone().note_alive(undo)));
        OpenCall { _windows: windows, alive }
    }

    /// Notes from time to time that the server runs, so that after a crash the changes of its calls are
    /// distinguished from later ones. What cannot be noted is uncertain then.
    async fn note_alive(self, undo: Arc<Undo>) {
        loop {
            tokio::time::sleep(ALIVE_EVERY).await;
            let undo = undo.clone();
            let noted = self.records.pool.run(&self.home, move || undo.note_alive()).await;
            if let Err(error) = noted.map_err(Error::from).and_then(|done| done.map_err(failed)) {
                tracing::debug!(target: "server::undo", "noting that calls run: {error}");
            }
        }
    }

    /// Marks the beginning of the turn and reads the folders, so that the first call need not wait.
    pub async fn begin_turn(&self) {
        if let Ok(undo) = self.records.open(&self.home).await {
            let turn = self.turn.clone();
            let marked = self.records.pool.run(&self.home, move || undo.begin_turn(&turn)).await;
            if let Err(error) = marked.map_err(Error::from).and_then(|done| done.map_err(failed)) {
                self.warn(&error);
            }
        }
    }

    async fn begin_in(&self, undo: &Arc<Undo>, root: &Path) -> Result<OpenWindow, Error> {
        let (undo, turn, path) = (undo.clone(), self.turn.clone(), root.to_owned());
        let warn = self.warn.clone();
        let begin = move || {
            let path = path.canonicalize().unwrap_or(path);
            let window = undo.begin(&path, &turn).map_err(failed)?;
            // Given back even when this takes too long and is not waited for.
            Ok(OpenWindow { undo, window: Some(window), warn })
        };
        self.records.pool.run_within(BEGIN_LIMIT, root, begin).await?
    }

    /// A call of the turn goes on without a record: the turn is not undone by halves later.
    async fn note_unrecorded(&self, undo: &Arc<Undo>) {
        let (undo, turn) = (undo.clone(), self.turn.clone());
        let noting = self.records.pool.run(&self.home, move || undo.note_unrecorded(&turn)).await;
        if let Err(error) = noting {
            self.warn(&error.into());
        }
    }

    fn warn(&self, error: &Error) {
        let message = format!("changes of files are not recorded for undo: {error}");
        tracing::warn!(target: "server::undo", "{message}");
        (self.warn)(message);
    }
}

struct OpenWindow {
    undo: Arc<Undo>,
    window: Option<Window>,
    /// Sends the clients of the thread a warning.
    warn: Arc<dyn Fn(String) + Send + Sync>,
}

impl Drop for OpenWindow {
    fn drop(&mut self) {
        let Some(window) = self.window.take() else { return };
        let (undo, warn) = (self.undo.clone(), self.warn.clone());
        let end = move || {
            if let Err(error) = undo.end(window) {
                let message = format!(
                    "what a call changed is not recorded, so that its turn cannot be undone: {error}"
                );
                tracing::warn!(target: "server::undo", "{message}");
                warn(message);
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(end)),
            Err(_) => end(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: record::Error) -> Error {
    match error {
        record::Error::Unrecorded => {
            Error::wrong_state(error.to_string()).next_step("roll back without `restoreFiles`")
        }
        record::Error::UnknownTurn { .. } => Error::wrong_state(error.to_string())
            .next_step("roll back without `restoreFiles`, or set `features.undo` for later turns"),
        record::Error::OtherThread { .. } => Error::wrong_state(error.to_string()).next_step(
            "restore its files with a rollback of that thread, or roll back without `restoreFiles`",
        ),
        _ => Error::failed(error.to_string()),
    }
}

fn in_conflict(plan: &Plan) -> Error {
    let listed = plan.conflicts.iter().map(|conflict| (&*conflict.path, conflict.why));
    let message = format!("nothing was restored, since {}", list(listed));
    Error::wrong_state(message).next_step(
        "look at a preview (`dryRun`), and call again with `overwriteChanges` to lose these changes",
    )
}

fn incomplete(outcome: &record::Outcome) -> Error {
    let listed = outcome.failed.iter().map(|(path, why)| (&**path, why.as_str()));
    let restored = outcome.restored.len();
    Error::failed(format!(
        "{restored} entries were restored, and the turns stay; not restored: {}",
        list(listed)
    ))
    .next_step("mend the cause and call again: what is restored already stays so")
}

/// The first paths, each with what is to be said of it.
fn list<'p>(entries: impl ExactSizeIterator<Item = (&'p Path, &'p str)>) -> String {
    const SHOWN: usize = 5;
    let more = entries.len().saturating_sub(SHOWN);
    let mut text = entries
        .take(SHOWN)
        .map(|(path, why)| format!("{} {why}", visible::path(path)))
        .collect::<Vec<_>>()
        .join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}
