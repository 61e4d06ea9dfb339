//! Keeps the head and the tail of a command's output within a bound.

use std::collections::VecDeque;

/// The default bound.
pub const DEFAULT_OUTPUT_CAP: usize = 1024 * 1024;

/// Collected output of at most `cap` bytes: half of them from its start, half from its end.
#[derive(Clone, Debug)]
pub struct OutputBuffer {
    head: Vec<u8>,
    head_cap: usize,
    tail: VecDeque<u8>,
    tail_cap: usize,
    omitted: u64,
}

impl Default for OutputBuffer {
    fn default() -> Self {
        OutputBuffer::new(DEFAULT_OUTPUT_CAP)
    }
}

impl OutputBuffer {
    /// Keeps at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        let head_cap = cap / 2;
        OutputBuffer {
            head: Vec::new(),
            head_cap,
            tail: VecDeque::new(),
            tail_cap: cap - head_cap,
            omitted: 0,
        }
    }

    /// A buffer without a bound; the caller is responsible for the memory.
    pub fn unbounded() -> Self {
        OutputBuffer::new(usize::MAX)
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.head_cap - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        let from_tail = excess.min(self.tail.len());
        self.tail.drain(..from_tail);
        self.tail.extend(rest.get(excess - from_tail..).unwrap_or_default());
        self.omitted += excess as u64;
    }

    /// Number of omitted bytes between head and tail.
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Returns whether there was no output.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.omitted == 0
    }

    /// Head and tail, with a marker between them if bytes were omitted.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.omitted > 0 {
            bytes.extend_from_slice(self.marker().as_bytes());
        }
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        bytes
    }

    /// [`OutputBuffer::bytes`] as text, with U+FFFD for invalid UTF-8.
    pub fn text(&self) -> String {
        match String::from_utf8(self.bytes()) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    /// As [`OutputBuffer::text`], without copying complete output.
    pub fn into_text(mut self) -> String {
        let marker = if self.omitted > 0 { self.marker() } else { String::new() };
        let mut bytes = std::mem::take(&mut self.head);
        let (front, back) = self.tail.as_slices();
        bytes.reserve_exact(marker.len() + front.len() + back.len());
        for part in [marker.as_bytes(), front, back] {
            bytes.extend_from_slice(part);
        }
        drop(self);
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn marker(&self) -> String {
        format!("\n[… {} bytes omitted …]\n", self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(cap: usize, pieces: &[&[u8]]) -> String {
        let mut buffer = OutputBuffer::new(cap);
        pieces.iter().for_each(|piece| buffer.push(piece));
        assert_eq!(buffer.clone().into_text(), buffer.text());
        buffer.into_text()
    }

    #[test]
    fn head_and_tail() {
        let check = |cap, pieces: &[&[u8]], expect: &str| assert_eq!(collect(cap, pieces), expect);
        check(4, &[b"ab"], "ab");
        check(4, &[b"ab", b"cd"], "abcd");
        check(4, &[b"abc", b"de"], "ab\n[… 1 bytes omitted …]\nde");
        check(4, &[b"a", b"bcdefg", b"h"], "ab\n[… 4 bytes omitted …]\ngh");
        check(0, &[b"abc"], "\n[… 3 bytes omitted …]\n");
        check(10, &[b"\xffa"], "\u{fffd}a");
    }

    proptest! {
        #[test]
        fn output_is_bounded_and_complete_up_to_the_bound(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..10),
            cap in 0usize..40,
        ) {
            let mut buffer = OutputBuffer::new(cap);
            pieces.iter().for_each(|piece| buffer.push(piece));
            let all = pieces.concat();
            prop_assert!(buffer.head.len() + buffer.tail.len() <= cap);
            let kept = buffer.head.len() + buffer.tail.len();
            prop_assert_eq!(kept as u64 + buffer.omitted(), all.len() as u64);
            prop_assert!(all.starts_with(&buffer.head));
            let tail: Vec<u8> = buffer.tail.iter().copied().collect();
            prop_assert!(all.ends_with(&tail));
            if all.len() <= cap {
                prop_assert_eq!(buffer.bytes(), all);
            }
        }
    }
}
