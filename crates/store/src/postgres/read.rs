//! Reads a thread: its row, its turns, their items, and the model's history.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::connection::Connection;
use super::failure::Failure;
use super::lineage::{Lineage, SHOWS_HISTORY, SHOWS_TURN};
use super::rows::{not_found, turn_not_found};
use super::value::{Columns, Value};
use crate::cursor::{EntryPosition, query_tag};
use crate::{
    Direction, Fragment, ItemRow, Page, Place, StoredThread, ThreadRecord, TurnRow, TurnStatus,
    TurnsQuery,
};

/// The columns that [`stored_thread`] reads, in this order, of a table `thread`.
pub(super) const THREAD_COLUMNS: &str = "thread.id, thread.session_id, thread.forked_from_id,
    thread.preview, thread.name, thread.model_provider, thread.model, thread.cwd,
    thread.created_at, thread.updated_at, thread.source_kind, thread.source, thread.archived,
    thread.git_info, thread.settings, thread.cli_version, thread.token_usage, thread.extra,
    thread.turn_count";

const TURN_COLUMNS: &str = "turn.id, turn.ordinal, turn.status, turn.started_at_ms,
    turn.completed_at_ms, turn.duration_ms, turn.error, turn.usage";

/// The columns of an item, after those of its place.
const ITEM_COLUMNS: &str =
    "item.ordinal, item.position, item.id, item.kind, item.status, item.payload";

/// Key of a thread.
pub(super) async fn find_thread(
    connection: &Connection,
    tenant: &str,
    thread: &str,
) -> Result<i64, Failure> {
    let find = "SELECT pk FROM #thread WHERE tenant = $1 AND id = $2 AND NOT deleted";
    let found = connection.row(find, &[tenant.into(), thread.into()]).await?;
    Columns::of(&found.ok_or_else(|| not_found(thread))?).int()
}

/// The thread with this id.
pub(super) async fn thread(
    connection: &Connection,
    tenant: &str,
    id: &str,
) -> Result<Option<StoredThread>, Failure> {
    let sql = format!(
        "SELECT {THREAD_COLUMNS} FROM #thread AS thread
         WHERE tenant = $1 AND id = $2 AND NOT deleted"
    );
    let found = connection.row(&sql, &[tenant.into(), id.into()]).await?;
    found.map(|row| stored_thread(&mut Columns::of(&row))).transpose()
}

