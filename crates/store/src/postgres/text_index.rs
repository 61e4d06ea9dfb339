//! The index of the words of ended turns. A turn is indexed by a later write of its own, by whatever
//! node does it first.

use super::connection::Connection;
use super::failure::Failure;
use super::value::{Columns, Value};
use crate::ItemTexts;
use crate::text::Words;

/// Bytes of words that are stored in one transaction; the last turn may exceed them.
const MAX_BATCH: usize = 128 << 10;

/// Adds at most `limit` ended turns to the index, the newest first, and returns whether further ones
/// remain.
pub(super) async fn index(
    connection: &Connection,
    texts: &ItemTexts,
    limit: usize,
) -> Result<bool, Failure> {
    let limit = limit.clamp(1, 1000);
    let ended = "SELECT thread, ordinal FROM #turn WHERE status <> 0 AND NOT indexed
        ORDER BY thread DESC, ordinal DESC LIMIT $1";
    let rows = connection.rows(ended, &[super::read::rows_of(limit)]).await?;
    let (mut words, mut bytes) = (Vec::new(), 0);
    for row in rows.iter().take(limit) {
        if bytes >= MAX_BATCH {
            break;
        }
        let mut columns = Columns::of(row);
        let place = (columns.int()?, columns.int()?);
        let found = words_of(connection, texts, place).await?;
        bytes += found.len();
        words.push((place, found));
    }
    if words.is_empty() {
        return Ok(false);
    }
    let values = [
        Value::ints(words.iter().map(|((thread, _), _)| *thread)),
        Value::ints(words.iter().map(|((_, ordinal), _)| *ordinal)),
        Value::texts(words.iter().map(|(_, words)| words.as_str())),
    ];
    // A turn that was deleted since is not among the updated ones.
    connection
        .execute(
            "WITH done AS (
                 UPDATE #turn AS turn SET indexed = TRUE
                 FROM unnest($1, $2, $3) AS added (thread, ordinal, words)
                 WHERE turn.thread = added.thread AND turn.ordinal = added.ordinal
                 RETURNING turn.thread, turn.ordinal, added.words)
             INSERT INTO #turn_words (thread, ordinal, words)
             SELECT thread, ordinal, array_to_tsvector(string_to_array(words, ' '))
             FROM done WHERE words <> ''
             ON CONFLICT (thread, ordinal) DO UPDATE SET words = excluded.words",
            &values,
        )
        .await?;
    Ok(rows.len() > words.len())
}

/// Returns whether turns that have ended are not indexed.
pub(super) async fn is_partial(connection: &Connection) -> Result<bool, Failure> {
    let first = "SELECT 1 FROM #turn WHERE status <> 0 AND NOT indexed LIMIT 1";
    Ok(connection.row(first, &[]).await?.is_some())
}

/// The words of a turn, separated by spaces.
async fn words_of(
    connection: &Connection,
    texts: &ItemTexts,
    place: (i64, i64),
) -> Result<String, Failure> {
    let mut words = Words::default();
    for text in texts_of(connection, texts, place).await? {
        words.add(&text);
        if words.is_full() {
            break;
        }
    }
    Ok(words.joined())
}

/// The text of each item of a turn that has one, in order.
pub(super) async fn texts_of(
    connection: &Connection,
    texts: &ItemTexts,
    (thread, ordinal): (i64, i64),
) -> Result<Vec<String>, Failure> {
    let kinds = Value::texts(texts.kinds.iter().copied());
    let items = "SELECT kind, payload FROM #item
        WHERE thread = $1 AND ordinal = $2 AND kind = ANY ($3) ORDER BY position";
    let mut found = Vec::new();
    for row in &connection.rows(items, &[thread.into(), ordinal.into(), kinds]).await? {
        let mut columns = Columns::of(row);
        let (kind, payload) = (columns.text()?, columns.payload()?);
        found.extend((texts.text)(&kind, &payload));
    }
    Ok(found)
}
