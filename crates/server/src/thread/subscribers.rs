//! The connections that follow a thread. A message is made once; every subscriber gets the same
//! bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{Notification, Outgoing, encode_notification};
use protocol::MessageInfo;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::connection::{ConnectionId, Peer};
use crate::thread::event_log::{About, EventLog};

#[derive(Default)]
pub(crate) struct Subscribers {
    peers: Vec<Arc<Peer>>,
    /// Those behind that read nothing when they were last waited for, and what each had read.
    stuck: HashMap<ConnectionId, u64>,
    /// Since the first client that wants to know the places of events.
    pub(super) log: Option<EventLog>,
}

/// A client with more than this in its queue is behind.
const BEHIND: usize = 1024 * 1024;
/// A client that reads nothing for so long is not waited for, until it reads again.
const PATIENCE: Duration = Duration::from_millis(100);
/// While every client is behind, the thread waits no longer at a time.
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
        let Some(info) = protocol::lookup_notification(method) else { return };
        let placed = self.log.as_mut().map(|log| log.add(info, message, about));
        send_to(self.peers.iter(), info, message, placed.as_ref());
    }

    /// Tells `everybody`, subscribed or not, of something that has its place among the events.
    pub(crate) fn send_to_all(
        &mut self,
        everybody: &[Arc<Peer>],
        method: &'static str,
        message: Bytes,
    ) {
        let Some(info) = protocol::lookup_notification(method) else { return };
        let message = Outgoing::Whole(message);
        let placed = self.log.as_mut().map(|log| log.add(info, &message, About::default()));
        send_to(everybody.iter(), info, &message, placed.as_ref());
    }

    /// Holds work back that makes messages faster than they can be read.
    ///
    /// A client that keeps up is never held back by one that does not: what a slow client has not
    /// read waits in memory and on disk. The thread waits only
    ///
    /// - while every client is behind, for the first of them, and not for those that read nothing;
    /// - for a client whose room is used up on disk too. [`jsonrpc::Outbox::room`] closes it if it
    ///   takes next to nothing.
    pub(crate) async fn pace(&mut self) {
        let full: Vec<Arc<Peer>> =
            self.peers.iter().filter(|peer| peer.outbox.is_full()).cloned().collect();
        all(full.into_iter().map(|peer| async move { peer.outbox.room().await })).await;
        let behind = |peer: &&Arc<Peer>| peer.outbox.queued_bytes() >= BEHIND;
        self.stuck.retain(|id, written| {
            let peer = self.peers.iter().find(|peer| peer.id == *id);
            peer.is_some_and(|peer| peer.outbox.written_bytes() == *written)
        });
        let deadline = Instant::now() + LONGEST_PACE;
        while Instant::now() < deadline && self.peers.iter().all(|peer| behind(&peer)) {
            let reading: Vec<(Arc<Peer>, u64)> = self
                .peers
                .iter()
                .filter(|peer| peer.outbox.close_reason().is_none())
                .filter(|peer| !self.stuck.contains_key(&peer.id))
                .map(|peer| (peer.clone(), peer.outbox.written_bytes()))
                .collect();
            if reading.is_empty() {
                return;
            }
            let waits = reading.iter().map(|(peer, _)| {
                let peer = peer.clone();
                async move { peer.outbox.below(BEHIND).await }
            });
            // Whoever has read nothing by then is not waited for.
            let _ = timeout(PATIENCE, first(waits)).await;
            let stuck =
                reading.iter().filter(|(peer, written)| peer.outbox.written_bytes() == *written);
            self.stuck.extend(stuck.map(|(peer, written)| (peer.id, *written)));
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

/// Waits for all of them, beside each other.
async fn all(waits: impl Iterator<Item: Future<Output = ()> + Send + 'static>) {
    let mut waiting: JoinSet<()> = waits.collect();
    while waiting.join_next().await.is_some() {}
}

/// Waits for the first of them.
async fn first(waits: impl Iterator<Item: Future<Output = ()> + Send + 'static>) {
    let mut waiting: JoinSet<()> = waits.collect();
    let _ = waiting.join_next().await;
}

fn send_to<'a>(
    peers: impl Iterator<Item = &'a Arc<Peer>>,
    info: &MessageInfo,
    message: &Outgoing,
    placed: Option<&Outgoing>,
) {
    for peer in peers.filter(|peer| peer.wants(info)) {
        let wanted = placed.filter(|_| peer.wants_places()).unwrap_or(message);
        peer.send(wanted.clone());
    }
}
