//! A strict JSON reader over a slice: it builds nothing, and accepts exactly what `serde_json`
//! accepts. It knows no field of the API.

use std::borrow::Cow;

use memchr::memchr2;

use super::words;

/// Most open arrays and objects; deeper nesting is malformed.
pub const MAX_DEPTH: u8 = 127;
/// Numbers with fewer digits and without an exponent are in the range of a double.
const SAFE_DIGITS: usize = 300;
/// Strings are scanned word by word up to this length, and with vectors beyond it.
const SHORT: usize = 64;

/// A range of bytes in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The end, exclusive.
    pub end: usize,
}

impl Span {
    /// The bytes of the range; empty when `body` is too short.
    pub fn bytes_in(self, body: &[u8]) -> &[u8] {
        body.get(self.start..self.end).unwrap_or_default()
    }
}

/// The body is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {at}")]
pub struct Malformed {
    /// Offset in bytes.
    pub at: usize,
    /// The mistake at that offset.
    pub reason: &'static str,
}

/// A string in the body, undecoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Str {
    /// The range, quotes included.
    pub(super) span: Span,
    /// Bytes of escape sequences, less one for each scalar value.
    surplus: usize,
    pub(super) escaped: bool,
}

/// A number in the body, unparsed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) span: Span,
    /// True if it has neither a fraction nor an exponent.
    pub(super) integer: bool,
}

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u8,
    ascii: bool,
}

