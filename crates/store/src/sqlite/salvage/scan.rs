//! Finds the rows of the tables on all pages of a damaged file. Identifies a row by its columns and
//! its key instead of the path through the b-tree, so a damaged interior page loses no row.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rusqlite::types::Value;

use super::pages::Pages;
use super::record::{Cell, Cells, Kind};
use crate::sqlite::{jobs, keys, queue};

/// A table to salvage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Table {
    Thread,
    Turn,
    Item,
    History,
    Chunk,
    Job,
    JobItem,
    Usage,
    Queued,
}

/// The position of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) key: i64,
    pub(super) page: u32,
    pub(super) cell: u16,
}

/// The result of a scan. Takes 16 bytes per row.
#[derive(Default)]
pub(super) struct Scan {
    /// The rows in the order of their keys, each key once.
    pub(super) rows: BTreeMap<Table, Vec<Found>>,
    /// Rows of `segment`.
    pub(super) segments: Vec<[i64; 5]>,
    /// Unreadable parts of a table: ranges of keys.
    pub(super) gaps: Vec<(Table, i64, i64)>,
    /// The contents of the indexes.
    pub(super) indexed: Indexed,
}

/// Entries of indexes, which show lost rows.
#[derive(Default)]
pub(super) struct Indexed {
    /// Candidates for the id of a thread, by key. Indexes of leases have the same form, but their
    /// texts are not ids and can have several keys.
    pub(super) threads: BTreeMap<i64, BTreeSet<String>>,
    /// The entries of threads in the indexes of lists, by key.
    pub(super) listed: BTreeMap<i64, Listed>,
    /// Ids of turns, by key.
    pub(super) turns: BTreeMap<i64, String>,
    pub(super) items: BTreeSet<i64>,
    /// Thread and first position of each segment.
    pub(super) segments: BTreeSet<(i64, i64)>,
}

/// The entry of a thread in the indexes of lists.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) folder: Option<String>,
    pub(super) source_kind: Option<String>,
    pub(super) archived: bool,
    /// Creation or update time in Unix seconds.
    pub(super) times: Vec<i64>,
}

/// Children of an interior page, each with its lowest and highest key.
type Children = Vec<(u32, i64, i64)>;

/// Scans every page.
pub(super) fn scan(pages: &Pages) -> Scan {
    let mut found = Scan::default();
    let mut leaves: HashMap<u32, Table> = HashMap::new();
    let mut inner: HashSet<u32> = HashSet::new();
    let mut parents: Vec<Children> = Vec::new();
    for page in 1..=pages.count() {
        let Ok(content) = pages.read(page) else { continue };
        let Some(cells) = Cells::of(pages, page, &content) else { continue };
        match cells.kind() {
            Kind::TableLeaf => {
                if let Some(table) = leaf(&cells, page, &mut found) {
                    leaves.insert(page, table);
                }
            }
            Kind::TableInterior => {
                inner.insert(page);
                parents.push(children(&cells));
            }
            Kind::IndexLeaf | Kind::IndexInterior => index(&cells, &mut found),
        }
    }
    for children in &parents {
        let Some(table) = children.iter().find_map(|(page, ..)| leaves.get(page)) else { continue };
        let lost = children
            .iter()
            .filter(|(page, ..)| !leaves.contains_key(page) && !inner.contains(page))
            .map(|(_, first, last)| (*table, *first, *last));
        found.gaps.extend(lost);
    }
    for rows in found.rows.values_mut() {
        rows.sort_unstable();
        *rows = settle(rows);
    }
    found
}

/// Records the rows of a page, and returns their table.
fn leaf(cells: &Cells<'_>, page: u32, found: &mut Scan) -> Option<Table> {
    let (mut last, mut table, mut bad) = (None, None, false);
    for at in 0..cells.count() {
        let cell = cells.get(at);
        let known = cell.as_ref().and_then(|cell| Some((table_of(cell)?, cell.key)));
        let Some((kind, key)) = known else {
            bad = bad || cell.is_none();
            continue;
        };
        table = Some(kind);
        if std::mem::take(&mut bad) {
            found.gaps.push((kind, last.unwrap_or(key), key));
        }
        last = Some(key);
        let cell = u16::try_from(at).unwrap_or(u16::MAX);
        found.rows.entry(kind).or_default().push(Found { key, page, cell });
    }
    if let (true, Some(kind), Some(key)) = (bad, table, last) {
        found.gaps.push((kind, key, key));
    }
    table
}

fn children(cells: &Cells<'_>) -> Children {
    let mut children = Vec::new();
    let mut first = None;
    for at in 0..cells.count() {
        let Some((child, key)) = cells.child(at) else { continue };
        children.push((child, first.unwrap_or(key), key));
        first = key.checked_add(1);
    }
    if let Some(first) = first {
        children.push((cells.last_child(), first, first));
    }
    children
}

