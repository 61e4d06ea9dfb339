//! The agent that all clients share: the server in this process, and which threads have a call.

pub(crate) mod suspended;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use server::Server;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::suspended::Suspended;
use crate::turn::{self, RunningTurn, Task};

/// Calls at once, those that wait for the client's input included; one more is refused.
const MAX_CALLS: usize = 64;
/// Maximum wait of the end for interrupted turns.
const END_TIMEOUT: Duration = Duration::from_secs(15);

/// Fills a buffer with random bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// The agent that all clients share. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    version: String,
    busy: Mutex<HashSet<String>>,
    calls: Arc<Semaphore>,
    turns: TaskTracker,
    closing: CancellationToken,
    suspended: Arc<Suspended>,
}

impl Agent {
    /// The agent of `server`. `random` makes the states that clients hand back unguessable.
    #[must_use]
    pub fn new(server: Server, version: &str, random: Random) -> Self {
        let shared = Shared {
            server,
            version: version.to_owned(),
            busy: Mutex::default(),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            turns: TaskTracker::new(),
            closing: CancellationToken::new(),
            suspended: Arc::new(Suspended::new(random)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Interrupts the running turns, and ends the server with everything stored.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        self.shared.suspended.clear();
        self.shared.turns.close();
        // A turn that does not end is left to the shutdown of the server, which is bounded too.
        let _ = tokio::time::timeout(END_TIMEOUT, self.shared.turns.wait()).await;
        self.shared.server.shutdown().await;
        self.shared.server.close().await;
    }

    /// Begins a turn.
    ///
    /// # Errors
    /// The reason, for the caller of the tool.
    pub(crate) fn begin(&self, task: Task) -> Result<RunningTurn, String> {
        if self.shared.closing.is_cancelled() {
            return Err("this server is ending: start it again, then repeat the call".to_owned());
        }
        let permit = self.shared.calls.clone().try_acquire_owned().map_err(|_| {
            format!(
                "{MAX_CALLS} calls are running or wait for input, the most that this server runs \
                 at once: wait for the end of one, or cancel one"
            )
        })?;
        let mut claim = Claim { agent: self.clone(), thread: None, _permit: permit };
        if let Task::Continue { thread_id, .. } = &task {
            claim.take(thread_id)?;
        }
        let (links, turn) = turn::link(self.shared.closing.child_token());
        self.shared.turns.spawn(turn::run(self.clone(), task, claim, links));
        Ok(turn)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.shared.server
    }

    /// The version of this program.
    pub(crate) fn version(&self) -> &str {
        &self.shared.version
    }

    /// The calls that wait for the client's input.
    pub(crate) fn suspended(&self) -> &Arc<Suspended> {
        &self.shared.suspended
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<String>> {
        // Nothing under this lock leaves the set half changed.
        self.shared.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one call to run, and to work on its thread.
pub(crate) struct Claim {
    agent: Agent,
    thread: Option<String>,
    _permit: OwnedSemaphorePermit,
}

impl Claim {
    /// Reserves the thread for this call.
    ///
    /// # Errors
    /// Another call works on it.
    pub(crate) fn take(&mut self, thread_id: &str) -> Result<(), String> {
        if !self.agent.busy().insert(thread_id.to_owned()) {
            return Err(format!(
                "another call works on the thread {thread_id}: wait for its result, or cancel it, \
                 then repeat this call"
            ));
        }
        self.thread = Some(thread_id.to_owned());
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.agent.busy().remove(&thread);
        }
    }
}