impl<'a> Cursor<'a> {
    /// # Errors
    /// When `bytes` are not UTF-8, or begin with a byte order mark.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        // The text looks right in every editor, so the mistake must be named.
        let reason = match bytes {
            [0xef, 0xbb, 0xbf, ..] => Some("a byte order mark"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{', 0, ..] | [0, b'{', ..] => {
                Some("UTF-16 instead of UTF-8")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(Malformed { at: 0, reason });
        }
        let ascii = bytes.is_ascii();
        if !ascii && let Err(error) = std::str::from_utf8(bytes) {
            return Err(Malformed { at: error.valid_up_to(), reason: "not UTF-8" });
        }
        Ok(Self { bytes, at: 0, depth: 0, ascii })
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The first byte of the next token; skips white space.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// # Errors
    /// When anything but white space follows.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wrong("something follows the value")),
        }
    }

    /// Enters the array or object that starts at the next byte.
    pub(super) fn open(&mut self) -> Result<(), Malformed> {
        if self.depth == MAX_DEPTH {
            return Err(self.wrong("arrays and objects are nested too deeply"));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// The next key of the open object; skips its colon. `None` at the end of the object.
    #[inline]
    pub(super) fn next_key(&mut self, first: &mut bool) -> Result<Option<Str>, Malformed> {
        if !self.next(first, b'}')? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a key was expected"));
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.wrong("a colon was expected"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Returns whether the open array has a next element.
    #[inline]
    pub(super) fn next_element(&mut self, first: &mut bool) -> Result<bool, Malformed> {
        self.next(first, b']')
    }

    #[inline]
    fn next(&mut self, first: &mut bool, close: u8) -> Result<bool, Malformed> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !was_first => {
                self.at += 1;
                match self.peek() {
                    Some(byte) if byte == close => Err(self.wrong("a comma before the end")),
                    _ => Ok(true),
                }
            }
            Some(_) if was_first => Ok(true),
            Some(_) => Err(self.wrong("a comma was expected")),
            None => Err(self.wrong("the body ends too early")),
        }
    }

    /// Reads the string that starts at the next byte.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Str, Malformed> {
        let start = self.at;
        self.at += 1;
        let (mut surplus, mut escaped) = (0, false);
        loop {
            self.plain();
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Str { span: Span { start, end: self.at }, surplus, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    surplus += self.escape()? - 1;
                }
                Some(_) => return Err(self.wrong("a control character in a string")),
                None => return Err(self.wrong("the body ends within a string")),
            }
        }
    }

    /// Skips characters without escapes.
    #[inline]
    fn plain(&mut self) {
        let rest = &self.bytes[self.at..];
        let short = &rest[..rest.len().min(SHORT)];
        self.at += match words::find(short, words::special, is_special) {
            Some(length) => length,
            None => long_plain(rest),
        };
    }

    /// Skips an escape sequence, or both of a surrogate pair. Returns its length.
    fn escape(&mut self) -> Result<usize, Malformed> {
        let start = self.at;
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let code = self.hex()?;
                if matches!(code, 0xDC00..=0xDFFF) {
                    return Err(self.wrong("half of a surrogate pair"));
                }
                if matches!(code, 0xD800..=0xDBFF) && !matches!(self.hex()?, 0xDC00..=0xDFFF) {
                    return Err(self.wrong("half of a surrogate pair"));
                }
            }
            _ => return Err(self.wrong("an unknown escape sequence")),
        }
        Ok(self.at - start)
    }

    /// Reads the digits of `\uXXXX`.
    fn hex(&mut self) -> Result<u16, Malformed> {
        let wrong = self.wrong("four hexadecimal digits were expected");
        let Some([b'\\', b'u', digits @ ..]) = self.bytes.get(self.at..self.at + 6) else {
            return Err(wrong);
        };
        let mut code = 0_u16;
        for digit in digits {
            let Some(digit) = char::from(*digit).to_digit(16) else { return Err(wrong) };
            code = code << 4 | digit as u16;
        }
        self.at += 6;
        Ok(code)
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Result<Number, Malformed> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            return Err(self.wrong("a number begins with 0"));
        }
        let (mut integer, mut exponent) = (true, false);
        if self.bytes.get(self.at) == Some(&b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            (integer, exponent) = (false, true);
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        let span = Span { start, end: self.at };
        let long = exponent || span.end - span.start > SAFE_DIGITS;
        if long && serde_json::from_slice::<f64>(span.bytes_in(self.bytes)).is_err() {
            return Err(Malformed { at: start, reason: "a number out of range" });
        }
        Ok(Number { span, integer })
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        if length == 0 {
            return Err(self.wrong("a digit was expected"));
        }
        self.at += length;
        Ok(())
    }

    /// Skips `true`, `false`, `null` or a number.
    #[inline]
    pub(super) fn scalar(&mut self) -> Result<(), Malformed> {
        let word: &[u8] = match self.bytes.get(self.at) {
            Some(b't') => b"true",
            Some(b'f') => b"false",
            Some(b'n') => b"null",
            Some(b'-' | b'0'..=b'9') => return self.number().map(drop),
            Some(_) => return Err(self.wrong("a value was expected")),
            None => return Err(self.wrong("the body ends too early")),
        };
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.wrong("a value was expected"));
        }
        self.at += word.len();
        Ok(())
    }

    /// The decoded value of `string`. Allocates only if it has escapes.
    pub(super) fn decoded(&self, string: Str) -> Cow<'a, [u8]> {
        let Span { start, end } = string.span;
        if !string.escaped {
            return Cow::Borrowed(&self.bytes[start + 1..end - 1]);
        }
        // It was read before, so it is valid.
        let text = serde_json::from_slice::<String>(string.span.bytes_in(self.bytes));
        Cow::Owned(text.unwrap_or_default().into_bytes())
    }

    /// Number of Unicode scalar values in the decoded `string`.
    pub(super) fn scalars(&self, string: Str) -> u64 {
        let Span { start, end } = string.span;
        let raw = &self.bytes[start + 1..end - 1];
        let scalars = if self.ascii { raw.len() } else { count_scalars(raw) };
        (scalars - string.surplus) as u64
    }

    pub(super) fn wrong(&self, reason: &'static str) -> Malformed {
        Malformed { at: self.at, reason }
    }
}

/// Number of Unicode scalar values in UTF-8: bytes that are not continuation bytes.
pub(super) fn count_scalars(utf8: &[u8]) -> usize {
    // Sums of up to 255 fit into a byte, which lets sixteen be added at once.
    utf8.chunks(255)
        .map(|chunk| {
            usize::from(chunk.iter().map(|byte| u8::from((*byte as i8) >= -0x40)).sum::<u8>())
        })
        .sum()
}

/// Length of the prefix of a long string without quotes, escapes or control characters.
fn long_plain(bytes: &[u8]) -> usize {
    let length = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
    let segment = &bytes[..length];
    let control = segment.iter().fold(false, |found, byte| found | (*byte < 0x20));
    let at = if control { segment.iter().position(|byte| *byte < 0x20) } else { None };
    at.unwrap_or(length)
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}
