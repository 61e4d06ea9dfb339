//! The ends of what runs in a thread: a turn, whether its events are read or not, or a compaction.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use jsonrpc::Notification as _;
use protocol::{
    ItemStarted, ThreadTokenUsageUpdated, TokenCost, TurnCompleted, TurnStarted, TurnStatus,
};
use serde::Deserialize;
use tokio::sync::watch;

use crate::event::{Event, read};
use crate::feed::Entry;
use crate::{Amount, Error};

/// Something that runs in a thread, and keeps others from starting there until its end.
pub(crate) enum End {
    Turn(TurnEnd),
    Compaction(CompactionEnd),
}

impl End {
    /// Takes an entry of the thread. Returns whether the turn has to be interrupted.
    pub(crate) fn put(&self, entry: &Entry) -> bool {
        match self {
            Self::Turn(end) => return end.put(entry),
            Self::Compaction(end) => end.put(entry),
        }
        false
    }

    /// Returns whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Turn(end) => *end.has_ended.borrow(),
            Self::Compaction(end) => end.outcome.borrow().is_some(),
        }
    }

    /// The turn that it is, once that is known.
    pub(crate) fn turn_id(&self) -> Option<String> {
        match self {
            Self::Turn(end) => end.turn_id.get().cloned(),
            Self::Compaction(end) => end.lock().turn_id.clone(),
        }
    }
}

/// The end of a turn, and of its budget.
pub(crate) struct TurnEnd {
    /// The turn, once it has started.
    pub(crate) turn_id: OnceLock<String>,
    max_cost: Option<Amount>,
    check: Mutex<Check>,
    /// The error of a turn that took too long.
    late: OnceLock<Error>,
    has_ended: watch::Sender<bool>,
}

#[derive(Default)]
struct Check {
    /// Reports without a cost, one after the other.
    unpriced: u32,
    exceeded: Option<String>,
}

impl TurnEnd {
    pub(crate) fn new(max_cost: Option<Amount>) -> Self {
        let (turn_id, check) = (OnceLock::new(), Mutex::default());
        let late = OnceLock::new();
        Self { turn_id, max_cost, check, late, has_ended: watch::Sender::new(false) }
    }

    /// Waits for the end of the turn, or of the connection for good.
    pub(crate) async fn wait(&self) {
        // The sender is a part of this value.
        let _ = self.has_ended.subscribe().wait_for(|has_ended| *has_ended).await;
    }

    /// The turn took too long, and is interrupted.
    pub(crate) fn time_out(&self, why: Error) {
        let _ = self.late.set(why);
    }

    /// The error of a turn that was interrupted because it took too long.
    pub(crate) fn late(&self) -> Option<Error> {
        self.late.get().cloned()
    }

    /// Why the turn has no result, although it may have ended as any other.
    pub(crate) fn exceeded(&self) -> Option<String> {
        self.lock().exceeded.clone()
    }

    fn put(&self, entry: &Entry) -> bool {
        let has_ended = match entry {
            Entry::Event(event) => {
                if event.notification.is::<ThreadTokenUsageUpdated>() {
                    return self.exceeds(event);
                }
                event.notification.is::<TurnCompleted>()
                    && event.turn_id.as_ref() == self.turn_id.get()
                    && event.turn_id.is_some()
            }
            Entry::Turn(turn) => {
                Some(&turn.id) == self.turn_id.get() && turn.status != TurnStatus::InProgress
            }
            Entry::Failed(_) => true,
            Entry::Replaced(_) | Entry::Reopen | Entry::Lagged => false,
        };
        if has_ended {
            self.has_ended.send_replace(true);
        }
        false
    }

