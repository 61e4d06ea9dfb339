//! The end of a compaction that was asked for. The response to the request does not name its turn, which is
//! distinguished from those of other clients by its beginning.

use std::collections::HashSet;

use protocol::{ItemStarted, TurnCompleted, TurnStarted, TurnStatus};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::hub::TurnNotification;
use crate::shared::Shared;
use crate::{Error, Notification};

#[derive(Deserialize)]
struct WithItem {
    item: Kind,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

/// Waits for the end of the compaction's turn. `events` are those of its thread from before the request.
pub(crate) async fn ended(
    shared: &Shared,
    mut events: mpsc::Receiver<TurnNotification>,
) -> Result<(), Error> {
    // Turns that began meanwhile, and of which no item says that they are something else.
    let mut candidates = HashSet::new();
    while let Some(event) = events.recv().await {
        let Some(turn_id) = event.turn_id else { continue };
        let notification = event.notification;
        if notification.is::<TurnStarted>() {
            candidates.insert(turn_id);
        } else if notification.is::<ItemStarted>() && !is_of_compaction(&notification) {
            candidates.remove(&turn_id);
        } else if let Some(completed) = notification.read::<TurnCompleted>()
            && candidates.contains(&turn_id)
        {
            let turn = completed
                .map_err(|why| {
                    let why = Error::not_the_protocol(format!("`turn/completed`: {why}"));
                    shared.give_up(why)
                })?
                .turn;
            return match turn.status {
                TurnStatus::Failed => Err(Error::TurnFailed(turn.error.map(Box::new))),
                TurnStatus::Interrupted => Err(Error::TurnInterrupted),
                TurnStatus::Completed | TurnStatus::InProgress => Ok(()),
            };
        }
    }
    Err(shared.lost().unwrap_or(Error::Unread))
}

fn is_of_compaction(started: &Notification) -> bool {
    serde_json::from_str::<WithItem>(started.params.get())
        .is_ok_and(|started| started.item.r#type == "contextCompaction")
}
