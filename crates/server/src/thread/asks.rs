//! Requests to the clients of a thread: shown to all who may answer, and to those who come later.

use jsonrpc::encode_request;
use protocol::tool::DynamicToolCallParams;
use session::{Ask, DynamicCall, Id, Millis};

use crate::connection::Peer;
use crate::convert;
use crate::requests::{Amendable, Question};
use crate::server::Core;
use crate::thread::Actor;

/// A request to the clients that has no answer yet.
pub(super) struct OpenAsk {
    wire_id: i64,
    message: bytes::Bytes,
    /// Only clients that may see what is experimental are asked.
    experimental: bool,
}

impl OpenAsk {
    /// Whether this client may answer.
    pub(super) fn is_for(&self, peer: &Peer) -> bool {
        !self.experimental || peer.is_experimental()
    }

    /// Its id as clients see it.
    pub(super) fn wire_id(&self) -> i64 {
        self.wire_id
    }

    pub(super) fn show(&self, core: &Core, peer: &Peer) {
        if self.is_for(peer) {
            core.requests.asked(self.wire_id, peer.id);
            peer.send(self.message.clone());
        }
    }
}

impl Actor {
    pub(super) fn ask(&mut self, request: u64, turn: &Id, item: &Id, ask: Ask, at: Millis) {
        let question = match &ask {
            Ask::Command { amendment, amendable, .. } => Question::Command(Amendable {
                proposed: amendment.clone(),
                commands: amendable.clone(),
            }),
            Ask::Network { .. } => Question::Network,
            Ask::Patch { .. } => Question::Patch,
        };
        let method = question.method();
        let wire_id = self.open(question, request);
        let params = convert::thread::approval(&self.id, turn, item, ask, at);
        let message = encode_request(&wire_id.into(), method, &params)
            .expect("an approval is made of strings and numbers");
        self.show_ask(request, OpenAsk { wire_id, message, experimental: false });
    }

    fn open(&self, question: Question, request: u64) -> i64 {
        self.core.requests.open(question, request, self.id.clone(), self.sender.clone())
    }

    fn show_ask(&mut self, request: u64, ask: OpenAsk) {
        for peer in self.subscribers.iter() {
            ask.show(&self.core, peer);
        }
        self.asks.insert(request, ask);
    }

    /// Has a client run its tool.
    pub(super) fn call_tool(&mut self, request: u64, turn: &Id, call: &DynamicCall) {
        let wire_id = self.open(Question::Tool, request);
        let params = DynamicToolCallParams {
            thread_id: self.id.to_string(),
            turn_id: turn.to_string(),
            call_id: call.id.to_string(),
            namespace: call.namespace.clone(),
            tool: call.tool.clone(),
            arguments: serde_json::from_str(&call.arguments).unwrap_or_default(),
        };
        let message = encode_request(&wire_id.into(), Question::Tool.method(), &params)
            .expect("a tool call is made of strings and JSON");
        self.show_ask(request, OpenAsk { wire_id, message, experimental: true });
    }

    pub(super) fn resolved(&mut self, request: u64) {
        let Some(ask) = self.asks.remove(&request) else { return };
        self.core.requests.close(ask.wire_id);
        let params = protocol::connection::ServerRequestResolvedNotification {
            thread_id: self.id.to_string(),
            request_id: ask.wire_id.into(),
        };
        self.subscribers.notify::<protocol::ServerRequestResolved>(&params);
    }
}
