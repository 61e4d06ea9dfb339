//! The record of what the thread's tool calls change, and the way back (`features.undo`).

use std::path::PathBuf;
use std::sync::Arc;

use ::undo::Turn;
use session::{Id, SandboxPolicy};
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::thread::actor::Actor;
use crate::thread::handle::Command;
use crate::undo::{CallRecorder, FileRollback, RestoredFiles, UndoRecords};

/// The thread's part of the records.
pub(crate) struct ThreadUndo {
    records: Arc<UndoRecords>,
    /// Resolves when the beginning of the running turn is marked.
    marking: Option<JoinHandle<()>>,
}

impl ThreadUndo {
    pub(crate) fn new(records: Arc<UndoRecords>) -> Self {
        Self { records, marking: None }
    }
}

impl Actor {
    /// Records a call of the running turn; `None` without a turn, and where undo is off.
    pub(super) fn recorder(&self) -> Option<CallRecorder> {
        self.recorder_of(self.machine.active_turn()?)
    }

    fn recorder_of(&self, turn: &Id) -> Option<CallRecorder> {
        let config = self.configuration.config();
        if !config.features.undo || self.journal.is_ephemeral() {
            return None;
        }
        Some(CallRecorder {
            records: self.undo.records.clone(),
            home: config.sqlite_home.clone(),
            roots: self.recorded_folders(),
            turn: self.recorded_turn(turn.to_string()),
            warn: self.warner(),
        })
    }

    /// Sends the clients a warning, from wherever it is called.
    fn warner(&self) -> Arc<dyn Fn(String) + Send + Sync> {
        let thread = self.mailbox.sender();
        Arc::new(move |message| {
            let thread = thread.clone();
            // A thread that has ended needs no warning, and a runtime that ends has no clients.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    drop(thread.send(Command::Warn { message }).await);
                });
            }
        })
    }

    /// The project, and the other folders that the sandbox lets commands write; none below another.
    fn recorded_folders(&self) -> Vec<PathBuf> {
        let settings = self.machine.settings();
        let project = &self.configuration.config().project_root;
        let first = if settings.cwd.starts_with(project) { project } else { &settings.cwd };
        let mut roots = vec![first.clone()];
        if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &settings.sandbox {
            roots.extend(writable_roots.iter().cloned());
        }
        let all = roots.clone();
        let mut seen = Vec::new();
        roots.retain(|root| {
            let is_new = !seen.contains(root);
            seen.push(root.clone());
            is_new && !all.iter().any(|other| other != root && root.starts_with(other))
        });
        roots
    }

    fn recorded_turn(&self, turn: String) -> Turn {
        let thread = self.journal.id().to_string();
        Turn { tree: self.agents.root().unwrap_or(&thread).to_owned(), thread, turn }
    }

    /// A turn begins: what agents below do from now on belongs to it. Its folders are read meanwhile.
    pub(super) fn mark_turn(&mut self, turn: &Id) {
        let Some(recorder) = self.recorder_of(turn) else { return };
        self.undo.marking = Some(tokio::spawn(async move {
            recorder.begin_turn().await;
            // The call that comes first need not read all files.
            tokio::spawn(async move { drop(recorder.begin().await) });
        }));
    }

    /// Waits until the beginning of the turn is marked: agents that start now come after it.
    pub(super) async fn turn_marked(&mut self) {
        if let Some(marking) = self.undo.marking.take() {
            // A panic there was reported by the runtime.
            let _ = marking.await;
        }
    }

    /// Undoes what the last turns changed.
    pub(super) async fn restore_files(
        &mut self,
        turns: u32,
        how: FileRollback,
    ) -> Result<RestoredFiles, Error> {
        if self.agents.are_working() {
            return Err(Error::wrong_state("agents of the thread still work")
                .next_step("wait for them, or interrupt them, then roll back"));
        }
        let Some(turn) = self.journal.turn_from_end(turns).await? else {
            return Err(Error::wrong_state("the thread has no turns, so there is nothing to undo"));
        };
        let home = self.configuration.config().sqlite_home.clone();
        self.undo.records.go_back(&home, self.recorded_turn(turn), how).await
    }
}
