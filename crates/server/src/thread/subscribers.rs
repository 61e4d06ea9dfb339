//! The connections that follow a thread. A message is made once; every subscriber gets the same
//! bytes.

use std::sync::Arc;

use jsonrpc::{Notification, Outgoing, encode_notification};
use serde::Serialize;

use crate::connection::{ConnectionId, Peer};

#[derive(Default)]
pub(crate) struct Subscribers {
    peers: Vec<Arc<Peer>>,
}

impl Subscribers {
    /// Adds a connection; one that is there already stays once.
    pub(crate) fn add(&mut self, peer: Arc<Peer>) {
        self.remove(peer.id);
        self.peers.push(peer);
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, connection: ConnectionId) -> bool {
        let before = self.peers.len();
        self.peers.retain(|peer| peer.id != connection);
        self.peers.len() != before
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.peers.iter()
    }

    /// Tells everybody who wants to hear it.
    pub(crate) fn notify<N: Notification>(&self, params: &impl Serialize) {
        self.notify_named(N::NAME, params);
    }

    fn notify_named(&self, method: &'static str, params: &impl Serialize) {
        if self.peers.is_empty() {
            return;
        }
        let message = encode_notification(method, params)
            .expect("notifications are made of strings, numbers and JSON values");
        self.send(method, &Outgoing::Whole(message));
    }

    /// Sends a message of that method to everybody who wants to hear it.
    pub(crate) fn send(&self, method: &str, message: &Outgoing) {
        let Some(info) = protocol::lookup_notification(method) else { return };
        for peer in self.peers.iter().filter(|peer| peer.wants(info)) {
            peer.send(message.clone());
        }
    }

    /// Whether anybody follows.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
}
