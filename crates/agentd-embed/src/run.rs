//! Running turns and compactions, of which one agent runs one at a time in a thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jsonrpc::Method as _;
use protocol::ThreadCompactStart;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::context::UserValue;
use crate::ends::{CompactionEnd, End, TurnEnd};
use crate::feed::{Entry, Feed};
use crate::link::OnResult;
use crate::order::Place;
use crate::shared::{Shared, unreadable};
use crate::state::ThreadState;
use crate::transcript::Transcript;
use crate::turn::ended_well;
use crate::{Amount, Error, Thread, Turn};

/// Time for the server to confirm that it has interrupted a turn.
const INTERRUPTION: Duration = Duration::from_secs(5);

/// The bounds that end a turn early.
pub(crate) struct Bounds {
    max_cost: Option<Amount>,
    deadline: Option<Deadline>,
    interrupt_on_drop: bool,
}

impl Bounds {
    /// The time counts from now on.
    pub(crate) fn new(
        max_cost: Option<Amount>,
        timeout: Option<Duration>,
        interrupt_on_drop: bool,
    ) -> Self {
        Self { max_cost, deadline: timeout.and_then(Deadline::after), interrupt_on_drop }
    }

    pub(crate) fn are_set(&self) -> bool {
        self.max_cost.is_some() || self.deadline.is_some() || self.interrupt_on_drop
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }
}

/// Interrupts its turn when it is dropped before the turn has ended.
pub(crate) struct Leash {
    shared: Arc<Shared>,
    thread_id: String,
    turn_id: String,
    end: Arc<End>,
}

impl Drop for Leash {
    fn drop(&mut self) {
        if !self.end.is_over() {
            self.shared.interrupt_later(&self.thread_id, &self.turn_id);
        }
    }
}

/// A turn that was started: the way from the task that does it to its caller, which may be gone.
struct Begun {
    id: String,
    state: Arc<ThreadState>,
    leash: Option<Leash>,
}

/// The result of a request that starts a turn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    turn: Named,
    /// Of a review.
    #[serde(default)]
    review_thread_id: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// Something that runs in a thread. Dropping it lets the next one begin.
struct Run {
    end: Arc<End>,
    /// Its thread: of a detached review, another one than that it was started in.
    runs_in: Mutex<Arc<ThreadState>>,
    place: Mutex<Option<Place>>,
}

impl Run {
    async fn begin(state: &Arc<ThreadState>, end: End) -> Arc<Self> {
        let place = state.order.take().await;
        let end = Arc::new(end);
        state.run(&end);
        let (runs_in, place) = (Mutex::new(state.clone()), Mutex::new(Some(place)));
        Arc::new(Self { end, runs_in, place })
    }

