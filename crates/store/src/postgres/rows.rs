//! Finds the rows of threads and turns by their ids, inside of a transaction that writes.
//!
//! The row of a thread in `lease` is locked by the first write to the thread in a transaction, so
//! that all writes to a thread follow each other, on whatever node.

use std::collections::BTreeMap;

use super::connection::Connection;
use super::failure::Failure;
use super::lineage::OPEN;
use super::owned::Places;
use super::value::{Columns, Value};
use crate::query::searched_text;
use crate::{StoreError, ThreadRecord};

/// The numbers that fence the writes to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    /// Key of the thread.
    pub(super) thread: i64,
    /// Grows when the owner changes.
    pub(super) epoch: i64,
    /// Number of its last append.
    pub(super) seq: i64,
}

/// A transaction that writes on behalf of the node `me`.
pub(super) struct Transaction<'c> {
    pub(super) connection: &'c Connection,
    pub(super) tenant: &'c str,
    pub(super) me: &'c str,
    /// The threads that are locked, by id, as they were before.
    pub(super) locked: BTreeMap<String, Fence>,
    /// The fences of owned threads, as this store knows them.
    pub(super) known: &'c BTreeMap<String, Fence>,
    /// A random number of the commit.
    pub(super) token: i64,
}

/// A row of `lease`.
pub(super) struct Lease {
    pub(super) fence: Fence,
    pub(super) owner: Option<String>,
}

