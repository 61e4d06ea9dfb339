//! The sessions of clients with a handshake: how many there may be, and when one ends. A session
//! without an open request ends after a while; its turns are interrupted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::HeaderMap;
use rmcp::model::{ErrorData, RequestId};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ids::RunningIds;

/// The header that names a session.
pub(super) const HEADER: &str = "mcp-session-id";
/// Sessions at once, counted when one begins: a further one is refused with 503.
const MAX_SESSIONS: usize = 256;
/// Time for a session to be without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The same while it has a call. A client that lost its connection resumes within seconds.
const LOST_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two looks at the sessions.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    known: Mutex<HashMap<String, Session>>,
}

/// A session in use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Session {
    state: Arc<State>,
}

struct State {
    uses: Mutex<Uses>,
    running: RunningIds,
    gone: CancellationToken,
}

struct Uses {
    requests: usize,
    calls: usize,
    /// When the last request ended.
    since: Instant,
}

/// A request of a session; it ends with this.
pub(super) struct Open(Session);

/// A call of a session; it ends with this.
pub(crate) struct SessionCall(Session);

impl Default for Sessions {
    fn default() -> Self {
        let mut manager = LocalSessionManager::default();
        // It does not count a stream that is open, so a long turn would end.
        manager.session_config.keep_alive = None;
        Self { manager: Arc::new(manager), known: Mutex::default() }
    }
}

impl Sessions {
    pub(super) fn manager(&self) -> &Arc<LocalSessionManager> {
        &self.manager
    }

    pub(super) async fn is_full(&self) -> bool {
        self.manager.sessions.read().await.len() >= MAX_SESSIONS
    }

    /// The session that a message names, if it exists.
    pub(super) async fn of(&self, headers: &HeaderMap) -> Option<Session> {
        let id = headers.get(HEADER)?.to_str().ok()?;
        if !self.manager.sessions.read().await.contains_key(id) {
            return None;
        }
        Some(self.known().entry(id.to_owned()).or_insert_with(Session::new).clone())
    }

    /// Ends sessions without requests, for as long as it is polled.
    pub(super) async fn end_idle(&self) {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            let existing: Vec<_> = self.manager.sessions.read().await.keys().cloned().collect();
            self.known().retain(|id, _| existing.iter().any(|existing| **existing == **id));
            for id in existing {
                let session = self.known().get(&*id).cloned();
                if session.is_some_and(|session| session.end_if_idle()) {
                    // An error means that it has just ended.
                    let _ = self.manager.close_session(&id).await;
                }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        // Nothing under this lock leaves the table half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn new() -> Self {
        let uses = Mutex::new(Uses { requests: 0, calls: 0, since: Instant::now() });
        let (running, gone) = (RunningIds::default(), CancellationToken::new());
        Self { state: Arc::new(State { uses, running, gone }) }
    }

    /// Notes a request.
    pub(super) fn open(&self) -> Open {
        self.uses().requests += 1;
        Open(self.clone())
    }

    /// Notes the id of a request, which is free when the last clone of the result is dropped.
    ///
    /// # Errors
    /// A request with that id runs.
    pub(super) fn begin(&self, id: RequestId) -> Result<Arc<RunningRequest>, ErrorData> {
        let running = self.state.running.clone();
        running.begin(&id)?;
        Ok(Arc::new(RunningRequest { running, id }))
    }

    /// Notes a call.
    pub(crate) fn call(&self) -> SessionCall {
        self.uses().calls += 1;
        SessionCall(self.clone())
    }

    /// Cancelled at the end of the session.
    pub(crate) fn gone(&self) -> &CancellationToken {
        &self.state.gone
    }

    pub(super) fn end(&self) {
        self.state.gone.cancel();
    }

    /// Ends the session when it has been without a request for too long.
    fn end_if_idle(&self) -> bool {
        let uses = self.uses();
        let limit = if uses.calls > 0 { LOST_TIMEOUT } else { IDLE_TIMEOUT };
        let is_idle = uses.requests == 0 && uses.since.elapsed() >= limit;
        if is_idle {
            self.end();
        }
        is_idle
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.state.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request of a session that has no answer yet.
pub(super) struct RunningRequest {
    running: RunningIds,
    id: RequestId,
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.running.end(&self.id);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut uses = self.0.uses();
        uses.requests = uses.requests.saturating_sub(1);
        uses.since = Instant::now();
    }
}

impl Drop for SessionCall {
    fn drop(&mut self) {
        let mut uses = self.0.uses();
        uses.calls = uses.calls.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_without_requests_ends_sooner_while_it_has_a_call() {
        let is_over = |session: &Session| session.end_if_idle() && session.gone().is_cancelled();
        let idle = Session::new();
        let open = idle.open();
        tokio::time::advance(2 * IDLE_TIMEOUT).await;
        assert!(!is_over(&idle), "a request is open");
        drop(open);
        tokio::time::advance(IDLE_TIMEOUT / 2).await;
        assert!(!is_over(&idle));
        let call = idle.call();
        assert!(is_over(&idle), "its client is lost");
        drop(call);

        let idle = Session::new();
        tokio::time::advance(IDLE_TIMEOUT).await;
        assert!(is_over(&idle));
    }
}
