//! The entries of an outgoing queue: whole messages, pieces of streams that can be merged with
//! their neighbours, and parts of messages read back from disk. The queue decides when to merge.

use bytes::Bytes;

/// A message to send, as the `encode_*` functions return it: without a newline.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// Never merged, reordered or dropped.
    Whole(Bytes),
    /// A piece of a stream: `head text tail` is the message. See [`crate::DeltaFrame`].
    ///
    /// Consecutive deltas whose `head` is the same memory may reach the client as one message, with
    /// their texts concatenated and the last one's tail.
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

impl Outgoing {
    /// Length of the message in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(message) => message.len(),
            Self::Delta { head, text, tail } => head.len() + text.len() + tail.len(),
        }
    }
}

/// The response to a request of the peer, as [`crate::encode_answer`] returns it.
#[derive(Clone, Debug)]
pub struct Answer(pub(crate) [Bytes; 3]);

impl From<Bytes> for Answer {
    fn from(message: Bytes) -> Self {
        Self([message, Bytes::new(), Bytes::new()])
    }
}

/// A message as it is pushed.
pub(crate) enum Pushed {
    Message(Outgoing),
    Answer(Answer),
}

impl Pushed {
    /// Length of the message in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Message(message) => message.len(),
            Self::Answer(Answer(pieces)) => pieces.iter().map(Bytes::len).sum(),
        }
    }
}

/// Longest text of a merged message; more text starts another message.
const MERGED_BYTES: usize = 1 << 20;

/// One queued message, possibly merged from several deltas, or a part of one.
#[derive(Debug)]
pub struct Queued {
    entry: Entry,
    /// Number of pushes that are complete once this is written.
    pushes: u32,
}

#[derive(Debug)]
enum Entry {
    Whole(Bytes),
    Pieces([Bytes; 3]),
    Delta {
        head: Bytes,
        text: Bytes,
        tail: Bytes,
    },
    Merged {
        head: Bytes,
        text: Vec<u8>,
        tail: Bytes,
    },
    /// The parts of a message follow each other directly.
    Part {
        bytes: Bytes,
        /// Length of the message; `None` in a later part.
        message: Option<u64>,
        is_last: bool,
    },
}

impl From<Pushed> for Queued {
    fn from(message: Pushed) -> Self {
        let entry = match message {
            Pushed::Message(Outgoing::Whole(message)) => Entry::Whole(message),
            Pushed::Message(Outgoing::Delta { head, text, tail }) => {
                Entry::Delta { head, text, tail }
            }
            Pushed::Answer(Answer(pieces)) => Entry::Pieces(pieces),
        };
        Self { entry, pushes: 1 }
    }
}

impl From<Outgoing> for Queued {
    fn from(message: Outgoing) -> Self {
        Pushed::Message(message).into()
    }
}

impl Queued {
    /// Creates a message that stands for `pushes` pushes.
    pub(crate) fn whole(bytes: Bytes, pushes: u32) -> Self {
        Self { entry: Entry::Whole(bytes), pushes }
    }

    /// Creates a part of a message. `message` is the length of the whole message, and is `Some`
    /// only for its first part; `pushes` counts with its last part.
    pub(crate) fn part(bytes: Bytes, message: Option<u64>, is_last: bool, pushes: u32) -> Self {
        let pushes = if is_last { pushes } else { 0 };
        Self { entry: Entry::Part { bytes, message, is_last }, pushes }
    }

    /// Length of the message or part, in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // no message is empty
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Appends the message or part, without a newline.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for part in self.parts() {
            out.extend_from_slice(part);
        }
    }

    /// Length of the message that begins here; `None` for a later part.
    pub(crate) fn begins(&self) -> Option<u64> {
        match &self.entry {
            Entry::Part { message, .. } => *message,
            _ => Some(self.len() as u64),
        }
    }

    /// Returns whether a message ends here.
    pub(crate) fn ends(&self) -> bool {
        !matches!(&self.entry, Entry::Part { is_last: false, .. })
    }

    /// Number of pushes that are complete once this is written.
    pub(crate) fn pushes(&self) -> u32 {
        self.pushes
    }

    /// Returns its pieces in order, without copying.
    pub(crate) fn into_pieces(self) -> [Bytes; 3] {
        match self.entry {
            Entry::Whole(bytes) | Entry::Part { bytes, .. } => [bytes, Bytes::new(), Bytes::new()],
            Entry::Pieces(pieces) => pieces,
            Entry::Delta { head, text, tail } => [head, text, tail],
            Entry::Merged { head, text, tail } => [head, text.into(), tail],
        }
    }

    /// Borrows its pieces in order.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        match &self.entry {
            Entry::Whole(bytes) | Entry::Part { bytes, .. } => [bytes, &[], &[]],
            Entry::Pieces([first, second, third]) => [first, second, third],
            Entry::Delta { head, text, tail } => [head, text, tail],
            Entry::Merged { head, text, tail } => [head, text, tail],
        }
    }

    /// Appends the text of a delta of the same frame, and replaces the tail with the delta's.
    /// Returns by how many bytes the message grew; `None` when the delta belongs to another frame,
    /// or the message would exceed [`MERGED_BYTES`].
    pub(crate) fn merge(
        &mut self,
        new_head: &Bytes,
        new_text: &Bytes,
        new_tail: &Bytes,
    ) -> Option<isize> {
        let before = self.len();
        let fits = |length: usize| length + new_text.len() <= MERGED_BYTES;
        match &mut self.entry {
            Entry::Merged { head, text, tail } if same(head, new_head) && fits(text.len()) => {
                text.extend_from_slice(new_text);
                tail.clone_from(new_tail);
            }
            Entry::Delta { head, text, .. } if same(head, new_head) && fits(text.len()) => {
                let text = [&text[..], new_text].concat();
                self.entry = Entry::Merged { head: head.clone(), text, tail: new_tail.clone() };
            }
            _ => return None,
        }
        self.pushes += 1;
        Some(self.len() as isize - before as isize)
    }
}

/// Returns whether both are the same memory; comparing contents would cost more than a merge saves.
fn same(a: &Bytes, b: &Bytes) -> bool {
    a.as_ptr() == b.as_ptr() && a.len() == b.len()
}
