//! Finds threads by the words of their turns. The index yields keys of turns; a turn counts for each
//! thread that shows it, so that forks are found and dropped turns are not.
//!
//! A term that few turns match is looked up, and the page is made of the threads that show them. For
//! others the list is walked in its order: the newest matches are known, older threads are looked up
//! one by one, and when many of those do not match, all matches are read.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, params};

use crate::cursor::ThreadPosition;
use crate::sqlite::failure::Failure;
use crate::sqlite::lineage::{Lineage, Segment};
use crate::sqlite::{keys, text_index, threads};
use crate::text::{Term, beginning, rated};
use crate::{Direction, ItemTexts, Page, Snippet, TextMatch, TextQuery};

/// Matches that are read before a list is walked.
const MAX_READ: usize = 2000;
/// Threads of a walk that are looked up one by one.
const MAX_LOOKUPS: usize = 200;
/// Words that begin with the last one of a term up to which the index is asked for each.
const MAX_BEGINNINGS: usize = 256;

/// The page of `query`.
pub(crate) fn find(
    conn: &Connection,
    query: &TextQuery,
    texts: &ItemTexts,
) -> Result<Page<TextMatch>, Failure> {
    let term = Term::of(&query.term);
    let tag = query.tag();
    if let Some(cursor) = &query.list.cursor {
        ThreadPosition::read(cursor, &tag)?;
    }
    let expression = match term.is_empty() || !text_index::has_index(conn)? {
        true => None,
        false => expression(conn, &term)?,
    };
    let (mut positions, turns) = match expression {
        Some(expression) => positions(conn, query, &tag, &expression)?,
        None => Default::default(),
    };
    let limit = usize::try_from(query.list.limit.max(1)).unwrap_or(usize::MAX);
    positions.truncate(limit.saturating_add(1));
    let page = Page::cut(positions, limit, |position| position.write(&tag));
    let keys: Vec<i64> = page.rows.iter().map(|position| position.rowid).collect();
    let found = threads::fetch(conn, page)?;
    let mut rows = Vec::with_capacity(found.rows.len());
    for (thread, key) in found.rows.into_iter().zip(keys) {
        let Some(&turn) = turns.get(&key) else { continue };
        let id = conn
            .prepare_cached("SELECT id FROM turn WHERE pk = ?1")?
            .query_row([turn], |row| row.get(0))?;
        let snippet = excerpt(conn, texts, turn, (&query.term, &term))?;
        rows.push(TextMatch { thread, turn: id, snippet });
    }
    Ok(Page { rows, next_cursor: found.next_cursor, backwards_cursor: found.backwards_cursor })
}

/// The newest matching turn of each thread, by row id.
type NewestMatches = HashMap<i64, i64>;

/// The positions of the page, and the matches of their threads.
fn positions(
    conn: &Connection,
    query: &TextQuery,
    tag: &str,
    expression: &str,
) -> Result<(Vec<ThreadPosition>, NewestMatches), Failure> {
    let mut matches = Matches::read(conn, expression, query.list.direction)?;
    if matches.are_all() {
        let turns = matches.by_thread(conn)?;
        let threads: Vec<i64> = turns.keys().copied().collect();
        return Ok((threads::among(conn, &query.list, tag, &threads, None)?, turns));
    }
    let mut turns = NewestMatches::new();
    let mut picks = |thread| {
        let newest = matches.newest_of(conn, thread)?;
        Ok(newest.is_some_and(|turn| turns.insert(thread, turn).is_none()))
    };
    let positions = threads::walk(conn, &query.list, tag, None, Some(&mut picks))?;
    Ok((positions, turns))
}

/// Keys of turns that match an expression.
struct Matches<'q> {
    expression: &'q str,
    /// In ascending order.
    turns: Vec<i64>,
    /// All matches with keys in this range are known; both ends included.
    known: (i64, i64),
    lookups: usize,
}

