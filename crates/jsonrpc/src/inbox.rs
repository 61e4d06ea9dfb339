//! The queue of incoming messages of one connection, bounded in messages and in bytes. At either
//! bound the reader waits, and so, in the end, does the peer.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use crate::{Limits, Malformed, Message};

/// What came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// A line that is not one, with the error to answer it with. The connection lives on.
    Malformed(Malformed),
}

/// The receiving end: what came in and was not taken yet.
pub struct Inbox {
    queue: mpsc::Receiver<(Incoming, u32)>,
    room: Arc<Semaphore>,
}

impl Inbox {
    /// The next message; `None` once the input has ended and everything was taken. May be cancelled
    /// without losing a message.
    pub async fn recv(&mut self) -> Option<Incoming> {
        let (incoming, bytes) = self.queue.recv().await?;
        self.room.add_permits(bytes as usize);
        Some(incoming)
    }

    /// The next message if one waits already; `None` also when the input has ended.
    pub fn try_recv(&mut self) -> Option<Incoming> {
        let (incoming, bytes) = self.queue.try_recv().ok()?;
        self.room.add_permits(bytes as usize);
        Some(incoming)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.room.close();
    }
}

/// The sending end.
pub(crate) struct InboxSender {
    queue: mpsc::Sender<(Incoming, u32)>,
    room: Arc<Semaphore>,
    most: u32,
}

pub(crate) fn inbox(limits: &Limits) -> (InboxSender, Inbox) {
    // Permits are counted in 32 bits when they are acquired.
    let most = u32::try_from(limits.incoming_bytes).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new((most as usize).min(Semaphore::MAX_PERMITS)));
    let (sender, queue) = mpsc::channel(limits.incoming_messages.max(1));
    (InboxSender { queue: sender, room: room.clone(), most }, Inbox { queue, room })
}

impl InboxSender {
    /// Waits for room and queues a message that came as `bytes` bytes; `false` when nobody is there
    /// to take it.
    pub(crate) async fn send(&self, incoming: Incoming, bytes: usize) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.most);
        let Ok(permit) = self.room.acquire_many(bytes).await else {
            return false;
        };
        permit.forget();
        self.queue.send((incoming, bytes)).await.is_ok()
    }

    /// Waits until nobody is there to take messages.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }
}
