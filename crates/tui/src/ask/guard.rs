//! Keeps keys from a dialog that were meant for something else: it may appear while a person types, or a
//! person may type without looking.

/// So long after it appeared, in milliseconds, a dialog takes no keys.
const APPEARED: u64 = 400;
/// A key within this time of the one before it, in milliseconds, goes on with what was being typed.
const TYPING: u64 = 300;
/// The same after a letter that is no choice: what follows it is most likely the rest of a message.
const TYPING_PAST: u64 = 1_000;

/// Lets the first deliberate key through and all that follow it.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    appeared_ms: u64,
    last_key_ms: Option<u64>,
    pause_ms: u64,
    is_open: bool,
}

impl Guard {
    pub(super) fn new(now_ms: u64, last_key_ms: Option<u64>) -> Self {
        Self { appeared_ms: now_ms, last_key_ms, pause_ms: TYPING, is_open: false }
    }

    /// Of a dialog that the last key asked for.
    pub(super) fn open() -> Self {
        Self { appeared_ms: 0, last_key_ms: None, pause_ms: TYPING, is_open: true }
    }

    /// A letter came that is no choice.
    pub(super) fn typed_past(&mut self, now_ms: u64) {
        self.last_key_ms = Some(now_ms);
        self.pause_ms = TYPING_PAST;
        self.is_open = false;
    }

    /// Why a key that comes now does nothing, if so. `is_text` holds for what messages are written with.
    pub(super) fn refuses(&mut self, now_ms: u64, is_text: bool) -> Option<&'static str> {
        if self.is_open || (self.pause_ms == TYPING_PAST && !is_text) {
            return None;
        }
        let since = |then: u64| now_ms.saturating_sub(then);
        let last = self.last_key_ms.replace(now_ms);
        if since(self.appeared_ms) < APPEARED {
            return Some("This has just appeared: the key did nothing");
        }
        if last.is_some_and(|last| since(last) < self.pause_ms) {
            return Some("You were still typing: the key did nothing; pause for a moment");
        }
        self.is_open = true;
        None
    }
}
