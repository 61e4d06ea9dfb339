//! The input of the terminal: keys, pasted text, changes of the focus, and replies to queries, from
//! any split of the bytes. Replies are recognised whenever they come, so a terminal that answers
//! late types nothing.

mod sequence;

use std::mem;
use std::time::Duration;

/// Time after an ESC without further bytes for it to be the key.
const KEY: Duration = Duration::from_millis(30);
/// Time for the rest of a sequence to arrive, over a slow connection.
const SEQUENCE: Duration = Duration::from_secs(2);
/// Time for the rest of a paste to arrive.
const PASTE: Duration = Duration::from_secs(5);
/// Bytes of a sequence, of which more is thrown away.
const MAX_SEQUENCE: usize = 4 << 10;
/// Bytes of one paste; more comes as a second one.
pub const MAX_PASTE: usize = 32 << 20;
/// The end of a bracketed paste.
const PASTE_END: &[u8] = b"\x1b[201~";

/// Something from the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted. Line breaks are `\n`.
    Paste(String),
    /// The terminal's window was focused or left.
    Focus(bool),
    /// A reply to a query.
    Reply(Reply),
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the members are the modifiers")]
pub struct Key {
    pub code: Code,
    pub ctrl: bool,
    pub alt: bool,
    pub shift: bool,
}

/// Which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is a key")]
pub enum Code {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Insert,
    Esc,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    F(u8),
}

impl Key {
    /// The key alone.
    #[must_use]
    pub const fn plain(code: Code) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// The character with Ctrl.
    #[must_use]
    pub const fn ctrl(c: char) -> Self {
        Self { ctrl: true, ..Self::plain(Code::Char(c)) }
    }

    /// The key with Alt.
    #[must_use]
    pub const fn alt(code: Code) -> Self {
        Self { alt: true, ..Self::plain(code) }
    }

    /// The key with Shift.
    #[must_use]
    pub const fn shift(code: Code) -> Self {
        Self { shift: true, ..Self::plain(code) }
    }

    /// The character that the key types, if it types one.
    #[must_use]
    pub fn typed(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }
}

/// A terminal's reply to the queries of [`QUERIES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The background's red, green and blue.
    Background(u8, u8, u8),
    /// True if frames can be shown as a whole (mode 2026).
    Synchronized(bool),
    /// True if pastes are marked (mode 2004).
    Bracketed(bool),
    /// Keys can be reported with all modifiers (the keyboard protocol of kitty).
    Keyboard,
    /// The row of the cursor, from 1 on. Only tmux is asked, with the cursor in the first column: in others,
    /// this could be F3 with modifiers.
    Row(usize),
    /// Every terminal answers this one, so no other reply will come.
    Attributes,
}

/// Asks for everything in [`Reply`].
pub const QUERIES: &[u8] = b"\x1b]11;?\x1b\\\x1b[?2026$p\x1b[?2004$p\x1b[?u\x1b[c";

/// Turns bytes into [`Input`].
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    /// The bytes of an unfinished character or sequence, or of a paste.
    held: Vec<u8>,
    inputs: Vec<Input>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// Within the bytes of one character.
    Character,
    /// After ESC.
    Escape,
    /// After ESC O.
    Single,
    /// After ESC [.
    Control,
    /// In a string: after ESC ], ESC P, ESC _, ESC ^ or ESC X.
    Text,
    /// In such a string, after an ESC.
    TextEscape,
    Paste,
}

