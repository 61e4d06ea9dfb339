//! One line of a batch: sent to its upstream like a client's request, retried after failures, and
//! recorded.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http_client::retry;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::watch;

use super::outcome;
use crate::account::request_id;
use crate::api::{self, Exchange, Whole};
use crate::dispatch;
use crate::state::Gateway;
use gateway_policy::dates;
use gateway_policy::error::ApiError;
use gateway_policy::headers::LimitHeaders;
use gateway_policy::refusal;
use gateway_policy::tenants::Caller;
use gateway_store::records::batch_lines::{self, Line, Outcome};
use gateway_store::records::batches::{Batch, Usage};
use gateway_store::records::{ids, later_answers};

/// Longest delay between two attempts, whatever the upstream asks for.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Delay while our own limits or store are unreachable, or all backends are full; such attempts do not count.
const OUR_PAUSE: Duration = Duration::from_secs(1);
/// Attempts to write a result while the store is unreachable, after the batch was abandoned.
const LAST_WRITES: u32 = 5;

/// A line to run.
pub(super) struct Job {
    pub(super) gateway: Arc<Gateway>,
    /// The owner of its lease.
    pub(super) owner: Box<str>,
    pub(super) batch: Arc<Batch>,
    pub(super) caller: Arc<Caller>,
    pub(super) line: Line,
    /// True if no other line of the batch is running.
    pub(super) alone: bool,
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) enum LineEnd {
    /// The result is in the store.
    Recorded,
    /// Another node has the line, or it is released when its lease expires.
    Lost,
    /// The line was released, not run.
    Released,
    /// The line was released, because of a spend limit.
    NoMoney {
        error: ApiError,
        /// True if no other line of the batch had a reservation.
        alone: bool,
    },
}

/// Runs the line to its end, or until `stop`.
pub(super) async fn run(job: Job, mut stop: watch::Receiver<bool>) -> LineEnd {
    let ran = {
        let mut stop = stop.clone();
        tokio::select! {
            ran = ask(&job) => ran,
            _ = stop.wait_for(|stop| *stop) => Attempted::Stopped,
        }
    };
    match ran {
        Attempted::Finished(outcome) => record(&job, &outcome, &mut stop).await,
        Attempted::Stopped => release(&job, LineEnd::Released).await,
        Attempted::NoMoney(error) => {
            release(&job, LineEnd::NoMoney { error, alone: job.alone }).await
        }
    }
}

enum Attempted {
    Finished(Outcome),
    NoMoney(ApiError),
    Stopped,
}

async fn ask(job: &Job) -> Attempted {
    let mut failures = 0;
    loop {
        let settings = job.gateway.settings.load_full();
        let (attempts, backoff) = (settings.batches.attempts, settings.batches.backoff);
        let mut exchange = Exchange {
            settings,
            gateway: Arc::clone(&job.gateway),
            caller: Arc::clone(&job.caller),
            request: job.gateway.ids.next(),
            slot: 0,
            address: None,
            now: job.gateway.clock.now(),
            began: job.gateway.clock.steady(),
            region: None,
            model: None,
            trace: None,
            headers: HeaderMap::new(),
            shown: LimitHeaders::default(),
            batch: true,
        };
        let body = Bytes::copy_from_slice(job.line.body.as_bytes());
        let answered = api::line(&mut exchange, &job.batch.endpoint, body).await;
        let request = request_id(exchange.request);
        let error = match answered {
            Ok(whole) => return Attempted::Finished(good(job, &request, &whole)),
            Err(error) => error,
        };
        if error.kind_name() == "insufficient_quota" {
            if holds_money(job).await {
                tokio::time::sleep(OUR_PAUSE).await;
                continue;
            }
            return Attempted::NoMoney(error);
        }
        // Reservations of other requests and full backends hold up a line; only money that is gone ends it.
        if matches!(
            error.code(),
            Some(
                "limits_unavailable"
                    | "store_unavailable"
                    | dispatch::BUSY
                    | refusal::SPEND_RESERVED
            )
        ) {
            tokio::time::sleep(OUR_PAUSE).await;
            continue;
        }
        failures += 1;
        if !may_be_tried_again(&error) || failures >= attempts {
            return Attempted::Finished(bad(job, &request, &error));
        }
        tokio::time::sleep(pause(job, &error, backoff, failures)).await;
    }
}

