//! The pages of a list that are held: those near the selected row.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{PAGE, Row};

/// Pages that are held at most.
pub(super) const MAX_PAGES: usize = 16;

/// Rows by their pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    pages: BTreeMap<usize, Vec<Row>>,
    requested: BTreeSet<usize>,
    /// The number of rows, where that is known.
    total: Option<usize>,
    /// Rows known to exist.
    seen: usize,
    token: u64,
    /// True if the pages are those of the search before.
    is_stale: bool,
}

impl Pages {
    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The number of rows, as far as it is known.
    pub(super) fn len(&self) -> usize {
        self.total.unwrap_or(self.seen)
    }

    pub(super) fn total(&self) -> Option<usize> {
        self.total
    }

    pub(super) fn get(&self, index: usize) -> Option<&Row> {
        self.pages.get(&(index / PAGE))?.get(index % PAGE)
    }

    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.pages.iter().find_map(|(page, rows)| {
            rows.iter().position(|row| row.id == id).map(|at| page * PAGE + at)
        })
    }

    /// Other rows are asked for. Those held stay until the first of them come, so that the list does not
    /// flicker.
    pub(super) fn restart(&mut self) {
        self.token += 1;
        self.requested.clear();
        self.is_stale = true;
    }

    /// The first page of the range that is neither held nor asked for. Pages far from it are let go.
    pub(super) fn need(&mut self, rows: Range<usize>) -> Option<usize> {
        let total = if self.is_stale { None } else { self.total };
        let end = total.map_or(rows.end, |total| rows.end.min(total)).max(1);
        let wanted = match self.is_stale {
            true => 0..1,
            false => (rows.start / PAGE).saturating_sub(1)..end.div_ceil(PAGE),
        };
        if wanted.len() < MAX_PAGES && !self.is_stale {
            self.pages.retain(|page, _| wanted.contains(page));
            self.requested.retain(|page| wanted.contains(page));
        }
        // After a page that is not known to be full there may be none.
        let reachable = |page: usize| total.is_some() || page * PAGE <= self.seen;
        let held = |page: usize| !self.is_stale && self.pages.contains_key(&page);
        let mut missing = wanted.filter(|page| !held(*page) && !self.requested.contains(page));
        let page = missing.find(|page| self.is_stale || reachable(*page))?;
        self.requested.insert(page);
        Some(page)
    }

    pub(super) fn set(
        &mut self,
        token: u64,
        page: usize,
        mut rows: Vec<Row>,
        total: Option<usize>,
    ) {
        if token != self.token {
            return;
        }
        if std::mem::take(&mut self.is_stale) {
            self.pages.clear();
            (self.total, self.seen) = (None, 0);
        }
        rows.truncate(PAGE);
        let end = page * PAGE + rows.len();
        self.seen = self.seen.max(end);
        if rows.len() < PAGE {
            self.total = Some(end);
        } else if total.is_some() {
            self.total = total;
        }
        self.pages.insert(page, rows);
    }

    /// Holds all rows.
    pub(super) fn set_all(&mut self, rows: Vec<Row>) {
        self.is_stale = false;
        self.total = Some(rows.len());
        self.seen = rows.len();
        self.pages = rows.chunks(PAGE).map(<[Row]>::to_vec).enumerate().collect();
    }

    /// Rows in memory.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.pages.values().map(Vec::len).sum()
    }
}
