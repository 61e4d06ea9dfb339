//! Who learns what happens in a realtime session: the clients of the thread, and the one that started it.

use std::sync::Arc;

use jsonrpc::{Notification, encode_notification};
use protocol::{ThreadRealtimeError, ThreadRealtimeErrorNotification};
use serde::Serialize;

use services::peer::Peer;
use services::thread_port::ThreadHandle;

/// The audience of a realtime session.
#[derive(Clone)]
pub(super) struct Audience {
    pub(super) thread: String,
    pub(super) handle: ThreadHandle,
    pub(super) starter: Arc<Peer>,
}

impl Audience {
    /// Notifies them. The message is encoded once.
    pub(super) fn notify<N: Notification<Params: Serialize>>(&self, params: &N::Params) {
        let Some(info) = protocol::lookup_notification(N::NAME) else { return };
        let Ok(message) = encode_notification(N::NAME, params) else { return };
        let mut peers = self.handle.clients();
        if peers.iter().all(|peer| peer.id != self.starter.id) {
            peers.push(self.starter.clone());
        }
        for peer in peers {
            peer.send_if_wanted(info, message.clone());
        }
    }

    pub(super) fn error(&self, message: impl Into<String>) {
        let thread_id = self.thread.clone();
        let params = ThreadRealtimeErrorNotification { thread_id, message: message.into() };
        self.notify::<ThreadRealtimeError>(&params);
    }
}
