//! Requests of the server that wait for a client: who was asked, and where the answer goes
//! (specification: Server-initiated requests).

mod answers;
mod elicitations;
pub(crate) mod user_input;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpc::{ErrorObject, Malformed, RequestId};
use serde_json::value::RawValue;
use session::{Id, ToolAnswer, ToolContent};
use tokio::sync::mpsc;

use services::allowed::MachineInput;
use services::direct_requests::DirectRequests;
use services::peer::{ConnectionId, Peer};
use services::thread_port::Command;
use services::warnings;

pub(crate) use answers::{Amendable, Question};
use answers::{Fault, Unusable, Usable, cut};
pub(crate) use elicitations::params as elicitation_params;

/// All requests that wait for an answer.
pub struct ClientRequests {
    waiting: Mutex<BTreeMap<i64, Waiting>>,
    direct: Arc<DirectRequests>,
}

struct Waiting {
    question: Question,
    /// The session's number of the request, or that of an MCP server's question.
    number: u64,
    thread_id: Id,
    thread: mpsc::Sender<Command>,
    clients: BTreeMap<ConnectionId, Client>,
    /// Why the last answer was invalid.
    fault: Option<Fault>,
}

/// A client that was asked. Each of them may answer; only some are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// It has not answered.
    Asked,
    /// Its answer was invalid.
    Answered,
    /// It no longer subscribes to the thread.
    Unsubscribed,
}

/// The result of an answer to a request, or of the lack of one, for its thread.
pub(crate) enum Settled {
    /// The session asked.
    Session(MachineInput),
    /// An MCP server asked.
    Elicitation { number: u64, answer: mcp::Answer },
}

/// The effects of an answer.
struct Outcome {
    /// For the thread.
    input: Option<(mpsc::Sender<Command>, Settled)>,
    /// For the client that answered.
    warning: Option<(Id, String)>,
}

impl ClientRequests {
    pub fn new(direct: Arc<DirectRequests>) -> Self {
        Self { waiting: Mutex::default(), direct }
    }

    /// Registers a request and returns its id on the wire: integers from 0.
    pub fn open(
        &self,
        question: Question,
        number: u64,
        thread_id: Id,
        thread: mpsc::Sender<Command>,
    ) -> i64 {
        let id = self.direct.next_id();
        let clients = BTreeMap::new();
        let waiting = Waiting { question, number, thread_id, thread, clients, fault: None };
        self.lock().insert(id, waiting);
        id
    }

    /// Lets `connection` answer.
    pub fn asked(&self, id: i64, connection: ConnectionId) {
        if let Some(waiting) = self.lock().get_mut(&id) {
            waiting.clients.insert(connection, Client::Asked);
        }
    }

    /// Removes a request that no longer needs an answer.
    pub fn close(&self, id: i64) {
        self.lock().remove(&id);
    }

    /// Takes an answer. The first valid one of a client that was asked counts. The sender of an
    /// invalid one gets a warning that says why. The request stays open while another client can
    /// still answer; after that it is declined, or the tool has failed.
    pub async fn answer(
        &self,
        peer: &Peer,
        id: Option<RequestId>,
        outcome: Result<Box<RawValue>, ErrorObject>,
    ) {
        // Without an id it reports an error in one of our messages; answering could loop.
        let Some(id) = id.as_ref().and_then(number) else { return };
        if let Some(method) = self.direct.method(peer.id, id) {
            let outcome = outcome.map(|result| peer.read_answer(method, result));
            return self.direct.answer(peer.id, id, outcome);
        }
        let taken = self.take(peer.id, id, |question, number| {
            let outcome = outcome.map(|result| peer.read_answer(question.method(), result));
            question.read(number, outcome)
        });
        self.carry_out(peer, taken).await;
    }

    /// Takes an unreadable message that names a request as an invalid answer to it. Returns what to
    /// answer when that request does not wait for this client.
    pub async fn answer_unreadable(&self, peer: &Peer, malformed: Malformed) -> Option<Malformed> {
        let Some(answer) = &malformed.answers else { return Some(malformed) };
        let Some(id) = number(&answer.id) else { return Some(malformed) };
        if self.direct.method(peer.id, id).is_some() {
            self.direct.answer(peer.id, id, Err(malformed.error));
            return None;
        }
        let unusable =
            || Unusable { why: answer.why.clone(), quoted: cut(&answer.text), is_unhandled: false };
        let taken = self.take(peer.id, id, |_, _| Err(unusable()));
        if taken.is_some() {
            self.carry_out(peer, taken).await;
            return None;
        }
        // With the id of a request of ours, the client could misattribute the error.
        let is_ours = self.direct.has_issued(id);
        Some(if is_ours { Malformed { id: None, ..malformed } } else { malformed })
    }

