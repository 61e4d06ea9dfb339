//! Pages of stored threads. Finds the keys of a page in the index of each requested source kind (or
//! folder), merges them, and reads only the rows of the page, so the cost does not depend on the
//! number of threads.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::cursor::ThreadPosition;
use crate::sqlite::failure::Failure;
use crate::sqlite::read::{THREAD_COLUMNS, stored_thread};
use crate::sqlite::search::{self, Matches};
use crate::{Direction, ListQuery, Page, SortKey, StoredThread};

/// The page of `query`. Omits threads without a turn.
pub(crate) fn list(conn: &Connection, query: &ListQuery) -> Result<Page<StoredThread>, Failure> {
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let tag = query.tag();
    let term = query.search.as_deref().filter(|term| !term.is_empty()).map(crate::query::fold);
    let found = term.as_deref().map(|term| search::find(conn, term)).transpose()?;
    let positions = match &found {
        Some(Matches::Few(threads)) => among(conn, query, &tag, threads, term)?,
        Some(Matches::Many(threads)) => {
            walk(conn, query, &tag, term, Some(&mut |thread| Ok(threads.contains(&thread))))?
        }
        Some(Matches::Common) | None => walk(conn, query, &tag, term, None)?,
    };
    fetch(conn, Page::cut(positions, limit, |position| position.write(&tag)))
}

/// Decides about the thread with a row id.
pub(crate) type Picks<'p> = &'p mut dyn FnMut(i64) -> Result<bool, Failure>;

/// The positions of the page among a few threads.
pub(crate) fn among(
    conn: &Connection,
    query: &ListQuery,
    tag: &str,
    threads: &[i64],
    term: Option<String>,
) -> Result<Vec<ThreadPosition>, Failure> {
    let mut statement = Statement::of(query, tag, term, Partition::Threads)?;
    if !query.cwds.is_empty() {
        statement.filter("cwd", &query.cwds);
    }
    statement.filter("source_kind", &query.sources);
    let numbers: Vec<String> = threads.iter().map(i64::to_string).collect();
    let mut positions = Vec::new();
    statement.collect(conn, query, format!("[{}]", numbers.join(",")), &mut positions)?;
    Ok(positions)
}

/// The positions of the page, found by walking the indexes of its sort key, and only among the threads
/// of a search if there is one.
pub(crate) fn walk(
    conn: &Connection,
    query: &ListQuery,
    tag: &str,
    term: Option<String>,
    mut picks: Option<Picks<'_>>,
) -> Result<Vec<ThreadPosition>, Failure> {
    let partition = if query.cwds.is_empty() { Partition::Source } else { Partition::Folder };
    let mut statement = Statement::of(query, tag, term, partition)?;
    if !query.cwds.is_empty() {
        statement.filter("source_kind", &query.sources);
    }
    let partitions = if !query.cwds.is_empty() {
        distinct(&query.cwds)
    } else if !query.sources.is_empty() {
        distinct(&query.sources)
    } else {
        source_kinds(conn)?
    };
    let mut positions = Vec::new();
    for partition in partitions {
        match &mut picks {
            Some(picks) => statement.pick(conn, query, partition, picks, &mut positions)?,
            None => statement.collect(conn, query, partition, &mut positions)?,
        }
    }
    positions.sort_unstable();
    if query.direction == Direction::Descending {
        positions.reverse();
    }
    positions.truncate(rows_of(query));
    Ok(positions)
}

/// The meaning of the first value of a statement.
#[derive(Clone, Copy)]
enum Partition {
    /// One source kind.
    Source,
    /// One folder.
    Folder,
    /// Row ids, as a JSON array.
    Threads,
}

/// The SQL for a partition of the page, with everything bound except the partition.
struct Statement {
    /// Selects the partition, in an index alone.
    sql: String,
    /// Conditions that need the row of a thread.
    filters: String,
    /// Values from `?2` on, first those of `sql`.
    values: Vec<Value>,
}

/// The values of `sql`, the partition included.
const SELECTING: usize = 4;

impl Statement {
    fn of(
        query: &ListQuery,
        tag: &str,
        term: Option<String>,
        partition: Partition,
    ) -> Result<Self, Failure> {
        let sort = sort_name(query);
        let (compare, start) = match query.direction {
            Direction::Ascending => (">", ThreadPosition::FIRST),
            Direction::Descending => ("<", ThreadPosition::LAST),
        };
        let start = match &query.cursor {
            Some(cursor) => ThreadPosition::read(cursor, tag)?,
            None => start,
        };
        let (index, selects) = match partition {
            Partition::Source => (format!("INDEXED BY thread_source_{sort}"), "source_kind = ?1"),
            Partition::Folder => (format!("INDEXED BY thread_cwd_{sort}"), "cwd = ?1"),
            Partition::Threads => {
                ("NOT INDEXED".to_owned(), "pk IN (SELECT value FROM json_each(?1))")
            }
        };
        let mut statement = Self {
            sql: format!(
                "SELECT {sort}_at, pk FROM thread {index}
                 WHERE turn_count > 0 AND {selects} AND archived = ?2
                     AND ({sort}_at, pk) {compare} (?3, ?4)"
            ),
            filters: String::new(),
            values: vec![query.archived.into(), start.at.into(), start.rowid.into()],
        };
        statement.filter("model_provider", &query.providers);
        statement.filter("session_id", &query.sessions);
        if let Some(term) = term {
            let place = statement.bind(term);
            statement.filters.push_str(&format!(
                " AND instr((SELECT text FROM searched_text WHERE searched_text.pk = thread.pk), {place})"
            ));
        }
        Ok(statement)
    }