/// The table of a row, by its columns.
fn table_of(cell: &Cell) -> Option<Table> {
    use Value::{Blob, Integer, Null, Text};
    let key = cell.key;
    if key <= 0 {
        return None;
    }
    match cell.values.as_slice() {
        [Null, Integer(thread), Text(_), Integer(0..=3), ..] if cell.values.len() == 10 => {
            (keys::thread_of(key) == *thread).then_some(Table::Turn)
        }
        [Null, Integer(turn), Text(_), Text(_), Text(_) | Null, Text(_)]
        | [Null, Integer(turn), Text(_), Text(_), Text(_) | Null, Text(_), Blob(_) | Null] => {
            (keys::turn_of(key) == *turn).then_some(Table::Item)
        }
        [Null, Text(_)] | [Null, Text(_), Blob(_) | Null, Integer(0..=255), Integer(0..=1)] => {
            // Names and previews have the small keys of threads.
            (keys::thread_of(keys::turn_of(key)) > 0).then_some(Table::History)
        }
        [Null, Blob(hash), Integer(_), Integer(_), Blob(_)] if hash.len() == 32 => {
            Some(Table::Chunk)
        }
        [Null, Text(_), Integer(_), Blob(hash), Integer(0..=3), Integer(_), _, Text(_)]
            if hash.len() == 32 =>
        {
            Some(Table::Job)
        }
        [Null, Integer(job), Text(_), Text(_), Integer(0..=4), _, _, _] => {
            (jobs::job_of(key) == *job).then_some(Table::JobItem)
        }
        [Null, Integer(thread), Integer(_), Text(_), Text(_)] => {
            (queue::thread_of(key) == *thread).then_some(Table::Queued)
        }
        [Null, Text(_) | Null, Text(_) | Null, Integer(_), Text(_), Text(_), Text(_), ..]
            if cell.values.len() == 14 =>
        {
            Some(Table::Usage)
        }
        [Null, Text(_), Integer(_), Integer(_), Integer(_), Integer(0..=1), Text(_), ..]
            if cell.values.len() == 24 =>
        {
            keys::thread_key(key).is_ok().then_some(Table::Thread)
        }
        // The form of version 1.
        [Null, Text(_), Integer(_) | Null, Integer(_) | Null, Integer(_), Integer(_), ..]
            if cell.values.len() == 22 =>
        {
            keys::thread_key(key).is_ok().then_some(Table::Thread)
        }
        _ => None,
    }
}

/// Records the entries of an index page that refer to rows.
fn index(cells: &Cells<'_>, found: &mut Scan) {
    use Value::{Integer, Text};
    for at in 0..cells.count() {
        let Some(cell) = cells.get(at) else { continue };
        match cell.values.as_slice() {
            // The search indexes have entries of this form with their version and settings.
            [Text(id), Integer(thread)]
                if id != "version"
                    && id != "secure-delete"
                    && keys::thread_key(*thread).is_ok()
                    && *thread > 0 =>
            {
                found.indexed.threads.entry(*thread).or_default().insert(id.clone());
            }
            [Text(text), Integer(archived @ 0..=1), Integer(time), Integer(thread)] => {
                let listed = found.indexed.listed.entry(*thread).or_default();
                let is_folder = text.starts_with('/');
                let place = if is_folder { &mut listed.folder } else { &mut listed.source_kind };
                *place = Some(text.clone());
                listed.archived = *archived == 1;
                listed.times.push(*time);
            }
            [Integer(of), Text(id), Integer(key)] if *of > 0 && keys::thread_of(*key) == *of => {
                found.indexed.turns.entry(*key).or_insert_with(|| id.clone());
            }
            [Integer(of), Text(_), Integer(key)] if *of > 0 && keys::turn_of(*key) == *of => {
                found.indexed.items.insert(*key);
            }
            [Integer(source), Integer(thread), Integer(first)] if *source > 0 => {
                found.indexed.segments.insert((*thread, *first));
            }
            [Integer(a), Integer(b), Integer(c), Integer(d), Integer(e)] => {
                found.segments.push([*a, *b, *c, *d, *e]);
            }
            _ => {}
        }
    }
}

/// Removes duplicate keys, and rows with damaged keys: the rows of a page are adjacent, so a row
/// between two rows of another page has a damaged key.
fn settle(rows: &[Found]) -> Vec<Found> {
    let mut once: Vec<Found> = Vec::with_capacity(rows.len());
    let mut groups = rows.chunk_by(|one, next| one.key == next.key).peekable();
    while let Some(group) = groups.next() {
        let beside = |row: &&Found| {
            let next =
                groups.peek().is_some_and(|next| next.iter().any(|two| two.page == row.page));
            once.last().is_some_and(|last| last.page == row.page) || next
        };
        let best = group.iter().find(beside).or(group.first());
        once.extend(best);
    }
    let strays = |at: usize| {
        let page = |at: usize| once.get(at).map(|row| row.page);
        let before = at.checked_sub(1).and_then(page);
        before.is_some() && before == page(at + 1) && before != page(at)
    };
    (0..once.len()).filter(|at| !strays(*at)).map(|at| once[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_damaged_keys_are_dropped() {
        let check = |rows: &[(i64, u32)], expected: &[(i64, u32)]| {
            let rows: Vec<Found> =
                rows.iter().map(|(key, page)| Found { key: *key, page: *page, cell: 0 }).collect();
            let left: Vec<(i64, u32)> =
                settle(&rows).iter().map(|row| (row.key, row.page)).collect();
            assert_eq!(left, expected, "{rows:?}");
        };
        check(&[], &[]);
        check(&[(1, 5), (2, 5), (3, 7), (4, 7)], &[(1, 5), (2, 5), (3, 7), (4, 7)]);
        check(&[(1, 5), (2, 7), (3, 8)], &[(1, 5), (2, 7), (3, 8)]);
        check(&[(1, 5), (2, 7), (3, 5)], &[(1, 5), (3, 5)]);
        check(&[(1, 5), (2, 5), (2, 7), (3, 5)], &[(1, 5), (2, 5), (3, 5)]);
        check(&[(1, 5), (1, 6), (2, 5), (2, 6)], &[(1, 5), (2, 5)]);
    }
}
