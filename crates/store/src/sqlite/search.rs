//! Finds threads by a part of their name or preview, ignoring case. A narrow table contains the
//! folded names and previews, with a trigram index. A term of one or two letters is the beginning of
//! some trigrams, which the index lists.

use rusqlite::{Connection, OptionalExtension, params};

use crate::query::{SEPARATOR, searched_text};
use crate::sqlite::failure::Failure;

/// Matches up to which threads are looked up one by one. With more, a list is walked in its order.
const MAX_LOOKUPS: usize = 2000;

/// Trigrams of a term that are looked up; the results are compared with the whole term.
const MAX_TRIGRAMS: usize = 24;
/// Threads, the latest ones, among which a term is counted first: in the second sample if the first has any.
const SAMPLES: [i64; 2] = [1000, 4000];
/// Matches in the sample from which on a term is common: walking a list in its order fills a page quickly.
const COMMON: i64 = 40;
/// Threads, the latest ones, that show which trigrams most threads have.
const FEW: i64 = 100;
/// Trigrams that begin with a short term up to which the index is asked for each.
const MAX_CONTINUATIONS: usize = 256;

/// The index of `searched_text`, and the list of its trigrams. Created with the first thread, because
/// they take as long to create as all other tables together.
const INDEX: &str = "
CREATE VIRTUAL TABLE thread_search USING fts5 (
    text, content = '', contentless_delete = 1, detail = none,
    tokenize = 'trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE thread_trigram USING fts5vocab (thread_search, row);
";

/// Row ids. The store assigns them, so that the hash need not withstand hostile keys.
pub(crate) type RowIds = foldhash::HashSet<i64>;

/// Threads that can match a term.
pub(crate) enum Matches {
    /// Row ids that include all matches.
    Few(Vec<i64>),
    /// The same, more than [`MAX_LOOKUPS`].
    Many(RowIds),
    /// Not looked up: so many that walking a list in its order fills a page quickly.
    Common,
}

/// Adds or updates the name and the preview of a thread.
pub(crate) fn index(
    conn: &Connection,
    thread: i64,
    name: Option<&str>,
    preview: &str,
) -> Result<(), Failure> {
    let text = searched_text(name, preview);
    let old: Option<String> = conn
        .prepare_cached("SELECT text FROM searched_text WHERE pk = ?1")?
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
    conn.prepare_cached("INSERT INTO searched_text (pk, text) VALUES (?1, ?2)")?
        .execute(params![thread, text])?;
    // So that the last letters, too, begin a trigram.
    let indexed = format!("{text}{SEPARATOR}{SEPARATOR}");
    conn.prepare_cached("INSERT INTO thread_search (rowid, text) VALUES (?1, ?2)")?
        .execute(params![thread, indexed])?;
    Ok(())
}

/// Removes a thread.
pub(crate) fn remove(conn: &Connection, thread: i64) -> Result<(), Failure> {
    let removed =
        conn.prepare_cached("DELETE FROM searched_text WHERE pk = ?1")?.execute([thread])?;
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
    // Of a term that most threads have, the index would list them all before it finds those of every letter.
    if is_common(conn, term)? {
        return Ok(Matches::Common);
    }
    let expression = match trigrams(term) {
        Some(trigrams) => all_of(&telling(conn, trigrams)?),
        None => match continuations(conn, term)? {
            Continuations::None => return Ok(Matches::Few(Vec::new())),
            Continuations::Any(expression) => expression,
            Continuations::TooMany => return Ok(Matches::Common),
        },
    };
    let found = conn
        .prepare_cached("SELECT rowid FROM thread_search WHERE thread_search MATCH ?1")?
        .query_map([expression], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    Ok(if found.len() > MAX_LOOKUPS {
        Matches::Many(found.into_iter().collect())
    } else {
        Matches::Few(found)
    })
}

/// Returns whether many of the latest threads match a term.
fn is_common(conn: &Connection, term: &str) -> Result<bool, Failure> {
    let mut counting = conn.prepare_cached(
        "SELECT count(*) FROM (
             SELECT 1 FROM (SELECT text FROM searched_text ORDER BY pk DESC LIMIT ?2)
             WHERE instr(text, ?1) > 0 LIMIT ?3)",
    )?;
    for sample in SAMPLES {
        match counting.query_row(params![term, sample, COMMON], |row| row.get(0))? {
            0 => return Ok(false),
            COMMON => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// The trigrams that begin with a short term.
enum Continuations {
    None,
    /// The index expression for threads with any of them.
    Any(String),
    TooMany,
}

fn continuations(conn: &Connection, term: &str) -> Result<Continuations, Failure> {
    let limit = MAX_CONTINUATIONS as i64 + 1;
    let end = format!("{term}{}", char::MAX);
    let found: Vec<String> = conn
        .prepare_cached("SELECT term FROM thread_trigram WHERE term >= ?1 AND term <= ?2 LIMIT ?3")?
        .query_map(params![term, end, limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(match found.len() {
        0 => Continuations::None,
        1..=MAX_CONTINUATIONS => Continuations::Any(
            found.iter().map(|trigram| quoted(trigram)).collect::<Vec<_>>().join(" OR "),
        ),
        _ => Continuations::TooMany,
    })
}

/// The trigrams that narrow a search: without those that most threads have, whose long lists the index
/// would compare. What is found is compared with the whole term in any case.
fn telling(conn: &Connection, mut trigrams: Vec<String>) -> Result<Vec<String>, Failure> {
    if trigrams.len() < 2 {
        return Ok(trigrams);
    }
    let texts: Vec<String> = conn
        .prepare_cached("SELECT text FROM searched_text ORDER BY pk DESC LIMIT ?1")?
        .query_map([FEW], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let count = |trigram: &String| texts.iter().filter(|text| text.contains(&**trigram)).count();
    let counts: Vec<usize> = trigrams.iter().map(count).collect();
    let least = counts.iter().copied().min().unwrap_or_default();
    let mut counts = counts.into_iter();
    trigrams.retain(|_| {
        let count = counts.next().unwrap_or_default();
        count == least || count * 2 < texts.len()
    });
    Ok(trigrams)
}

/// The index expression for threads with all of these trigrams.
fn all_of(trigrams: &[String]) -> String {
    trigrams.iter().map(|trigram| quoted(trigram)).collect::<Vec<_>>().join(" AND ")
}

/// The trigrams of a term; `None` if it is shorter than one.
fn trigrams(term: &str) -> Option<Vec<String>> {
    let letters: Vec<char> = term.chars().filter(|letter| *letter != '\0').collect();
    let last = letters.len().checked_sub(3)?;
    let step = (last / MAX_TRIGRAMS).max(1);
    let found = (0..=last).step_by(step).filter_map(|at| letters.get(at..at + 3));
    Some(found.map(|three| three.iter().collect()).collect())
}

fn quoted(trigram: &str) -> String {
    format!("\"{}\"", trigram.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_trigrams() {
        let expression = |term| trigrams(term).map(|trigrams| all_of(&trigrams));
        assert_eq!(expression("ab"), None);
        assert_eq!(expression("abc").as_deref(), Some("\"abc\""));
        assert_eq!(expression("a\"bé").as_deref(), Some("\"a\"\"b\" AND \"\"\"bé\""));
        let long = trigrams(&"x".repeat(10_000)).unwrap();
        assert!(long.len() <= MAX_TRIGRAMS + 2, "{}", long.len());
    }
}
