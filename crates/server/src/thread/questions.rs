//! Requests to the clients of a thread that have no answer yet: sent to all who may answer, and to
//! those who subscribe later.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use jsonrpc::encode_request;
use protocol::tool::DynamicToolCallParams;
use session::{Ask, DynamicCall, Id, Millis};
use tokio::sync::mpsc;

use crate::allowed::MachineInput;
use crate::connection::{ConnectionId, Peer};
use crate::convert;
use crate::requests::{Amendable, ClientRequests, Question};
use crate::thread::handle::Command;
use crate::thread::subscribers::Subscribers;

/// See the module.
pub(crate) struct Questions {
    thread: Id,
    sender: mpsc::Sender<Command>,
    requests: Arc<ClientRequests>,
    /// By the session's number of the request.
    open: BTreeMap<u64, OpenQuestion>,
}

/// A request to the clients that has no answer yet.
struct OpenQuestion {
    wire_id: i64,
    message: Bytes,
    /// Only clients that may use what is experimental are asked.
    experimental: bool,
}

impl OpenQuestion {
    fn is_for(&self, peer: &Peer) -> bool {
        !self.experimental || peer.is_experimental()
    }
}

impl Questions {
    pub(crate) fn new(
        thread: Id,
        sender: mpsc::Sender<Command>,
        requests: Arc<ClientRequests>,
    ) -> Self {
        Self { thread, sender, requests, open: BTreeMap::new() }
    }

    /// Asks the subscribers for an approval.
    pub(super) fn ask(
        &mut self,
        request: u64,
        (turn, item): (&Id, &Id),
        ask: Ask,
        at: Millis,
        subscribers: &Subscribers,
    ) {
        let question = match &ask {
            Ask::Command { amendment, amendable, .. } => Question::Command(Amendable {
                proposed: amendment.clone(),
                commands: amendable.clone(),
            }),
            Ask::Network { .. } => Question::Network,
            Ask::Patch { .. } => Question::Patch,
        };
        let method = question.method();
        let wire_id = self.register(question, request);
        let params = convert::thread::approval(&self.thread, turn, item, ask, at);
        let message = encode_request(&wire_id.into(), method, &params)
            .expect("an approval is made of strings and numbers");
        let question = OpenQuestion { wire_id, message, experimental: false };
        self.send(request, question, subscribers);
    }

    /// Has a client run its tool.
    pub(super) fn call_tool(
        &mut self,
        request: u64,
        turn: &Id,
        call: &DynamicCall,
        subscribers: &Subscribers,
    ) {
        let wire_id = self.register(Question::Tool, request);
        let params = DynamicToolCallParams {
            thread_id: self.thread.to_string(),
            turn_id: turn.to_string(),
            call_id: call.id.to_string(),
            namespace: call.namespace.clone(),
            tool: call.tool.clone(),
            arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
        };
        let message = encode_request(&wire_id.into(), Question::Tool.method(), &params)
            .expect("a tool call is made of strings and JSON");
        let question = OpenQuestion { wire_id, message, experimental: true };
        self.send(request, question, subscribers);
    }

    /// The request needs no answer any longer: its subscribers are notified.
    pub(super) fn resolve(&mut self, request: u64, subscribers: &mut Subscribers) {
        let Some(question) = self.open.remove(&request) else { return };
        self.requests.close(question.wire_id);
        let params = protocol::connection::ServerRequestResolvedNotification {
            thread_id: self.thread.to_string(),
            request_id: question.wire_id.into(),
        };
        subscribers.notify::<protocol::ServerRequestResolved>(&params);
    }

    /// See [`Questions::resolve`], for all of them.
    pub(super) fn resolve_all(&mut self, subscribers: &mut Subscribers) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        for request in open {
            self.resolve(request, subscribers);
        }
    }

    /// Sends what is open to a client that subscribes.
    pub(super) fn send_open(&self, peer: &Peer) {
        for question in self.open.values() {
            self.send_to(question, peer);
        }
    }

    /// Wire ids of what a client could answer.
    pub(super) fn open_ids(&self, peer: &Peer) -> Vec<i64> {
        let open = self.open.values().filter(|question| question.is_for(peer));
        open.map(|question| question.wire_id).collect()
    }

    /// What follows from a client's ending its subscription.
    pub(super) fn unsubscribed(&self, connection: ConnectionId) -> Vec<MachineInput> {
        self.requests.unsubscribed(&self.thread, connection)
    }

    /// What follows from the end of a connection.
    pub(super) fn disconnected(&self, connection: ConnectionId) -> Vec<MachineInput> {
        self.requests.disconnected(&self.thread, connection)
    }

    fn register(&self, question: Question, request: u64) -> i64 {
        self.requests.open(question, request, self.thread.clone(), self.sender.clone())
    }

    fn send(&mut self, request: u64, question: OpenQuestion, subscribers: &Subscribers) {
        for peer in subscribers.iter() {
            self.send_to(&question, peer);
        }
        self.open.insert(request, question);
    }

    fn send_to(&self, question: &OpenQuestion, peer: &Peer) {
        if question.is_for(peer) {
            self.requests.asked(question.wire_id, peer.id);
            peer.send(question.message.clone());
        }
    }
}
