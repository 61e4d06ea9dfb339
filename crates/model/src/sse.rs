//! Reading server-sent events: bytes in any split in, the data of whole events out. Event names,
//! ids and retry hints are ignored, because the data of this API names its own type.

use memchr::memchr2;

/// Longest line, and longest data of one event, in bytes; a longer one ends the stream.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// An event exceeded [`MAX_EVENT_BYTES`]; nothing more can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model provider sent an event longer than {} MiB", MAX_EVENT_BYTES >> 20)]
pub(crate) struct TooLong;

/// Splits bytes into events. Events that lie whole within one chunk are handed out without a copy;
/// what a chunk leaves unfinished is kept, at most twice [`MAX_EVENT_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Start of a line whose end has not come.
    line: Vec<u8>,
    /// Data lines of the event that has not ended, joined by `\n`.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was CR: a LF that comes next belongs to the same line end.
    after_cr: bool,
    /// How much of [`BOM`] was matched, until the stream's first bytes are decided.
    bom: Option<usize>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { bom: Some(0), ..Self::default() }
    }

    /// Reads `chunk` and calls `on_data` with the data of each event that ends in it.
    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        mut on_data: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        let mut rest = self.strip_bom(chunk);
        // Data that lies in `chunk` and has not been copied to `self.data`.
        let mut pending: Option<&[u8]> = None;
        loop {
            if self.after_cr && !rest.is_empty() {
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                self.after_cr = false;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else { break };
            let head = &rest[..end];
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                self.take_line(head, &mut pending, &mut on_data)?;
            } else {
                self.take_carried_line(head, &mut pending, &mut on_data)?;
            }
        }
        if let Some(data) = pending {
            self.keep_data(data)?;
        }
        append(&mut self.line, rest)
    }

    fn take_line<'a>(
        &mut self,
        line: &'a [u8],
        pending: &mut Option<&'a [u8]>,
        on_data: &mut impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        if line.is_empty() {
            self.dispatch(pending.take(), on_data);
            return Ok(());
        }
        let Some(data) = data_value(line) else { return Ok(()) };
        if !self.has_data && pending.is_none() {
            *pending = Some(data);
            return Ok(());
        }
        if let Some(first) = pending.take() {
            self.keep_data(first)?;
        }
        self.keep_data(data)
    }

    /// The end of a line whose start came with an earlier chunk.
    fn take_carried_line(
        &mut self,
        head: &[u8],
        pending: &mut Option<&[u8]>,
        on_data: &mut impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        append(&mut self.line, head)?;
        let mut line = std::mem::take(&mut self.line);
        let mut carried = None;
        // Only the first line of a chunk can be carried, so nothing of this chunk is pending.
        debug_assert!(pending.is_none());
        self.take_line(&line, &mut carried, on_data)?;
        if let Some(data) = carried {
            self.keep_data(data)?;
        }
        line.clear();
        self.line = line;
        Ok(())
    }

    fn dispatch(&mut self, pending: Option<&[u8]>, on_data: &mut impl FnMut(&[u8])) {
        if let Some(data) = pending {
            on_data(data);
        } else if self.has_data {
            on_data(&self.data);
            self.data.clear();
            self.has_data = false;
        }
    }

    fn keep_data(&mut self, data: &[u8]) -> Result<(), TooLong> {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        append(&mut self.data, data)
    }

    /// Skips a byte order mark at the very start, wherever the chunks divide it.
    fn strip_bom<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let Some(matched) = self.bom else { return chunk };
        let common = chunk.iter().zip(&BOM[matched..]).take_while(|(a, b)| a == b).count();
        let matched_now = matched + common;
        if matched_now == BOM.len() {
            self.bom = None;
            return &chunk[common..];
        }
        if common == chunk.len() {
            self.bom = Some(matched_now);
            return &[];
        }
        // Not a mark after all: what earlier chunks matched is content.
        self.bom = None;
        self.line.extend_from_slice(&BOM[..matched]);
        chunk
    }
}

/// The value of a `data` field, or `None` for comments and other fields.
fn data_value(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TooLong> {
    if buffer.len() + bytes.len() > MAX_EVENT_BYTES {
        return Err(TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut reader = Reader::new();
        let mut events = Vec::new();
        for chunk in chunks {
            reader.feed(chunk, |data| events.push(String::from_utf8_lossy(data).into())).unwrap();
        }
        events
    }

    #[test]
    fn events_by_the_rules_of_the_format() {
        let check = |text: &str, expect: &[&str]| {
            assert_eq!(read([text.as_bytes()]), expect, "{text:?}");
        };
        check("data: a\n\n", &["a"]);
        check("data:a\r\n\r\ndata:  b\r\r", &["a", " b"]);
        check("event: x\nid: 1\nretry: 5\ndata: a\n: comment\ndata: b\n\n", &["a\nb"]);
        check("data\n\n", &[""]);
        check("data\ndata\n\n", &["\n"]);
        check("\n\n: hi\n\nevent: only\n\n", &[]);
        check("dataset: no\n\n", &[]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("\u{feff}\u{feff}data: a\n\n", &[]);
        check("data: cut", &[]);
        check("data: a\n", &[]);
    }

    #[test]
    fn a_line_over_the_bound_is_refused() {
        let mut reader = Reader::new();
        let chunk = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        assert_eq!(reader.feed(&chunk, |_| ()), Ok(()));
        assert_eq!(reader.feed(&chunk, |_| ()), Err(TooLong));
    }

    fn split_at<'a>(mut text: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
        let mut chunks = Vec::new();
        for &size in sizes {
            let (head, tail) = text.split_at(size.min(text.len()));
            chunks.push(head);
            text = tail;
        }
        chunks.push(text);
        chunks
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            text in "(\u{feff})?(data|data:|data: |event: |: |x|é|\n|\r|\r\n){0,40}",
            sizes in prop::collection::vec(0_usize..6, 0..60),
        ) {
            let whole = read([text.as_bytes()]);
            prop_assert_eq!(read(split_at(text.as_bytes(), &sizes)), whole);
        }

        #[test]
        fn any_bytes_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            sizes in prop::collection::vec(0_usize..9, 0..40),
        ) {
            let whole = read([bytes.as_slice()]);
            prop_assert_eq!(read(split_at(&bytes, &sizes)), whole);
        }
    }
}
