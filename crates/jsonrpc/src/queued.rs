//! What stands in an outgoing queue: whole messages, and the pieces of streams that can be merged
//! with their neighbours. When to merge is the queue's decision.

use bytes::Bytes;

/// A message to send, as the `encode_*` functions make it: without a newline.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// Never merged, reordered or dropped.
    Whole(Bytes),
    /// A piece of a stream: `head text tail` is the message. See [`crate::DeltaFrame`].
    ///
    /// Consecutive ones whose `head` is the same memory may reach the client as one message with
    /// their texts appended, and the tail of the last one.
    Delta {
        /// The message up to the text, its opening quote included.
        head: Bytes,
        /// Content of a JSON string, escaped. See [`crate::escape`].
        text: Bytes,
        /// The message after the text, from the closing quote.
        tail: Bytes,
    },
}

impl From<Bytes> for Outgoing {
    fn from(message: Bytes) -> Self {
        Self::Whole(message)
    }
}

/// Longest text that merging makes; more goes into another message.
const MERGED_BYTES: usize = 1 << 20;

/// One queued message, maybe merged out of several deltas.
#[derive(Debug)]
pub struct Queued(Entry);

#[derive(Debug)]
enum Entry {
    Whole(Bytes),
    Delta { head: Bytes, text: Bytes, tail: Bytes },
    Merged { head: Bytes, text: Vec<u8>, tail: Bytes },
}

impl From<Outgoing> for Queued {
    fn from(message: Outgoing) -> Self {
        Self(match message {
            Outgoing::Whole(message) => Entry::Whole(message),
            Outgoing::Delta { head, text, tail } => Entry::Delta { head, text, tail },
        })
    }
}

impl Queued {
    /// Length of the message in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // no message is empty
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Appends the message, without a newline.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for part in self.parts() {
            out.extend_from_slice(part);
        }
    }

    /// The message, when it is in one piece already.
    pub(crate) fn as_whole(&self) -> Option<&Bytes> {
        match &self.0 {
            Entry::Whole(message) => Some(message),
            _ => None,
        }
    }

    fn parts(&self) -> [&[u8]; 3] {
        match &self.0 {
            Entry::Whole(message) => [message, &[], &[]],
            Entry::Delta { head, text, tail } => [head, text, tail],
            Entry::Merged { head, text, tail } => [head, text, tail],
        }
    }

    /// Appends the text of a delta of the same frame, whose tail counts from now on, and tells by
    /// how many bytes the message grew. `None` when it is not one, or when the message would pass
    /// [`MERGED_BYTES`].
    pub(crate) fn merge(
        &mut self,
        new_head: &Bytes,
        new_text: &Bytes,
        new_tail: &Bytes,
    ) -> Option<isize> {
        let before = self.len();
        let fits = |length: usize| length + new_text.len() <= MERGED_BYTES;
        match &mut self.0 {
            Entry::Merged { head, text, tail } if same(head, new_head) && fits(text.len()) => {
                text.extend_from_slice(new_text);
                tail.clone_from(new_tail);
            }
            Entry::Delta { head, text, .. } if same(head, new_head) && fits(text.len()) => {
                let text = [&text[..], new_text].concat();
                self.0 = Entry::Merged { head: head.clone(), text, tail: new_tail.clone() };
            }
            _ => return None,
        }
        Some(self.len() as isize - before as isize)
    }
}

/// The same memory; comparing contents would cost more than a merge gains.
fn same(a: &Bytes, b: &Bytes) -> bool {
    a.as_ptr() == b.as_ptr() && a.len() == b.len()
}