    fn turn_end(&self) -> Option<&TurnEnd> {
        match &*self.end {
            End::Turn(end) => Some(end),
            End::Compaction(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<ThreadState>> {
        self.runs_in.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It runs in another thread.
    fn move_to(&self, state: Arc<ThreadState>, feed: &Weak<Feed>) {
        let mut runs_in = self.lock();
        runs_in.stop_running(&self.end);
        runs_in.remove_turn(feed);
        state.set_context(runs_in.context());
        state.run(&self.end);
        if let Some(feed) = feed.upgrade() {
            state.add_turn(&feed);
        }
        *runs_in = state;
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let runs_in = self.lock();
        runs_in.stop_running(&self.end);
        if let Some(turn_id) = self.turn_end().and_then(|end| end.turn_id.get()) {
            runs_in.forget_turn_context(turn_id);
        }
    }
}

/// Waits for the start of a turn until its deadline.
pub(crate) async fn within(
    deadline: Option<Deadline>,
    starting: impl Future<Output = Result<Turn, Error>>,
) -> Result<Turn, Error> {
    let Some(deadline) = deadline else { return starting.await };
    let late = "the server did not start it, or an earlier one of the thread still runs";
    timeout_at(deadline.at, starting).await.unwrap_or_else(|_| Err(deadline.passed(late)))
}

/// Starts a turn, once what this agent runs in the thread has ended.
pub(crate) async fn start<P: Serialize + Send + Sync + 'static>(
    thread: &Thread,
    method: &'static str,
    params: P,
    bounds: Bounds,
    context: Option<UserValue>,
) -> Result<Turn, Error> {
    let (shared, state) = (thread.shared.clone(), thread.state.clone());
    let run = Run::begin(&state, End::Turn(TurnEnd::new(bounds.max_cost))).await;
    let feed = Feed::new(shared.pressure.clone(), true);
    // Before the turn starts, so that no event of it is missed.
    state.add_turn(&feed);
    let (sender, started) = oneshot::channel();
    let (reader, end) = (Arc::downgrade(&feed), run.end.clone());
    // Outside of this future, which may be dropped: the turn runs all the same.
    tokio::spawn(async move {
        let asked = (reader.clone(), context);
        let started = request(&shared, &state, &run, method, &params, asked).await;
        let begun = started.map(|(id, state)| {
            let leash = bounds.interrupt_on_drop.then(|| Leash {
                shared: shared.clone(),
                thread_id: state.id.clone(),
                turn_id: id.clone(),
                end: run.end.clone(),
            });
            Begun { id, state, leash }
        });
        let ids = begun.as_ref().ok().map(|begun| (begun.state.id.clone(), begun.id.clone()));
        // Without a receiver, there is no follower of the turn, and its leash is dropped.
        let _ = sender.send(begun);
        if let (Some(ids), Some(end)) = (ids, run.turn_end()) {
            until_its_end(&shared, end, bounds.deadline, ids, &reader).await;
        }
    });
    let Begun { id, state, leash } = started.await.unwrap_or_else(|_| Err(no_runtime()))?;
    let thread = Thread { shared: thread.shared.clone(), state };
    Ok(Turn::new(thread, id, feed, Some(end)).with_leash(leash))
}

/// Waits for the end of a turn, and interrupts it at its deadline.
async fn until_its_end(
    shared: &Arc<Shared>,
    end: &TurnEnd,
    deadline: Option<Deadline>,
    (thread_id, turn_id): (String, String),
    reader: &Weak<Feed>,
) {
    let Some(deadline) = deadline else { return end.wait().await };
    if timeout_at(deadline.at, end.wait()).await.is_ok() {
        return;
    }
    end.time_out(deadline.passed("it was interrupted"));
    shared.interrupt_later(&thread_id, &turn_id);
    if timeout(INTERRUPTION, end.wait()).await.is_err()
        && let Some(feed) = reader.upgrade()
    {
        let why = format!("the server did not confirm its interruption within {INTERRUPTION:?}");
        feed.put(Entry::Failed(deadline.passed(&why)));
    }
    // The thread is busy until then.
    end.wait().await;
}

/// The time by which a turn has to end.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// None for a time that no clock reaches.
    fn after(limit: Duration) -> Option<Self> {
        Some(Self { at: Instant::now().checked_add(limit)?, limit })
    }

    fn passed(self, what: &str) -> Error {
        let why = format!("the turn took longer than its `timeout` of {:?}; {what}", self.limit);
        Error::TurnTimeout { why, progress: None }
    }
}

/// Sends the request of a turn, and returns its id and its thread.
async fn request(
    shared: &Arc<Shared>,
    state: &Arc<ThreadState>,
    run: &Arc<Run>,
    method: &str,
    params: &impl Serialize,
    (feed, context): (Weak<Feed>, Option<UserValue>),
) -> Result<(String, Arc<ThreadState>), Error> {
    shared.subscribe(state).await?;
    let (taking, of_agent, started_in) = (run.clone(), shared.clone(), state.id.clone());
    // Before any later event: the turn may be a short one.
    let taken: OnResult = Arc::new(move |result, link| {
        let Ok(started) = serde_json::from_str::<Started>(result.get()) else { return };
        let id = started.turn.id;
        if let Some(feed) = feed.upgrade() {
            feed.set_turn(&id);
        }
        if let Some(end) = taking.turn_end() {
            let _ = end.turn_id.set(id.clone());
        }
        if let Some(runs_in) = started.review_thread_id.filter(|id| *id != started_in) {
            let state = of_agent.state_of(&runs_in);
            state.subscribed(link, None);
            taking.move_to(state, &feed);
        }
        if let Some(value) = context.clone() {
            taking.lock().set_turn_context(&id, value);
        }
    });
    shared.call(method, params, Some(taken)).await?;
    let id = run.turn_end().and_then(|end| end.turn_id.get().cloned());
    let id = id.ok_or_else(|| unreadable(method, "it has no `turn` with an `id`"))?;
    let runs_in = run.lock().clone();
    Ok((id, runs_in))
}

/// Runs a compaction to its end.
pub(crate) async fn compact(thread: &Thread) -> Result<(), Error> {
    let (shared, state) = (thread.shared.clone(), thread.state.clone());
    let run = Run::begin(&state, End::Compaction(CompactionEnd::default())).await;
    let compacting = tokio::spawn(async move {
        shared.subscribe(&state).await?;
        let params = json!({ "threadId": state.id });
        shared.call(ThreadCompactStart::NAME, &params, None).await?;
        let End::Compaction(end) = &*run.end else { return Ok(()) };
        let turn = end.wait().await?;
        ended_well(&turn, || Transcript::default().progress(&state.id, &turn.id))
    });
    compacting.await.unwrap_or_else(|_| Err(no_runtime()))
}

/// A task of this crate was ended from outside.
fn no_runtime() -> Error {
    Error::lost("the tokio runtime is shutting down")
}
