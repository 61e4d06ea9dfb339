//! Pages of threads, by their columns, by their names and previews, and by the words of their turns.

use super::connection::Connection;
use super::failure::Failure;
use super::lineage::SHOWS_TURN;
use super::read::{THREAD_COLUMNS, directed, first_of, rows_of, stored_thread};
use super::value::{Columns, Value};
use crate::cursor::ThreadPosition;
use crate::query::fold;
use crate::text::{Term, beginning, rated};
use crate::{ItemTexts, ListQuery, Page, Snippet, SortKey, StoredThread, TextMatch, TextQuery};

/// The letters of a folder that the index of folders has.
const INDEXED: usize = 200;

/// The page of `query`. Omits threads without a turn.
pub(super) async fn threads(
    connection: &Connection,
    tenant: &str,
    query: &ListQuery,
) -> Result<Page<StoredThread>, Failure> {
    let tag = query.tag();
    let mut list = List::of(tenant, query, &tag)?;
    if let Some(term) = query.search.as_deref().filter(|term| !term.is_empty()) {
        let place = list.bind(Value::searched(&pattern(&fold(term))));
        list.conditions.push_str(&format!(" AND thread.searched LIKE {place}"));
    }
    let sql = format!(
        "SELECT thread.{sort}, thread.pk, {THREAD_COLUMNS} FROM #thread AS thread
         WHERE {} {}",
        list.conditions,
        list.end,
        sort = list.sort
    );
    let mut rows = Vec::new();
    for row in &connection.rows(&sql, &list.values).await? {
        let mut columns = Columns::of(row);
        let at = ThreadPosition { at: columns.int()?, rowid: columns.int()? };
        rows.push((at, stored_thread(&mut columns)?));
    }
    Ok(Page::cut(rows, list.limit, |(at, _)| at.write(&tag)).map(|(_, thread)| thread))
}

/// A page of threads in whose indexed turns something was said.
pub(super) async fn search(
    connection: &Connection,
    tenant: &str,
    query: &TextQuery,
    texts: &ItemTexts,
) -> Result<Page<TextMatch>, Failure> {
    let (term, tag) = (Term::of(&query.term), query.tag());
    let mut list = List::of(tenant, &query.list, &tag)?;
    if term.is_empty() {
        return Ok(Page { rows: Vec::new(), next_cursor: None, backwards_cursor: None });
    }
    let words = list.bind(expression(&term).as_str().into());
    // Ordinals increase along a lineage, so the highest one is that of the newest turn.
    let sql = format!(
        "WITH found AS (
             SELECT DISTINCT ON (segment.thread) segment.thread, turn.thread AS source, turn.ordinal
             FROM #turn_words AS turn JOIN #segment AS segment ON {SHOWS_TURN}
             WHERE turn.words @@ {words}::text::tsquery
             ORDER BY segment.thread, turn.ordinal DESC)
         SELECT thread.{sort}, thread.pk, found.source, found.ordinal, turn.id, {THREAD_COLUMNS}
         FROM found JOIN #thread AS thread ON thread.pk = found.thread
             JOIN #turn AS turn ON turn.thread = found.source AND turn.ordinal = found.ordinal
         WHERE {} {}",
        list.conditions,
        list.end,
        sort = list.sort
    );
    let mut rows = Vec::new();
    for row in &connection.rows(&sql, &list.values).await? {
        let mut columns = Columns::of(row);
        let at = ThreadPosition { at: columns.int()?, rowid: columns.int()? };
        let place = (columns.int()?, columns.int()?);
        rows.push((at, (place, columns.text()?, stored_thread(&mut columns)?)));
    }
    let Page { rows, next_cursor, backwards_cursor } =
        Page::cut(rows, list.limit, |(at, _)| at.write(&tag));
    let mut matches = Vec::with_capacity(rows.len());
    for (_, (place, turn, thread)) in rows {
        let snippet = excerpt(connection, texts, place, (&query.term, &term)).await?;
        matches.push(TextMatch { thread, turn, snippet });
    }
    Ok(Page { rows: matches, next_cursor, backwards_cursor })
}

/// The part of a turn that shows why it matches.
async fn excerpt(
    connection: &Connection,
    texts: &ItemTexts,
    place: (i64, i64),
    (text, term): (&str, &Term),
) -> Result<Snippet, Failure> {
    let said = super::text_index::texts_of(connection, texts, place).await?;
    let best = said.iter().map(|item| rated(item, text, term));
    let best = best.min_by_key(|(rating, _)| *rating);
    Ok(best.map_or_else(|| beginning(""), |(_, snippet)| snippet))
}

/// The part of a statement that all pages share.
struct List {
    conditions: String,
    /// Order and limit.
    end: String,
    values: Vec<Value>,
    sort: &'static str,
    limit: usize,
}

impl List {
    fn of(tenant: &str, query: &ListQuery, tag: &str) -> Result<Self, Failure> {
        let sort = match query.sort {
            SortKey::Created => "created_at",
            SortKey::Updated => "updated_at",
        };
        let (compare, order) = directed(query.direction);
        let start = match &query.cursor {
            Some(cursor) => ThreadPosition::read(cursor, tag)?,
            None => {
                let at = first_of(query.direction);
                ThreadPosition { at, rowid: at }
            }
        };
        let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
        let values =
            vec![tenant.into(), query.archived.into(), start.at.into(), start.rowid.into()];
        let conditions = format!(
            "thread.tenant = $1 AND thread.archived = $2 AND thread.turn_count > 0
                 AND (thread.{sort}, thread.pk) {compare} ($3, $4)"
        );
        let end = String::new();
        let mut list = Self { conditions, end, values, sort, limit };
        for (column, any_of) in [
            ("model_provider", &query.providers),
            ("source_kind", &query.sources),
            ("session_id", &query.sessions),
            ("cwd", &query.cwds),
        ] {
            if !any_of.is_empty() {
                let place = list.bind(Value::texts(any_of.iter().map(String::as_str)));
                list.conditions.push_str(&format!(" AND thread.{column} = ANY ({place})"));
            }
        }
        if !query.cwds.is_empty() {
            // The column of the index.
            let beginnings = Value::beginnings(query.cwds.iter().map(String::as_str), INDEXED);
            let place = list.bind(beginnings);
            let indexed = format!(" AND left(thread.cwd, {INDEXED}) = ANY ({place})");
            list.conditions.push_str(&indexed);
        }
        let place = list.bind(rows_of(limit));
        list.end = format!("ORDER BY thread.{sort} {order}, thread.pk {order} LIMIT {place}");
        Ok(list)
    }

    fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }
}

/// The pattern of texts that contain a term.
fn pattern(term: &str) -> String {
    let mut pattern = "%".to_owned();
    for letter in term.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// The index expression of a term. Words are letters and digits, so that no character of them has a
/// meaning inside of quotes.
fn expression(term: &Term) -> String {
    let mut parts: Vec<String> = term.words.iter().map(|word| format!("'{word}'")).collect();
    parts.extend(term.beginning.iter().map(|beginning| format!("'{beginning}':*")));
    parts.join(" & ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_patterns_and_expressions() {
        assert_eq!(pattern("100%_\\"), "%100\\%\\_\\\\%");
        assert_eq!(expression(&Term::of("Fix main.rs conf")), "'fix' & 'main' & 'rs' & 'conf':*");
    }
}
