//! How a connection begins to follow a thread: what it is shown, what it has missed, what it is asked.

use std::sync::Arc;

use session::Id;
use tokio::sync::oneshot;

use crate::connection::{Gate, Peer};
use crate::convert;
use crate::thread::asks::OpenAsk;
use crate::thread::event_log::{EventLog, Place};
use crate::thread::{Actor, Snapshot};

impl Actor {
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            record: self.record.clone(),
            ephemeral: self.ephemeral,
            settings: self.machine.settings().clone(),
            status: self.machine.status(),
            instruction_sources: self.instruction_sources.clone(),
            live: self.machine.live(),
            goal: self.machine.goal().cloned(),
            place: self.subscribers.log.as_ref().map(EventLog::place),
            replay: None,
            open_requests: Vec::new(),
        }
    }

    /// Subscribes a connection, once it has its response; open requests are shown to it.
    pub(super) async fn attach(
        &mut self,
        peer: Arc<Peer>,
        since: Option<Place>,
        announce: bool,
        snapshot: oneshot::Sender<Snapshot>,
        gate: Gate,
    ) {
        if peer.wants_places() && self.subscribers.log.is_none() {
            self.begin_log().await;
        }
        let mut seen = self.snapshot();
        let missed = match (&self.subscribers.log, &since) {
            (Some(log), Some(since)) => Some(log.since(since)),
            _ => None,
        };
        seen.replay = missed.as_ref().map(|missed| missed.as_ref().map(Vec::len).map_err(|e| *e));
        let asked = self.asks.values().filter(|ask| ask.is_for(&peer));
        seen.open_requests = asked.map(OpenAsk::wire_id).collect();
        if snapshot.send(seen.clone()).is_err() {
            return;
        }
        gate.opened().await;
        self.user_agent = peer.user_agent().map(str::to_owned);
        self.subscribers.add(peer.clone());
        if announce {
            let thread = convert::thread::loaded(&seen, Vec::new());
            let params = protocol::thread_record::ThreadStartedNotification { thread };
            self.subscribers.notify::<protocol::ThreadStarted>(&params);
        }
        for (info, message) in missed.and_then(Result::ok).unwrap_or_default() {
            peer.send_if_wanted(info, message);
        }
        for ask in self.asks.values() {
            ask.show(&self.core, &peer);
        }
    }

    /// From now on events have places.
    async fn begin_log(&mut self) {
        // The end of an id is what makes it unlike any other.
        let id = self.core.options.ids.next();
        let epoch = &id[id.floor_char_boundary(id.len().saturating_sub(12))..];
        let live = self.machine.live();
        let turn = match live.turns.last() {
            Some(turn) => Some(turn.id.clone()),
            None => self.last_turn().await,
        };
        let open = live.items.into_iter().map(|(turn, item)| (item.id().clone(), turn)).collect();
        self.subscribers.log = Some(EventLog::new(epoch.to_owned(), turn, open));
    }

    /// The newest turn that is stored. Without it a snapshot begins with the thread.
    async fn last_turn(&mut self) -> Option<Id> {
        if self.ephemeral {
            return None;
        }
        let store = self.core.store().await.ok()?;
        let turn = store.last_turn(&self.id).await.ok()??;
        Some(turn.id.as_str().into())
    }
}
