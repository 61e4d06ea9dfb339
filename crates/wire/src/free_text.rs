//! The input of a free-form tool that is a function with the one string `input`: the string is read out of the JSON
//! while that streams in.

use crate::json::{At, Object};

const BEFORE: &[u8] = b"{\"input\":\"";
/// Positions of [`BEFORE`] at which space may stand.
const SPACES: [usize; 4] = [0, 1, 8, 9];

/// The JSON of arguments so far, and the position in it.
#[derive(Debug, Default)]
pub(crate) struct FreeText {
    json: String,
    state: State,
    /// Bytes of `json` that were read.
    read: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// That many bytes of [`BEFORE`] were found.
    Before(usize),
    Inside,
    /// The string has ended, or the JSON has another form.
    Over,
}

impl Default for State {
    fn default() -> Self {
        Self::Before(0)
    }
}

impl FreeText {
    /// Appends a piece of the JSON, and returns the text that it completes.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.json.push_str(piece);
        while let State::Before(found) = self.state {
            let Some(byte) = self.json.as_bytes().get(self.read) else { return String::new() };
            self.read += 1;
            self.state = match byte {
                byte if *byte == BEFORE[found] && found + 1 == BEFORE.len() => State::Inside,
                byte if *byte == BEFORE[found] => State::Before(found + 1),
                byte if byte.is_ascii_whitespace() && SPACES.contains(&found) => {
                    State::Before(found)
                }
                _ => State::Over,
            };
        }
        let mut out = String::new();
        while self.state == State::Inside {
            let rest = &self.json[self.read..];
            let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
            out.push_str(&rest[..plain]);
            self.read += plain;
            match rest.as_bytes().get(plain) {
                None => break,
                Some(b'"') => self.state = State::Over,
                Some(_) => {
                    let Some((length, c)) = escape(&rest[plain..]) else { break };
                    out.push(c);
                    self.read += length;
                }
            }
        }
        out
    }

    /// The whole text, and true if the JSON is whole. JSON of another form is the text.
    pub(crate) fn finish(self) -> (String, bool) {
        let at = At::Root;
        match Object::read_str(&self.json, &at) {
            Ok(mut object) => match object.opt_text(&at, "input") {
                Ok(Some(text)) => (text.into_owned(), true),
                _ => (self.json, true),
            },
            Err(_) => {
                let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&self.json).is_ok();
                // A model may write the text itself.
                let is_text = !self.json.trim_ascii_start().starts_with('{');
                (self.json, is_json || is_text)
            }
        }
    }
}

/// The length and the character of an escape; `None` if it is not whole.
fn escape(text: &str) -> Option<(usize, char)> {
    let simple = |c| Some((2, c));
    match text.as_bytes().get(1)? {
        b'n' => simple('\n'),
        b't' => simple('\t'),
        b'r' => simple('\r'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'u' => {
            let unit = |at: usize| -> Option<u32> {
                text.get(at..at + 4).map(|digits| u32::from_str_radix(digits, 16).unwrap_or(0xfffd))
            };
            let first = unit(2)?;
            if !(0xd800..0xdc00).contains(&first) {
                return Some((6, char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
            // The other half follows.
            let rest = text.as_bytes().get(6..)?;
            if rest.len() < 6 && b"\\u".starts_with(&rest[..rest.len().min(2)]) {
                return None;
            }
            let second = if rest.starts_with(b"\\u") { unit(8)? } else { 0 };
            if !(0xdc00..0xe000).contains(&second) {
                return Some((6, char::REPLACEMENT_CHARACTER));
            }
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Some((12, char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)))
        }
        other if other.is_ascii() => simple(char::from(*other)),
        _ => {
            let length = text[1..].chars().next()?.len_utf8();
            Some((1 + length, char::REPLACEMENT_CHARACTER))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn json_of_another_form_is_the_text() {
        for (json, text, is_whole) in [
            ("{\"patch\":\"x\"}", "{\"patch\":\"x\"}", true),
            ("*** Begin Patch", "*** Begin Patch", true),
            ("{\"input\":\"cut", "{\"input\":\"cut", false),
            ("\"quoted\"", "\"quoted\"", true),
        ] {
            let mut free = FreeText::default();
            free.push(json);
            assert_eq!(free.finish(), (text.to_owned(), is_whole), "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_text_streams_out_of_any_pieces(text in any::<String>(), length in 1..9_usize, spaced in any::<bool>()) {
            let escaped = if spaced {
                // Every character as an escape.
                let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
                format!(" {{ \"input\" : \"{units}\" }}")
            } else {
                format!("{{\"input\":{}}}", crate::json::quoted(&text))
            };
            let mut free = FreeText::default();
            let characters: Vec<char> = escaped.chars().collect();
            let streamed: String = characters
                .chunks(length)
                .map(|piece| free.push(&piece.iter().collect::<String>()))
                .collect();
            prop_assert_eq!(&streamed, &text);
            prop_assert_eq!(free.finish(), (text, true));
        }
    }
}
