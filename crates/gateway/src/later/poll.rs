//! Asks upstreams how far answers are: one node at a time for each, under a claim that lapses.

use std::sync::{Arc, Weak};
use std::time::Duration;

use gateway_body::{Outcome, Reader};
use gateway_policy::backends::Requester;
use gateway_policy::settings::NO_MODEL;
use gateway_store::records::later_answers::{self, LaterAnswer};
use http_body_util::BodyExt;
use http_client::retry;
use hyper::{HeaderMap, Method, StatusCode};
use ratelimit::Micros;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::charge::{Ending, Loss};
use super::settle::settle;
use crate::backends::{PickedKey, Preference, Query};
use crate::dispatch;
use crate::later_kind::LaterKind;
use crate::state::Gateway;
use crate::upstream::{OutBody, OutKey, Outgoing};

/// Interval of queries for answers that are due.
const ROUND: Duration = Duration::from_secs(1);
/// Concurrent questions of a node. Further answers wait in the store.
const AT_ONCE: usize = 16;
/// Time until a claim lapses.
const CLAIM: Micros = 60_000_000;
/// Longest wait for an upstream, below that of a claim.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest object that is read, in bytes.
const MAX_OBJECT: usize = 32 << 20;
/// Time until the first question, and the longest between two.
const PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(120));

/// Starts to ask, for as long as the gateway exists.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let poller = &gateway.poller;
    let signals = (poller.woken(), poller.stopped());
    poller.set_task(tokio::spawn(follow(Arc::downgrade(gateway), signals)));
}

async fn follow(
    gateway: Weak<Gateway>,
    (woken, mut stopped): (Arc<Notify>, watch::Receiver<bool>),
) {
    let mut running = JoinSet::new();
    let mut failed = false;
    while !*stopped.borrow_and_update() {
        let Some(strong) = gateway.upgrade() else { return };
        match round(&strong, &mut running).await {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::warn!("answers that come later: {error}");
            }
            Err(_) => {}
        }
        drop(strong);
        tokio::select! {
            () = tokio::time::sleep(ROUND) => {}
            () = woken.notified() => {}
            Some(ended) = running.join_next() => log_panic(ended),
            changed = stopped.changed() => if changed.is_err() { return },
        }
    }
    while let Some(ended) = running.join_next().await {
        log_panic(ended);
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::warn!("a question about an answer that comes later was abandoned: {error}");
    }
}

/// Claims due answers, as many as there is room for.
async fn round(
    gateway: &Arc<Gateway>,
    running: &mut JoinSet<()>,
) -> Result<(), gateway_store::Error> {
    let (database, room) = (&gateway.database, AT_ONCE.saturating_sub(running.len()));
    if room == 0 {
        return Ok(());
    }
    let now = gateway.clock.now();
    for answer in later_answers::due(database, now, room).await? {
        if later_answers::claim(database, &answer, now + CLAIM).await? {
            running.spawn(ask(Arc::clone(gateway), answer));
        }
    }
    Ok(())
}

/// The moment of the question after that many.
pub(super) fn next(gateway: &Gateway, polls: u32, now: Micros) -> Micros {
    let (first, longest) = PAUSES;
    let policy = retry::Policy { first, longest, longest_asked: longest };
    let longest = policy.wait(polls.saturating_add(1), None).unwrap_or_default().longest();
    let mut chance = [0];
    gateway.random.fill(&mut chance);
    // From a half to the whole, so that answers that were requested together are asked for apart.
    let wait = longest.mul_f64(0.5 + f64::from(chance[0]) / 512.0);
    now.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX))
}

/// The state of an answer at its upstream.
#[derive(Debug)]
enum Look {
    /// It has ended.
    Ended(Outcome),
    /// It has not.
    Open(Outcome),
    /// The upstream does not know it.
    Unknown,
    /// The upstream did not say.
    Failed(String),
}

/// Asks once about a claimed answer.
async fn ask(gateway: Arc<Gateway>, answer: LaterAnswer) {
    let seen = look(&gateway, &answer).await;
    let now = gateway.clock.now();
    let is_late = gateway.expiry.now() >= answer.expires_at;
    let ending = match seen {
        Look::Ended(outcome) => Ok(Ending::Seen(outcome)),
        Look::Unknown => Ok(Ending::Lost(Loss::Unknown, Outcome::default())),
        Look::Open(outcome) if is_late => Ok(Ending::Lost(Loss::Expired, outcome)),
        Look::Open(outcome) => Err(outcome.output_eighths),
        Look::Failed(cause) => {
            let (id, upstream) = (&answer.id, &answer.upstream);
            tracing::info!("upstream {upstream} does not say how far {id} is: {cause}");
            match is_late {
                true => Ok(Ending::Lost(Loss::Expired, Outcome::default())),
                false => Err(0),
            }
        }
    };
    let stored = match ending {
        Ok(ending) => settle(&gateway, &answer, ending).await,
        Err(seen) => {
            let next = next(&gateway, answer.polls.saturating_add(1), now);
            // The expiry is in the past for a clock that was just set forward.
            let at = if answer.expires_at > now { next.min(answer.expires_at) } else { next };
            later_answers::postpone(&gateway.database, &answer, at, seen).await
        }
    };
    if let Err(error) = stored {
        // The claim lapses, and it is asked for again.
        tracing::warn!("what was seen of {} was not stored: {error}", answer.id);
    }
}

