//! Searches of files by clients: one-shot ones with their tokens, and sessions. Both belong to their
//! connection and end with it. The indexes are shared by all of the server.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use file_search::{Hit, Index, Indexes, Query, Refresh, Report, Session, Stop, search_once};
use file_watch::Watcher;
use files::Pool;
use tokio::task::JoinSet;

use services::connections::Connections;
use services::error::{Error, start_of};
use services::options::{Clock, Options};
use services::peer::ConnectionId;

/// Sessions of one connection.
const MAX_SESSIONS: usize = 16;
/// Maximum wait of a one-shot search for the walk of its roots.
const WALK_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a search with everything that it waits for.
const SEARCH_LIMIT: Duration = Duration::from_secs(75);

/// Time limit for beginning the watch of a root.
const WATCH_LIMIT: Duration = Duration::from_secs(600);

type SessionKey = (ConnectionId, String);

/// All searches of files.
pub(crate) struct FileSearches {
    indexes: Indexes,
    /// One-shot searches wait for walks, which takes long: other work on files does not wait for them.
    pool: Pool,
    clock: Arc<dyn Clock>,
    connections: Arc<Connections>,
    watcher: Watcher,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    sessions: HashMap<SessionKey, SessionState>,
    /// The stop signal of each token's one-shot search.
    tokens: HashMap<(ConnectionId, String), Stop>,
    /// Number of sessions and queries so far.
    count: u64,
}

/// A session that was registered.
enum SessionState {
    /// The roots of the session with this number are being opened; a query that came meanwhile waits.
    Starting(u64, Option<(u64, Query)>),
    Running(FollowingSession),
}

/// A session, and the tasks that keep its indexes up to date and end with it.
pub(crate) struct FollowingSession {
    session: Session,
    #[expect(dead_code, reason = "ends the tasks when it is dropped")]
    followers: JoinSet<()>,
}

/// A registered one-shot search; dropping it ends the search.
pub(crate) struct OneShot {
    searches: Arc<FileSearches>,
    token: Option<(ConnectionId, String)>,
    stop: Stop,
}

impl Drop for OneShot {
    fn drop(&mut self) {
        self.stop.set();
        let Some(key) = &self.token else { return };
        let mut running = self.searches.lock();
        // The token may be that of a later search by now.
        if running.tokens.get(key).is_some_and(|stop| stop.is(&self.stop)) {
            running.tokens.remove(key);
        }
    }
}

/// A registered session that has not started; dropping it takes it out.
pub(crate) struct StartingSession {
    searches: Arc<FileSearches>,
    key: SessionKey,
    number: u64,
}

impl Drop for StartingSession {
    fn drop(&mut self) {
        let mut running = self.searches.lock();
        // A session that was stopped may have a successor of the same id.
        if running.is_starting(&self.key, self.number) {
            running.sessions.remove(&self.key);
        }
    }
}

impl Running {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn is_starting(&self, key: &SessionKey, number: u64) -> bool {
        matches!(self.sessions.get(key), Some(SessionState::Starting(own, _)) if *own == number)
    }
}

impl FileSearches {
    pub(crate) fn new(options: &Options, connections: Arc<Connections>, watcher: Watcher) -> Self {
        Self {
            indexes: Indexes::new(global_ignore(options)),
            pool: Pool::default(),
            clock: options.clock.clone(),
            connections,
            watcher,
            running: Mutex::default(),
        }
    }

    /// Registers a one-shot search and cancels the connection's one before with the same token.
    pub(crate) fn begin(
        self: &Arc<Self>,
        connection: ConnectionId,
        token: Option<String>,
    ) -> OneShot {
        let stop = Stop::default();
        let token = token.map(|token| (connection, token));
        if let Some(key) = &token
            && let Some(before) = self.lock().tokens.insert(key.clone(), stop.clone())
        {
            before.set();
        }
        OneShot { searches: self.clone(), token, stop }
    }

    /// Searches once.
    ///
    /// # Errors
    /// A root is missing, not a folder or too large; the walk takes too long; it was cancelled.
    pub(crate) async fn search(
        &self,
        one_shot: &OneShot,
        roots: Vec<PathBuf>,
        query: Query,
    ) -> Result<Vec<Hit>, Error> {
        let (indexes, stop, now) = (self.indexes.clone(), one_shot.stop.clone(), now(&self.clock));
        let for_pool = roots.first().cloned().unwrap_or_default();
        let search = move || {
            let indexes = open(&indexes, &roots)?;
            search_once(&indexes, query, (now, WALK_LIMIT), &stop)
        };
        let found = self.pool.run_within(SEARCH_LIMIT, &for_pool, search).await?;
        found.map_err(|error| match error {
            file_search::Error::Cancelled => Error::from(error)
                .next_step("a later request with the same `cancellationToken` replaced it"),
            error => error.into(),
        })
    }

    /// Registers a session.
    ///
    /// # Errors
    /// The connection has a session of this id, or as many as it may.
    pub(crate) fn register(
        self: &Arc<Self>,
        connection: ConnectionId,
        id: String,
    ) -> Result<StartingSession, Error> {
        let mut running = self.lock();
        let own = running.sessions.keys().filter(|(owner, _)| *owner == connection).count();
        if own >= MAX_SESSIONS {
            let message = format!(
                "{own} search sessions are in progress; at most {MAX_SESSIONS} \
                are allowed"
            );
            return Err(Error::wrong_state(message).next_step("stop one first"));
        }
        let key = (connection, id);
        if running.sessions.contains_key(&key) {
            let message = format!("a search session `{}` is in progress", start_of(&key.1));
            return Err(Error::wrong_state(message).next_step("stop it, or choose another id"));
        }
        let number = running.next();
        running.sessions.insert(key.clone(), SessionState::Starting(number, None));
        drop(running);
        Ok(StartingSession { searches: self.clone(), key, number })
    }

