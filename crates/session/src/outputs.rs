//! Long outputs of tools, which the model reads in pieces. They are kept in memory, the newest ones.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a thread's outputs; the oldest go first.
const MAX_BYTES: usize = 8 << 20;

/// The long outputs that are kept in memory.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// By number, oldest first.
    kept: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
    last: u64,
}

/// A piece of an output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece<'o> {
    pub(crate) text: &'o str,
    /// Offset of its first byte.
    pub(crate) start: usize,
    /// Bytes of the whole output.
    pub(crate) total: usize,
}

impl Outputs {
    /// Keeps an output, and returns its number.
    pub(crate) fn keep(&mut self, text: &str) -> u64 {
        self.last += 1;
        let end = text.floor_char_boundary(MAX_BYTES);
        let text = text.get(..end).unwrap_or_default();
        self.bytes += text.len();
        self.kept.push_back((self.last, text.into()));
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.kept.pop_front()
        {
            self.bytes -= oldest.len();
        }
        self.last
    }

    /// At most `most` bytes from `offset` on; `None` when the output is not kept.
    pub(crate) fn piece(&self, number: u64, offset: usize, most: usize) -> Option<Piece<'_>> {
        let (_, text) = self.kept.iter().find(|(kept, _)| *kept == number)?;
        Some(piece(text, offset, most))
    }
}

/// At most `most` bytes from `offset` on, but at least one character where there is one.
pub(crate) fn piece(text: &str, offset: usize, most: usize) -> Piece<'_> {
    let start = text.floor_char_boundary(offset);
    let rest = text.get(start..).unwrap_or_default();
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let end = rest.floor_char_boundary(most).max(first);
    Piece { text: rest.get(..end).unwrap_or_default(), start, total: text.len() }
}

impl Piece<'_> {
    /// Offset of what follows; `None` at the end.
    pub(crate) fn next(&self) -> Option<usize> {
        let end = self.start + self.text.len();
        (end < self.total).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_whole() {
        let text = "aä€🦀".repeat(100);
        let mut outputs = Outputs::default();
        let number = outputs.keep(&text);
        for most in [0, 1, 3, 7, 1000] {
            let (mut read, mut offset) = (String::new(), Some(0));
            while let Some(from) = offset {
                let piece = outputs.piece(number, from, most).unwrap();
                read.push_str(piece.text);
                offset = piece.next();
            }
            assert_eq!(read, text, "{most}");
        }
        let end = outputs.piece(number, usize::MAX, 10).unwrap();
        assert_eq!((end.text, end.next()), ("", None));
        assert_eq!(outputs.piece(number + 1, 0, 10), None);
    }

    #[test]
    fn the_newest_outputs_are_kept() {
        let mut outputs = Outputs::default();
        let first = outputs.keep("first");
        let large = outputs.keep(&"x".repeat(MAX_BYTES + 10));
        let last = outputs.keep("last");
        assert_eq!(outputs.piece(first, 0, 10), None);
        assert_eq!(outputs.piece(large, 0, 10), None);
        assert_eq!(outputs.piece(last, 0, 10).unwrap().text, "last");
        assert_eq!((outputs.bytes, outputs.kept.len()), (4, 1));
        for _ in 0..10_000 {
            outputs.keep(&"y".repeat(1 << 20));
        }
        assert!(outputs.bytes <= MAX_BYTES && outputs.kept.len() <= 8);
    }
}
