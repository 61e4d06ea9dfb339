//! What follows for a thread from the coming and going of clients that may answer its questions: its
//! own subscribers, and those of the thread at the root of an agent's tree.

use std::sync::Arc;
use std::time::Duration;

use crate::allowed::MachineInput;
use crate::connection::{ConnectionId, Peer};
use crate::thread::actor::Actor;
use crate::thread::handle::Command;
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
        let inputs = self.questions.unsubscribed(connection);
        self.client_left(inputs, steps);
        was_subscribed
    }

    /// A connection has ended.
    pub(super) fn detach(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) {
        self.commands.elicitations().disconnected(connection);
        self.remove_subscriber(connection);
        let inputs = self.questions.disconnected(connection);
        self.client_left(inputs, steps);
    }

    /// A client has left the thread at the root. It may still subscribe to this one.
    pub(super) fn root_client_left(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) {
        let inputs = match self.broadcast.subscribers().contains(connection) {
            true => Vec::new(),
            false => self.questions.unsubscribed(connection),
        };
        self.client_left(inputs, steps);
    }

    /// A question to the user has waited for a client.
    pub(super) fn give_up_question(&mut self, request: u64, wait: u64, steps: &mut Vec<Step>) {
        let unanswered = self.questions.give_up((request, wait), &self.asked_clients());
        unanswered.into_iter().for_each(|input| self.step(input, steps));
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
    fn client_left(&mut self, inputs: Vec<MachineInput>, steps: &mut Vec<Step>) {
        for input in inputs {
            self.step(input, steps);
        }
        let clients = self.asked_clients();
        for (request, wait) in self.questions.begin_waits(&clients) {
            self.mailbox.send_after(AWAIT_CLIENT, Command::GiveUp { request, wait });
        }
    }
}