impl Transaction<'_> {
    /// Locks the lease of a thread.
    pub(super) async fn lease(&self, thread: &str) -> Result<Lease, Failure> {
        let found = self
            .connection
            .row(
                "SELECT thread.pk, lease.epoch, lease.last_seq, lease.owner
                 FROM #thread AS thread JOIN #lease AS lease ON lease.thread = thread.pk
                 WHERE thread.tenant = $1 AND thread.id = $2 AND NOT thread.deleted
                 FOR UPDATE OF lease",
                &[self.tenant.into(), thread.into()],
            )
            .await?;
        let row = found.ok_or_else(|| not_found(thread))?;
        let mut columns = Columns::of(&row);
        let fence = Fence { thread: columns.int()?, epoch: columns.int()?, seq: columns.int()? };
        Ok(Lease { fence, owner: columns.text_or_null()? })
    }

    /// Key of a thread that may be written to.
    pub(super) async fn leased_thread(&mut self, thread: &str) -> Result<i64, Failure> {
        if let Some(fence) = self.locked.get(thread) {
            return Ok(fence.thread);
        }
        let Lease { fence, owner } = self.lease(thread).await?;
        let is_known = self.known.get(thread) == Some(&fence);
        if owner.as_deref() != Some(self.me) || !is_known {
            return Err(lost(thread));
        }
        self.locked.insert(thread.to_owned(), fence);
        Ok(fence.thread)
    }

    /// Key and ordinal of a turn of the thread itself that may be written to: this node runs it, or
    /// it has ended.
    pub(super) async fn own_turn(
        &mut self,
        thread: &str,
        turn: &str,
    ) -> Result<(i64, i64), Failure> {
        let key = self.leased_thread(thread).await?;
        let found = self
            .connection
            .row(
                "SELECT ordinal, status <> 0 OR owner IS NOT DISTINCT FROM $3 FROM #turn
                 WHERE thread = $1 AND id = $2",
                &[key.into(), turn.into(), self.me.into()],
            )
            .await?;
        let row = found.ok_or_else(|| turn_not_found(thread, turn))?;
        let mut columns = Columns::of(&row);
        let ordinal = columns.int()?;
        match columns.flag()? {
            true => Ok((key, ordinal)),
            false => Err(lost(thread)),
        }
    }

    /// Key and ordinal of the newest place of a thread that may be written to.
    pub(super) async fn newest_place(&mut self, thread: &str) -> Result<(i64, i64), Failure> {
        let key = self.leased_thread(thread).await?;
        let newest = "SELECT last_ordinal FROM #thread WHERE pk = $1";
        let found = self.connection.row(newest, &[key.into()]).await?;
        let row = found.ok_or_else(|| not_found(thread))?;
        Ok((key, Columns::of(&row).int()?))
    }

    /// Stores a thread with its lease, and returns its key.
    pub(super) async fn create_thread(&mut self, record: &ThreadRecord) -> Result<i64, Failure> {
        let searched = searched_text(record.name.as_deref(), &record.preview);
        let values: [Value; 23] = [
            self.tenant.into(),
            (&record.id).into(),
            (&record.session_id).into(),
            record.forked_from_id.as_deref().into(),
            (&record.preview).into(),
            record.name.as_deref().into(),
            (&record.model_provider).into(),
            (&record.model).into(),
            (&record.cwd).into(),
            record.created_at.into(),
            record.updated_at.into(),
            (&record.source_kind).into(),
            Value::payload(&record.source),
            record.archived.into(),
            Value::payload_or_null(record.git_info.as_deref()),
            Value::payload(&record.settings),
            (&record.cli_version).into(),
            Value::payload_or_null(record.token_usage.as_deref()),
            Value::payload_or_null(record.extra.as_deref()),
            Value::searched(&searched),
            self.me.into(),
            OPEN.into(),
            self.token.into(),
        ];
        let added = self
            .connection
            .row(
                "WITH new AS (
                     INSERT INTO #thread (tenant, id, session_id, forked_from_id, preview, name,
                         model_provider, model, cwd, created_at, updated_at, source_kind, source,
                         archived, git_info, settings, cli_version, token_usage, extra, searched)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                         $17, $18, $19, $20)
                     ON CONFLICT (tenant, id) DO NOTHING RETURNING pk),
                 own AS (INSERT INTO #segment (thread, first, last, source, last_history)
                     SELECT pk, 0, $22, pk, $22 FROM new)
                 INSERT INTO #lease (thread, owner, epoch, last_seq, created_by, appended_by)
                 SELECT pk, $21, 1, 0, $23, $23 FROM new RETURNING thread",
                &values,
            )
            .await?;
        let exists = || StoreError::ThreadExists { thread: record.id.clone() };
        let thread = Columns::of(&added.ok_or_else(exists)?).int()?;
        self.locked.insert(record.id.clone(), Fence { thread, epoch: 1, seq: 0 });
        Ok(thread)
    }

    /// Counts the append to each locked thread, and returns what fences the next one.
    pub(super) async fn count_appends(&mut self) -> Result<(), Failure> {
        let threads = Value::ints(self.locked.values().map(|fence| fence.thread));
        let count = "UPDATE #lease SET last_seq = last_seq + 1, appended_by = $2
            WHERE thread = ANY ($1)";
        self.connection.execute(count, &[threads, self.token.into()]).await?;
        self.locked.values_mut().for_each(|fence| fence.seq += 1);
        Ok(())
    }
}

/// Where appends to a thread go. Right if the fence is as the owner knows it, which an append checks.
pub(super) async fn places_of(
    connection: &Connection,
    me: &str,
    thread: i64,
) -> Result<Places, Failure> {
    let rows = connection
        .rows(
            "SELECT thread.last_ordinal, turn.id, turn.ordinal
             FROM #thread AS thread LEFT JOIN #turn AS turn
                 ON turn.thread = thread.pk AND turn.status = 0 AND turn.owner = $2
             WHERE thread.pk = $1",
            &[thread.into(), me.into()],
        )
        .await?;
    let mut places = Places::default();
    for row in &rows {
        let mut columns = Columns::of(row);
        places.last_ordinal = columns.int()?;
        if let (Some(id), Some(ordinal)) = (columns.text_or_null()?, columns.int_or_null()?) {
            places.running.insert(id, ordinal);
        }
    }
    Ok(places)
}

pub(super) fn not_found(thread: &str) -> Failure {
    StoreError::ThreadNotFound { thread: thread.to_owned() }.into()
}

pub(super) fn turn_not_found(thread: &str, turn: &str) -> Failure {
    StoreError::TurnNotFound { thread: thread.to_owned(), turn: turn.to_owned() }.into()
}

pub(super) fn lost(thread: &str) -> Failure {
    StoreError::LeaseLost { thread: thread.to_owned() }.into()
}
