//! Requests to the clients of a thread that have no answer yet: sent to all who may answer, and to
//! those who subscribe later.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use jsonrpc::{Notification, encode_notification, encode_request};
use protocol::JsonText;
use protocol::tool::DynamicToolCallParams;
use session::{Ask, DynamicCall, Id, Millis, UserQuestion, not_answered};
use tokio::sync::{mpsc, oneshot};

use crate::requests::{
    Amendable, ClientRequests, Question, Settled, elicitation_params, user_input,
};
use crate::thread::subscribers::Subscribers;
use services::allowed::MachineInput;
use services::convert;
use services::peer::{ConnectionId, Peer};
use services::thread_port::{Command, QuestionKey, ServerQuestion};

/// The open requests to the clients of a thread.
pub struct Questions {
    thread: Id,
    sender: mpsc::Sender<Command>,
    requests: Arc<ClientRequests>,
    open: BTreeMap<QuestionKey, OpenQuestion>,
    /// Counts the waits for a client that can answer.
    waits: u64,
}

/// Who asks a question.
enum Asker {
    /// The session, for an approval or a tool: the question waits for a client.
    Session,
    /// The model, which learns when no client can answer.
    Model,
    /// An MCP server, which learns it too.
    Server {
        answer: oneshot::Sender<mcp::Answer>,
        /// A turn waits for the answer.
        in_turn: bool,
    },
}

/// A request to the clients that has no answer yet.
struct OpenQuestion {
    wire_id: i64,
    message: Bytes,
    /// Only clients that may use what is experimental are asked.
    experimental: bool,
    asker: Asker,
    /// The number of the wait for a client, while none can answer.
    wait: Option<u64>,
    /// The clients that it was sent to. They learn when it no longer needs an answer, whatever
    /// has become of their subscriptions.
    sent_to: Vec<Weak<Peer>>,
}

impl OpenQuestion {
    fn new(wire_id: i64, message: Bytes) -> Self {
        let sent_to = Vec::new();
        let asker = Asker::Session;
        Self { wire_id, message, experimental: false, asker, wait: None, sent_to }
    }

    fn is_for(&self, peer: &Peer) -> bool {
        !self.experimental || peer.is_experimental()
    }

    fn send_to(&mut self, peer: &Arc<Peer>, requests: &ClientRequests) {
        requests.asked(self.wire_id, peer.id);
        // Those that are gone need no word.
        self.sent_to.retain(|sent| sent.upgrade().is_some_and(|sent| sent.id != peer.id));
        self.sent_to.push(Arc::downgrade(peer));
        peer.send(self.message.clone());
    }
}

impl Questions {
    pub fn new(thread: Id, sender: mpsc::Sender<Command>, requests: Arc<ClientRequests>) -> Self {
        Self { thread, sender, requests, open: BTreeMap::new(), waits: 0 }
    }

    /// Asks the subscribers for an approval.
    pub(super) fn ask(
        &mut self,
        request: u64,
        (turn, item): (&Id, &Id),
        ask: Ask,
        at: Millis,
        clients: &[Arc<Peer>],
    ) {
        let question = match &ask {
            Ask::Command { amendment, amendable, .. } => Question::Command(Amendable {
                proposed: amendment.clone(),
                commands: amendable.clone(),
            }),
            Ask::Network { .. } => Question::Network,
            Ask::Patch { .. } => Question::Patch,
            Ask::ServerTool { can_remember, .. } => {
                Question::ServerTool { can_remember: *can_remember }
            }
            Ask::Permissions { permissions, .. } => Question::Permissions(permissions.clone()),
        };
        let method = question.method();
        let wire_id = self.register(question, request);
        let params = convert::thread::approval(&self.thread, turn, item, ask, at);
        let message = encode_request(&wire_id.into(), method, &params)
            .expect("an approval is made of strings and numbers");
        let question = OpenQuestion::new(wire_id, message);
        self.send(QuestionKey::Session(request), question, clients);
    }

