//! The Responses API over a WebSocket: one connection for each thread, reused from request to request. A
//! request that continues the last response of its connection sends only what is new. Whatever fails before
//! the first event of a response is sent again over HTTP, so that no turn is lost.

mod connection;
mod request;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_client::retry;
use tokio::{sync::mpsc, time::Instant};

use crate::http_clients::HttpClients;
use crate::open::Refused;
use crate::pacing::Permit;
use crate::{Event, FailureKind, Provider, reported_limits};
use connection::{Connection, End, Refusal};
use request::{Exchange, Request};

/// Most idle connections; beyond it the one that was used longest ago is closed.
const MAX_IDLE: usize = 32;
/// Age after which a connection is not used for another request: providers close them after an hour.
const MAX_AGE: Duration = Duration::from_mins(50);
/// Consecutive failures after which a provider is only used over HTTP.
const MAX_FAILURES: u32 = 2;

/// The idle connections of a client, and what is known of WebSockets at its providers.
#[derive(Default)]
pub(crate) struct Sockets {
    idle: Mutex<Vec<(Key, Session)>>,
    /// By the provider's address. Bounded by the configuration.
    trouble: Mutex<HashMap<String, Trouble>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    provider: String,
    base_url: String,
    thread: String,
}

struct Session {
    connection: Connection,
    opened: Instant,
    /// The last request with its response, if it completed.
    last: Option<Exchange>,
}

#[derive(Default)]
struct Trouble {
    failures: u32,
    /// The next request goes over HTTP.
    skips_next: bool,
}

/// The outcome of a request.
pub(crate) enum Outcome {
    /// Its events were delivered, the terminal one included. `limited` is the wait of a rate limit.
    Delivered { limited: Option<Duration> },
    /// Nothing was delivered: it can be sent over HTTP.
    UseHttp,
}

/// Sends `body` over the connection of its thread.
pub(crate) async fn respond(
    (http, sockets): (&HttpClients, &Sockets),
    provider: &Provider,
    body: &Bytes,
    permit: &mut Permit,
    sender: &mpsc::Sender<Vec<Event>>,
) -> Outcome {
    let Some(request) = Request::read(body) else { return Outcome::UseHttp };
    if !provider.supports_websockets || !sockets.may_use(provider) {
        return Outcome::UseHttp;
    }
    let key = Key {
        provider: provider.id.clone(),
        base_url: provider.base_url.clone(),
        thread: request.thread().to_owned(),
    };
    let mut reused = match sockets.take(&key) {
        Some(session) => still_usable(session, permit, sender).await,
        None => None,
    };
    loop {
        // Only a response that continues another one names its request: any other could be surplus.
        let continued = reused.take().and_then(|mut session| {
            let last = session.last.take()?;
            let (frame, previous) = request.frame(Some(&last));
            let previous = previous?.to_owned();
            Some((session, frame, Some(previous)))
        });
        let (mut session, frame, previous) = match continued {
            Some(continued) => continued,
            None => match Connection::open(http, provider).await {
                Ok((connection, limits)) => {
                    permit.observe(limits.rates.as_ref());
                    let limits = limits.into_events();
                    if !limits.is_empty() && sender.send(limits).await.is_err() {
                        return Outcome::Delivered { limited: None };
                    }
                    let session = Session { connection, opened: Instant::now(), last: None };
                    (session, request.frame(None).0, None)
                }
                Err(refusal) => {
                    sockets.refused(provider, &refusal);
                    let Refusal::Wait(_, refused) = refusal else { return Outcome::UseHttp };
                    return fail(*refused, permit, sender).await;
                }
            },
        };
        let is_incremental = previous.is_some();
        match session.connection.exchange(provider, (frame, previous), permit, sender).await {
            End::Completed { batch, response_id, outputs } => {
                // Without an id there is nothing to continue.
                session.last =
                    (!response_id.is_empty()).then(|| request.exchange(body, response_id, outputs));
                sockets.keep(key, session);
                sockets.worked(provider);
                // Last, because the reader drops the stream after the terminal event.
                let _ = sender.send(batch).await;
                return Outcome::Delivered { limited: None };
            }
            End::Failed { batch, limited } => {
                // Without a last response there is nothing to continue: the connection is closed.
                let _ = sender.send(batch).await;
                return Outcome::Delivered { limited };
            }
            // The provider does not know the response, or has closed the idle connection; or what
            // arrived answers no request, so that the connection cannot be trusted.
            End::StateLost | End::Lost if is_incremental => {}
            // HTTP gets fresh credentials, and reports those that are refused for good.
            End::Unauthorized => return Outcome::UseHttp,
            End::Lost | End::StateLost => {
                sockets.failed(provider);
                return Outcome::UseHttp;
            }
            End::Cut(batch) => {
                sockets.failed(provider);
                let _ = sender.send(batch).await;
                return Outcome::Delivered { limited: None };
            }
            End::ReaderGone => return Outcome::Delivered { limited: None },
        }
    }
}