/// Returns whether answers that come later hold money of the organization, which they may give back. An unreadable store
/// counts as such: the line waits.
async fn holds_money(job: &Job) -> bool {
    let month = dates::month(job.gateway.clock.now());
    let organization = &job.caller.organization.id;
    later_answers::holds_money(&job.gateway.database, organization, month).await.unwrap_or(true)
}

fn may_be_tried_again(error: &ApiError) -> bool {
    let status = error.status();
    status.is_server_error()
        || status == StatusCode::REQUEST_TIMEOUT
        || error.code() == Some("upstream_rate_limited")
}

/// The pause before the next attempt: what the upstream asked for, else a random one; at most
/// [`MAX_PAUSE`].
fn pause(job: &Job, error: &ApiError, first: Duration, failures: u32) -> Duration {
    let policy = retry::Policy { first, longest: MAX_PAUSE, longest_asked: Duration::MAX };
    let header = |name: &str| error.find_header(name.parse().ok()?)?.to_str().ok();
    let now = UNIX_EPOCH + Duration::from_micros(job.gateway.clock.now());
    let asked = retry::requested_wait(now, header);
    let Some(wait) = policy.wait(failures, asked) else { return MAX_PAUSE };
    let mut chance = [0];
    job.gateway.random.fill(&mut chance);
    wait.drawn(f64::from(chance[0]) / 255.0).min(MAX_PAUSE)
}

fn good(job: &Job, request: &str, whole: &Whole) -> Outcome {
    let text = answered(job, request, whole.status.as_u16(), &whole.body);
    let usage = whole.outcome.usage.unwrap_or_default();
    let usage = Usage {
        input_tokens: usage.input_tokens.into(),
        cached_tokens: usage.cached_input_tokens.into(),
        output_tokens: usage.output_tokens.into(),
        reasoning_tokens: usage.reasoning_tokens.into(),
    };
    Outcome { failed: false, text, usage }
}

fn bad(job: &Job, request: &str, error: &ApiError) -> Outcome {
    let text = answered(job, request, error.status().as_u16(), &error.body());
    Outcome { failed: true, text, usage: Usage::default() }
}

fn answered(job: &Job, request: &str, status: u16, body: &[u8]) -> Box<str> {
    let id = ids::new("batch_req_", job.gateway.clock.now(), &*job.gateway.random);
    outcome::answered(&id, &job.line.custom_id, request, status, body)
}

/// Records the result: paid work must not be lost.
async fn record(job: &Job, outcome: &Outcome, stop: &mut watch::Receiver<bool>) -> LineEnd {
    let (database, owner) = (&job.gateway.database, &*job.owner);
    let (mut pause, mut writes) = (Duration::from_millis(100), 0);
    loop {
        let written =
            batch_lines::finish(database, &job.batch.id, job.line.number, owner, outcome).await;
        match written {
            Ok(Some(())) => return LineEnd::Recorded,
            Ok(None) => return LineEnd::Lost,
            Err(error) if error.is_unavailable() && writes < LAST_WRITES => {}
            Err(error) => {
                let (id, number) = (&job.batch.id, job.line.number);
                tracing::warn!("{id}: the result of line {number} was not stored: {error}");
                return LineEnd::Lost;
            }
        }
        if *stop.borrow() {
            writes += 1;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(OUR_PAUSE);
    }
}

async fn release(job: &Job, gone: LineEnd) -> LineEnd {
    let (database, owner) = (&job.gateway.database, &*job.owner);
    match batch_lines::release(database, &job.batch.id, job.line.number, owner).await {
        Ok(Some(())) => gone,
        // The line is released when its lease expires.
        Ok(None) | Err(_) => match gone {
            LineEnd::NoMoney { .. } => gone,
            _ => LineEnd::Lost,
        },
    }
}
