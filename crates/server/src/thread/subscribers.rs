//! The connections that follow a thread. A message is made once; every subscriber gets the same
//! bytes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{Notification, Outgoing, encode_notification};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::connection::{ConnectionId, Peer};
use crate::thread::event_log::{About, EventLog};

#[derive(Default)]
pub(crate) struct Subscribers {
    peers: Vec<Arc<Peer>>,
    /// Those behind that read nothing when they were last waited for.
    stuck: HashSet<ConnectionId>,
    /// Since the first client that wants to know the places of events.
    pub(super) log: Option<EventLog>,
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
    pub(crate) fn notify<N: Notification>(&mut self, params: &impl Serialize) {
        self.notify_named(N::NAME, params, About::default());
    }

    /// Tells everybody who wants to hear it of something that is no event of the thread.
    pub(crate) fn remark<N: Notification>(&self, params: &N::Params)
    where
        N::Params: Serialize,
    {
        for peer in &self.peers {
            peer.notify::<N>(params);
        }
    }

    /// See [`Subscribers::notify`]; with what it is about.
    pub(crate) fn notify_about<N: Notification>(
        &mut self,
        params: &impl Serialize,
        about: About<'_>,
    ) {
        self.notify_named(N::NAME, params, about);
    }

    fn notify_named(&mut self, method: &'static str, params: &impl Serialize, about: About<'_>) {
        if self.is_deaf() {
            return;
        }
        let message = encode_notification(method, params)
            .expect("notifications are made of strings, numbers and JSON values");
        self.send(method, &Outgoing::Whole(message), about);
    }

    /// Sends a message of that method to everybody who wants to hear it.
    pub(crate) fn send(&mut self, method: &'static str, message: &Outgoing, about: About<'_>) {
        let placed = self.log.as_mut().map(|log| log.add(method, message, about));
        send_to(self.peers.iter(), method, message, placed.as_ref());
    }

    /// Tells `everybody`, subscribed or not, of something that has its place among the events.
    pub(crate) fn send_to_all(
        &mut self,
        everybody: &[Arc<Peer>],
        method: &'static str,
        message: Bytes,
    ) {
        let message = Outgoing::Whole(message);
        let placed = self.log.as_mut().map(|log| log.add(method, &message, About::default()));
        send_to(everybody.iter(), method, &message, placed.as_ref());
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

    /// Whether nobody hears of events now, and nobody will be told later.
    pub(crate) fn is_deaf(&self) -> bool {
        self.peers.is_empty() && self.log.is_none()
    }
}

fn send_to<'a>(
    peers: impl Iterator<Item = &'a Arc<Peer>>,
    method: &str,
    message: &Outgoing,
    placed: Option<&Outgoing>,
) {
    let Some(info) = protocol::lookup_notification(method) else { return };
    for peer in peers.filter(|peer| peer.wants(info)) {
        let wanted = placed.filter(|_| peer.wants_places()).unwrap_or(message);
        peer.send(wanted.clone());
    }
}
