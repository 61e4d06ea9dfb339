//! This node among those of the schema: one row, renewed while it lives. The threads of a node whose
//! lease is over are free.
//!
//! The lease runs by the clock of the database. The node itself stops earlier, by its own monotonic
//! clock, so that no clock has to be right; a write that comes too late anyway is refused by the
//! epoch of its thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::failure::Failure;
use super::value::{Columns, Value};
use crate::StoreError;

/// A condition on `owner`: the name of a node whose lease is not over.
pub(super) const LIVES: &str = "EXISTS (SELECT 1 FROM #node WHERE #node.id = owner
    AND #node.lease_until > clock_timestamp())";

/// The membership of this node.
#[derive(Debug)]
pub(super) struct Membership {
    /// The name of the open store.
    name: String,
    lease: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Counts the registrations; each has a name of its own.
    incarnation: u32,
    /// From here on nothing is acknowledged.
    until: Option<Instant>,
}

impl Membership {
    pub(super) fn new(name: &str, lease: Duration) -> Self {
        let state = Mutex::new(State { incarnation: 0, until: None });
        Self { name: name.to_owned(), lease, state }
    }

    /// The name under which leases are taken now.
    pub(super) fn id(&self) -> String {
        self.named(self.lock().incarnation)
    }

    /// The name under which leases are taken, while the lease of the node is not over.
    pub(super) fn id_if_alive(&self, now: Instant) -> Option<String> {
        let state = self.lock();
        state.until.is_some_and(|until| now < until).then(|| self.named(state.incarnation))
    }

    /// Time that is left for a write.
    pub(super) fn time_left(&self, now: Instant) -> Duration {
        let until = self.lock().until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Longest time of a write, attempts after outages included.
    pub(super) fn patience(&self) -> Duration {
        self.lease * 2
    }

    /// The time between two renewals.
    pub(super) fn interval(&self) -> Duration {
        self.lease / 4
    }

    /// The time of the next renewal after one that began at `began` and ended now.
    pub(super) fn next_renewal(&self, began: Instant, now: Instant, is_renewed: bool) -> Instant {
        match is_renewed {
            true => began + self.interval(),
            false => now + self.interval() / 10,
        }
    }

    /// A renewal that was sent at `asked` succeeded: the database counts from a later time on.
    fn extend(&self, id: &str, asked: Instant) {
        let mut state = self.lock();
        if self.named(state.incarnation) == id {
            state.until = Some(asked + self.lease - self.lease / 8);
        }
    }

    /// The lease is over: the node is known by a new name from now on, without any thread.
    fn lose(&self) {
        let mut state = self.lock();
        state.incarnation += 1;
        state.until = None;
    }

    fn named(&self, incarnation: u32) -> String {
        match incarnation {
            0 => self.name.clone(),
            number => format!("{}.{number}", self.name),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the open store that takes leases under `id`.
pub(super) fn name_of(id: &str) -> &str {
    match id.rsplit_once('.') {
        Some((name, incarnation)) if incarnation.parse::<u32>().is_ok() => name,
        _ => id,
    }
}

/// Registers the node under its current name.
///
/// # Errors
/// [`StoreError::BadOwner`] if another node has the name.
pub(super) async fn register(
    connection: &Connection,
    membership: &Membership,
    holder: &str,
) -> Result<(), Failure> {
    let (id, asked) = (membership.id(), Instant::now());
    let values = [
        id.as_str().into(),
        holder.into(),
        env!("CARGO_PKG_VERSION").into(),
        milliseconds(membership.lease),
    ];
    let added = connection
        .execute(
            "INSERT INTO #node (id, holder, version, started_at, heartbeat_at, lease_until)
             VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp(),
                 clock_timestamp() + $4 * interval '1 millisecond')
             ON CONFLICT (id) DO NOTHING",
            &values,
        )
        .await?;
    if added == 0 {
        return Err(StoreError::BadOwner { owner: id, reason: "is already in use" }.into());
    }
    membership.extend(&id, asked);
    // Rows of nodes that died are kept for an hour, for people who look for the reason.
    connection
        .execute("DELETE FROM #node WHERE lease_until < clock_timestamp() - interval '1 hour'", &[])
        .await?;
    Ok(())
}

/// The nodes whose lease is not over, as they describe themselves.
pub(super) async fn living(connection: &Connection) -> Result<Vec<String>, Failure> {
    let living = "SELECT holder FROM #node WHERE lease_until > clock_timestamp() ORDER BY holder";
    let rows = connection.rows(living, &[]).await?;
    rows.iter().map(|row| Columns::of(row).text()).collect()
}

/// Extends the lease of the node. `false` if it is over: then the node has a new name, and has to be
/// registered again.
pub(super) async fn renew(
    connection: &Connection,
    membership: &Membership,
) -> Result<bool, Failure> {
    let (id, asked) = (membership.id(), Instant::now());
    let renewed = connection
        .execute(
            "UPDATE #node SET heartbeat_at = clock_timestamp(),
                 lease_until = clock_timestamp() + $2 * interval '1 millisecond'
             WHERE id = $1 AND lease_until > clock_timestamp()",
            &[id.as_str().into(), milliseconds(membership.lease)],
        )
        .await?;
    match renewed {
        0 => membership.lose(),
        _ => membership.extend(&id, asked),
    }
    Ok(renewed > 0)
}

/// Releases all threads of the node, and removes it.
pub(super) async fn leave(connection: &Connection, membership: &Membership) -> Result<(), Failure> {
    let id = membership.id();
    membership.lose();
    connection
        .execute("UPDATE #lease SET owner = NULL WHERE owner = $1", &[id.as_str().into()])
        .await?;
    connection.execute("DELETE FROM #node WHERE id = $1", &[id.as_str().into()]).await?;
    Ok(())
}

fn milliseconds(time: Duration) -> Value {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stops_before_its_lease_is_over() {
        let lease = Duration::from_secs(8);
        let membership = Membership::new("n", lease);
        let start = Instant::now();
        assert_eq!(membership.id_if_alive(start), None, "it is not registered");
        membership.extend("n", start);
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(membership.id_if_alive(after(6)).as_deref(), Some("n"));
        assert_eq!(membership.id_if_alive(after(7)), None);
        assert_eq!(membership.time_left(after(5)), Duration::from_secs(2));
        assert!(membership.interval() * 3 < Duration::from_secs(7), "three renewals may fail");
    }

    #[test]
    fn renewals_begin_at_fixed_times_and_soon_after_a_failure() {
        let membership = Membership::new("n", Duration::from_secs(8));
        let start = Instant::now();
        let after = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        assert_eq!(membership.next_renewal(start, after(1900), true), after(2000));
        assert_eq!(membership.next_renewal(start, after(1900), false), after(2100));
    }

    #[test]
    fn a_node_that_lost_its_lease_has_a_new_name() {
        let membership = Membership::new("n", Duration::from_secs(8));
        let start = Instant::now();
        membership.extend("n", start);
        membership.lose();
        assert_eq!((membership.id().as_str(), membership.id_if_alive(start)), ("n.1", None));
        assert_eq!((name_of("n.1"), name_of("n"), name_of("n.x")), ("n", "n", "n.x"));
        // A late answer to a renewal of the old name.
        membership.extend("n", start);
        assert_eq!(membership.id_if_alive(start), None);
    }
}