    async fn carry_out(&self, peer: &Peer, taken: Option<Outcome>) {
        let Some(Outcome { input, warning }) = taken else { return };
        if let Some((thread, message)) = warning {
            warnings::send_to_sender(peer, &thread, message);
        }
        if let Some((thread, input)) = input {
            // A thread that has ended has resolved its requests.
            let _ = thread.send(command(input)).await;
        }
    }

    /// `None` for a request that has its answer, or that was not sent to this client.
    fn take(
        &self,
        connection: ConnectionId,
        id: i64,
        read: impl FnOnce(&Question, u64) -> Result<Usable, Unusable>,
    ) -> Option<Outcome> {
        let mut all = self.lock();
        let waiting = all.get_mut(&id)?;
        let client = waiting.clients.get_mut(&connection)?;
        let unusable = match read(&waiting.question, waiting.number) {
            Ok(Usable { settled, ignored }) => {
                let Waiting { question, thread, thread_id, .. } = all.remove(&id)?;
                let warning = ignored.map(|ignored| {
                    let method = question.method();
                    let text = format!(
                        "a part of the answer to request {id} (`{method}`) is ignored: {ignored}"
                    );
                    (thread_id, text)
                });
                return Some(Outcome { input: Some((thread, settled)), warning });
            }
            Err(unusable) => unusable,
        };
        *client = Client::Answered;
        let fault = Fault::new(unusable, &waiting.question);
        let given_up = waiting.given_up(fault.clone());
        let then = match &given_up {
            None => "The request stays open: the next answer that can be used counts.",
            Some(_) => waiting.question.without_answer(),
        };
        // A client that handles no such requests knows it.
        let warning = (!fault.is_unhandled).then(|| {
            let message = format!(
                "the answer to request {id} (`{}`) cannot be used, {}; expected {}. {then}",
                waiting.question.method(),
                fault.text,
                waiting.question.expected(),
            );
            (waiting.thread_id.clone(), message)
        });
        let input = given_up.map(|input| (waiting.thread.clone(), input));
        if input.is_some() {
            all.remove(&id);
        }
        Some(Outcome { input, warning })
    }

    /// A client unsubscribes. Returns the inputs for requests that no other client can answer.
    pub(crate) fn unsubscribed(&self, thread: &Id, connection: ConnectionId) -> Vec<Settled> {
        self.left(thread, |clients| {
            if let Some(client @ Client::Asked) = clients.get_mut(&connection) {
                *client = Client::Unsubscribed;
            }
        })
    }

    /// See [`ClientRequests::unsubscribed`], for a connection that has ended.
    pub(crate) fn disconnected(&self, thread: &Id, connection: ConnectionId) -> Vec<Settled> {
        self.left(thread, |clients| {
            clients.remove(&connection);
        })
    }

    fn left(
        &self,
        thread: &Id,
        leave: impl Fn(&mut BTreeMap<ConnectionId, Client>),
    ) -> Vec<Settled> {
        let mut inputs = Vec::new();
        self.lock().retain(|_, waiting| {
            if waiting.thread_id != *thread {
                return true;
            }
            leave(&mut waiting.clients);
            // Without an invalid answer, the request waits for a client that resumes the thread.
            let fault = waiting.fault.clone();
            let given_up = fault.and_then(|fault| waiting.given_up(fault));
            let stays = given_up.is_none();
            inputs.extend(given_up);
            stays
        });
        inputs
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Returns the result when no client that could answer gave a valid answer.
    fn given_up(&mut self, fault: Fault) -> Option<Settled> {
        let open = self.clients.values().any(|client| *client == Client::Asked);
        let answered = self.clients.values().any(|client| *client == Client::Answered);
        let input = self.question.unanswered(self.number, &fault);
        self.fault = Some(fault);
        (!open && answered).then_some(input)
    }
}

/// Returns the command for the thread. The images of a tool's answer are prepared for the model
/// first.
fn command(settled: Settled) -> Command {
    match settled {
        Settled::Session(MachineInput::ToolAnswered { request, outcome: Ok(answer) })
            if has_image(&answer) =>
        {
            Command::ToolAnswered { request, answer }
        }
        Settled::Session(input) => Command::Input(input),
        Settled::Elicitation { number, answer } => Command::ElicitationAnswered { number, answer },
    }
}

fn has_image(answer: &ToolAnswer) -> bool {
    answer.content.iter().any(|part| matches!(part, ToolContent::Image { .. }))
}

/// The number in an id. Clients that keep ids as text return them as text.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Integer(number) => Some(*number),
        RequestId::String(text) => {
            text.parse().ok().filter(|number: &i64| number.to_string() == *text)
        }
    }
}
