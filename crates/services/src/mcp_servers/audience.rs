//! The clients of threads, as MCP servers reach them: their state, and their questions to the user.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp::{Action, Answer, Audience, BoxFuture, Elicitation, State};
use protocol::McpServerStartupStatusUpdated;
use protocol::mcp::{McpServerStartupState, McpServerStartupStatusUpdatedNotification};
use tokio::sync::oneshot;

use crate::loaded_threads::LoadedThreads;
use crate::mcp_servers::app_updates::Change;
use crate::peer::Peer;
use crate::thread_port::{Command, ServerQuestion, ThreadHandle};
use crate::warnings;

/// Time that a question waits for its answer.
const AWAIT_ANSWER: Duration = Duration::from_hours(24);

/// The clients of threads, as MCP servers reach them.
pub(super) struct ThreadClients {
    threads: Arc<LoadedThreads>,
    /// Numbers the questions.
    questions: AtomicU64,
    apps: Change,
}

impl ThreadClients {
    pub(super) fn new(threads: Arc<LoadedThreads>, apps: Change) -> Self {
        Self { threads, questions: AtomicU64::new(0), apps }
    }

    /// Asks the clients of the first of the threads that can ask. One that ends before its clients have
    /// answered is followed by the next.
    async fn ask(&self, question: Elicitation) -> Answer {
        let question = Arc::new(question);
        let mut holders = question.holders.clone();
        while let Some((thread, handle)) = self.asked_thread(&holders) {
            match self.ask_thread(handle, &question).await {
                Some(answer) => return answer,
                None => holders.retain(|holder| *holder != thread),
            }
        }
        Answer::without_content(Action::Cancel)
    }

    /// `None` when the thread ends first.
    async fn ask_thread(
        &self,
        handle: ThreadHandle,
        question: &Arc<Elicitation>,
    ) -> Option<Answer> {
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let asked = ServerQuestion { number, question: question.clone(), answer };
        if !handle.send(Command::Elicit(asked)).await {
            return None;
        }
        let mut open = OpenQuestion { handle, number, is_open: true };
        let answer = match tokio::time::timeout(AWAIT_ANSWER, answered).await {
            Ok(answer) => answer.ok(),
            Err(_) => return Some(Answer::without_content(Action::Cancel)),
        };
        open.is_open = false;
        answer
    }

    /// The first of the threads that has clients, else the first one that is loaded.
    fn asked_thread(&self, holders: &[String]) -> Option<(String, ThreadHandle)> {
        let loaded = || holders.iter().filter_map(|id| Some((id.clone(), self.threads.get(id)?)));
        loaded().find(|(_, handle)| !handle.clients().is_empty()).or_else(|| loaded().next())
    }
}

impl Audience for ThreadClients {
    fn state_changed(&self, holders: &[String], server: &str, state: &State) {
        self.apps.look_again();
        let params = status(server, state);
        let mut sent = Vec::new();
        for handle in holders.iter().filter_map(|id| self.threads.get(id)) {
            for peer in handle.clients() {
                // A client of several threads learns it once.
                if !sent.contains(&peer.id) {
                    sent.push(peer.id);
                    peer.notify::<McpServerStartupStatusUpdated>(&params);
                    send_warnings(&peer, state);
                }
            }
        }
    }

    fn tools_changed(&self, holders: &[String], server: &str, state: &State) {
        tracing::debug!(target: "server::mcp", "the tools of `{server}` changed");
        self.apps.look_again();
        for handle in holders.iter().filter_map(|id| self.threads.get(id)) {
            handle.clients().iter().for_each(|peer| send_warnings(peer, state));
        }
    }

    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, Answer> {
        Box::pin(self.ask(question))
    }
}

/// Sends a client what was left out of a server's tools, once.
pub(super) fn send_warnings(peer: &Peer, state: &State) {
    if let State::Ready(catalog) = state {
        catalog.warnings.iter().for_each(|warning| warnings::send_warning(peer, warning.clone()));
    }
}

/// The notification about a server's state.
pub(super) fn status(server: &str, state: &State) -> McpServerStartupStatusUpdatedNotification {
    let (status, error) = startup_state(state);
    McpServerStartupStatusUpdatedNotification { name: server.to_owned(), status, error }
}

/// A server's state as clients get it, with the reason of a failure.
pub fn startup_state(state: &State) -> (McpServerStartupState, Option<String>) {
    match state {
        State::Starting => (McpServerStartupState::Starting, None),
        State::Ready(_) => (McpServerStartupState::Ready, None),
        State::Failed(error) => (McpServerStartupState::Failed, Some(error.to_string())),
        State::Cancelled => (McpServerStartupState::Cancelled, None),
    }
}

/// A question that a thread was given. Dropped before it has its answer, it is withdrawn.
struct OpenQuestion {
    handle: ThreadHandle,
    number: u64,
    is_open: bool,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if self.is_open {
            let (handle, number) = (self.handle.clone(), self.number);
            tokio::spawn(async move {
                // A thread that has ended asks nothing.
                handle.send(Command::WithdrawElicitation { number }).await;
            });
        }
    }
}
