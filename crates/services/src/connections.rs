//! All connections of a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpc::{Notification, encode_notification};
use serde::Serialize;

use crate::peer::{ConnectionId, Peer};

/// All connections of a server.
#[derive(Default)]
pub struct Connections {
    next: AtomicU64,
    peers: Mutex<HashMap<ConnectionId, Arc<Peer>>>,
}

impl Connections {
    /// An id for a new connection.
    pub fn next_id(&self) -> ConnectionId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub fn add(&self, peer: Arc<Peer>) {
        self.lock().insert(peer.id, peer);
    }

    pub fn remove(&self, connection: ConnectionId) {
        self.lock().remove(&connection);
    }

    /// Returns whether the connection has not ended.
    pub fn contains(&self, connection: ConnectionId) -> bool {
        self.lock().contains_key(&connection)
    }

    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.lock().values().cloned().collect()
    }

    /// Notifies every client that accepts the notification. It is serialised once.
    pub fn notify_all<N: Notification<Params: Serialize>>(&self, params: &N::Params) {
        let Some(info) = protocol::lookup_notification(N::NAME) else { return };
        let Ok(message) = encode_notification(N::NAME, params) else { return };
        for peer in self.lock().values().filter(|peer| peer.wants(info)) {
            peer.send(message.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionId, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