    /// Has a client run its tool.
    pub(super) fn call_tool(
        &mut self,
        request: u64,
        turn: &Id,
        call: &DynamicCall,
        clients: &[Arc<Peer>],
    ) {
        let wire_id = self.register(Question::Tool, request);
        let params = DynamicToolCallParams {
            thread_id: self.thread.to_string(),
            turn_id: turn.to_string(),
            call_id: call.id.to_string(),
            namespace: call.namespace.clone(),
            tool: call.tool.clone(),
            arguments: JsonText::read(&call.arguments).unwrap_or_default(),
        };
        let message = encode_request(&wire_id.into(), Question::Tool.method(), &params)
            .expect("a tool call is made of strings and JSON");
        let question = OpenQuestion { experimental: true, ..OpenQuestion::new(wire_id, message) };
        self.send(QuestionKey::Session(request), question, clients);
    }

    /// Asks the user. Returns what follows when no client can answer.
    pub(super) fn ask_user(
        &mut self,
        request: u64,
        (turn, item): (&Id, &Id),
        questions: Arc<[UserQuestion]>,
        clients: &[Arc<Peer>],
    ) -> Option<MachineInput> {
        let params = user_input::params(&self.thread, turn, item, &questions);
        let question = Question::UserInput(questions);
        let method = question.method();
        let wire_id = self.register(question, request);
        let message = encode_request(&wire_id.into(), method, &params)
            .expect("questions are made of strings");
        let question = OpenQuestion::new(wire_id, message);
        let question = OpenQuestion { experimental: true, asker: Asker::Model, ..question };
        let key = QuestionKey::Session(request);
        self.send(key, question, clients);
        self.unattended(clients)
            .contains(&key)
            .then(|| unattended_input(request, "no client that can answer is connected"))
    }

    /// Asks the user for an MCP server.
    pub(super) fn ask_for_server(&mut self, asked: ServerQuestion, clients: &[Arc<Peer>]) {
        let ServerQuestion { number, question, answer } = asked;
        let Some(params) = elicitation_params(self.thread.to_string(), &question) else {
            // The server that no longer waits needs no answer.
            let _ = answer.send(mcp::Answer::without_content(mcp::Action::Cancel));
            return;
        };
        let in_turn = question.turn.is_some();
        let question = Question::Elicitation(question);
        let method = question.method();
        let wire_id = self.register(question, number);
        let message = encode_request(&wire_id.into(), method, &params)
            .expect("a question of a server is made of strings, numbers and JSON");
        let asker = Asker::Server { answer, in_turn };
        let question = OpenQuestion { asker, ..OpenQuestion::new(wire_id, message) };
        self.send(QuestionKey::Server(number), question, clients);
    }

    /// Answers the question of an MCP server, and resolves it.
    pub(super) fn answer_server(
        &mut self,
        number: u64,
        answered: mcp::Answer,
        subscribers: &mut Subscribers,
    ) {
        let resolved = self.resolve(QuestionKey::Server(number), subscribers);
        if let Some(Asker::Server { answer, .. }) = resolved {
            let _ = answer.send(answered);
        }
    }

    /// Returns whether a turn waits for the answer to a question of an MCP server.
    pub(super) fn has_server_question_of_turn(&self) -> bool {
        let of_turn =
            |question: &OpenQuestion| matches!(question.asker, Asker::Server { in_turn: true, .. });
        self.open.values().any(of_turn)
    }

    /// Begins a wait for each question to the user that none of the clients can answer, unless one is
    /// under way. Returns the questions, each with the number of its wait.
    pub(super) fn begin_waits(&mut self, clients: &[Arc<Peer>]) -> Vec<(QuestionKey, u64)> {
        let mut begun = Vec::new();
        for key in self.unattended(clients) {
            if let Some(question) = self.open.get_mut(&key)
                && question.wait.is_none()
            {
                self.waits += 1;
                question.wait = Some(self.waits);
                begun.push((key, self.waits));
            }
        }
        begun
    }

    /// Returns the result when a question has waited for a client without success. A wait that
    /// ended with a client's return does not count.
    pub(super) fn give_up(
        &self,
        (key, wait): (QuestionKey, u64),
        clients: &[Arc<Peer>],
    ) -> Option<Settled> {
        let waits = self.open.get(&key).is_some_and(|question| question.wait == Some(wait));
        (waits && self.unattended(clients).contains(&key)).then(|| match key {
            QuestionKey::Session(request) => Settled::Session(unattended_input(
                request,
                "every client that could answer has disconnected",
            )),
            QuestionKey::Server(number) => {
                let answer = mcp::Answer::without_content(mcp::Action::Cancel);
                Settled::Elicitation { number, answer }
            }
        })
    }