    fn filter(&mut self, column: &str, any_of: &[String]) {
        if any_of.is_empty() {
            return;
        }
        let places: Vec<_> = any_of.iter().map(|value| self.bind(value.clone())).collect();
        self.filters.push_str(&format!(" AND {column} IN ({})", places.join(", ")));
    }

    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len() + 1)
    }

    fn collect(
        &self,
        conn: &Connection,
        query: &ListQuery,
        partition: String,
        into: &mut Vec<ThreadPosition>,
    ) -> Result<(), Failure> {
        let sql = format!("{}{} {} LIMIT {}", self.sql, self.filters, order(query), rows_of(query));
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(self.with(partition.into())))?;
        while let Some(row) = rows.next()? {
            into.push(position(row)?);
        }
        Ok(())
    }

    /// As [`collect`](Self::collect), among the threads of a search: the row of a thread is read only if it
    /// is one of them, which counts when the latest thousands are not.
    fn pick(
        &self,
        conn: &Connection,
        query: &ListQuery,
        partition: String,
        picks: Picks<'_>,
        into: &mut Vec<ThreadPosition>,
    ) -> Result<(), Failure> {
        let mut walked = conn.prepare_cached(&format!("{} {}", self.sql, order(query)))?;
        let mut rows =
            walked.query(params_from_iter(self.with(partition.into()).take(SELECTING)))?;
        let mut row_matches =
            conn.prepare_cached(&format!("SELECT 1 FROM thread WHERE pk = ?1{}", self.filters))?;
        // Without filters the statement has one parameter, and every row matches.
        let has_filters = !self.filters.is_empty();
        let mut left = rows_of(query);
        while left > 0
            && let Some(row) = rows.next()?
        {
            let position = position(row)?;
            if picks(position.rowid)?
                && (!has_filters
                    || row_matches.exists(params_from_iter(self.with(position.rowid.into())))?)
            {
                into.push(position);
                left -= 1;
            }
        }
        Ok(())
    }

    /// All values, with the first.
    fn with(&self, first: Value) -> impl Iterator<Item = Value> {
        std::iter::once(first).chain(self.values.iter().cloned())
    }
}

fn position(row: &Row<'_>) -> rusqlite::Result<ThreadPosition> {
    Ok(ThreadPosition { at: row.get(0)?, rowid: row.get(1)? })
}

/// The rows that tell a page and whether another one follows.
pub(crate) fn rows_of(query: &ListQuery) -> usize {
    usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX).saturating_add(1)
}

fn order(query: &ListQuery) -> String {
    let sort = sort_name(query);
    let order = match query.direction {
        Direction::Ascending => "ASC",
        Direction::Descending => "DESC",
    };
    format!("ORDER BY {sort}_at {order}, pk {order}")
}

fn sort_name(query: &ListQuery) -> &'static str {
    match query.sort {
        SortKey::Created => "created",
        SortKey::Updated => "updated",
    }
}

fn distinct(values: &[String]) -> Vec<String> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

/// The source kinds of listed threads, found with one index seek for each.
fn source_kinds(conn: &Connection) -> Result<Vec<String>, Failure> {
    let mut kinds: Vec<String> = Vec::new();
    let mut next = conn.prepare_cached(
        "SELECT source_kind FROM thread INDEXED BY thread_source_created
         WHERE turn_count > 0 AND source_kind > ?1 ORDER BY source_kind LIMIT 1",
    )?;
    let mut first = conn.prepare_cached(
        "SELECT source_kind FROM thread INDEXED BY thread_source_created
         WHERE turn_count > 0 ORDER BY source_kind LIMIT 1",
    )?;
    loop {
        let mut rows = match kinds.last() {
            Some(last) => next.query([last])?,
            None => first.query([])?,
        };
        match rows.next()? {
            Some(row) => kinds.push(row.get(0)?),
            None => return Ok(kinds),
        }
    }
}

/// Reads the threads of a page.
pub(crate) fn fetch(
    conn: &Connection,
    page: Page<ThreadPosition>,
) -> Result<Page<StoredThread>, Failure> {
    let sql = format!("SELECT {THREAD_COLUMNS} FROM thread WHERE pk = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = Vec::with_capacity(page.rows.len());
    for position in &page.rows {
        rows.push(statement.query_row([position.rowid], stored_thread)?);
    }
    let Page { next_cursor, backwards_cursor, .. } = page;
    Ok(Page { rows, next_cursor, backwards_cursor })
}
