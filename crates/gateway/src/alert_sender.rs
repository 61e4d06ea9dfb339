//! Sends the messages of the outbox to the webhook, in a task of its own: a webhook that never answers
//! holds up nothing else. Each message is sent by one node at a time, until it is accepted or three
//! days old. It may arrive twice, with the same id, when a node ends before it has noted the answer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use gateway_policy::dates::seconds;
use gateway_policy::settings::Webhook;
use gateway_store::records::outbox::{self, Message};
use ratelimit::Micros;
use tokio::sync::Notify;

use crate::metrics::{Delivered, Metrics};
use crate::state::Gateway;
use crate::webhook;

/// Longest time between two queries for messages that are due: another node may have left some.
const ROUND: Duration = Duration::from_secs(60);
/// The time between two queries while the store is unreachable, or more messages are due than are sent at once.
const AGAIN: Duration = Duration::from_secs(5);
/// Most messages that are sent at once.
const AT_ONCE: u32 = 16;
/// Longest wait for the webhook.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time until a claim lapses: well above the wait.
const CLAIM: Micros = 60_000_000;
/// Age at which a message is given up.
const MAX_AGE: Micros = 3 * 86_400_000_000;

/// Sends messages while the gateway exists.
pub(crate) async fn send(gateway: Weak<Gateway>, woken: Arc<Notify>) {
    let mut failed = false;
    loop {
        let Some(strong) = gateway.upgrade() else { return };
        let wait = match round(&strong).await {
            Ok(wait) => {
                failed = false;
                wait
            }
            Err(error) => {
                if !failed {
                    tracing::warn!("alerts wait for the store: {error}");
                }
                failed = true;
                AGAIN
            }
        };
        drop(strong);
        // Whichever comes first.
        let _ = tokio::time::timeout(wait, woken.notified()).await;
    }
}

/// Sends what is due. Returns the time until the next message is due.
async fn round(gateway: &Gateway) -> Result<Duration, gateway_store::Error> {
    let now = gateway.clock.now();
    let settings = gateway.settings.load_full();
    let due = outbox::due(&gateway.database, now, AT_ONCE).await?;
    let handled = due.iter().map(|message| async {
        if gateway.expiry.now().saturating_sub(message.created_at) >= MAX_AGE {
            return give_up(gateway, message).await;
        }
        let Some(webhook) = &settings.webhook else { return Ok(()) };
        match outbox::claim(&gateway.database, message, now.saturating_add(CLAIM)).await? {
            Some(claimed) => attempt(gateway, webhook, &claimed).await,
            None => Ok(()),
        }
    });
    join_all(handled).await.into_iter().collect::<Result<(), _>>()?;
    // A reload that names one wakes the sender.
    if settings.webhook.is_none() {
        return Ok(ROUND);
    }
    let next = outbox::next_due(&gateway.database).await?;
    let now = gateway.clock.now();
    Ok(next
        .map_or(ROUND, |next| Duration::from_micros(next.saturating_sub(now)).clamp(AGAIN, ROUND)))
}

async fn give_up(gateway: &Gateway, message: &Message) -> Result<(), gateway_store::Error> {
    if outbox::delete(&gateway.database, message).await? {
        count(&gateway.metrics, "expired");
        let (id, attempts, body) = (&message.id, message.attempts, &message.body);
        tracing::error!(%id, attempts, "an alert was not delivered within three days: {body}");
    }
    Ok(())
}

async fn attempt(
    gateway: &Gateway,
    webhook: &Webhook,
    message: &Message,
) -> Result<(), gateway_store::Error> {
    let body = bytes::Bytes::copy_from_slice(message.body.as_bytes());
    let sent = match webhook::headers(webhook, message, seconds(gateway.clock.now())) {
        Ok(headers) => {
            let url = webhook.url.reveal();
            let posted = gateway.other_servers.post_json(url, headers, body, PATIENCE).await;
            posted.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let Err(cause) = sent else {
        count(&gateway.metrics, "delivered");
        return outbox::delete(&gateway.database, message).await.map(drop);
    };
    count(&gateway.metrics, "failed");
    let wait = webhook::wait(message.attempts);
    let (id, attempts, host) = (&message.id, message.attempts, &webhook.host);
    let seconds = wait.as_secs();
    tracing::warn!(%id, attempts, "the webhook at {host} did not take an alert: {cause}; again in {seconds} s");
    let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    let due_at = gateway.clock.now().saturating_add(wait);
    outbox::postpone(&gateway.database, message, due_at).await
}

fn count(metrics: &Metrics, outcome: &'static str) {
    metrics.webhook_messages.get_or_create(&Delivered { outcome }).inc();
}