/// A page of a thread's turns.
pub(super) async fn turns(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<TurnRow>, Failure> {
    let key = find_thread(connection, tenant, thread).await?;
    let tag = query_tag(&["turns", thread]);
    let (compare, order) = directed(query.direction);
    let behind = match &query.cursor {
        Some(cursor) => EntryPosition::read(cursor, &tag)?.ordinal,
        None => first_of(query.direction),
    };
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let sql = format!(
        "SELECT {TURN_COLUMNS} FROM #segment AS segment JOIN #turn AS turn ON {SHOWS_TURN}
         WHERE segment.thread = $1 AND turn.ordinal {compare} $2
         ORDER BY turn.ordinal {order} LIMIT $3"
    );
    let values = [key.into(), behind.into(), rows_of(limit)];
    let rows = connection.rows(&sql, &values).await?;
    let rows = rows.iter().map(|row| turn_row(&mut Columns::of(row)));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let spot = |row: &TurnRow| EntryPosition { ordinal: row.ordinal.into(), position: 0 };
    Ok(Page::cut(rows, limit, |row| spot(row).write(&tag)))
}

/// The thread's newest turn.
pub(super) async fn last_turn(
    connection: &Connection,
    tenant: &str,
    thread: &str,
) -> Result<Option<TurnRow>, Failure> {
    let query = TurnsQuery { limit: 1, ..TurnsQuery::default() };
    Ok(turns(connection, tenant, thread, &query).await?.rows.pop())
}

/// Source and ordinal of the turn with this id among those that a thread shows.
pub(super) async fn visible_turn(
    connection: &Connection,
    thread: i64,
    turn: &str,
) -> Result<Option<(i64, i64)>, Failure> {
    let sql = format!(
        "SELECT turn.thread, turn.ordinal
         FROM #segment AS segment JOIN #turn AS turn ON {SHOWS_TURN}
         WHERE segment.thread = $1 AND turn.id = $2 ORDER BY turn.ordinal DESC LIMIT 1"
    );
    let Some(row) = connection.row(&sql, &[thread.into(), turn.into()]).await? else {
        return Ok(None);
    };
    let mut columns = Columns::of(&row);
    Ok(Some((columns.int()?, columns.int()?)))
}

async fn found_turn(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    turn: &str,
) -> Result<(i64, i64), Failure> {
    let key = find_thread(connection, tenant, thread).await?;
    let found = visible_turn(connection, key, turn).await?;
    found.ok_or_else(|| turn_not_found(thread, turn))
}

/// The position of a turn in a thread.
pub(super) async fn ordinal(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    turn: &str,
) -> Result<i64, Failure> {
    Ok(found_turn(connection, tenant, thread, turn).await?.1)
}

/// A turn's items in order.
pub(super) async fn items(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    turn: &str,
) -> Result<Vec<ItemRow>, Failure> {
    items_of(connection, found_turn(connection, tenant, thread, turn).await?).await
}

/// The items of the turn with this source and ordinal, in order.
pub(super) async fn items_of(
    connection: &Connection,
    (source, ordinal): (i64, i64),
) -> Result<Vec<ItemRow>, Failure> {
    let sql = format!(
        "SELECT {ITEM_COLUMNS} FROM #item AS item WHERE thread = $1 AND ordinal = $2
         ORDER BY position"
    );
    let rows = connection.rows(&sql, &[source.into(), ordinal.into()]).await?;
    rows.iter().map(|row| Ok(placed_item(row)?.1)).collect()
}

/// A page of turns with their items.
pub(super) async fn turns_with_items(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    query: &TurnsQuery,
) -> Result<Page<(TurnRow, Vec<ItemRow>)>, Failure> {
    let page = turns(connection, tenant, thread, query).await?;
    let ordinals = page.rows.iter().map(|row| i64::from(row.ordinal));
    let (first, last) = (ordinals.clone().min(), ordinals.max());
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(page.map(|row| (row, Vec::new())));
    };
    let key = find_thread(connection, tenant, thread).await?;
    let mut items = items_between(connection, key, first, last).await?;
    Ok(page.map(|row| {
        let own = items.remove(&i64::from(row.ordinal)).unwrap_or_default();
        (row, own)
    }))
}

/// The visible items of the places from `first` to `last`, by place.
async fn items_between(
    connection: &Connection,
    thread: i64,
    first: i64,
    last: i64,
) -> Result<BTreeMap<i64, Vec<ItemRow>>, Failure> {
    let sql = format!(
        "SELECT {ITEM_COLUMNS} FROM #segment AS segment JOIN #item AS item
             ON item.thread = segment.source AND item.ordinal > segment.first
                 AND item.ordinal <= segment.last
         WHERE segment.thread = $1 AND item.ordinal >= $2 AND item.ordinal <= $3
         ORDER BY item.ordinal, item.position"
    );
    let mut items: BTreeMap<i64, Vec<ItemRow>> = BTreeMap::new();
    for row in &connection.rows(&sql, &[thread.into(), first.into(), last.into()]).await? {
        let (at, item) = placed_item(row)?;
        items.entry(at.ordinal).or_default().push(item);
    }
    Ok(items)
}

