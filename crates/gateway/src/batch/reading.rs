//! Reads a stored file line by line, with one line and one chunk in memory. People write these files with editors
//! and shells of all kinds: byte order marks are skipped, and a text that is not UTF-8 is named.

use bytes::{Buf, BytesMut};
use memchr::memchr;

use gateway_store::database::Database;
use gateway_store::records::files::{self, File};

/// The byte order mark in UTF-8, which has no meaning there.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// An iterator over lines.
pub(super) struct Lines<'a> {
    database: &'a Database,
    file: &'a File,
    /// Offset of the next chunk.
    at: u64,
    buffer: BytesMut,
    /// Length of the buffer's prefix without a newline.
    searched: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(database: &'a Database, file: &'a File) -> Self {
        Self { database, file, at: 0, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line, without its newline; `None` after the last one.
    ///
    /// # Errors
    /// The store's, or that of a file that was deleted in the meantime.
    pub(super) async fn next(&mut self) -> Result<Option<BytesMut>, gateway_store::Error> {
        loop {
            if let Some(end) = memchr(b'\n', &self.buffer[self.searched..]) {
                let mut line = self.buffer.split_to(self.searched + end + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(without_mark(line)));
            }
            self.searched = self.buffer.len();
            if self.at >= self.file.bytes {
                self.searched = 0;
                let rest = Some(self.buffer.split()).filter(|rest| !rest.is_empty());
                return Ok(rest.map(without_mark));
            }
            let Some(chunk) = files::read_at(self.database, &self.file.id, self.at).await? else {
                return Err(gateway_store::Error::failed("a file was deleted while it was read"));
            };
            self.at += chunk.len() as u64;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}

/// The line without a byte order mark at its beginning: even after the first line, because files are joined.
fn without_mark(mut line: BytesMut) -> BytesMut {
    while line.starts_with(UTF8_MARK) {
        line.advance(UTF8_MARK.len());
    }
    line
}

/// The name of the encoding of a file whose first line is not UTF-8, if its first bytes tell: marks, or the zeros of
/// an ASCII character.
pub(super) fn foreign_encoding(first: &[u8]) -> Option<&'static str> {
    match first {
        [0xff, 0xfe, 0, 0, ..]
        | [0, 0, 0xfe, 0xff, ..]
        | [1..=255, 0, 0, 0, ..]
        | [0, 0, 0, 1..=255, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [1..=255, 0, ..] | [0, 1..=255, ..] => Some("UTF-16"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_known_by_the_first_bytes() {
        let text = "\u{feff}{\"a\": 1}";
        let utf16 =
            |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
        let utf32 = |bytes: fn(u32) -> [u8; 4]| {
            text.chars().map(u32::from).flat_map(bytes).collect::<Vec<_>>()
        };
        for (marked, unit, name) in [
            (utf16(u16::to_le_bytes), 2, "UTF-16"),
            (utf16(u16::to_be_bytes), 2, "UTF-16"),
            (utf32(u32::to_le_bytes), 4, "UTF-32"),
            (utf32(u32::to_be_bytes), 4, "UTF-32"),
        ] {
            assert_eq!(foreign_encoding(&marked), Some(name), "{marked:?}");
            assert_eq!(foreign_encoding(&marked[unit..]), Some(name), "without a mark");
        }
        for utf8 in [text, "{\"a\": 1}", "", "{", "\r", "é"] {
            assert_eq!(foreign_encoding(utf8.as_bytes()), None, "{utf8:?}");
        }
    }

    #[test]
    fn marks_at_the_beginning_of_lines_are_skipped() {
        for (line, expected) in
            [("\u{feff}{}", "{}"), ("\u{feff}", ""), ("{\u{feff}}", "{\u{feff}}"), ("{}\r", "{}\r")]
        {
            assert_eq!(without_mark(line.into()), expected);
        }
    }
}
