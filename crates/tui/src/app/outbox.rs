//! The messages on their way to the server: those that wait for the end of the turn, those that were sent, and
//! the settings that go with the next one.

use protocol::TurnStartParams;

use crate::app::queue::Queue;
use crate::app::sent::Sent;
use crate::composer::Draft;

/// The messages that are written and not received.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: Queue,
    sent: Sent,
    /// Settings that the next `turn/start` changes, for later turns, too; its other members are empty.
    overrides: TurnStartParams,
    /// True if the queue may go on.
    is_released: bool,
}

impl Outbox {
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    pub(super) fn sent(&self) -> &Sent {
        &self.sent
    }

    pub(super) fn sent_mut(&mut self) -> &mut Sent {
        &mut self.sent
    }

    pub(super) fn overrides_mut(&mut self) -> &mut TurnStartParams {
        &mut self.overrides
    }

    /// Returns whether the next message that is sent changes settings.
    pub(super) fn has_overrides(&self) -> bool {
        self.overrides != TurnStartParams::default()
    }

    /// The settings that the turn changes which is started now.
    pub(super) fn take_overrides(&mut self) -> TurnStartParams {
        std::mem::take(&mut self.overrides)
    }

    /// A turn has ended by itself, or a model can be asked: what waits is sent after this event.
    pub(super) fn release_queue(&mut self) {
        self.is_released = true;
    }

    /// True if the queue was released; asked again, it is not.
    pub(super) fn takes_release(&mut self) -> bool {
        std::mem::take(&mut self.is_released)
    }

    /// The messages that wait or were perhaps not received.
    pub(super) fn unreceived(&self) -> impl Iterator<Item = &Draft> {
        self.sent.unanswered().iter().chain(self.queue.drafts())
    }

    /// All messages that are not known to be received.
    pub(super) fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.queue.drafts().chain(self.sent.drafts())
    }
}
