//! The connection to the editor: updates, answers, and questions that wait for theirs.

use std::collections::HashMap;

use jsonrpc::{ErrorObject, Outbox, RequestId};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::schema::method;
use crate::schema::session::CancelRequest;
use crate::schema::update::SessionNotification;
use crate::wire;

/// The continuation that handles an answer, on the state `S`.
pub(crate) type Then<S> = Box<dyn FnOnce(&mut S, Result<Value, ErrorObject>) + Send>;

/// Number of a question.
pub(crate) type Question = i64;

/// A request of the server that the editor is asked about.
pub(crate) struct OpenQuestion {
    /// The session that it belongs to.
    pub(crate) session: String,
    pub(crate) question: Question,
    /// The call that waits for a permission.
    pub(crate) call: Option<String>,
}

/// The connection to the editor.
pub(crate) struct Editor<S> {
    outbox: Outbox,
    next: Question,
    /// Questions without an answer. The server bounds those about approvals, prompts those about files.
    open: HashMap<Question, Then<S>>,
}

impl<S> Editor<S> {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { outbox, next: 0, open: HashMap::new() }
    }

    pub(crate) fn update(&self, session_id: &str, update: &impl Serialize) {
        self.notify(method::SESSION_UPDATE, &SessionNotification { session_id, update });
    }

    pub(crate) fn notify(&self, method: &str, params: &impl Serialize) {
        self.send(wire::notification(method, params));
    }

    pub(crate) fn answer(&self, id: &RequestId, result: &impl Serialize) {
        self.send(wire::result(id, result));
    }

    pub(crate) fn refuse(&self, id: Option<&RequestId>, error: &ErrorObject) {
        self.send(wire::error(id, error));
    }

    /// Asks the editor; `then` takes its answer.
    pub(crate) fn ask(&mut self, method: &str, params: &impl Serialize, then: Then<S>) -> Question {
        let question = self.next;
        self.next += 1;
        self.open.insert(question, then);
        self.send(wire::request(question, method, params));
        question
    }

    /// Tells the editor that an answer is no longer needed; one that still comes is ignored.
    pub(crate) fn withdraw(&mut self, question: Question) {
        if self.open.remove(&question).is_some() {
            let params = CancelRequest { request_id: RequestId::Integer(question) };
            self.notify(method::CANCEL_REQUEST, &params);
        }
    }

    /// Returns the continuation that waits for this answer; `None` for an answer to nothing that is
    /// open.
    pub(crate) fn take(&mut self, id: &RequestId) -> Option<Then<S>> {
        match id {
            RequestId::Integer(id) => self.open.remove(id),
            RequestId::String(_) => None,
        }
    }

    fn send(&self, message: bytes::Bytes) {
        // A closed connection ends the adapter, see `adapter::serve`.
        let _ = self.outbox.push(message);
    }
}

/// The result of an answer as a value.
pub(crate) fn value(outcome: Result<Box<RawValue>, ErrorObject>) -> Result<Value, ErrorObject> {
    let result = outcome?;
    serde_json::from_str(result.get()).map_err(|error| ErrorObject::internal(error.to_string()))
}
