//! Bounds the size of a server-sent event before it is parsed. Comments, which keep a connection open,
//! do not count.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;

/// A stream of bytes that ends with an error when an event is too large.
pub(super) struct EventLimit<S> {
    inner: Pin<Box<S>>,
    counter: Counter,
    has_failed: bool,
}

/// Why a stream ended.
#[derive(Debug)]
pub(super) enum LimitError<E> {
    TooLarge { max: usize },
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for LimitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max } => {
                write!(f, "the server's answer is longer than {} MiB", max >> 20)
            }
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LimitError<E> {}

impl<S> EventLimit<S> {
    pub(super) fn new(inner: S, max: usize) -> Self {
        Self { inner: Box::pin(inner), counter: Counter::new(max), has_failed: false }
    }
}

impl<S: Stream<Item = Result<Bytes, E>>, E> Stream for EventLimit<S> {
    type Item = Result<Bytes, LimitError<E>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_failed {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = self.inner.as_mut().poll_next(cx) else { return Poll::Pending };
        Poll::Ready(match next {
            None => None,
            Some(Err(error)) => {
                self.has_failed = true;
                Some(Err(LimitError::Inner(error)))
            }
            Some(Ok(bytes)) if self.counter.admits(&bytes) => Some(Ok(bytes)),
            Some(Ok(_)) => {
                self.has_failed = true;
                Some(Err(LimitError::TooLarge { max: self.counter.max }))
            }
        })
    }
}

/// Counts the bytes of the event that is being read.
struct Counter {
    max: usize,
    event: usize,
    line: usize,
    is_comment: bool,
    after_return: bool,
}

impl Counter {
    fn new(max: usize) -> Self {
        Self { max, event: 0, line: 0, is_comment: false, after_return: false }
    }

    /// Returns whether the event that is being read is still within the bound.
    fn admits(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.count(*byte))
    }

    fn count(&mut self, byte: u8) -> bool {
        let ends_return = std::mem::take(&mut self.after_return);
        match byte {
            b'\n' if ends_return => {}
            b'\n' | b'\r' => {
                self.after_return = byte == b'\r';
                match self.line {
                    0 => self.event = 0,
                    line if self.is_comment => self.event -= line,
                    _ => {}
                }
                self.line = 0;
            }
            _ => {
                if self.line == 0 {
                    self.is_comment = byte == b':';
                }
                self.line += 1;
                self.event += 1;
            }
        }
        self.event <= self.max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_are_counted_and_comments_are_not() {
        let check = |max: usize, text: &str, admitted: bool| {
            assert_eq!(Counter::new(max).admits(text.as_bytes()), admitted, "{text:?}");
        };
        check(7, "data: a\n\ndata: b\r\n\r\ndata: c\r\r", true);
        check(6, "data: a", false);
        check(7, "data: a\nid: 1", false);
        check(6, ": ping\n: ping\n: ping\n", true);
        check(5, ": ping", false);
    }

    proptest! {
        #[test]
        fn what_is_held_of_an_event_is_bounded(
            text in "[a:\r\n]{0,60}",
            max in 0usize..20,
        ) {
            let mut counter = Counter::new(max);
            let admitted = counter.admits(text.as_bytes());
            let lines = text.replace("\r\n", "\n").replace('\r', "\n");
            let longest = lines.split("\n\n").map(|event| {
                let lines = event.split('\n').filter(|line| !line.starts_with(':'));
                lines.map(str::len).sum::<usize>()
            });
            // An event that is admitted is no longer than the bound, however it is divided.
            if admitted {
                prop_assert!(longest.max().unwrap_or(0) <= max);
            }
        }
    }
}
