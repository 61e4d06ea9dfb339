//! Queries of lists, and their pages. `threads` and `read` run them.

use crate::cursor::query_tag;

/// The time that orders a list of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// `created_at`.
    #[default]
    Created,
    /// `updated_at`.
    Updated,
}

/// The direction of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// A query for a page of threads (specification: `thread/list`). Filters apply before paging. An
/// empty list or `None` does not filter; `archived` always does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// Largest number of rows in the page; 0 means 1.
    pub limit: u32,
    /// A cursor of another page, after which this one starts in `direction`.
    pub cursor: Option<String>,
    /// The time that rows are ordered by.
    pub sort: SortKey,
    /// Newest or oldest first.
    pub direction: Direction,
    /// True to list archived threads or the others.
    pub archived: bool,
    /// Any of these providers.
    pub providers: Vec<String>,
    /// Any of these source kinds.
    pub sources: Vec<String>,
    /// Any of these sessions.
    pub sessions: Vec<String>,
    /// Any of these working folders, matched exactly.
    pub cwds: Vec<String>,
    /// Text in the name or the preview, without regard to case.
    pub search: Option<String>,
}

impl ListQuery {
    /// The tag of the query in its cursors. It depends on everything that selects and orders
    /// threads.
    pub(crate) fn tag(&self) -> String {
        let mut parts = vec![if self.sort == SortKey::Created { "created" } else { "updated" }];
        parts.push(if self.archived { "archived" } else { "active" });
        for (name, values) in
            [("providers", &self.providers), ("sources", &self.sources), ("cwds", &self.cwds)]
        {
            parts.push(name);
            parts.extend(values.iter().map(String::as_str));
        }
        if !self.sessions.is_empty() {
            parts.push("sessions");
            parts.extend(self.sessions.iter().map(String::as_str));
        }
        parts.push("search");
        parts.extend(self.search.as_deref());
        query_tag(&parts)
    }
}

/// A query for threads in whose turns something was said. Only turns that have ended are searched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextQuery {
    /// Text with at least one letter or digit. A turn matches if it has all of its words, without regard
    /// to case; a last word of three letters or more, with nothing after it, may be incomplete.
    pub term: String,
    /// The page, and the threads among which it searches; its `search` is not used.
    pub list: ListQuery,
}

impl TextQuery {
    pub(crate) fn tag(&self) -> String {
        query_tag(&["text", &self.term, &self.list.tag()])
    }
}

/// A thread in which a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextMatch {
    /// The thread.
    pub thread: crate::StoredThread,
    /// Id of the newest turn of the thread that matches.
    pub turn: String,
    /// The part of it that matches, or its beginning if its words are apart.
    pub snippet: crate::Snippet,
}

/// Separates the name from the preview in a text that is searched.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// Folds a text for comparison.
pub(crate) fn fold(text: &str) -> String {
    text.to_lowercase()
}

/// The text in which a search looks for a term.
pub(crate) fn searched_text(name: Option<&str>, preview: &str) -> String {
    fold(&format!("{}{SEPARATOR}{preview}", name.unwrap_or_default()))
}

/// A query for a page of turns (specification: `thread/turns/list`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnsQuery {
    /// Largest number of rows in the page; 0 means 1.
    pub limit: u32,
    /// A cursor of another page, after which this one starts in `direction`.
    pub cursor: Option<String>,
    /// Order.
    pub direction: Direction,
}

/// A page of a list. Cursors identify a row instead of an offset, so rows that are added in the
/// meantime neither shift nor repeat rows of later pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows, in the requested order.
    pub rows: Vec<T>,
    /// Continues after the last row; `None` on the last page.
    pub next_cursor: Option<String>,
    /// Continues before the first row, in the opposite direction; `None` on an empty page.
    pub backwards_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page of up to `limit + 1` rows; the additional row only shows that there are more.
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
