//! What a list may be asked for and what a page looks like. How it is found stands in `threads` and
//! `read`.

/// Which time orders a list of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// `created_at`.
    #[default]
    Created,
    /// `updated_at`.
    Updated,
}

/// Which end a list starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// A page of threads to find (specification: `thread/list`). Filters apply before paging; an empty
/// list or `None` filters nothing, `archived` always does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// Most rows of a page; 0 counts as 1.
    pub limit: u32,
    /// A cursor of an earlier page: this one starts behind it, in `direction`.
    pub cursor: Option<String>,
    /// Order.
    pub sort: SortKey,
    /// Order.
    pub direction: Direction,
    /// Archived threads, or the others.
    pub archived: bool,
    /// Any of these providers.
    pub providers: Vec<String>,
    /// Any of these source kinds.
    pub sources: Vec<String>,
    /// Any of these working folders, matched exactly.
    pub cwds: Vec<String>,
    /// Text in the name or the preview, without regard to case.
    pub search: Option<String>,
}

/// A page of turns to find (specification: `thread/turns/list`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnsQuery {
    /// Most rows of a page; 0 counts as 1.
    pub limit: u32,
    /// A cursor of an earlier page: this one starts behind it, in `direction`.
    pub cursor: Option<String>,
    /// Order.
    pub direction: Direction,
}

/// Some rows of a list. Cursors name a row, not a count: rows added meanwhile neither shift nor
/// repeat what later pages show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows, in the order asked for.
    pub rows: Vec<T>,
    /// Goes on behind the last row; `None` on the last page.
    pub next_cursor: Option<String>,
    /// With the other direction, goes back from before the first row; `None` on an empty page.
    pub backwards_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page out of up to `limit + 1` rows, the last one only telling that there are more.
    pub(crate) fn cut(mut rows: Vec<T>, limit: usize, cursor: impl Fn(&T) -> String) -> Self {
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = if more { rows.last().map(&cursor) } else { None };
        let backwards_cursor = rows.first().map(&cursor);
        Self { rows, next_cursor, backwards_cursor }
    }

    pub(crate) fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page {
            rows: self.rows.into_iter().map(f).collect(),
            next_cursor: self.next_cursor,
            backwards_cursor: self.backwards_cursor,
        }
    }
}