    /// The questions to the user that none of the clients can answer.
    fn unattended(&self, clients: &[Arc<Peer>]) -> Vec<QuestionKey> {
        let has_client = |question: &OpenQuestion| clients.iter().any(|peer| question.is_for(peer));
        let asks_user = |question: &OpenQuestion| !matches!(question.asker, Asker::Session);
        let open = self.open.iter().filter(|(_, question)| asks_user(question));
        open.filter(|(_, question)| !has_client(question)).map(|(key, _)| *key).collect()
    }

    /// Notes that the session's request no longer needs an answer.
    pub(super) fn resolve_session(&mut self, request: u64, subscribers: &mut Subscribers) {
        self.resolve(QuestionKey::Session(request), subscribers);
    }

    /// Notes that an MCP server no longer needs an answer.
    pub(super) fn withdraw(&mut self, number: u64, subscribers: &mut Subscribers) {
        self.resolve(QuestionKey::Server(number), subscribers);
    }

    /// Notifies the clients that a question was sent to that it no longer needs an answer.
    /// Returns who asked it.
    fn resolve(&mut self, key: QuestionKey, subscribers: &mut Subscribers) -> Option<Asker> {
        let question = self.open.remove(&key)?;
        self.requests.close(question.wire_id);
        let params = protocol::connection::ServerRequestResolvedNotification {
            thread_id: self.thread.to_string(),
            request_id: question.wire_id.into(),
        };
        let message = encode_notification(protocol::ServerRequestResolved::NAME, &params)
            .expect("a request's id is a number");
        let sent_to: Vec<Arc<Peer>> = question.sent_to.iter().filter_map(Weak::upgrade).collect();
        let (subscribed, others): (Vec<_>, Vec<_>) =
            sent_to.into_iter().partition(|peer| subscribers.contains(peer.id));
        subscribers.send_to_all(&subscribed, protocol::ServerRequestResolved::NAME, message);
        // Without a position among events that they do not get.
        others.iter().for_each(|peer| peer.notify::<protocol::ServerRequestResolved>(&params));
        Some(question.asker)
    }

    /// Resolves all questions.
    pub(super) fn resolve_all(&mut self, subscribers: &mut Subscribers) {
        let open: Vec<QuestionKey> = self.open.keys().copied().collect();
        for key in open {
            self.resolve(key, subscribers);
        }
    }

    /// Sends what is open to a client that subscribes.
    pub(super) fn send_open(&mut self, peer: &Arc<Peer>) {
        for question in self.open.values_mut().filter(|question| question.is_for(peer)) {
            question.wait = None;
            question.send_to(peer, &self.requests);
        }
    }

    /// Wire ids of what a client could answer.
    pub(super) fn open_ids(&self, peer: &Peer) -> Vec<i64> {
        let open = self.open.values().filter(|question| question.is_for(peer));
        open.map(|question| question.wire_id).collect()
    }

    /// Returns the results of a client's ending its subscription.
    pub(super) fn unsubscribed(&self, connection: ConnectionId) -> Vec<Settled> {
        self.requests.unsubscribed(&self.thread, connection)
    }

    /// Returns the results of the end of a connection.
    pub(super) fn disconnected(&self, connection: ConnectionId) -> Vec<Settled> {
        self.requests.disconnected(&self.thread, connection)
    }

    fn register(&self, question: Question, request: u64) -> i64 {
        self.requests.open(question, request, self.thread.clone(), self.sender.clone())
    }

    fn send(&mut self, key: QuestionKey, mut question: OpenQuestion, clients: &[Arc<Peer>]) {
        for peer in clients {
            if !question.is_for(peer) {
                continue;
            }
            question.send_to(peer, &self.requests);
        }
        self.open.insert(key, question);
    }
}

fn unattended_input(request: u64, why: &str) -> MachineInput {
    MachineInput::UserAnswered { request, outcome: Err(not_answered(why)) }
}
