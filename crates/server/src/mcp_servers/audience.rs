//! The clients of threads, as MCP servers reach them: their state, and their questions to the user.

use std::sync::Arc;
use std::time::Duration;

use mcp::{Action, Answer, Audience, BoxFuture, Elicitation, ElicitationMode, State};
use protocol::connection::ServerRequestResolvedNotification;
use protocol::elicitation::{
    McpServerElicitationAction, McpServerElicitationRequestMode, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse,
};
use protocol::mcp::{McpServerStartupState, McpServerStartupStatusUpdatedNotification};
use protocol::{McpServerElicitationRequest, McpServerStartupStatusUpdated, ServerRequestResolved};
use session::ApprovalPolicy;

use crate::connection::Peer;
use crate::direct_requests::{DirectRequest, DirectRequests};
use crate::loaded_threads::LoadedThreads;
use crate::thread::ThreadHandle;
use crate::warnings;

/// How long a question waits for a client when none subscribes to the thread.
const AWAIT_CLIENT: Duration = Duration::from_secs(30);
/// How long a question waits for its answer.
const AWAIT_ANSWER: Duration = Duration::from_hours(24);

/// See the module.
pub(super) struct ThreadClients {
    threads: Arc<LoadedThreads>,
    requests: Arc<DirectRequests>,
}

impl ThreadClients {
    pub(super) fn new(threads: Arc<LoadedThreads>, requests: Arc<DirectRequests>) -> Self {
        Self { threads, requests }
    }

    async fn ask(&self, question: Elicitation) -> Answer {
        let Some((thread, handle)) = self.asked_thread(&question.holders) else {
            return without(Action::Cancel);
        };
        if !surfaces(&handle).await {
            return without(Action::Decline);
        }
        let Some(params) = params(thread, &question) else { return without(Action::Cancel) };
        // A client that leaves without an answer is waited for.
        while let Ok(clients) = tokio::time::timeout(AWAIT_CLIENT, handle.first_clients()).await {
            let sent = self.requests.send::<McpServerElicitationRequest>(&params, &clients);
            let Some(request) = sent else { break };
            let mut open = OpenRequest { request, clients, thread: params.thread_id.clone() };
            match tokio::time::timeout(AWAIT_ANSWER, open.answer(&question)).await {
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
                Err(_) => break,
            }
        }
        without(Action::Cancel)
    }

    /// The first of the threads that has clients, else the first one that is loaded.
    fn asked_thread(&self, holders: &[String]) -> Option<(String, ThreadHandle)> {
        let loaded = || holders.iter().filter_map(|id| Some((id.clone(), self.threads.get(id)?)));
        loaded().find(|(_, handle)| !handle.clients().is_empty()).or_else(|| loaded().next())
    }
}

impl Audience for ThreadClients {
    fn state_changed(&self, holders: &[String], server: &str, state: &State) {
        let params = status(server, state);
        let mut sent = Vec::new();
        for handle in holders.iter().filter_map(|id| self.threads.get(id)) {
            for peer in handle.clients() {
                // A client of several threads learns it once.
                if !sent.contains(&peer.id) {
                    sent.push(peer.id);
                    peer.notify::<McpServerStartupStatusUpdated>(&params);
                }
            }
        }
    }

    fn tools_changed(&self, _holders: &[String], server: &str) {
        tracing::debug!(target: "server::mcp", "the tools of `{server}` changed");
    }

    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, Answer> {
        Box::pin(self.ask(question))
    }
}

/// The notification about a server's state.
pub(super) fn status(server: &str, state: &State) -> McpServerStartupStatusUpdatedNotification {
    let (status, error) = match state {
        State::Starting => (McpServerStartupState::Starting, None),
        State::Ready(_) => (McpServerStartupState::Ready, None),
        State::Failed(error) => (McpServerStartupState::Failed, Some(error.to_string())),
        State::Cancelled => (McpServerStartupState::Cancelled, None),
    };
    McpServerStartupStatusUpdatedNotification { name: server.to_owned(), status, error }
}

/// A request that clients were sent. Dropped, it is withdrawn.
struct OpenRequest {
    request: DirectRequest,
    clients: Vec<Arc<Peer>>,
    thread: String,
}

impl OpenRequest {
    /// The first answer that can be used; `None` when no client gives one. The clients learn why an
    /// answer cannot be used.
    async fn answer(&mut self, question: &Elicitation) -> Option<Answer> {
        let mut refused = false;
        while let Some(answer) = self.request.next().await {
            let read = match answer {
                Ok(result) => read(result.get(), question),
                Err(error) => Err(format!("it is the error {}: {}", error.code, error.message)),
            };
            match read {
                Ok(answer) => return Some(answer),
                Err(why) => {
                    refused = true;
                    let message = format!(
                        "the answer to the question of the MCP server `{}` cannot be used: {why}",
                        question.server
                    );
                    for peer in &self.clients {
                        warnings::send_to_sender(peer, &self.thread, message.clone());
                    }
                }
            }
        }
        refused.then(|| without(Action::Cancel))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let params = ServerRequestResolvedNotification {
            thread_id: self.thread.clone(),
            request_id: self.request.id().into(),
        };
        for peer in &self.clients {
            peer.notify::<ServerRequestResolved>(&params);
        }
    }
}

fn read(result: &str, question: &Elicitation) -> Result<Answer, String> {
    let answer: McpServerElicitationRequestResponse =
        serde_json::from_str(result).map_err(|error| error.to_string())?;
    let action = match answer.action {
        McpServerElicitationAction::Accept => Action::Accept,
        McpServerElicitationAction::Decline => Action::Decline,
        McpServerElicitationAction::Cancel => Action::Cancel,
    };
    let content = match (&question.mode, action) {
        (ElicitationMode::Form { schema }, Action::Accept) => {
            Some(mcp::elicitation::complete(schema, answer.content)?)
        }
        _ => None,
    };
    Ok(Answer { action, content })
}

fn without(action: Action) -> Answer {
    Answer { action, content: None }
}

/// Whether the approval policy lets questions of servers through.
async fn surfaces(handle: &ThreadHandle) -> bool {
    match handle.snapshot().await.map(|snapshot| snapshot.settings.approval) {
        Some(ApprovalPolicy::Granular(granular)) => granular.mcp_elicitations,
        Some(_) => true,
        None => false,
    }
}

/// The question for clients; `None` for a form that the protocol does not have.
fn params(thread: String, question: &Elicitation) -> Option<McpServerElicitationRequestParams> {
    let (message, meta) = (question.message.clone(), question.meta.clone());
    let request = match &question.mode {
        ElicitationMode::Form { schema } => McpServerElicitationRequestMode::Form {
            message,
            requested_schema: serde_json::from_value(schema.clone()).ok()?,
            meta,
        },
        ElicitationMode::Url { url, id } => McpServerElicitationRequestMode::Url {
            message,
            url: url.clone(),
            elicitation_id: id.clone(),
            meta,
        },
    };
    Some(McpServerElicitationRequestParams {
        thread_id: thread,
        turn_id: question.turn.clone(),
        server_name: question.server.clone(),
        request,
    })
}
