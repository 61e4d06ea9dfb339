//! Finds threads by a part of their name or preview, ignoring case. A narrow table contains the
//! folded names and previews, with a trigram index.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;

/// Matches up to which threads are looked up one by one. With more, walking a list in its order
/// fills a page quickly.
const MAX_LOOKUPS: usize = 2000;

/// Trigrams of a term that are looked up; the results are compared with the whole term.
const MAX_TRIGRAMS: usize = 24;

/// The index of `thread_text`. Created with the first thread, because it takes as long to create as
/// all other tables together.
const INDEX: &str = "
CREATE VIRTUAL TABLE thread_search USING fts5 (
    text, content = '', contentless_delete = 1, detail = none,
    tokenize = 'trigram case_sensitive 1'
)";

/// Separates the name from the preview.
const SEPARATOR: char = '\u{1f}';

/// Threads that can match a term.
pub(crate) enum Matches {
    /// Row ids that include all matches.
    Few(Vec<i64>),
    /// More than [`MAX_LOOKUPS`].
    Many,
}

/// Folds a text for comparison.
pub(crate) fn fold(text: &str) -> String {
    text.to_lowercase()
}

/// Adds or updates the name and the preview of a thread.
pub(crate) fn index(
    conn: &Connection,
    thread: i64,
    name: Option<&str>,
    preview: &str,
) -> Result<(), Failure> {
    let text = fold(&format!("{}{SEPARATOR}{preview}", name.unwrap_or_default()));
    let old: Option<String> = conn
        .prepare_cached("SELECT text FROM thread_text WHERE pk = ?1")?
        .query_row([thread], |row| row.get(0))
        .optional()?;
    if old.as_ref() == Some(&text) {
        return Ok(());
    }
    if old.is_some() {
        remove(conn, thread)?;
    }
    if text.len() == SEPARATOR.len_utf8() {
        return Ok(());
    }
    if !has_index(conn)? {
        conn.execute_batch(INDEX)?;
    }
    conn.prepare_cached("INSERT INTO thread_text (pk, text) VALUES (?1, ?2)")?
        .execute(params![thread, text])?;
    conn.prepare_cached("INSERT INTO thread_search (rowid, text) VALUES (?1, ?2)")?
        .execute(params![thread, text])?;
    Ok(())
}

/// Removes a thread.
pub(crate) fn remove(conn: &Connection, thread: i64) -> Result<(), Failure> {
    let removed =
        conn.prepare_cached("DELETE FROM thread_text WHERE pk = ?1")?.execute([thread])?;
    if removed == 0 {
        return Ok(());
    }
    conn.prepare_cached("DELETE FROM thread_search WHERE rowid = ?1")?.execute([thread])?;
    Ok(())
}

/// Adds all threads of a file without an index.
pub(crate) fn index_all(conn: &Connection) -> Result<(), Failure> {
    let mut threads = conn.prepare("SELECT pk, name, preview FROM thread")?;
    let mut rows = threads.query([])?;
    while let Some(row) = rows.next()? {
        let (name, preview): (Option<String>, String) = (row.get(1)?, row.get(2)?);
        index(conn, row.get(0)?, name.as_deref(), &preview)?;
    }
    Ok(())
}

fn has_index(conn: &Connection) -> Result<bool, Failure> {
    Ok(conn
        .prepare_cached("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'thread_search'")?
        .query_row([], |row| row.get(0))?)
}

/// Looks up a folded term.
pub(crate) fn find(conn: &Connection, term: &str) -> Result<Matches, Failure> {
    if !has_index(conn)? {
        return Ok(Matches::Few(Vec::new()));
    }
    let limit = i64::try_from(MAX_LOOKUPS + 1).unwrap_or(i64::MAX);
    let found = match trigrams(term) {
        Some(expression) => conn
            .prepare_cached(
                "SELECT rowid FROM thread_search WHERE thread_search MATCH ?1 LIMIT ?2",
            )?
            .query_map(params![expression, limit], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?,
        // Too short for the index: reads the whole narrow table.
        None => conn
            .prepare_cached("SELECT pk FROM thread_text WHERE instr(text, ?1) > 0 LIMIT ?2")?
            .query_map(params![term, limit], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?,
    };
    Ok(if found.len() > MAX_LOOKUPS { Matches::Many } else { Matches::Few(found) })
}

/// The index expression of a term; `None` if it is shorter than a trigram.
fn trigrams(term: &str) -> Option<String> {
    let letters: Vec<char> = term.chars().filter(|letter| *letter != '\0').collect();
    let last = letters.len().checked_sub(3)?;
    let step = (last / MAX_TRIGRAMS).max(1);
    let quoted = (0..=last).step_by(step).filter_map(|at| letters.get(at..at + 3)).map(|three| {
        let text: String = three.iter().collect();
        format!("\"{}\"", text.replace('"', "\"\""))
    });
    Some(quoted.collect::<Vec<_>>().join(" AND "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_trigrams() {
        assert_eq!(trigrams("ab"), None);
        assert_eq!(trigrams("abc").as_deref(), Some("\"abc\""));
        assert_eq!(trigrams("a\"bé").as_deref(), Some("\"a\"\"b\" AND \"\"\"bé\""));
        let long = trigrams(&"x".repeat(10_000)).unwrap();
        assert!(long.matches("AND").count() <= MAX_TRIGRAMS + 1, "{}", long.len());
    }
}
