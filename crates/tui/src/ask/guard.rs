//! Keeps keys from a dialog that were meant for something else: it may appear while a person types, or a
//! person may type without looking. Text that was meant for the message goes there.

use crate::terminal::input::{Code, Key};

/// So long after it appeared, in milliseconds, a dialog takes no keys.
const APPEARED: u64 = 400;
/// A key within this time of the one before it, in milliseconds, goes on with what was being typed.
pub(super) const TYPING: u64 = 300;
/// The same after a letter that is no answer: what follows it is most likely the rest of a message.
const TYPING_PAST: u64 = 1_000;

const JUST_APPEARED: &str = "This just appeared, so the key was ignored";
const STILL_TYPING: &str = "You were still typing, so the key was ignored; pause for a moment";
pub(super) const FOR_THE_MESSAGE: &str =
    "You are typing your message: ↑ and ↓ move to the answers, Esc refuses";

/// Lets the first deliberate key through and all that follow it.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    appeared_ms: u64,
    last_key_ms: Option<u64>,
    /// True once a deliberate key came.
    is_open: bool,
    /// True if a message is being written, in the composer or with what was typed here.
    is_writing: bool,
    /// Text since the last deliberate key, which may be part of a message.
    typed: String,
    /// Text that is part of the message.
    words: String,
    /// True if the last key asked for the dialog: all that follow are for it.
    is_wanted: bool,
}

impl Guard {
    /// `is_writing`: something is in the composer.
    pub(super) fn new(now_ms: u64, last_key_ms: Option<u64>, is_writing: bool) -> Self {
        Self {
            appeared_ms: now_ms,
            last_key_ms,
            is_open: false,
            is_writing,
            typed: String::new(),
            words: String::new(),
            is_wanted: false,
        }
    }

    /// Of a dialog that the last key asked for.
    pub(super) fn open() -> Self {
        Self { is_open: true, is_wanted: true, ..Self::new(0, None, false) }
    }

    /// True if the user opened the dialog, so that nothing can be meant for anything else.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// The dialog is new to the reader now, and what was typed before stays part of the message.
    pub(super) fn appears_again(&mut self, now_ms: u64) {
        (self.appeared_ms, self.is_open, self.is_wanted) = (now_ms, false, false);
    }

    /// Why a key that comes now does nothing, if so.
    pub(super) fn refuses(&mut self, now_ms: u64, key: Key) -> Option<&'static str> {
        if self.is_wanted {
            return None;
        }
        let last = self.last_key_ms.replace(now_ms);
        let is_within = |time: u64| last.is_some_and(|last| now_ms.saturating_sub(last) < time);
        let is_text = key.typed().is_some() || key.code == Code::Enter;
        if !self.is_open {
            let refusal = match () {
                () if now_ms.saturating_sub(self.appeared_ms) < APPEARED => Some(JUST_APPEARED),
                () if is_within(TYPING) => Some(STILL_TYPING),
                () => None,
            };
            if let Some(refusal) = refusal {
                return Some(self.for_message(key, refusal));
            }
        }
        // The same key again is impatience, not the next letter of a word.
        let goes_on = self.typed.chars().any(|letter| Some(letter) != key.typed());
        if is_text && goes_on && is_within(TYPING_PAST) {
            return Some(self.for_message(key, STILL_TYPING));
        }
        if is_text && self.is_writing {
            return Some(self.for_message(key, FOR_THE_MESSAGE));
        }
        // Esc leaves the dialog, and what was typed stays part of the message.
        if (turns_to_dialog(key) || key.code == Code::Esc) && self.is_writing {
            self.words.push_str(&std::mem::take(&mut self.typed));
            self.is_writing = false;
        }
        self.typed.clear();
        self.is_open = true;
        None
    }

    /// Keeps a key for the message; says so, or what else it was refused for.
    fn for_message(&mut self, key: Key, refusal: &'static str) -> &'static str {
        self.note(key);
        if self.is_writing { FOR_THE_MESSAGE } else { refusal }
    }

    /// Text came that is no answer.
    pub(super) fn note(&mut self, key: Key) {
        self.typed.extend(key.typed());
        let mut letters = self.typed.chars();
        // One key that is pressed again and again is impatience, not a word.
        let first = letters.next();
        self.is_writing |= letters.any(|letter| Some(letter) != first);
    }

    /// Text that was pasted, and is no answer.
    pub(super) fn note_paste(&mut self, text: &str) {
        self.typed.push_str(text);
        self.is_writing = true;
    }

    /// Takes out what belongs to the message.
    pub(super) fn take_words(&mut self) -> String {
        let mut words = std::mem::take(&mut self.words);
        let typed = std::mem::take(&mut self.typed);
        if self.is_writing {
            words.push_str(&typed);
        }
        words
    }
}

fn turns_to_dialog(key: Key) -> bool {
    matches!(key.code, Code::Up | Code::Down | Code::Tab)
}
