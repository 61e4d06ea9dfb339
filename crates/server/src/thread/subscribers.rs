//! The connections that follow a thread. A message is made once; every subscriber gets the same
//! bytes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jsonrpc::{Notification, Outgoing, encode_notification};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::connection::{ConnectionId, Peer};

#[derive(Default)]
pub(crate) struct Subscribers {
    peers: Vec<Arc<Peer>>,
    /// Those behind that read nothing when they were last waited for.
    stuck: HashSet<ConnectionId>,
}

/// A client with more than this in its queue is behind.
const BEHIND: usize = 1024 * 1024;
/// A client that reads nothing for so long is not waited for.
const PATIENCE: Duration = Duration::from_millis(100);
/// Nobody is waited for longer at a time.
const LONGEST_PACE: Duration = Duration::from_millis(500);

impl Subscribers {
    /// Adds a connection; one that is there already stays once.
    pub(crate) fn add(&mut self, peer: Arc<Peer>) {
        self.remove(peer.id);
        self.peers.push(peer);
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, connection: ConnectionId) -> bool {
        let before = self.peers.len();
        self.stuck.remove(&connection);
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

    /// Waits for clients that are behind, so that work which makes messages faster than they can
    /// be read slows down instead of cutting its clients off. One that reads nothing at all is not
    /// waited for, and one that reads little not for long: their budget decides about them.
    pub(crate) async fn pace(&mut self) {
        let deadline = Instant::now() + LONGEST_PACE;
        for peer in &self.peers {
            if peer.outbox.queued_bytes() < BEHIND {
                self.stuck.remove(&peer.id);
                continue;
            }
            while !self.stuck.contains(&peer.id) && Instant::now() < deadline {
                let queued = peer.outbox.queued_bytes();
                // An outbox that closes meanwhile is not behind any more.
                let _ = timeout(PATIENCE, peer.outbox.flushed()).await;
                let left = peer.outbox.queued_bytes();
                if left < BEHIND {
                    break;
                }
                if left >= queued {
                    self.stuck.insert(peer.id);
                }
            }
        }
    }

    /// Whether anybody follows.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
}