/// Reports a refused upgrade as the failure of its request, so that the caller waits as the provider asks.
async fn fail(refused: Refused, permit: &mut Permit, sender: &mpsc::Sender<Vec<Event>>) -> Outcome {
    let Refused { failure, limits } = refused;
    let is_limited = failure.kind == FailureKind::ResponseTooManyFailedAttempts;
    let limited = failure.retry_after.filter(|_| is_limited);
    permit.observe(limits.rates.as_ref());
    let mut events = limits.into_events();
    events.push(Event::Failed(failure));
    // Ignored: the reader is gone.
    let _ = sender.send(events).await;
    Outcome::Delivered { limited }
}

/// The session, unless it cannot be used again. Delivers the limits that were reported meanwhile.
async fn still_usable(
    mut session: Session,
    permit: &mut Permit,
    sender: &mpsc::Sender<Vec<Event>>,
) -> Option<Session> {
    let reports = session.connection.idle_reports().await?;
    reported_limits::note(&reports, permit);
    if !reports.is_empty() {
        // Ignored: the reader is gone, which the first event of the response notices.
        let _ = sender.send(reports).await;
    }
    Some(session)
}

impl Sockets {
    fn idle(&self) -> MutexGuard<'_, Vec<(Key, Session)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, HashMap<String, Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The idle connection of a thread. A second request at the same time gets one of its own.
    fn take(&self, key: &Key) -> Option<Session> {
        let mut idle = self.idle();
        idle.retain(|(_, session)| session.opened.elapsed() < MAX_AGE);
        let at = idle.iter().position(|(other, _)| other == key)?;
        Some(idle.remove(at).1)
    }

    fn keep(&self, key: Key, session: Session) {
        let mut idle = self.idle();
        idle.retain(|(other, _)| *other != key);
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push((key, session));
    }

    fn may_use(&self, provider: &Provider) -> bool {
        let mut trouble = self.trouble();
        let Some(known) = trouble.get_mut(&provider.base_url) else { return true };
        let skips = std::mem::take(&mut known.skips_next);
        known.failures < MAX_FAILURES && !skips
    }

    fn worked(&self, provider: &Provider) {
        self.trouble().remove(&provider.base_url);
    }

    fn failed(&self, provider: &Provider) {
        self.note(provider, 1, "a WebSocket was cut or stayed silent");
    }

    fn refused(&self, provider: &Provider, refusal: &Refusal) {
        match refusal {
            // HTTP reports it, with the advice for it.
            Refusal::Unreachable => {}
            Refusal::Status(status) | Refusal::Wait(status, _) => {
                let passing =
                    matches!(status, 401 | 403) || retry::is_transient(*status) && *status != 501;
                let failures = if passing { 1 } else { MAX_FAILURES };
                self.note(provider, failures, &format!("the upgrade was answered {status}"));
            }
            Refusal::NoWebSocket => self.note(provider, MAX_FAILURES, "the upgrade was not valid"),
        }
    }

    fn note(&self, provider: &Provider, failures: u32, why: &str) {
        let mut trouble = self.trouble();
        let known = trouble.entry(provider.base_url.clone()).or_default();
        known.failures = known.failures.saturating_add(failures);
        known.skips_next = true;
        let for_good = known.failures >= MAX_FAILURES;
        tracing::warn!(
            target: "model::websocket",
            provider = provider.id,
            for_good,
            "the provider is used over HTTP instead of a WebSocket: {why}"
        );
    }
}
