//! Pagination: lists in the order of ids, after a cursor.

use crate::Error;
use crate::database::{Database, Row, Statement, Value};

/// The requested part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Starts after this id, in the list's order.
    pub after: Option<Box<str>>,
    /// Ends before this id, in the list's order, with the nearest items. Takes precedence over
    /// `after`.
    pub before: Option<Box<str>>,
    /// Most items.
    pub limit: u32,
    /// Newest first.
    pub descending: bool,
}

impl Page {
    /// The first `limit` items, oldest first.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { after: None, before: None, limit, descending: false }
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// In the requested order.
    pub items: Vec<T>,
    /// True if more items follow in the direction of reading.
    pub has_more: bool,
}

/// The source of a list. All texts are constants of this crate; `value` is `$1` of the condition.
pub(super) struct Source<'a> {
    pub(super) columns: &'a str,
    pub(super) table: &'a str,
    pub(super) condition: &'a str,
    /// The column that orders it.
    pub(super) key: &'a str,
    pub(super) value: Value,
}

pub(super) async fn list<T>(
    database: &Database,
    source: Source<'_>,
    page: &Page,
    read: impl Fn(&Row) -> Result<T, Error>,
) -> Result<Listed<T>, Error> {
    let Source { columns, table, condition, key, value } = source;
    let backward = page.before.is_some();
    let descending = page.descending != backward;
    let (order, sign, edge) = if descending { ("DESC", "<", "~") } else { ("ASC", ">", "") };
    let cursor = page.before.as_deref().or(page.after.as_deref()).unwrap_or(edge);
    let sql = format!(
        "SELECT {columns} FROM {table} WHERE {condition} AND {key} {sign} $2 \
         ORDER BY {key} {order} LIMIT $3"
    );
    let values = vec![value, cursor.into(), (u64::from(page.limit) + 1).into()];
    let mut rows = database.query(Statement::composed(sql, values)).await?;
    let has_more = rows.len() > page.limit as usize;
    rows.truncate(page.limit as usize);
    if backward {
        rows.reverse();
    }
    Ok(Listed { items: rows.iter().map(read).collect::<Result<_, _>>()?, has_more })
}

/// The pattern of texts that contain `text`, with `!` as the escape character.
pub(super) fn contains(text: &str) -> String {
    let mut pattern = String::from("%");
    for c in text.chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}