async fn look(gateway: &Gateway, answer: &LaterAnswer) -> Look {
    let seen = tokio::time::timeout(PATIENCE, fetch(gateway, answer)).await;
    seen.unwrap_or_else(|_| Look::Failed(format!("no answer within {} s", PATIENCE.as_secs())))
}

async fn fetch(gateway: &Gateway, answer: &LaterAnswer) -> Look {
    let settings = gateway.settings.load_full();
    let mut upstreams = settings.upstreams.iter();
    let Some(upstream) = upstreams.find(|upstream| *upstream.name == *answer.upstream) else {
        return Look::Failed("it is not in the configuration".to_owned());
    };
    let Some(kind) = LaterKind::named(&answer.kind) else {
        return Look::Failed(format!("{} is of a later version of this program", answer.kind));
    };
    let query = Query {
        upstream,
        region: answer.region.as_deref(),
        model: NO_MODEL,
        requester: Requester { organization: &answer.organization, project: &answer.project },
        pinned: Some(&answer.backend),
        preference: Preference::First,
    };
    let Ok(mut lease) = gateway.backends.lease(query, &[]).await else {
        return Look::Failed(
            "its backend is busy, or is not in the region of the request".to_owned(),
        );
    };
    let live = Arc::clone(lease.live());
    let Some(base) = live.backend().base_in(answer.region.as_deref()) else {
        return Look::Failed("it is not in the region of the request".to_owned());
    };
    let of_cloud = match live.cloud_key().await {
        Ok(key) => key,
        Err(failure) => {
            let cause = live.mask().replace(failure.to_string().as_bytes());
            return Look::Failed(String::from_utf8_lossy(&cause).into_owned());
        }
    };
    let key = live.keys().pick(&[], gateway.clock.steady());
    let key = match &of_cloud {
        Some(key) => OutKey::OfCloud(key),
        None => OutKey::Text(key.as_ref().map(PickedKey::reveal), live.backend().key_header),
    };
    let outgoing = Outgoing {
        base,
        key,
        method: Method::GET,
        path: &kind.path(&answer.id),
        headers: HeaderMap::new(),
        body: OutBody::empty(),
    };
    let sent = dispatch::attempt(gateway, &live, outgoing, upstream.timeout, None).await;
    let (response, first) = match sent {
        Ok(sent) => sent,
        Err(failure) => {
            let cause = live.mask().replace(failure.to_string().as_bytes());
            let cause = String::from_utf8_lossy(&cause).into_owned();
            lease.failed(&cause);
            return Look::Failed(cause);
        }
    };
    match response.status().is_server_error() {
        true => lease.failed(&format!("it answered {}", response.status())),
        false => lease.succeeded(),
    }
    let status = response.status();
    let mut reader = Reader::json();
    let mut length = 0;
    let mut body = response.into_body();
    let mut piece = first;
    while let Some(data) = piece.take() {
        length += data.len();
        if length > MAX_OBJECT {
            return Look::Failed("its answer is too long".to_owned());
        }
        reader.feed(&data);
        piece = loop {
            match body.frame().await {
                None => break None,
                Some(Err(error)) => return Look::Failed(format!("its answer broke off: {error}")),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        break Some(data);
                    }
                }
            }
        };
    }
    read(status, reader.finish(), &answer.id)
}

fn read(status: StatusCode, outcome: Outcome, id: &str) -> Look {
    let is_other = outcome.id.as_ref().is_some_and(|other| **other != *id);
    match status {
        // A page is about a wrong address, an error in JSON about the object.
        StatusCode::NOT_FOUND if outcome.complete => Look::Unknown,
        status if !status.is_success() => Look::Failed(format!("it answered {status}")),
        _ if !outcome.complete || is_other => Look::Failed("its answer is not valid".to_owned()),
        _ if outcome.progress.is_some_and(gateway_body::Progress::is_end) => Look::Ended(outcome),
        _ => Look::Open(outcome),
    }
}

/// The state of an answer before its deletion.
pub(crate) struct LastLook {
    answer: LaterAnswer,
    ending: Ending,
}

/// Looks at an answer that a client deletes. `None` for one that is settled.
pub(crate) async fn look_before_delete(gateway: &Gateway, id: &str) -> Option<LastLook> {
    let answer = match later_answers::find(&gateway.database, id).await {
        Ok(answer) => answer?,
        Err(error) => {
            // It is settled when the upstream does not know it.
            tracing::warn!("the end of {id} was not looked at before its deletion: {error}");
            return None;
        }
    };
    let ending = match look(gateway, &answer).await {
        Look::Ended(outcome) => Ending::Seen(outcome),
        Look::Open(outcome) => Ending::Lost(Loss::Deleted, outcome),
        Look::Unknown | Look::Failed(_) => Ending::Lost(Loss::Deleted, Outcome::default()),
    };
    Some(LastLook { answer, ending })
}

impl LastLook {
    /// Settles the answer, which the upstream has deleted.
    pub(crate) async fn settle(self, gateway: &Arc<Gateway>) {
        if let Err(error) = settle(gateway, &self.answer, self.ending).await {
            // The next question finds it deleted.
            tracing::warn!("the deletion of {} was not stored: {error}", self.answer.id);
        }
    }
}