impl Decoder {
    /// Takes bytes and returns what they complete.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Vec<Input> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.state == State::Paste {
                bytes = self.paste(bytes);
                continue;
            }
            self.byte(byte);
            bytes = rest;
        }
        mem::take(&mut self.inputs)
    }

    /// Returns the wait for the next byte before [`Decoder::expire`], where a sequence is
    /// unfinished.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        match self.state {
            State::Ground => None,
            // It may be a key.
            State::Escape | State::Single => Some(KEY),
            State::Control | State::Character if self.held.is_empty() => Some(KEY),
            State::Text | State::TextEscape if self.held.len() < 2 => Some(KEY),
            // No key is as long. The rest would be typed, and the line breaks of a paste would send it.
            State::Control | State::Character | State::Text | State::TextEscape => Some(SEQUENCE),
            State::Paste => Some(PASTE),
        }
    }

    /// Nothing followed: an ESC was the key, and a paste without its end is over.
    pub fn expire(&mut self) -> Vec<Input> {
        match mem::take(&mut self.state) {
            State::Escape => self.key(Key::plain(Code::Esc)),
            State::Single => self.key(Key::alt(Code::Char('O'))),
            State::Control if self.held.is_empty() => self.key(Key::alt(Code::Char('['))),
            State::Paste => self.pasted(),
            State::Character => self.key(Key::plain(Code::Char(char::REPLACEMENT_CHARACTER))),
            _ => {}
        }
        self.held.clear();
        mem::take(&mut self.inputs)
    }

    fn byte(&mut self, byte: u8) {
        match self.state {
            State::Ground => self.ground(byte, false),
            State::Character => self.character(byte),
            State::Escape => self.escape(byte),
            State::Single => {
                self.state = State::Ground;
                if let Some(key) = sequence::single(byte) {
                    self.key(key);
                }
            }
            State::Control => self.control(byte),
            State::Text => match byte {
                0x1b => self.state = State::TextEscape,
                0x07 => self.end_text(),
                // Interrupts a string in every terminal.
                0x18 | 0x1a => self.reset(),
                _ => self.hold(byte),
            },
            State::TextEscape => match byte {
                b'\\' => self.end_text(),
                _ => {
                    self.reset();
                    self.escape(byte);
                }
            },
            // Taken before, many bytes at once.
            State::Paste => self.held.push(byte),
        }
    }

    fn ground(&mut self, byte: u8, alt: bool) {
        self.state = State::Ground;
        let key = |code| Key { alt, ..Key::plain(code) };
        match byte {
            0x1b => self.state = State::Escape,
            b'\r' => self.key(key(Code::Enter)),
            // Ctrl+J: a line break in terminals that cannot tell Shift+Enter.
            b'\t' => self.key(key(Code::Tab)),
            0x7f => self.key(key(Code::Backspace)),
            0 => self.key(Key { alt, ..Key::ctrl(' ') }),
            0x01..0x1b => self.key(Key { alt, ..Key::ctrl((b'a' + byte - 1) as char) }),
            0x1c..0x20 => self.key(Key { alt, ..Key::ctrl((byte + 0x40) as char) }),
            0x20..0x7f => self.key(key(Code::Char(byte as char))),
            0x80.. => {
                self.held.push(byte);
                self.state = State::Character;
                self.complete_character();
            }
        }
    }

    fn character(&mut self, byte: u8) {
        if byte & 0xc0 != 0x80 {
            // The character was cut off.
            self.reset();
            self.key(Key::plain(Code::Char(char::REPLACEMENT_CHARACTER)));
            self.ground(byte, false);
            return;
        }
        self.held.push(byte);
        self.complete_character();
    }

    fn complete_character(&mut self) {
        let c = match str::from_utf8(&self.held) {
            Ok(text) => text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER),
            Err(error) if error.error_len().is_none() => return,
            Err(_) => char::REPLACEMENT_CHARACTER,
        };
        self.reset();
        self.key(Key::plain(Code::Char(c)));
    }

    fn escape(&mut self, byte: u8) {
        self.state = match byte {
            b'[' => State::Control,
            b'O' => State::Single,
            b']' | b'P' | b'_' | b'^' | b'X' => {
                self.held.push(byte);
                State::Text
            }
            0x1b => {
                self.key(Key::plain(Code::Esc));
                State::Escape
            }
            _ => return self.ground(byte, true),
        };
    }

    fn control(&mut self, byte: u8) {
        match byte {
            0x1b => {
                self.reset();
                self.state = State::Escape;
            }
            0x20..0x40 => self.hold(byte),
            0x40..0x7f => {
                let parameters = mem::take(&mut self.held);
                self.state = State::Ground;
                if (parameters.as_slice(), byte) == (b"200", b'~') {
                    self.state = State::Paste;
                } else {
                    self.inputs.extend(sequence::control(&parameters, byte));
                }
            }
            _ => self.reset(),
        }
    }

    fn hold(&mut self, byte: u8) {
        if self.held.len() < MAX_SEQUENCE {
            self.held.push(byte);
        }
    }

    fn end_text(&mut self) {
        let text = mem::take(&mut self.held);
        self.state = State::Ground;
        self.inputs.extend(sequence::text(&text));
    }

    /// Takes the bytes of a paste up to its end; returns those after it.
    fn paste<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        // The end may have begun in bytes that came before.
        let seen = self.held.len();
        let from = seen.saturating_sub(PASTE_END.len() - 1);
        self.held.extend_from_slice(bytes);
        let end = self.held[from..].windows(PASTE_END.len()).position(|window| window == PASTE_END);
        let Some(end) = end.map(|end| end + from) else {
            if self.held.len() > MAX_PASTE {
                self.pasted();
            }
            return &[];
        };
        self.held.truncate(end);
        self.state = State::Ground;
        self.pasted();
        &bytes[end + PASTE_END.len() - seen..]
    }

    fn pasted(&mut self) {
        let bytes = mem::take(&mut self.held);
        let text = String::from_utf8_lossy(&bytes);
        // Terminals send carriage returns for line breaks.
        self.inputs.push(Input::Paste(text.replace("\r\n", "\n").replace('\r', "\n")));
    }

    fn key(&mut self, key: Key) {
        self.inputs.push(Input::Key(key));
    }

    fn reset(&mut self) {
        self.held.clear();
        self.state = State::Ground;
    }
}
