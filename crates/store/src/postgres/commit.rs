//! Commits: which threads a write holds, how it is sent, and what became of it when the connection
//! was lost on the way.
//!
//! A commit whose answer is lost may have taken effect. The fence of its threads tells: it counts
//! the appends, and only their owner appends. So the same commit is sent again only if the count
//! shows that it has not been stored. Where an outage lasts too long to find that out, the thread is
//! no longer open for writing here: only opening it again shows what it is like.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use super::append::{Append, Mode};
use super::connection::Connection;
use super::failure::Failure;
use super::inner::Inner;
use super::owned::{Held, Owned};
use super::recovery::{self, Taken};
use super::rows::{Fence, Transaction, lost, places_of};
use super::value::{Columns, Value};
use crate::{OpenedThread, OrphanedTurn, StoreError, Write};

/// Attempts of a transaction that conflicts with others.
const MAX_CONFLICTS: u32 = 6;
/// First and longest wait before something is tried again.
const WAITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

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
    if append(inner, &connection, me, writes, held).await? {
        connection.give_back();
        return Ok(());
    }
    let outcome = transact(inner, &connection, (me, token), writes, held).await;
    connection.give_back_after(outcome).await
}

/// Stores writes that only append to one thread, in one statement; `false` if nothing was stored.
async fn append(
    inner: &Inner,
    connection: &Connection,
    me: &str,
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
    match append.store(connection, name, fence, Mode::Alone).await {
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
    let mut transaction = inner.transaction(connection, me, &known);
    transaction.token = token;
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

/// Reads the fences of held threads after a commit whose answer was lost.
async fn learn(
    inner: &Inner,
    connection: &Connection,
    me: &str,
    held: &mut Held,
) -> Result<(), Failure> {
    let ids = Value::texts(held.0.keys().map(String::as_str));
    let rows = connection
        .rows(
            "SELECT thread.id, thread.pk, lease.epoch, lease.last_seq
             FROM #thread AS thread JOIN #lease AS lease ON lease.thread = thread.pk
             WHERE thread.tenant = $1 AND thread.id = ANY ($2) AND lease.owner = $3",
            &[inner.tenant.as_str().into(), ids, me.into()],
        )
        .await?;
    held.reset();
    for row in &rows {
        let mut columns = Columns::of(row);
        let id = columns.text()?;
        let fence = Fence { thread: columns.int()?, epoch: columns.int()?, seq: columns.int()? };
        held.set(&id, Some(Owned { fence, places: None }));
    }
    Ok(())
}

/// Returns whether a commit whose answer was lost is stored. Waits for a transaction that is still
/// under way.
async fn was_written(
    inner: &Inner,
    connection: &Connection,
    token: i64,
    writes: &[Write],
    held: &Held,
) -> Result<bool, Failure> {
    if let Some((id, fence)) = held.fences().into_iter().next() {
        let deletes =
            |write: &Write| matches!(write, Write::DeleteThread { thread } if *thread == id);
        return match state_of(connection, fence).await? {
            State::Before => Ok(false),
            State::After => Ok(true),
            State::Gone if writes.iter().any(deletes) => Ok(true),
            State::Gone | State::Later => Err(lost(&id)),
        };
    }
    // All threads of the commit are new, or this node does not own them.
    let created = writes.iter().find_map(Write::creates);
    let Some(created) = created else { return Ok(false) };
    let found = connection
        .row(
            "SELECT 1 FROM #thread AS thread JOIN #lease AS lease ON lease.thread = thread.pk
             WHERE thread.tenant = $1 AND thread.id = $2 AND lease.created_by = $3
             FOR SHARE OF lease",
            &[inner.tenant.as_str().into(), created.into(), token.into()],
        )
        .await?;
    Ok(found.is_some())
}

fn random() -> i64 {
    // Keys of the hasher are random.
    RandomState::new().build_hasher().finish().cast_signed()
}

/// The state of a thread compared with a fence.
enum State {
    /// The append has not been stored.
    Before,
    /// The append, and none after it, is stored.
    After,
    /// Another owner has the thread, or wrote to it.
    Later,
    /// The thread is deleted.
    Gone,
}

async fn state_of(connection: &Connection, fence: Fence) -> Result<State, Failure> {
    let locked = "SELECT epoch, last_seq FROM #lease WHERE thread = $1 FOR SHARE";
    let Some(row) = connection.row(locked, &[fence.thread.into()]).await? else {
        return Ok(State::Gone);
    };
    let mut columns = Columns::of(&row);
    let (epoch, seq) = (columns.int()?, columns.int()?);
    Ok(if epoch == fence.epoch && seq == fence.seq + 1 {
        State::After
    } else if epoch <= fence.epoch && seq == fence.seq {
        State::Before
    } else {
        State::Later
    })
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
        let mut transaction = inner.transaction(connection, me, &known);
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
    let mut sent = None;
    let outcome = loop {
        let me = match retry.me() {
            Ok(me) => me,
            Err(error) => break Err(error),
        };
        let attempt = take_and_write(inner, &me, (thread, writes), &mut held, &mut sent);
        let outcome = retry.within_lease(attempt).await;
        if let Some(outcome) = retry.next(outcome).await {
            break outcome.and_then(|()| retry.still(&me));
        }
    };
    if retry.is_ambiguous && outcome.is_err() {
        held.reset();
    }
    inner.owned.unlock(held);
    outcome
}

async fn take_and_write(
    inner: &Inner,
    me: &str,
    (thread, writes): (&str, &[Write]),
    held: &mut Held,
    sent: &mut Option<Fence>,
) -> Result<(), Failure> {
    let connection = inner.database.connection().await?;
    if let Some(fence) = sent.take() {
        let deletes = writes.iter().any(|write| matches!(write, Write::DeleteThread { .. }));
        match state_of(&connection, fence).await? {
            State::Before => {}
            State::Gone if !deletes => return Err(super::rows::not_found(thread)),
            State::After | State::Gone => {
                learn(inner, &connection, me, held).await?;
                connection.give_back();
                return Ok(());
            }
            State::Later => return Err(lost(thread)),
        }
    }
    let written = async {
        let known = held.fences();
        let mut transaction = inner.transaction(&connection, me, &known);
        connection.begin().await?;
        let Taken { fence, held_before } = recovery::take(&mut transaction, thread).await?;
        transaction.apply_all(writes).await?;
        transaction.count_appends().await?;
        if !held_before {
            let release = "UPDATE #lease SET owner = NULL WHERE thread = $1 AND owner = $2";
            connection.execute(release, &[Value::from(fence.thread), me.into()]).await?;
        }
        *sent = Some(fence);
        connection.end().await?;
        let after = transaction.locked.get(thread).filter(|_| held_before);
        held.set(thread, after.map(|fence| Owned { fence: *fence, places: None }));
        Ok(())
    };
    let written = written.await;
    connection.give_back_after(written).await
}

/// Tries something again after an outage or a conflict, as long as the lease of the node lasts and
/// for [`Membership::patience`](super::node::Membership::patience) at most.
pub(super) struct Retry<'i> {
    inner: &'i Inner,
    thread: String,
    /// Nothing is tried from here on.
    until: Instant,
    conflicts: u32,
    wait: Duration,
    /// True if an earlier attempt may have taken effect.
    is_ambiguous: bool,
    /// True if the caller should have the lease of the thread already.
    is_owned: bool,
    last: Option<StoreError>,
}

impl<'i> Retry<'i> {
    fn new(inner: &'i Inner, thread: &str, is_owned: bool) -> Self {
        let (wait, _) = WAITS;
        let (thread, until) = (thread.to_owned(), Instant::now() + inner.membership.patience());
        let (conflicts, is_ambiguous, last) = (0, false, None);
        Self { inner, thread, until, conflicts, wait, is_ambiguous, is_owned, last }
    }

    /// The name of the node, while its lease lasts.
    ///
    /// # Errors
    /// The error of the last attempt, or else that the lease of the thread or of the node is over.
    fn me(&mut self) -> Result<String, StoreError> {
        let now = Instant::now();
        if let Some(error) = self.last.take_if(|_| now >= self.until) {
            return Err(error);
        }
        match self.inner.membership.id_if_alive(now) {
            Some(me) => Ok(me),
            None => Err(self.last.take().unwrap_or_else(|| match self.is_owned {
                true => StoreError::LeaseLost { thread: self.thread.clone() },
                false => self.inner.out_of_contact(),
            })),
        }
    }

    /// Refuses to acknowledge what was done under a lease that is over.
    fn still(&self, me: &str) -> Result<(), StoreError> {
        match self.inner.membership.id_if_alive(Instant::now()) {
            Some(now) if now == me => Ok(()),
            _ => Err(StoreError::LeaseLost { thread: self.thread.clone() }),
        }
    }

    async fn within_lease<T>(
        &self,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut attempt = std::pin::pin!(attempt);
        loop {
            // A renewal in the meantime leaves more time.
            let now = Instant::now();
            let left = self.inner.membership.time_left(now);
            let left = left.min(self.until.saturating_duration_since(now));
            if left.is_zero() {
                return Err(Failure::Late);
            }
            if let Ok(outcome) = tokio::time::timeout(left, &mut attempt).await {
                return outcome;
            }
        }
    }

    /// The final outcome, or `None` to try again.
    async fn next<T>(&mut self, outcome: Result<T, Failure>) -> Option<Result<T, StoreError>> {
        let failure = match outcome {
            Ok(done) => return Some(Ok(done)),
            Err(failure) => failure,
        };
        if failure.is_conflict() && self.conflicts < MAX_CONFLICTS {
            self.conflicts += 1;
            return None;
        }
        if !failure.is_passing() {
            return Some(Err(self.inner.database.error(failure)));
        }
        self.is_ambiguous = true;
        self.last = Some(self.inner.database.error(failure));
        tokio::time::sleep(self.wait).await;
        let (_, longest) = WAITS;
        self.wait = (self.wait * 2).min(longest);
        None
    }
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
    fn creates(&self) -> Option<&str> {
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
        me: &'c str,
        known: &'c BTreeMap<String, Fence>,
    ) -> Transaction<'c> {
        let (locked, token) = (BTreeMap::new(), random());
        Transaction { connection, tenant: &self.tenant, me, locked, known, token }
    }
}
