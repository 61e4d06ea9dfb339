//! Pages of stored threads. Finds the page's keys in one index per wanted source kind (or folder),
//! merges them, and only then reads rows: the cost follows the page, not the number of threads.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::cursor::ThreadPosition;
use crate::error::Failure;
use crate::read::{THREAD_COLUMNS, stored_thread};
use crate::{Direction, ListQuery, Page, SortKey, StoredThread};

/// The page that `query` asks for. Threads without a turn are left out.
pub(crate) fn list(conn: &Connection, query: &ListQuery) -> Result<Page<StoredThread>, Failure> {
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let statement = Statement::of(query)?;
    let partitions = if !query.cwds.is_empty() {
        distinct(&query.cwds)
    } else if !query.sources.is_empty() {
        distinct(&query.sources)
    } else {
        source_kinds(conn)?
    };
    let mut positions = Vec::new();
    for partition in partitions {
        statement.collect(conn, partition, &mut positions)?;
    }
    positions.sort_unstable();
    if query.direction == Direction::Descending {
        positions.reverse();
    }
    positions.truncate(limit.saturating_add(1));
    let page = Page::cut(positions, limit, |position| position.write(query.sort));
    fetch(conn, page)
}

/// One partition's part of the page, as SQL with everything bound but the partition.
struct Statement {
    sql: String,
    /// Values from `?2` on.
    values: Vec<Value>,
}

impl Statement {
    fn of(query: &ListQuery) -> Result<Self, Failure> {
        let sort = match query.sort {
            SortKey::Created => "created",
            SortKey::Updated => "updated",
        };
        let (compare, order, start) = match query.direction {
            Direction::Ascending => (">", "ASC", ThreadPosition::FIRST),
            Direction::Descending => ("<", "DESC", ThreadPosition::LAST),
        };
        let start = match &query.cursor {
            Some(cursor) => ThreadPosition::read(cursor, query.sort)?,
            None => start,
        };
        let (partition, index) =
            if query.cwds.is_empty() { ("source_kind", "source") } else { ("cwd", "cwd") };
        let mut statement = Self {
            sql: format!(
                "SELECT {sort}_at, pk FROM thread INDEXED BY thread_{index}_{sort}
                 WHERE turn_count > 0 AND {partition} = ?1 AND archived = ?2
                     AND ({sort}_at, pk) {compare} (?3, ?4)"
            ),
            values: vec![query.archived.into(), start.at.into(), start.rowid.into()],
        };
        statement.filter("model_provider", &query.providers);
        if !query.cwds.is_empty() {
            statement.filter("source_kind", &query.sources);
        }
        if let Some(term) = query.search.as_ref().filter(|term| !term.is_empty()) {
            let place = statement.bind(term.to_lowercase());
            statement.sql.push_str(&format!(" AND contains_folded({place}, name, preview)"));
        }
        let place = statement.bind(i64::from(query.limit.max(1)) + 1);
        statement.sql.push_str(&format!(" ORDER BY {sort}_at {order}, pk {order} LIMIT {place}"));
        Ok(statement)
    }

    fn filter(&mut self, column: &str, any_of: &[String]) {
        if any_of.is_empty() {
            return;
        }
        let places: Vec<_> = any_of.iter().map(|value| self.bind(value.clone())).collect();
        self.sql.push_str(&format!(" AND {column} IN ({})", places.join(", ")));
    }

    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len() + 1)
    }

    fn collect(
        &self,
        conn: &Connection,
        partition: String,
        into: &mut Vec<ThreadPosition>,
    ) -> Result<(), Failure> {
        let values = std::iter::once(Value::from(partition)).chain(self.values.iter().cloned());
        let mut statement = conn.prepare_cached(&self.sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            into.push(ThreadPosition { at: row.get(0)?, rowid: row.get(1)? });
        }
        Ok(())
    }
}

fn distinct(values: &[String]) -> Vec<String> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

/// All source kinds of listed threads: one seek in the index for each, instead of a scan.
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

fn fetch(conn: &Connection, page: Page<ThreadPosition>) -> Result<Page<StoredThread>, Failure> {
    let sql = format!("SELECT {THREAD_COLUMNS} FROM thread WHERE pk = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = Vec::with_capacity(page.rows.len());
    for position in &page.rows {
        rows.push(statement.query_row([position.rowid], stored_thread)?);
    }
    let Page { next_cursor, backwards_cursor, .. } = page;
    Ok(Page { rows, next_cursor, backwards_cursor })
}
