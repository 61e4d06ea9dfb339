//! Finds threads by a piece of their name or preview, without regard to case. Names and previews
//! stand folded in a narrow table, with an index of their trigrams beside it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Failure;

/// Most threads that a term may fit for them to be looked up one by one; with more, a list is
/// walked in its own order, as a page fills soon.
const FEW: usize = 2000;

/// Trigrams of a term that are looked up; what is found is compared with the whole term.
const MAX_TRIGRAMS: usize = 24;

/// The index of `thread_text`. Not made with the other tables: it takes as long as all of them, and
/// a home without threads does without it.
const INDEX: &str = "
CREATE VIRTUAL TABLE thread_search USING fts5 (
    text, content = '', contentless_delete = 1, detail = none,
    tokenize = 'trigram case_sensitive 1'
)";

/// Between the name and the preview; nobody searches for it.
const SEPARATOR: char = '\u{1f}';

/// Threads that may fit a term.
pub(crate) enum Found {
    /// Row ids, with all that fit among them.
    Few(Vec<i64>),
    /// More than are worth looking up one by one.
    Many,
}

/// A term as it is compared.
pub(crate) fn fold(text: &str) -> String {
    text.to_lowercase()
}

/// Notes the name and the preview of a thread, new or changed.
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

/// Forgets a thread.
pub(crate) fn remove(conn: &Connection, thread: i64) -> Result<(), Failure> {
    let removed =
        conn.prepare_cached("DELETE FROM thread_text WHERE pk = ?1")?.execute([thread])?;
    if removed == 0 {
        return Ok(());
    }
    conn.prepare_cached("DELETE FROM thread_search WHERE rowid = ?1")?.execute([thread])?;
    Ok(())
}

/// Notes every thread of a file that had no index.
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

/// Looks a folded term up.
pub(crate) fn find(conn: &Connection, term: &str) -> Result<Found, Failure> {
    if !has_index(conn)? {
        return Ok(Found::Few(Vec::new()));
    }
    let limit = i64::try_from(FEW + 1).unwrap_or(i64::MAX);
    let found = match trigrams(term) {
        Some(expression) => conn
            .prepare_cached(
                "SELECT rowid FROM thread_search WHERE thread_search MATCH ?1 LIMIT ?2",
            )?
            .query_map(params![expression, limit], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?,
        // Too short for the index: the narrow table is read from one end to the other.
        None => conn
            .prepare_cached("SELECT pk FROM thread_text WHERE instr(text, ?1) > 0 LIMIT ?2")?
            .query_map(params![term, limit], |row| row.get(0))?
            .collect::<Result<Vec<i64>, _>>()?,
    };
    Ok(if found.len() > FEW { Found::Many } else { Found::Few(found) })
}

/// The term as an expression of the index; `None` when it is shorter than one trigram.
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
