//! The connections that subscribe to a thread. A message is encoded once; every subscriber gets the
//! same bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{Notification, Outgoing, encode_notification};
use protocol::MessageInfo;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::thread::event_log::{EventLog, EventSubject};
use services::peer::{ConnectionId, Peer};

#[derive(Default)]
pub(crate) struct Subscribers {
    peers: Vec<Arc<Peer>>,
    /// The same, for others to see.
    shown: watch::Sender<Vec<Arc<Peer>>>,
    /// Slow clients that read nothing when they were last waited for, and how many bytes each had
    /// read.
    stuck: HashMap<ConnectionId, u64>,
    /// Set by the first client that asks for cursors.
    log: Option<EventLog>,
}

/// A client with more than this in its queue lags.
const BEHIND: usize = 1024 * 1024;
/// A client that reads nothing for this long is not waited for, until it reads again.
const STALL_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum wait at a time while every client lags.
const LONGEST_PACE: Duration = Duration::from_millis(500);

impl Subscribers {
    /// Adds a connection; one that is subscribed already stays subscribed once.
    pub(crate) fn add(&mut self, peer: Arc<Peer>) {
        self.remove(peer.id);
        self.peers.push(peer);
        self.shown.send_replace(self.peers.clone());
    }

    /// Removes a connection; returns whether it was subscribed.
    pub(crate) fn remove(&mut self, connection: ConnectionId) -> bool {
        let before = self.peers.len();
        self.stuck.remove(&connection);
        self.peers.retain(|peer| peer.id != connection);
        let was_subscribed = self.peers.len() != before;
        if was_subscribed {
            self.shown.send_replace(self.peers.clone());
        }
        was_subscribed
    }

    /// The connections, for others to see.
    pub(super) fn shown(&self) -> watch::Receiver<Vec<Arc<Peer>>> {
        self.shown.subscribe()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.peers.iter()
    }

    /// Returns whether a connection subscribes.
    pub(crate) fn contains(&self, connection: ConnectionId) -> bool {
        self.peers.iter().any(|peer| peer.id == connection)
    }

    /// Notifies every subscriber that accepts the notification.
    pub(crate) fn notify<N: Notification>(&mut self, params: &impl Serialize) {
        self.notify_named(N::NAME, params, EventSubject::default());
    }

    /// Notifies every subscriber of something that is not an event of the thread.
    pub(crate) fn notify_aside<N: Notification>(&self, params: &N::Params)
    where
        N::Params: Serialize,
    {
        for peer in &self.peers {
            peer.notify::<N>(params);
        }
    }

    /// As [`Subscribers::notify`], with what the notification is about.
    pub(crate) fn notify_about<N: Notification>(
        &mut self,
        params: &impl Serialize,
        subject: EventSubject<'_>,
    ) {
        self.notify_named(N::NAME, params, subject);
    }

    /// A notification as a message; `None` when no client gets it.
    pub(crate) fn encoded<N: Notification>(&self, params: &impl Serialize) -> Option<Outgoing> {
        if self.has_no_audience() {
            return None;
        }
        encode_notification(N::NAME, params).ok().map(Outgoing::Whole)
    }

    /// Notifies every subscriber of the use of tokens: with its cost those that asked for that. A
    /// client that reconnects gets what it has missed without the cost, which the next report
    /// contains.
    pub(crate) fn send_token_usage(&mut self, plain: &Outgoing, priced: &Outgoing) {
        let name = protocol::ThreadTokenUsageUpdated::NAME;
        let Some(info) = protocol::lookup_notification(name) else { return };
        let positioned = self.log.as_mut().map(|log| {
            let positioned = log.add(info, plain, EventSubject::default());
            (positioned, log.with_cursor(priced))
        });
        let (positioned, positioned_priced) = positioned.unzip();
        let (priced_peers, plain_peers): (Vec<_>, Vec<_>) =
            self.peers.iter().partition(|peer| peer.wants_token_cost());
        send_to(plain_peers.into_iter(), info, plain, positioned.as_ref());
        send_to(priced_peers.into_iter(), info, priced, positioned_priced.as_ref());
    }

    fn notify_named(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
        subject: EventSubject<'_>,
    ) {
        if self.has_no_audience() {
            return;
        }
        let message = encode_notification(method, params)
            .expect("notifications are made of strings, numbers and JSON values");
        if let Some(info) = protocol::lookup_notification(method) {
            self.send(info, &Outgoing::Whole(message), subject);
        }
    }

    /// Sends a message to every subscriber that accepts notifications of its method.
    pub(crate) fn send(
        &mut self,
        info: &'static MessageInfo,
        message: &Outgoing,
        subject: EventSubject<'_>,
    ) {
        let positioned = self.log.as_mut().map(|log| log.add(info, message, subject));
        send_to(self.peers.iter(), info, message, positioned.as_ref());
    }

    /// Sends a message to all of `peers`, subscribed or not, in the order of the events.
    pub(crate) fn send_to_all(
        &mut self,
        peers: &[Arc<Peer>],
        method: &'static str,
        message: Bytes,
    ) {
        let Some(info) = protocol::lookup_notification(method) else { return };
        let message = Outgoing::Whole(message);
        let positioned =
            self.log.as_mut().map(|log| log.add(info, &message, EventSubject::default()));
        send_to(peers.iter(), info, &message, positioned.as_ref());
    }

    /// Applies back pressure: waits while messages are produced faster than they are read.
    ///
    /// A slow client never delays one that keeps up: messages that it has not read wait in memory and
    /// on disk. The thread waits only
    ///
    /// - while every client lags: for the first that catches up, ignoring those that read nothing;
    /// - for a client that has used up its room on disk too. [`jsonrpc::Outbox::room`] closes it if it
    ///   reads too slowly.
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
            // A client that has read nothing by then is not waited for.
            let _ = timeout(STALL_TIMEOUT, first(waits)).await;
            let stuck =
                reading.iter().filter(|(peer, written)| peer.outbox.written_bytes() == *written);
            self.stuck.extend(stuck.map(|(peer, written)| (peer.id, *written)));
        }
    }

    /// The log of events, once a client has asked for positions.
    pub(crate) fn event_log(&self) -> Option<&EventLog> {
        self.log.as_ref()
    }

    /// From now on events have positions.
    pub(crate) fn set_event_log(&mut self, log: EventLog) {
        self.log = Some(log);
    }

    /// Clients that reconnect get a snapshot in place of earlier events.
    pub(crate) fn cut_event_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.cut();
        }
    }

    /// Returns whether there are no subscribers.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns whether events need not be encoded: no client gets them now or later.
    pub(crate) fn has_no_audience(&self) -> bool {
        self.peers.is_empty() && self.log.is_none()
    }
}

/// Waits for all of them concurrently.
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
    positioned: Option<&Outgoing>,
) {
    for peer in peers.filter(|peer| peer.wants(info)) {
        let wanted = positioned.filter(|_| peer.wants_cursors()).unwrap_or(message);
        peer.send(wanted.clone());
    }
}
