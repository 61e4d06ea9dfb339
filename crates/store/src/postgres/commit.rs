//! Commits: which threads a write holds, and how it is sent.
//!
//! A commit whose answer is lost may have taken effect. Its threads tell (`outcome.rs`): they hold a
//! number of their last append. So the same commit is sent again only if it has not been stored.
//! Where an outage lasts too long to find that out, the thread is no longer open for writing here:
//! only opening it again shows what it is like.

use std::collections::{BTreeMap, BTreeSet};

use super::append::{Append, Mode};
use super::connection::Connection;
use super::failure::Failure;
use super::inner::Inner;
use super::outcome::{learn, was_written, was_written_unloaded};
use super::owned::{Held, Owned};
use super::recovery::{self, Taken};
use super::retry::Retry;
use super::rows::{Fence, Transaction, places_of};
use super::value::{Value, random};
use crate::{OpenedThread, OrphanedTurn, StoreError, Write};

/// Stores all writes or none.
pub(super) async fn commit(inner: &Inner, writes: &[Write]) -> Result<(), StoreError> {
    let ids: BTreeSet<String> = writes.iter().map(|write| write.thread().to_owned()).collect();
    let Some(first) = ids.first().cloned() else { return Ok(()) };
    let mut held = inner.owned.lock(ids).await;
    let is_owned = writes.iter().all(|write| write.creates().is_none());
    let mut retry = Retry::new(inner, &first, is_owned);
    let token = random();
    let outcome = loop {
        let me = match retry.me() {
            Ok(me) => me,
            Err(error) => break Err(error),
        };
        let attempt = attempt(inner, (&me, token), writes, &mut held, retry.is_ambiguous);
        let outcome = retry.within_lease(attempt).await;
        if let Some(outcome) = retry.next(outcome).await {
            break outcome.and_then(|()| retry.still(&me));
        }
    };
    let is_gone = |error: &StoreError| {
        matches!(error, StoreError::LeaseLost { .. } | StoreError::ThreadNotFound { .. })
    };
    if outcome.as_ref().is_err_and(|error| retry.is_ambiguous || is_gone(error)) {
        held.reset();
    }
    inner.owned.unlock(held);
    outcome
}

async fn attempt(
    inner: &Inner,
    (me, token): (&str, i64),
    writes: &[Write],
    held: &mut Held,
    is_ambiguous: bool,
) -> Result<(), Failure> {
    let connection = inner.database.connection().await?;
    if is_ambiguous && was_written(inner, &connection, token, writes, held).await? {
        learn(inner, &connection, me, held).await?;
        connection.give_back();
        return Ok(());
    }
    if append(inner, &connection, (me, token), writes, held).await? {
        connection.give_back();
        return Ok(());
    }
    let outcome = transact(inner, &connection, (me, token), writes, held).await;
    if !is_ambiguous || !matches!(&outcome, Err(Failure::Store(_))) {
        return connection.give_back_after(outcome).await;
    }
    // An earlier attempt may have been under way still, and have taken effect in the meantime. So
    // the thread is no longer as this one expects it.
    connection.roll_back().await?;
    let outcome = match was_written(inner, &connection, token, writes, held).await {
        Ok(true) => learn(inner, &connection, me, held).await,
        Ok(false) | Err(Failure::Store(_)) => outcome,
        Err(failure) => return Err(failure),
    };
    if !outcome.as_ref().is_err_and(Failure::taints_connection) {
        connection.give_back();
    }
    outcome
}

