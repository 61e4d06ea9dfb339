//! Reads rows from pages: the cells of a b-tree page, their overflow pages, and the values of a
//! record. Checks everything, because a page can contain anything. A damaged cell does not affect
//! others.
//!
//! Formats: <https://www.sqlite.org/fileformat2.html>, sections 1.6 and 2.1.

use rusqlite::types::Value;

use super::pages::{PAGE, Page, Pages};

/// The kind of a b-tree page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows of a table.
    TableLeaf,
    /// Pages of a table, with the highest key of each but the last.
    TableInterior,
    /// Entries of an index, or rows of a table without row ids.
    IndexLeaf,
    /// Entries, and pages between them.
    IndexInterior,
}

/// An entry of a page.
#[derive(Debug)]
pub(super) struct Cell {
    /// The row id; 0 on index pages.
    pub(super) key: i64,
    pub(super) values: Vec<Value>,
}

/// The cells of one page.
pub(super) struct Cells<'p> {
    pages: &'p Pages,
    content: &'p Page,
    kind: Kind,
    header: usize,
    count: usize,
}

impl<'p> Cells<'p> {
    /// The cells of a page; `None` if it is not a b-tree page.
    pub(super) fn of(pages: &'p Pages, page: u32, content: &'p Page) -> Option<Self> {
        // The first page starts with the header of the file.
        let at = if page == 1 { 100 } else { 0 };
        let (kind, header) = match content[at] {
            0x0d => (Kind::TableLeaf, 8),
            0x05 => (Kind::TableInterior, 12),
            0x0a => (Kind::IndexLeaf, 8),
            0x02 => (Kind::IndexInterior, 12),
            _ => return None,
        };
        let count = usize::from(u16::from_be_bytes([content[at + 3], content[at + 4]]));
        let count = count.min((PAGE - at - header) / 2);
        Some(Self { pages, content, kind, header: at + header, count })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of cells, including damaged ones.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The start of a cell.
    fn at(&self, index: usize) -> Option<usize> {
        let pointer = self.header + index * 2;
        let at = u16::from_be_bytes([*self.content.get(pointer)?, *self.content.get(pointer + 1)?]);
        let at = usize::from(at);
        (at >= self.header + self.count * 2 && at < PAGE).then_some(at)
    }

    /// The child and the key of a cell of a [`Kind::TableInterior`] page.
    pub(super) fn child(&self, index: usize) -> Option<(u32, i64)> {
        let at = self.at(index)?;
        let child = self.content.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)?;
        let (key, _) = varint(self.content.get(at + 4..)?)?;
        Some((child, key))
    }

    /// The last child of an interior page.
    pub(super) fn last_child(&self) -> u32 {
        let at = self.header - 4;
        self.content[at..at + 4].try_into().map_or(0, u32::from_be_bytes)
    }

    /// The cell at `index`; `None` if it cannot be read completely.
    pub(super) fn get(&self, index: usize) -> Option<Cell> {
        let mut at = self.at(index)?;
        if self.kind == Kind::IndexInterior {
            at += 4;
        }
        let (size, used) = varint(self.content.get(at..)?)?;
        at += used;
        let mut key = 0;
        if self.kind == Kind::TableLeaf {
            let (found, used) = varint(self.content.get(at..)?)?;
            (key, at) = (found, at + used);
        }
        let size = usize::try_from(size).ok()?;
        let payload = self.payload(at, size)?;
        Some(Cell { key, values: record(&payload)? })
    }

    /// The payload of `size` bytes at `at`, which continues on overflow pages if it does not fit.
    fn payload(&self, at: usize, size: usize) -> Option<Vec<u8>> {
        let most = match self.kind {
            Kind::TableLeaf => PAGE - 35,
            _ => (PAGE - 12) * 64 / 255 - 23,
        };
        if size <= most {
            return Some(self.content.get(at..at + size)?.to_vec());
        }
        if size as u64 > u64::from(self.pages.count()) * PAGE as u64 {
            return None;
        }
        let least = (PAGE - 12) * 32 / 255 - 23;
        let part = least + (size - least) % (PAGE - 4);
        let local = if part <= most { part } else { least };
        let mut payload = self.content.get(at..at + local)?.to_vec();
        let next = self.content.get(at + local..at + local + 4)?;
        let mut next = u32::from_be_bytes(next.try_into().ok()?);
        while payload.len() < size {
            if next == 0 || next > self.pages.count() {
                return None;
            }
            let page = self.pages.read(next).ok()?;
            let left = (size - payload.len()).min(PAGE - 4);
            payload.extend_from_slice(&page[4..4 + left]);
            next = u32::from_be_bytes(page[..4].try_into().ok()?);
        }
        // The last page of a chain must mark the end; otherwise the chain belongs to another row.
        (next == 0).then_some(payload)
    }
}

/// The values of a record, which must fill it exactly.
fn record(bytes: &[u8]) -> Option<Vec<Value>> {
    let (header, mut at) = varint(bytes)?;
    let header = usize::try_from(header).ok().filter(|header| *header <= bytes.len())?;
    let (mut body, mut values) = (header, Vec::new());
    while at < header {
        let (kind, used) = varint(bytes.get(at..header)?)?;
        at += used;
        let size = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            _ => usize::try_from(kind).ok()?.checked_sub(12)? / 2,
        };
        let data = bytes.get(body..body.checked_add(size)?)?;
        body += size;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => Value::Integer(integer(data)),
            7 => Value::Real(f64::from_be_bytes(data.try_into().ok()?)),
            kind if kind % 2 == 0 => Value::Blob(data.to_vec()),
            _ => Value::Text(std::str::from_utf8(data).ok()?.to_owned()),
        });
    }
    (body == bytes.len()).then_some(values)
}

fn integer(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|first| *first >= 0x80) { -1 } else { 0 };
    bytes.iter().fold(start, |number, byte| number << 8 | i64::from(*byte))
}

/// A number of one to nine bytes, and its length.
fn varint(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut number: i64 = 0;
    for at in 0..8 {
        let byte = *bytes.get(at)?;
        number = number << 7 | i64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, at + 1));
        }
    }
    Some((number << 8 | i64::from(*bytes.get(8)?), 9))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_and_records_are_read() {
        assert_eq!(varint(&[5]), Some((5, 1)));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9]), Some((-1, 9)));
        assert_eq!(varint(&[0x81]), None);
        assert_eq!(integer(&[0xff, 0xfe]), -2);
        let values = record(&[4, 0, 1, 17, 7, b'h', b'i']);
        assert_eq!(values, Some(vec![Value::Null, Value::Integer(7), Value::Text("hi".into())]));
        assert_eq!(record(&[4, 0, 1, 17, 7, b'h']), None, "too short");
        assert_eq!(record(&[4, 0, 1, 17, 7, b'h', b'i', 0]), None, "too long");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = record(&bytes);
        }
    }
}
