//! A session: a search whose query changes while a client types. It has a thread of its own, which
//! reports results while roots are walked, and again when they change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Error;
use crate::index::Index;
use crate::indexes::Indexes;
use crate::query::Query;
use crate::search::{Hit, Search};
use crate::stop::Stop;
use crate::walk::{Settings, spawn};

/// Most sessions whose threads have not ended.
pub const MAX_SESSIONS: usize = 48;
/// Interval of checks of a walk until there are results, and afterwards.
const FIRST_POLL: Duration = Duration::from_millis(5);
const POLL: Duration = Duration::from_millis(100);
/// Time without a query before changes are searched for: the next key of somebody who types would
/// wait for that.
const REST: Duration = Duration::from_millis(200);

/// A report of a session.
#[derive(Debug)]
pub enum Report<'a> {
    /// The results of this query so far, or the updated ones.
    Results(&'a str, Vec<Hit>),
    /// The last results of the query are complete.
    Complete,
    /// A root cannot be searched, or not all of it.
    Failed(Error),
}

/// A session. Dropping it ends it at once; its thread notices that soon.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    settings: Arc<Settings>,
}

#[derive(Debug, Default)]
struct State {
    /// Order of the last query.
    order: u64,
    query: Option<Query>,
    /// Ends the search of the query before.
    stop: Stop,
    is_ended: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_ended = true;
        state.stop.set();
        drop(state);
        self.shared.settings.signal.raise();
    }
}

impl Session {
    /// Starts a session without a query. `report` is called on the session's thread, and `clock` gives
    /// the present time.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    pub fn start(
        indexes: &Indexes,
        roots: Vec<Arc<Index>>,
        clock: impl Fn() -> SystemTime + Send + 'static,
        report: impl FnMut(Report<'_>) + Send + 'static,
    ) -> Result<Self, Error> {
        let counted = Counted::new(indexes.sessions())?;
        let settings = indexes.signal().clone();
        let shared = Arc::new(Shared { state: Mutex::default(), settings });
        let follower = Follower { shared: shared.clone(), roots, clock, report };
        spawn("file-search-session", move || {
            let _counted = counted;
            follower.run();
        })?;
        Ok(Self { shared })
    }

    /// Changes the query, and cancels the search of the one before. `order` is the order of the call
    /// among those of this session: a query that was overtaken by a later one is left out.
    pub fn update(&self, order: u64, query: Query) {
        let mut state = self.shared.lock();
        if order < state.order {
            return;
        }
        state.order = order;
        state.query = Some(query);
        std::mem::take(&mut state.stop).set();
        drop(state);
        self.shared.settings.signal.raise();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a session until its thread ends.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(sessions: &Arc<AtomicUsize>) -> Result<Self, Error> {
        let counted = Self(sessions.clone());
        let running = sessions.fetch_add(1, Ordering::Relaxed);
        if running < MAX_SESSIONS {
            return Ok(counted);
        }
        Err(Error::Exhausted(format!(
            "{running} search sessions are in progress; at most {MAX_SESSIONS} are allowed; stop one \
             first"
        )))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The thread of a session.
struct Follower<C, R> {
    shared: Arc<Shared>,
    roots: Vec<Arc<Index>>,
    clock: C,
    report: R,
}

/// The part of the present query's results that the client has.
struct Reported {
    search: Search,
    text: String,
    hits: Option<Vec<Hit>>,
    is_complete: bool,
    has_failed: bool,
}

impl<C: Fn() -> SystemTime, R: FnMut(Report<'_>)> Follower<C, R> {
    fn run(mut self) {
        let mut current: Option<Reported> = None;
        let mut refresh_at: Option<Instant> = None;
        loop {
            let seen = self.shared.settings.signal.count();
            let (new, stop) = {
                let mut state = self.shared.lock();
                if state.is_ended {
                    return;
                }
                (state.query.take(), state.stop.clone())
            };
            if let Some(query) = new {
                let now = Instant::now();
                self.roots.iter().for_each(|root| root.touch(now));
                refresh_at = Some(now + REST);
                current = Some(Reported {
                    text: query.text().to_owned(),
                    search: Search::new(&self.roots, query),
                    hits: None,
                    is_complete: false,
                    has_failed: false,
                });
            }
            let limit = current.as_mut().and_then(|current| self.follow(current, &stop));
            let rest = refresh_at.map(|at| at.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                // What it finds is reported as well.
                self.roots.iter().for_each(|root| root.refresh(Duration::ZERO));
                refresh_at = None;
            }
            let limit = [limit, rest.filter(|rest| !rest.is_zero())].into_iter().flatten().min();
            self.shared.settings.signal.wait(seen, limit);
        }
    }

    /// Searches what is new and reports it. Returns when to look again, if nothing wakes the session.
    fn follow(&mut self, current: &mut Reported, stop: &Stop) -> Option<Duration> {
        // Cancelled: the next query is there, or the session has ended.
        current.search.advance(stop)?;
        // Before the results are reported: what fails afterwards is news for the next time.
        let error = current.search.error();
        let hits = current.search.hits((self.clock)());
        let is_complete = current.search.is_complete();
        if stop.is_set() {
            return None;
        }
        let is_news = match &current.hits {
            Some(known) => *known != hits,
            None => is_complete || !hits.is_empty(),
        };
        if is_news {
            (self.report)(Report::Results(&current.text, hits.clone()));
            current.hits = Some(hits);
        }
        let had_failed = std::mem::replace(&mut current.has_failed, error.is_some());
        if let Some(error) = error.filter(|_| !had_failed) {
            (self.report)(Report::Failed(error));
        }
        if is_complete && (is_news || !current.is_complete) {
            (self.report)(Report::Complete);
        }
        current.is_complete = is_complete;
        match (is_complete, &current.hits) {
            (true, _) => None,
            (false, None) => Some(FIRST_POLL),
            (false, Some(_)) => Some(POLL),
        }
    }
}
