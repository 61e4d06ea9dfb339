//! What follows for a thread from the coming and going of clients that may answer its questions: its
//! own subscribers, and those of the thread at the root of an agent's tree.

use std::sync::Arc;
use std::time::Duration;

use session::{ApprovalPolicy, Status};

use crate::connection::{ConnectionId, Peer};
use crate::requests::Settled;
use crate::thread::actor::Actor;
use crate::thread::handle::Command;
use crate::thread::server_question::{QuestionKey, ServerQuestion};
use crate::thread::step::Step;

/// How long a question to the user waits for a client after the last one that could answer has
/// gone: long enough for one that lost its connection to return.
const AWAIT_CLIENT: Duration = Duration::from_secs(30);

impl Actor {
    /// Sends a client of the tree the open requests, unless it has them as a subscriber.
    pub(super) fn show_questions(&mut self, peer: &Arc<Peer>) {
        if !self.broadcast.subscribers().contains(peer.id) {
            self.questions.send_open(peer);
        }
    }

    /// Ends the subscription of a connection; returns whether it had one.
    pub(super) fn unsubscribe(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) -> bool {
        let was_subscribed = self.remove_subscriber(connection);
        let settled = self.questions.unsubscribed(connection);
        self.client_left(settled, steps);
        was_subscribed
    }

    /// A connection has ended.
    pub(super) fn detach(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) {
        self.commands.elicitations().disconnected(connection);
        self.remove_subscriber(connection);
        let settled = self.questions.disconnected(connection);
        self.client_left(settled, steps);
    }

    /// A client has left the thread at the root. It may still subscribe to this one.
    pub(super) fn root_client_left(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) {
        let settled = match self.broadcast.subscribers().contains(connection) {
            true => Vec::new(),
            false => self.questions.unsubscribed(connection),
        };
        self.client_left(settled, steps);
    }

    /// A question to the user has waited for a client.
    pub(super) fn give_up_question(
        &mut self,
        question: QuestionKey,
        wait: u64,
        steps: &mut Vec<Step>,
    ) {
        let unanswered = self.questions.give_up((question, wait), &self.asked_clients());
        unanswered.into_iter().for_each(|settled| self.settle(settled, steps));
    }

    /// Asks the user for an MCP server, unless the approval policy lets no such question through.
    pub(super) fn elicit(&mut self, question: ServerQuestion) {
        if let ApprovalPolicy::Granular(granular) = &self.machine.settings().approval
            && !granular.mcp_elicitations
        {
            let declined = mcp::Answer::without_content(mcp::Action::Decline);
            // The server may have withdrawn its question.
            let _ = question.answer.send(declined);
            return;
        }
        let clients = self.asked_clients();
        self.questions.ask_for_server(question, &clients);
        self.begin_waits();
        self.server_questions_changed();
    }

    /// The question of an MCP server has its answer.
    pub(super) fn answer_elicitation(&mut self, number: u64, answer: mcp::Answer) {
        self.questions.answer_server(number, answer, self.broadcast.subscribers_mut());
        self.server_questions_changed();
    }

    /// An MCP server no longer waits for an answer.
    pub(super) fn withdraw_elicitation(&mut self, number: u64) {
        self.questions.withdraw(number, self.broadcast.subscribers_mut());
        self.server_questions_changed();
    }

    /// While the running turn waits for the answer to a question of an MCP server, it waits for the user.
    pub(super) fn shown_status(&self, status: Status) -> Status {
        match status {
            Status::Active { waiting_on_approval, .. }
                if self.questions.has_server_question_of_turn() =>
            {
                Status::Active { waiting_on_approval, waiting_on_user_input: true }
            }
            status => status,
        }
    }

    /// Meanwhile its clock stands still.
    fn server_questions_changed(&mut self) {
        let is_asking = self.questions.has_server_question_of_turn();
        self.commands.elicitations().set_asking(is_asking);
        self.show_status(self.machine.status());
    }

    fn settle(&mut self, settled: Settled, steps: &mut Vec<Step>) {
        match settled {
            Settled::Session(input) => self.step(input, steps),
            Settled::Elicitation { number, answer } => self.answer_elicitation(number, answer),
        }
    }

    fn remove_subscriber(&mut self, connection: ConnectionId) -> bool {
        let was_subscribed = self.broadcast.unsubscribe(connection);
        if was_subscribed {
            self.agents.client_left(connection);
        }
        was_subscribed
    }

    /// What follows from a client's leaving. Questions to the user that no other client can answer
    /// wait a while for one.
    fn client_left(&mut self, settled: Vec<Settled>, steps: &mut Vec<Step>) {
        settled.into_iter().for_each(|settled| self.settle(settled, steps));
        self.begin_waits();
    }

    fn begin_waits(&mut self) {
        let clients = self.asked_clients();
        for (question, wait) in self.questions.begin_waits(&clients) {
            self.mailbox.send_after(AWAIT_CLIENT, Command::GiveUp { question, wait });
        }
    }
}