    /// Opens the roots of a session and starts it, without a query.
    ///
    /// # Errors
    /// A root is missing or not a folder; there are too many searches.
    pub(crate) async fn start(
        &self,
        roots: Vec<PathBuf>,
        report: impl FnMut(Report<'_>) + Send + 'static,
    ) -> Result<FollowingSession, Error> {
        let (indexes, for_pool) =
            (self.indexes.clone(), roots.first().cloned().unwrap_or_default());
        let clock = self.clock.clone();
        let start = move || {
            let roots = open(&indexes, &roots)?;
            let session = Session::start(&indexes, roots.clone(), move || now(&clock), report)?;
            Ok::<_, file_search::Error>((session, roots))
        };
        let (session, roots) = self.pool.run(&for_pool, start).await??;
        let mut followers = JoinSet::new();
        for index in roots {
            followers.spawn(follow(index, self.watcher.clone(), self.pool.clone()));
        }
        Ok(FollowingSession { session, followers })
    }

    /// Lets a session run, with the query that has come meanwhile. One that was stopped or whose
    /// connection is gone ends.
    pub(crate) fn run(&self, starting: &StartingSession, session: FollowingSession) {
        let key = &starting.key;
        let mut running = self.lock();
        if !running.is_starting(key, starting.number) || !self.connections.contains(key.0) {
            return;
        }
        let state = running.sessions.remove(key);
        if let Some(SessionState::Starting(_, Some((order, query)))) = state {
            session.session.update(order, query);
        }
        running.sessions.insert(key.clone(), SessionState::Running(session));
    }

    /// The order of the next query, if the session exists.
    ///
    /// # Errors
    /// No session has this id.
    pub(crate) fn next_query(&self, connection: ConnectionId, id: &str) -> Result<u64, Error> {
        let mut running = self.lock();
        if !running.sessions.contains_key(&(connection, id.to_owned())) {
            return Err(unknown(id));
        }
        Ok(running.next())
    }

    /// Changes the query of a session, if it was not stopped meanwhile.
    pub(crate) fn update(&self, connection: ConnectionId, id: String, order: u64, query: Query) {
        match self.lock().sessions.get_mut(&(connection, id)) {
            Some(SessionState::Running(running)) => running.session.update(order, query),
            Some(SessionState::Starting(_, waiting))
                if waiting.as_ref().is_none_or(|(known, _)| *known < order) =>
            {
                *waiting = Some((order, query));
            }
            _ => {}
        }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// No session has this id.
    pub(crate) fn stop(&self, connection: ConnectionId, id: &str) -> Result<(), Error> {
        let removed = self.lock().sessions.remove(&(connection, id.to_owned()));
        removed.map(drop).ok_or_else(|| unknown(id))
    }

    /// Ends all searches of a connection that is gone.
    pub(crate) fn end_all(&self, connection: ConnectionId) {
        let mut running = self.lock();
        running.sessions.retain(|(owner, _), _| *owner != connection);
        running.tokens.retain(|(owner, _), stop| {
            let ends = *owner == connection;
            if ends {
                stop.set();
            }
            !ends
        });
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps an index up to date while a session has it.
async fn follow(index: Arc<Index>, watcher: Watcher, pool: Pool) {
    // The watch reads all folders, and the walk is more urgent.
    index.rested().await;
    let root = index.root();
    let (watched, path) = (root.clone(), root.display().to_string());
    let searched = index.clone();
    let begin = move || {
        let rest = || searched.give_way_to_searches();
        let watch =
            files::in_background("watch-begin", || watcher.watch_resting(&watched, true, &rest));
        watch.map_err(|error| Error::failed(format!("no thread can be started: {error}")))
    };
    let watch = pool.run_within(WATCH_LIMIT, &root, begin).await;
    let watch = watch.map_err(Error::from).flatten().and_then(|watch| watch.map_err(Error::from));
    let watch = match watch {
        Ok(watch) => watch,
        Err(error) => {
            return tracing::warn!(
                "{path} cannot be watched, so changes are found with the next \
                query: {error}"
            );
        }
    };
    // What changed between the walk and the watch.
    let mut refresh = index.refresh_all();
    loop {
        loop {
            match refresh {
                Refresh::Begun => break,
                Refresh::Busy => index.rested().await,
                Refresh::Later(pause) => tokio::time::sleep(pause).await,
            }
            refresh = index.refresh_paths(&[]);
        }
        let change = watch.next().await;
        refresh = match change.overflow {
            true => index.refresh_all(),
            false => index.refresh_paths(&change.paths),
        };
    }
}

fn open(indexes: &Indexes, roots: &[PathBuf]) -> Result<Vec<Arc<Index>>, file_search::Error> {
    roots.iter().map(|root| indexes.open(root)).collect()
}

fn unknown(id: &str) -> Error {
    Error::not_found(format!("no search session of this connection has the id `{}`", start_of(id)))
        .next_step("call fuzzyFileSearch/sessionStart")
}

fn now(clock: &Arc<dyn Clock>) -> SystemTime {
    let since_epoch = u64::try_from(clock.now_ms()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_millis(since_epoch)
}

/// The user's file of ignore rules, where git looks for it by default.
fn global_ignore(options: &Options) -> Option<PathBuf> {
    let folder = |name| options.variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    config.is_absolute().then(|| config.join("git/ignore"))
}