impl<'q> Matches<'q> {
    /// Reads the newest matches, or the oldest ones for an ascending list.
    fn read(conn: &Connection, expression: &'q str, direction: Direction) -> Result<Self, Failure> {
        let order = match direction {
            Direction::Ascending => "ASC",
            Direction::Descending => "DESC",
        };
        let mut turns: Vec<i64> = conn
            .prepare_cached(&format!(
                "SELECT rowid FROM turn_search WHERE turn_search MATCH ?1
                 ORDER BY rowid {order} LIMIT ?2"
            ))?
            .query_map(params![expression, MAX_READ as i64 + 1], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let end = turns.last().copied();
        let known = match (end.filter(|_| turns.len() > MAX_READ), direction) {
            (None, _) => (i64::MIN, i64::MAX),
            (Some(end), Direction::Descending) => (end, i64::MAX),
            (Some(end), Direction::Ascending) => (i64::MIN, end),
        };
        turns.sort_unstable();
        Ok(Self { expression, turns, known, lookups: 0 })
    }

    fn are_all(&self) -> bool {
        self.known == (i64::MIN, i64::MAX)
    }

    fn read_all(&mut self, conn: &Connection) -> Result<(), Failure> {
        self.turns = conn
            .prepare_cached(
                "SELECT rowid FROM turn_search WHERE turn_search MATCH ?1 ORDER BY rowid",
            )?
            .query_map([self.expression], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        self.known = (i64::MIN, i64::MAX);
        Ok(())
    }

    /// The newest match among the turns that a thread shows.
    fn newest_of(&mut self, conn: &Connection, thread: i64) -> Result<Option<i64>, Failure> {
        for segment in Lineage::of(conn, thread)?.segments.iter().rev() {
            let turns = segment.turns()?;
            if turns.is_empty() {
                continue;
            }
            let is_known = self.known.0 <= turns.start && turns.end <= self.known.1;
            let found = if is_known {
                self.newest_known(turns)
            } else if self.lookups < MAX_LOOKUPS {
                self.lookups += 1;
                self.look_up(conn, turns)?
            } else {
                self.read_all(conn)?;
                self.newest_known(turns)
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn newest_known(&self, turns: std::ops::Range<i64>) -> Option<i64> {
        let end = self.turns.partition_point(|turn| *turn < turns.end);
        self.turns[..end].last().copied().filter(|turn| *turn >= turns.start)
    }

    fn look_up(
        &self,
        conn: &Connection,
        turns: std::ops::Range<i64>,
    ) -> Result<Option<i64>, Failure> {
        Ok(conn
            .prepare_cached(
                "SELECT rowid FROM turn_search
                 WHERE turn_search MATCH ?1 AND rowid >= ?2 AND rowid < ?3
                 ORDER BY rowid DESC LIMIT 1",
            )?
            .query_row(params![self.expression, turns.start, turns.end], |row| row.get(0))
            .optional()?)
    }

    /// The threads that show a match. All matches are known.
    fn by_thread(&self, conn: &Connection) -> Result<NewestMatches, Failure> {
        let mut shown = BTreeMap::new();
        for turns in
            self.turns.chunk_by(|one, next| keys::thread_of(*one) == keys::thread_of(*next))
        {
            let Some(source) = turns.first().map(|turn| keys::thread_of(*turn)) else { continue };
            for (thread, segment) in shown_of(conn, source)? {
                let range = segment.turns()?;
                let end = turns.partition_point(|turn| *turn < range.end);
                let newest = turns[..end].last().copied().filter(|turn| *turn >= range.start);
                let Some(turn) = newest else { continue };
                // Ordinals increase along a lineage, also from one thread to another.
                let ordinal = keys::ordinal(turn);
                let known: &mut (i64, i64) = shown.entry(thread).or_insert((ordinal, turn));
                if known.0 < ordinal {
                    *known = (ordinal, turn);
                }
            }
        }
        Ok(shown.into_iter().map(|(thread, (_, turn))| (thread, turn)).collect())
    }
}

/// The threads that show turns of a thread, each with the segment that does.
fn shown_of(conn: &Connection, source: i64) -> Result<Vec<(i64, Segment)>, Failure> {
    let mut shown: Vec<(i64, Segment)> = conn
        .prepare_cached("SELECT thread, first, last FROM segment WHERE source = ?1")?
        .query_map([source], |row| {
            let (first, last) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, Segment { first, last, source, history_end: 0 }))
        })?
        .collect::<Result<_, _>>()?;
    let own: Option<(i64, i64)> = conn
        .prepare_cached("SELECT open_from, last_ordinal FROM thread WHERE pk = ?1 AND deleted = 0")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((first, last)) = own {
        shown.push((source, Segment { first, last, source, history_end: 0 }));
    }
    Ok(shown)
}

/// The index expression of a term; `None` if no word begins as its last one does.
fn expression(conn: &Connection, term: &Term) -> Result<Option<String>, Failure> {
    let mut parts: Vec<String> = term.words.iter().map(|word| quoted(word)).collect();
    if let Some(beginning) = &term.beginning {
        let words = words_from(conn, beginning)?;
        match words.len() {
            0 => return Ok(None),
            1..=MAX_BEGINNINGS => {
                let any: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                parts.push(format!("({})", any.join(" OR ")));
            }
            // The index merges the turns of all these words, which takes longer.
            _ => parts.push(format!("{}*", quoted(beginning))),
        }
    }
    Ok(Some(parts.join(" AND ")))
}

/// The indexed words that begin so, one more than [`MAX_BEGINNINGS`] at most.
fn words_from(conn: &Connection, beginning: &str) -> Result<Vec<String>, Failure> {
    let end = format!("{beginning}{}", char::MAX);
    Ok(conn
        .prepare_cached("SELECT term FROM turn_word WHERE term >= ?1 AND term <= ?2 LIMIT ?3")?
        .query_map(params![beginning, end, MAX_BEGINNINGS as i64 + 1], |row| row.get(0))?
        .collect::<Result<_, _>>()?)
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// The part of a turn that shows why it matches: where the term is, or else its first word, or else the
/// beginning of an item with any of its words.
fn excerpt(
    conn: &Connection,
    texts: &ItemTexts,
    turn: i64,
    (text, term): (&str, &Term),
) -> Result<Snippet, Failure> {
    let mut best: Option<(u8, Snippet)> = None;
    text_index::for_texts(conn, texts, turn, |item| {
        let found = rated(&item, text, term);
        if best.as_ref().is_none_or(|(rating, _)| found.0 < *rating) {
            best = Some(found);
        }
        best.as_ref().is_some_and(|(rating, _)| *rating > 0)
    })?;
    Ok(best.map_or_else(|| beginning(""), |(_, snippet)| snippet))
}
