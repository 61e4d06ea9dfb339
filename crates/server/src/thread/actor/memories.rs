//! When the thread rests, and whether it takes part in memories.

use std::time::Duration;

use protocol::ThreadMemoryMode;
use session::Id;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::memories;
use crate::thread::actor::Actor;
use crate::thread::memories::RestingThread;
use crate::thread::step::Step;

impl Actor {
    /// The turn has ended.
    pub(super) fn begin_rest(&mut self, turn: &Id) {
        let config = self.configuration.config();
        if self.journal.is_ephemeral() || !self.journal.extra().takes_part_in_memories(config) {
            return;
        }
        let resting = RestingThread {
            id: self.journal.id().clone(),
            turn: turn.clone(),
            settings: self.machine.settings().clone(),
            asker: self.model.note_asker(config, self.broadcast.user_agent()),
            project: config.project_root.clone(),
            rest: Duration::from_secs(*config.memories.rest_after_seconds),
            max_bytes: memories::max_bytes(config),
        };
        self.memories.rest(resting);
    }

    /// `thread/memoryMode/set`. The model's context follows with the next turn.
    pub(super) async fn change_mode(
        &mut self,
        mode: ThreadMemoryMode,
        answer: oneshot::Sender<Result<(), Error>>,
        steps: &mut Vec<Step>,
    ) {
        self.execute(std::mem::take(steps)).await;
        // The caller may have left.
        let _ = answer.send(self.set_memory_mode(mode).await);
    }

    async fn set_memory_mode(&mut self, mode: ThreadMemoryMode) -> Result<(), Error> {
        if mode == ThreadMemoryMode::Enabled
            && self.journal.extra().without_memories
            && let Some(turn) = self.journal.last_turn().await
        {
            let thread = self.journal.id().to_string();
            self.memories.shared().skip(thread, turn.to_string()).await?;
        }
        self.journal.set_without_memories(mode == ThreadMemoryMode::Disabled).await?;
        self.memories.mode_changed();
        Ok(())
    }
}