/// A page of the items of a thread, or of `turn` only, each with the id of its turn.
pub(super) async fn items_page(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    turn: Option<&str>,
    query: &TurnsQuery,
) -> Result<Page<(String, ItemRow)>, Failure> {
    let key = find_thread(connection, tenant, thread).await?;
    let tag = query_tag(&["items", thread, turn.unwrap_or_default()]);
    let (compare, order) = directed(query.direction);
    let behind = match &query.cursor {
        Some(cursor) => EntryPosition::read(cursor, &tag)?,
        None => {
            let ordinal = first_of(query.direction);
            EntryPosition { ordinal, position: ordinal }
        }
    };
    let only = match turn {
        Some(turn) => {
            let found = visible_turn(connection, key, turn).await?;
            Some(found.ok_or_else(|| turn_not_found(thread, turn))?.1)
        }
        None => None,
    };
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let sql = format!(
        "SELECT {ITEM_COLUMNS}, turn.id
         FROM #segment AS segment JOIN #turn AS turn ON {SHOWS_TURN}
             JOIN #item AS item ON item.thread = turn.thread AND item.ordinal = turn.ordinal
         WHERE segment.thread = $1 AND (item.ordinal, item.position) {compare} ($2, $3)
             AND ($5::bigint IS NULL OR turn.ordinal = $5)
         ORDER BY item.ordinal {order}, item.position {order} LIMIT $4"
    );
    let values =
        [key.into(), behind.ordinal.into(), behind.position.into(), rows_of(limit), only.into()];
    let mut rows = Vec::new();
    for row in &connection.rows(&sql, &values).await? {
        let mut columns = Columns::of(row);
        let (at, item) = read_item(&mut columns)?;
        rows.push((at, (columns.text()?, item)));
    }
    Ok(Page::cut(rows, limit, |(at, _)| at.write(&tag)).map(|(_, row)| row))
}

/// The model items of a thread in order, from where its history last started over.
pub(super) async fn history(
    connection: &Connection,
    tenant: &str,
    thread: &str,
) -> Result<Vec<Fragment>, Failure> {
    let key = find_thread(connection, tenant, thread).await?;
    let sql = format!(
        "WITH start AS (
             SELECT history.ordinal, history.position
             FROM #segment AS segment JOIN #history AS history ON {SHOWS_HISTORY}
             WHERE segment.thread = $1 AND history.anew
             ORDER BY history.ordinal DESC, history.position DESC LIMIT 1)
         SELECT history.mark, history.fragment
         FROM #segment AS segment JOIN #history AS history ON {SHOWS_HISTORY}
         WHERE segment.thread = $1
             AND history.ordinal >= coalesce((SELECT start.ordinal FROM start), 0)
             AND NOT EXISTS (SELECT 1 FROM start
                 WHERE (history.ordinal, history.position) < (start.ordinal, start.position))
         ORDER BY history.ordinal, history.position"
    );
    let rows = connection.rows(&sql, &[key.into()]).await?;
    rows.iter().map(|row| fragment(&mut Columns::of(row))).collect()
}

/// At most `limit` places of a thread after an ordinal, in order, with their contents.
pub(super) async fn places(
    connection: &Connection,
    tenant: &str,
    thread: &str,
    behind: Option<u32>,
    limit: usize,
) -> Result<Vec<Place>, Failure> {
    let key = find_thread(connection, tenant, thread).await?;
    let lineage = Lineage::of(connection, key).await?;
    let ordinals = lineage.segments.iter().flat_map(|segment| segment.first..=segment.last);
    let after = behind.map_or(-1, i64::from);
    let ordinals: Vec<i64> = ordinals.filter(|ordinal| *ordinal > after).take(limit).collect();
    let (Some(first), Some(last)) = (ordinals.first(), ordinals.last()) else {
        return Ok(Vec::new());
    };
    let values = [key.into(), (*first).into(), (*last).into()];
    let mut turns = BTreeMap::new();
    let sql = format!(
        "SELECT {TURN_COLUMNS} FROM #segment AS segment JOIN #turn AS turn ON {SHOWS_TURN}
         WHERE segment.thread = $1 AND turn.ordinal >= $2 AND turn.ordinal <= $3"
    );
    for row in &connection.rows(&sql, &values).await? {
        let turn = turn_row(&mut Columns::of(row))?;
        turns.insert(i64::from(turn.ordinal), turn);
    }
    let mut items = items_between(connection, key, *first, *last).await?;
    let mut histories: BTreeMap<i64, Vec<(Fragment, bool)>> = BTreeMap::new();
    let sql = format!(
        "SELECT history.ordinal, history.anew, history.mark, history.fragment
         FROM #segment AS segment JOIN #history AS history ON {SHOWS_HISTORY}
         WHERE segment.thread = $1 AND history.ordinal >= $2 AND history.ordinal <= $3
         ORDER BY history.ordinal, history.position"
    );
    for row in &connection.rows(&sql, &values).await? {
        let mut columns = Columns::of(row);
        let (ordinal, anew) = (columns.int()?, columns.flag()?);
        histories.entry(ordinal).or_default().push((fragment(&mut columns)?, anew));
    }
    let place = |ordinal: i64| Place {
        ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
        turn: turns.remove(&ordinal),
        items: items.remove(&ordinal).unwrap_or_default(),
        history: histories.remove(&ordinal).unwrap_or_default(),
    };
    Ok(ordinals.into_iter().map(place).collect())
}