    /// A turn that joined another one is charged in that one: any report of the thread counts.
    fn exceeds(&self, event: &Event) -> bool {
        let (Some(limit), Some(_)) = (&self.max_cost, self.turn_id.get()) else { return false };
        let mut check = self.lock();
        if check.exceeded.is_some() {
            return false;
        }
        let Some(Ok(report)) = event.notification.read::<ThreadTokenUsageUpdated>() else {
            return false;
        };
        check.exceeded = match report.token_usage.cost {
            Some(cost) => {
                check.unpriced = 0;
                excess(&cost, limit)
            }
            // One that is sent again after a reconnection has none; a second is a server that reports none.
            None => {
                check.unpriced += 1;
                (check.unpriced > 1).then(|| {
                    "the server reports no costs, so that `max_cost` cannot be held: it is older than this crate"
                        .to_owned()
                })
            }
        };
        check.exceeded.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Check> {
        self.check.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn excess(cost: &TokenCost, limit: &Amount) -> Option<String> {
    let spent = cost.turn_with_agents.as_ref().or(cost.turn.as_ref());
    let Some(spent) = spent.and_then(|spent| spent.parse::<Amount>().ok()) else {
        return Some(
            "the price of its model is not known, so that `max_cost` cannot be held: add it to the \
             catalog of models"
                .to_owned(),
        );
    };
    (spent > *limit).then(|| {
        let currency = &cost.currency;
        format!("the turn cost {spent} {currency}, more than its `max_cost` of {limit}")
    })
}

/// The end of a compaction. The response to the request for it does not name its turn, which is distinguished from
/// those of other clients by its beginning.
#[derive(Default)]
pub(crate) struct CompactionEnd {
    state: Mutex<Compacting>,
    outcome: watch::Sender<Option<Outcome>>,
}

/// The turn of a compaction at its end.
pub(crate) type Outcome = Result<protocol::Turn, Error>;

#[derive(Default)]
struct Compacting {
    /// Turns that began meanwhile, and of which no item says that they are something else.
    candidates: HashSet<String>,
    turn_id: Option<String>,
}

#[derive(Deserialize)]
struct WithItem {
    item: Kind,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

impl CompactionEnd {
    /// Waits for the end.
    pub(crate) async fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| Err(Error::lost("the connection was closed")))
    }

    fn put(&self, entry: &Entry) {
        match entry {
            Entry::Event(event) => self.take(event),
            Entry::Turn(turn) if turn.status != TurnStatus::InProgress => {
                self.end(Ok((**turn).clone()));
            }
            Entry::Replaced(_) => self.lose_sight(),
            Entry::Failed(error) => self.end(Err(error.clone())),
            Entry::Turn(_) | Entry::Reopen | Entry::Lagged => {}
        }
    }

    fn take(&self, event: &Event) {
        let Some(turn_id) = &event.turn_id else { return };
        let notification = &event.notification;
        let mut state = self.lock();
        if notification.is::<TurnStarted>() {
            state.candidates.insert(turn_id.clone());
        } else if notification.is::<ItemStarted>() {
            let is_compaction = read::<WithItem>(&notification.params)
                .is_some_and(|started| started.item.r#type == "contextCompaction");
            if !is_compaction {
                state.candidates.remove(turn_id);
            } else if state.candidates.contains(turn_id) {
                state.turn_id = Some(turn_id.clone());
            }
        } else if state.candidates.contains(turn_id)
            && let Some(completed) = notification.read::<TurnCompleted>()
        {
            self.end(completed.map(|completed| completed.turn).map_err(|why| {
                Error::not_the_protocol(format!("`{}`: {why}", TurnCompleted::NAME))
            }));
        }
    }

    /// The events in between are gone before its turn was known.
    fn lose_sight(&self) {
        if self.lock().turn_id.is_none() {
            let why = "the connection was lost, and the end of the compaction is not known";
            self.end(Err(Error::lost(why)));
        }
    }

    fn end(&self, outcome: Outcome) {
        self.outcome.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(outcome);
            is_first
        });
    }

    fn lock(&self) -> MutexGuard<'_, Compacting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
