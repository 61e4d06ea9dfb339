//! Requests of the server that wait for a client: who was asked, and where the answer goes
//! (specification: Server-initiated requests).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jsonrpc::{ErrorObject, RequestId};
use protocol::approval::{
    CommandExecutionApprovalDecision as CommandDecision, CommandExecutionRequestApprovalResponse,
    FileChangeApprovalDecision as PatchDecision, FileChangeRequestApprovalResponse,
};
use protocol::tool::{DynamicToolCallOutputContentItem, DynamicToolCallResponse};
use serde_json::value::RawValue;
use session::{Decision, Input, ToolAnswer, ToolContent};
use tokio::sync::mpsc;

use crate::connection::ConnectionId;
use crate::thread::Command;

/// What was asked decides how the answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Command,
    /// Of a host that a command wants to reach.
    Network,
    Patch,
    Tool,
}

impl Kind {
    /// What the session hears when nobody can answer.
    fn unanswered(self, number: u64) -> Input {
        match self {
            Self::Command | Self::Network | Self::Patch => {
                Input::Decided { request: number, decision: Decision::Decline }
            }
            Self::Tool => Input::ToolAnswered {
                request: number,
                outcome: Err("the client could not run this tool".into()),
            },
        }
    }
}

/// All requests that wait.
#[derive(Default)]
pub(crate) struct Requests {
    next: AtomicI64,
    waiting: Mutex<BTreeMap<i64, Waiting>>,
}

struct Waiting {
    kind: Kind,
    /// The session's number of the request.
    number: u64,
    thread: mpsc::Sender<Command>,
    asked: BTreeSet<ConnectionId>,
}

impl Requests {
    /// Registers a request and gives its id on the wire: integers from 0.
    pub(crate) fn open(&self, kind: Kind, number: u64, thread: mpsc::Sender<Command>) -> i64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(id, Waiting { kind, number, thread, asked: BTreeSet::new() });
        id
    }

    /// Lets `connection` answer.
    pub(crate) fn asked(&self, id: i64, connection: ConnectionId) {
        if let Some(waiting) = self.lock().get_mut(&id) {
            waiting.asked.insert(connection);
        }
    }

    /// Forgets a request that needs no answer any more.
    pub(crate) fn close(&self, id: i64) {
        self.lock().remove(&id);
    }

    /// Takes an answer: the first one of a connection that was asked counts. A client that answers
    /// with an error, or with something unreadable, cannot decide; when nobody else can, the
    /// request is declined, the tool has failed.
    pub(crate) async fn answer(
        &self,
        connection: ConnectionId,
        id: Option<RequestId>,
        outcome: Result<Box<RawValue>, ErrorObject>,
    ) {
        let Some(RequestId::Integer(id)) = id else { return };
        let Some((thread, input)) = self.take(connection, id, outcome) else { return };
        // A thread that is gone has resolved its requests.
        let _ = thread.send(Command::Input(input)).await;
    }

    fn take(
        &self,
        connection: ConnectionId,
        id: i64,
        outcome: Result<Box<RawValue>, ErrorObject>,
    ) -> Option<(mpsc::Sender<Command>, Input)> {
        let mut all = self.lock();
        let waiting = all.get_mut(&id)?;
        if !waiting.asked.contains(&connection) {
            return None;
        }
        let (kind, number) = (waiting.kind, waiting.number);
        let input = outcome.ok().and_then(|result| answer(kind, number, &result));
        if input.is_none() {
            waiting.asked.remove(&connection);
            if !waiting.asked.is_empty() {
                return None;
            }
        }
        let waiting = all.remove(&id)?;
        Some((waiting.thread, input.unwrap_or_else(|| kind.unanswered(number))))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(kind: Kind, request: u64, result: &RawValue) -> Option<Input> {
    if kind == Kind::Tool {
        let answer: DynamicToolCallResponse = serde_json::from_str(result.get()).ok()?;
        let content = answer.content_items.into_iter().map(|part| match part {
            DynamicToolCallOutputContentItem::InputText { text } => ToolContent::Text(text),
            DynamicToolCallOutputContentItem::InputImage { image_url } => {
                ToolContent::Image { url: image_url }
            }
        });
        let answer = ToolAnswer { content: content.collect(), success: answer.success };
        return Some(Input::ToolAnswered { request, outcome: Ok(answer) });
    }
    decision(kind, result).map(|decision| Input::Decided { request, decision })
}

fn decision(kind: Kind, result: &RawValue) -> Option<Decision> {
    match kind {
        Kind::Tool => None,
        Kind::Command | Kind::Network => {
            let answer: CommandExecutionRequestApprovalResponse =
                serde_json::from_str(result.get()).ok()?;
            match answer.decision {
                CommandDecision::Accept => Some(Decision::Accept),
                CommandDecision::AcceptForSession => Some(Decision::AcceptForSession),
                CommandDecision::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
                    Some(Decision::AcceptWithAmendment(execpolicy_amendment))
                }
                // Never proposed: a host is allowed once or for the session.
                CommandDecision::ApplyNetworkPolicyAmendment { .. } => None,
                CommandDecision::Decline => Some(Decision::Decline),
                CommandDecision::Cancel => Some(Decision::Cancel),
            }
        }
        Kind::Patch => {
            let answer: FileChangeRequestApprovalResponse =
                serde_json::from_str(result.get()).ok()?;
            Some(match answer.decision {
                PatchDecision::Accept => Decision::Accept,
                PatchDecision::AcceptForSession => Decision::AcceptForSession,
                PatchDecision::Decline => Decision::Decline,
                PatchDecision::Cancel => Decision::Cancel,
            })
        }
    }
}