/// Reads the columns of [`THREAD_COLUMNS`].
pub(super) fn stored_thread(columns: &mut Columns<'_>) -> Result<StoredThread, Failure> {
    let record = ThreadRecord {
        id: columns.text()?,
        session_id: columns.text()?,
        forked_from_id: columns.text_or_null()?,
        preview: columns.text()?,
        name: columns.text_or_null()?,
        model_provider: columns.text()?,
        model: columns.text()?,
        cwd: columns.text()?,
        created_at: columns.int()?,
        updated_at: columns.int()?,
        source_kind: columns.text()?,
        source: columns.payload()?,
        archived: columns.flag()?,
        git_info: columns.payload_or_null()?,
        settings: columns.payload()?,
        cli_version: columns.text()?,
        token_usage: columns.payload_or_null()?,
        extra: columns.payload_or_null()?,
    };
    Ok(StoredThread { record, turn_count: columns.small()? })
}

fn turn_row(columns: &mut Columns<'_>) -> Result<TurnRow, Failure> {
    let (id, ordinal, code) = (columns.text()?, columns.small()?, columns.int()?);
    let unknown = || Failure::damaged(format!("turn status {code}"));
    Ok(TurnRow {
        id,
        ordinal,
        status: TurnStatus::from_code(code).ok_or_else(unknown)?,
        started_at_ms: columns.int()?,
        completed_at_ms: columns.int_or_null()?,
        duration_ms: columns.int_or_null()?,
        error: columns.payload_or_null()?,
        usage: columns.payload_or_null()?,
    })
}

fn placed_item(row: &Row) -> Result<(EntryPosition, ItemRow), Failure> {
    read_item(&mut Columns::of(row))
}

fn read_item(columns: &mut Columns<'_>) -> Result<(EntryPosition, ItemRow), Failure> {
    let at = EntryPosition { ordinal: columns.int()?, position: columns.int()? };
    let item = ItemRow {
        id: columns.text()?,
        kind: columns.text()?,
        status: columns.text_or_null()?,
        payload: columns.payload()?,
    };
    Ok((at, item))
}

fn fragment(columns: &mut Columns<'_>) -> Result<Fragment, Failure> {
    let mark = columns.int()?;
    let mark =
        u8::try_from(mark).map_err(|_| Failure::damaged(format!("mark {mark} of a fragment")))?;
    Ok(Fragment { text: columns.payload()?.into(), mark })
}

/// The comparison with a cursor, and the order.
pub(super) fn directed(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Ascending => (">", "ASC"),
        Direction::Descending => ("<", "DESC"),
    }
}

/// The number before all others in this direction.
pub(super) fn first_of(direction: Direction) -> i64 {
    match direction {
        Direction::Ascending => i64::MIN,
        Direction::Descending => i64::MAX,
    }
}

/// The rows that show a page, and whether another one follows.
pub(super) fn rows_of(limit: usize) -> Value {
    i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX).into()
}
