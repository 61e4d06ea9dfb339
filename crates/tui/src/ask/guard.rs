//! Keeps keys from a dialog that were meant for something else: it may appear while a person types.

/// So long after it appeared, in milliseconds, a dialog takes no keys.
const APPEARED: u64 = 400;
/// A key within this time of the one before it, in milliseconds, goes on with what was being typed.
const TYPING: u64 = 300;

/// Lets the first deliberate key through and all that follow it.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    appeared_ms: u64,
    last_key_ms: Option<u64>,
    is_open: bool,
}

impl Guard {
    pub(super) fn new(now_ms: u64, last_key_ms: Option<u64>) -> Self {
        Self { appeared_ms: now_ms, last_key_ms, is_open: false }
    }

    /// Of a dialog that the last key asked for.
    pub(super) fn open() -> Self {
        Self { appeared_ms: 0, last_key_ms: None, is_open: true }
    }

    /// Why a key that comes now does nothing, if so.
    pub(super) fn refuses(&mut self, now_ms: u64) -> Option<&'static str> {
        if self.is_open {
            return None;
        }
        let since = |then: u64| now_ms.saturating_sub(then);
        let last = self.last_key_ms.replace(now_ms);
        if since(self.appeared_ms) < APPEARED {
            return Some("This has just appeared: the key did nothing");
        }
        if last.is_some_and(|last| since(last) < TYPING) {
            return Some("You were still typing: the key did nothing; pause for a moment");
        }
        self.is_open = true;
        None
    }
}
