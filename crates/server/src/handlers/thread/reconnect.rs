//! `thread/resume` with a cursor: a client that lost its connection learns what it missed, as events
//! or as a snapshot (docs/reconnecting.md).

use protocol::*;
use store::{Direction, TurnsQuery};

use crate::server::Server;
use services::convert;
use services::error::Error;
use services::peer::Peer;
use services::thread_port::{EventPosition, ReplayGap, Snapshot};

/// Turns of a snapshot at most.
const MAX_TURNS: usize = 100;
/// Turns that are read at once.
const PAGE: u32 = 25;

/// The position that a client names.
///
/// # Errors
/// The client did not ask for cursors, or the cursor cannot be read.
pub(super) fn position(
    peer: &Peer,
    cursor: Option<String>,
) -> Result<Option<EventPosition>, Error> {
    let Some(cursor) = cursor else { return Ok(None) };
    if !peer.wants_cursors() {
        let message = "`eventCursor` needs `capabilities.eventCursor` in `initialize`";
        return Err(Error::wrong_state(message));
    }
    let position = EventPosition::read(&cursor).ok_or_else(|| {
        Error::invalid_params("`eventCursor` is not a cursor of this server")
            .next_step("resume without it")
    })?;
    Ok(Some(position))
}

impl Server {
    /// The response to a client that has seen events up to `since`: the turns, and how it learns the
    /// rest. `running` are the turns in progress.
    pub(super) async fn missed(
        &self,
        snapshot: &Snapshot,
        since: Option<&EventPosition>,
        running: Vec<Turn>,
    ) -> Result<(Vec<Turn>, Option<EventReplay>), Error> {
        let open_request_ids = snapshot.open_requests.clone();
        let reason = match snapshot.replay {
            None => return Ok((running, None)),
            Some(Ok(events)) => {
                let events = events as u64;
                let replayed = EventReplay::Replayed { events, open_request_ids };
                return Ok((Vec::new(), Some(replayed)));
            }
            Some(Err(ReplayGap::Reloaded)) => SnapshotReason::Reloaded,
            Some(Err(ReplayGap::TooOld)) => SnapshotReason::TooOld,
        };
        let wanted = since.and_then(|since| since.turn.as_deref());
        let (turns, from_turn_id, is_complete) = match snapshot.ephemeral {
            // Nothing of it is stored.
            true => (running, None, false),
            false => self.turns_from(&snapshot.record.id, wanted, running).await?,
        };
        let replay = EventReplay::Snapshot { reason, from_turn_id, is_complete, open_request_ids };
        Ok((turns, Some(replay)))
    }

    /// The turns from `wanted` on, oldest first, or the newest ones when that turn no longer exists;
    /// the turn that was found; and whether the list is complete.
    async fn turns_from(
        &self,
        thread: &str,
        wanted: Option<&str>,
        mut running: Vec<Turn>,
    ) -> Result<(Vec<Turn>, Option<String>, bool), Error> {
        let store = self.services.store.get().await?;
        let mut turns: Vec<Turn> = Vec::new();
        let mut cursor = None;
        let (mut found, mut is_complete) = (None, false);
        while turns.len() < MAX_TURNS {
            let query = TurnsQuery { limit: PAGE, cursor, direction: Direction::Descending };
            let page = store.turns_with_items(thread, query).await?;
            for (row, items) in &page.rows {
                turns.push(convert::thread::turn(row, items, TurnItemsView::Full));
                if wanted == Some(row.id.as_str()) {
                    found = wanted.map(str::to_owned);
                    break;
                }
            }
            cursor = page.next_cursor;
            if found.is_some() || cursor.is_none() {
                is_complete = true;
                break;
            }
        }
        turns.reverse();
        for turn in &mut turns {
            // What runs is ahead of what is stored.
            if let Some(at) = running.iter().position(|running| running.id == turn.id) {
                *turn = running.swap_remove(at);
            }
        }
        Ok((turns, found, is_complete))
    }
}
