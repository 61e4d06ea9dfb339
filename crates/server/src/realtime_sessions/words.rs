//! The words of a realtime session, which become part of the thread's history, in order, so that
//! the agent knows them in later turns.

use std::time::Duration;

use realtime::Role;
use serde_json::json;
use session::{Fragment, Mark};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::realtime_sessions::audience::Audience;
use services::allowed::MachineInput;
use services::peer::Gate;

/// Messages that may wait for the thread; what is beyond is left out, and clients learn of it.
const MAX_WAITING: usize = 64;
/// Longest wait at the end of a session for the thread to take them.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The words of a realtime session on their way to the thread's history.
pub(super) struct Words {
    waiting: mpsc::Sender<Fragment>,
    task: JoinHandle<()>,
}

impl Words {
    pub(super) fn new(audience: Audience) -> Self {
        let (waiting, mut messages) = mpsc::channel(MAX_WAITING);
        let task = tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                let fragments = vec![message];
                let inject = |reply| MachineInput::Inject { reply, fragments };
                if let Err(error) = audience.handle.ask(Gate::open(), inject).await {
                    let message = format!(
                        "the conversation could not be added to the thread's \
                        history: {error}"
                    );
                    audience.error(message);
                }
            }
        });
        Self { waiting, task }
    }

    /// Adds a message, unless it is blank; `false` when it is left out because too many wait.
    pub(super) fn add(&self, role: Role, text: &str) -> bool {
        text.trim().is_empty() || self.waiting.try_send(fragment(role, text)).is_ok()
    }

    /// Waits until the thread has taken all.
    pub(super) async fn finish(self) {
        drop(self.waiting);
        let abort = self.task.abort_handle();
        if timeout(LAST_WORDS, self.task).await.is_err() {
            abort.abort();
        }
    }
}

fn fragment(role: Role, text: &str) -> Fragment {
    let (kind, mark) = match role {
        Role::User => ("input_text", Mark::Pinned),
        Role::Assistant => ("output_text", Mark::Summarized),
    };
    let content = json!([{ "type": kind, "text": text }]);
    let message = json!({ "type": "message", "role": role.name(), "content": content });
    Fragment { text: message.to_string().into(), mark, stored: None, is_waiting: false }
}