/// Stores writes that only append to one thread, in one statement; `false` if nothing was stored.
async fn append(
    inner: &Inner,
    connection: &Connection,
    (me, token): (&str, i64),
    writes: &[Write],
    held: &mut Held,
) -> Result<bool, Failure> {
    let mut threads = held.0.iter_mut();
    let (Some((thread, slot)), None) = (threads.next(), threads.next()) else { return Ok(false) };
    let Some(owned) = slot.as_mut() else { return Ok(false) };
    if owned.places.is_none() {
        owned.places = Some(places_of(connection, me, owned.fence.thread).await?);
    }
    let mut fence = owned.fence;
    let places = owned.places.clone().unwrap_or_default();
    let Some(append) = Append::of(writes, &places) else { return Ok(false) };
    let name = (inner.tenant.as_str(), me, thread.as_str());
    match append.store(connection, name, fence, Mode::Alone(token)).await {
        Ok(Some(places)) => {
            fence.seq += 1;
            **slot = Some(Owned { fence, places: Some(places) });
            Ok(true)
        }
        Ok(None) => Ok(false),
        // A turn with this id exists; the transaction has the error.
        Err(failure) if failure.is_duplicate() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Stores any writes in a transaction.
async fn transact(
    inner: &Inner,
    connection: &Connection,
    (me, token): (&str, i64),
    writes: &[Write],
    held: &mut Held,
) -> Result<(), Failure> {
    let known = held.fences();
    let mut transaction = inner.transaction(connection, (me, token), &known);
    connection.begin().await?;
    transaction.apply_all(writes).await?;
    transaction.count_appends().await?;
    connection.end().await?;
    let after = transaction.locked;
    for (id, slot) in &mut held.0 {
        **slot = after.get(id).map(|fence| Owned { fence: *fence, places: None });
    }
    Ok(())
}

/// Takes the lease of a thread, and claims its orphaned turns.
pub(super) async fn open_thread(inner: &Inner, thread: &str) -> Result<OpenedThread, StoreError> {
    let mut held = inner.owned.lock(BTreeSet::from([thread.to_owned()])).await;
    let mut retry = Retry::new(inner, thread, false);
    let outcome = loop {
        let me = match retry.me() {
            Ok(me) => me,
            Err(error) => break Err(error),
        };
        // Taking a lease twice is the same as taking it once.
        let outcome = retry.within_lease(take_and_read(inner, &me, thread, &mut held)).await;
        if let Some(outcome) = retry.next(outcome).await {
            break outcome.and_then(|opened| retry.still(&me).map(|()| opened));
        }
    };
    if outcome.is_err() {
        held.reset();
    }
    inner.owned.unlock(held);
    outcome
}

async fn take_and_read(
    inner: &Inner,
    me: &str,
    thread: &str,
    held: &mut Held,
) -> Result<OpenedThread, Failure> {
    let connection = inner.database.connection().await?;
    let opened = async {
        let (connection, tenant) = (&connection, inner.tenant.as_str());
        let known = held.fences();
        let mut transaction = inner.transaction(connection, (me, random()), &known);
        connection.begin().await?;
        let Taken { fence, .. } = recovery::take(&mut transaction, thread).await?;
        let orphans = recovery::claim_of(connection, me, fence.thread).await?;
        let stored = super::read::thread(connection, tenant, thread).await?;
        let stored = stored.ok_or_else(|| super::rows::not_found(thread))?;
        let last_turn = super::read::last_turn(connection, tenant, thread).await?;
        let queue = super::queue::read(connection, fence.thread).await?;
        connection.end().await?;
        held.set(thread, Some(Owned { fence, places: None }));
        Ok(OpenedThread { stored, last_turn, orphans, queue })
    };
    let opened = opened.await;
    connection.give_back_after(opened).await
}

/// Releases the lease of a thread.
pub(super) async fn release(inner: &Inner, thread: &str) -> Result<(), StoreError> {
    let mut held = inner.owned.lock(BTreeSet::from([thread.to_owned()])).await;
    let mut retry = Retry::new(inner, thread, false);
    let outcome = loop {
        // A node without a lease holds no thread.
        let Ok(me) = retry.me() else { break Ok(()) };
        let attempt = async {
            let connection = inner.database.connection().await?;
            recovery::release(&connection, &inner.tenant, &me, thread).await?;
            connection.give_back();
            Ok(())
        };
        let outcome = retry.within_lease(attempt).await;
        if let Some(outcome) = retry.next(outcome).await {
            break outcome;
        }
    };
    held.reset();
    inner.owned.unlock(held);
    outcome
}

/// Claims every turn in progress whose node is dead.
pub(super) async fn claim(inner: &Inner) -> Result<Vec<OrphanedTurn>, StoreError> {
    let mut retry = Retry::new(inner, "", false);
    loop {
        let me = retry.me()?;
        let attempt = async {
            let connection = inner.database.connection().await?;
            connection.begin().await?;
            let claimed = recovery::claim(&connection, &inner.tenant, &me).await;
            if claimed.is_ok() {
                connection.end().await?;
            }
            connection.give_back_after(claimed).await
        };
        let outcome = retry.within_lease(attempt).await;
        if let Some(outcome) = retry.next(outcome).await {
            return outcome;
        }
    }
}

/// Applies writes to a thread under its lease, which is released again unless the node had it.
pub(super) async fn write_unloaded(
    inner: &Inner,
    thread: &str,
    writes: &[Write],
) -> Result<(), StoreError> {
    let mut held = inner.owned.lock(BTreeSet::from([thread.to_owned()])).await;
    let mut retry = Retry::new(inner, thread, false);
    let (token, mut sent) = (random(), None);
    let outcome = loop {
        let me = match retry.me() {
            Ok(me) => me,
            Err(error) => break Err(error),
        };
        let attempt = take_and_write(inner, (&me, token), (thread, writes), &mut held, &mut sent);
        let outcome = retry.within_lease(attempt).await;
        if let Some(outcome) = retry.next(outcome).await {
            break outcome.and_then(|()| retry.still(&me));
        }
    };
    let is_lost = matches!(outcome, Err(StoreError::LeaseLost { .. }));
    if is_lost || retry.is_ambiguous && outcome.is_err() {
        held.reset();
    }
    inner.owned.unlock(held);
    outcome
}

/// One attempt. `sent` is the thread as the attempt before took it, if that sent its commit.
async fn take_and_write(
    inner: &Inner,
    (me, token): (&str, i64),
    (thread, writes): (&str, &[Write]),
    held: &mut Held,
    sent: &mut Option<Taken>,
) -> Result<(), Failure> {
    let connection = inner.database.connection().await?;
    if let Some(before) = *sent {
        // `sent` stays until that is known: the answer to this can be lost, too.
        if was_written_unloaded(&connection, token, (thread, writes), before).await? {
            learn(inner, &connection, me, held).await?;
            connection.give_back();
            return Ok(());
        }
        *sent = None;
    }
    let written = async {
        let known = held.fences();
        let mut transaction = inner.transaction(&connection, (me, token), &known);
        connection.begin().await?;
        let taken = recovery::take(&mut transaction, thread).await?;
        let Taken { fence, held_before } = taken;
        transaction.apply_all(writes).await?;
        transaction.count_appends().await?;
        if !held_before {
            let release = "UPDATE #lease SET owner = NULL WHERE thread = $1 AND owner = $2";
            connection.execute(release, &[Value::from(fence.thread), me.into()]).await?;
        }
        *sent = Some(taken);
        connection.end().await?;
        let after = transaction.locked.get(thread).filter(|_| held_before);
        held.set(thread, after.map(|fence| Owned { fence: *fence, places: None }));
        Ok(())
    };
    let written = written.await;
    connection.give_back_after(written).await
}

impl Write {
    /// The thread that the write changes.
    pub(super) fn thread(&self) -> &str {
        match self {
            Self::CreateThread(record) | Self::Fork { record, .. } => &record.id,
            Self::UpdateThread { thread, .. }
            | Self::StartTurn { thread, .. }
            | Self::PutItem { thread, .. }
            | Self::AppendHistory { thread, .. }
            | Self::RollBack { thread, .. }
            | Self::Job { thread, .. }
            | Self::Queue { thread, .. }
            | Self::AddUsage { thread, .. }
            | Self::DeleteThread { thread }
            | Self::FinishTurn { thread, .. } => thread,
        }
    }

    /// The thread that the write creates.
    pub(super) fn creates(&self) -> Option<&str> {
        match self {
            Self::CreateThread(record) | Self::Fork { record, .. } => Some(&record.id),
            _ => None,
        }
    }
}

impl Inner {
    fn transaction<'c>(
        &'c self,
        connection: &'c Connection,
        (me, token): (&'c str, i64),
        known: &'c BTreeMap<String, Fence>,
    ) -> Transaction<'c> {
        let locked = BTreeMap::new();
        Transaction { connection, tenant: &self.tenant, me, locked, known, token }
    }
}
