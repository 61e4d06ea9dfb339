//! The messages that wait here, in the order in which they were written: commands that run after the turn and what
//! follows them, and messages for which there is no thread or no connection yet. Others are in the queue of the
//! thread, on the server.

use std::collections::VecDeque;

use crate::composer::Draft;
use crate::picker::Row;

/// Messages that may wait. One more stays in the composer.
pub(super) const MAX_QUEUED: usize = 256;

/// A queue of messages, each with a number for life.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In the order of their numbers.
    messages: VecDeque<(u64, Draft)>,
    next: u64,
    /// The number of the message that is in the composer, to be put back into its place.
    edited: Option<u64>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= MAX_QUEUED
    }

    pub(super) fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.messages.iter().map(|(_, draft)| draft)
    }

    /// Adds a message, in the place of the one that was being edited, if that was it.
    pub(super) fn push(&mut self, draft: Draft) {
        let number = self.edited.take().unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let at = self.messages.partition_point(|(other, _)| *other < number);
        self.messages.insert(at, (number, draft));
    }

    /// The message in the composer is a new one.
    pub(super) fn forget_edited(&mut self) {
        self.edited = None;
    }

    /// The number of the last message.
    pub(super) fn last(&self) -> Option<u64> {
        self.messages.back().map(|(number, _)| *number)
    }

    pub(super) fn pop_front(&mut self) -> Option<Draft> {
        self.messages.pop_front().map(|(_, draft)| draft)
    }

    /// This message, which was taken out, is in the composer.
    pub(super) fn set_edited(&mut self, number: u64) {
        self.edited = Some(number);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Draft> {
        let at = self.messages.iter().position(|(other, _)| *other == number)?;
        self.messages.remove(at).map(|(_, draft)| draft)
    }

    pub(super) fn take_all(&mut self) -> Vec<Draft> {
        self.edited = None;
        std::mem::take(&mut self.messages).into_iter().map(|(_, draft)| draft).collect()
    }

    /// As rows of a list; the row's id is the message's number.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row =
            |(number, draft): &(u64, Draft)| Row::of_message(number.to_string(), &draft.shown());
        self.messages.iter().map(row).collect()
    }
}
