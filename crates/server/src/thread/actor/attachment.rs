//! How a connection subscribes to a loaded thread: it gets the thread's present state, then what has no
//! answer yet, then the events.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::connection::{Gate, Peer};
use crate::convert::auto_review;
use crate::thread::actor::Actor;
use crate::thread::event_log::EventPosition;
use crate::thread::handle::Snapshot;

impl Actor {
    pub(super) fn snapshot(&self) -> Snapshot {
        let nested = self.machine.project_documents().iter().map(PathBuf::from);
        let of_thread = self.configuration.instruction_sources().iter().cloned();
        Snapshot {
            record: self.journal.record().clone(),
            ephemeral: self.journal.is_ephemeral(),
            settings: self.machine.settings().clone(),
            granted: self.machine.granted(),
            status: self.shown_status(self.machine.status()),
            instruction_sources: of_thread.chain(nested).collect(),
            live: self.machine.live(),
            goal: self.machine.goal().cloned(),
            cursor: self.broadcast.cursor(),
            replay: None,
            open_requests: Vec::new(),
        }
    }

    /// Subscribes a connection once its response is queued, and sends it the open requests.
    pub(super) async fn attach(
        &mut self,
        peer: Arc<Peer>,
        since: Option<EventPosition>,
        announce: bool,
        sender: oneshot::Sender<Snapshot>,
        gate: Gate,
    ) {
        if peer.wants_cursors() && !self.broadcast.has_event_log() {
            self.begin_event_log().await;
        }
        let mut snapshot = self.snapshot();
        let replay = self.broadcast.replay(since.as_ref());
        snapshot.replay =
            replay.as_ref().map(|replay| replay.as_ref().map(Vec::len).map_err(|gap| *gap));
        snapshot.open_requests = self.questions.open_ids(&peer);
        if sender.send(snapshot.clone()).is_err() {
            return;
        }
        gate.opened().await;
        let is_replayed = matches!(replay, Some(Ok(_)));
        self.broadcast.subscribe(&peer, announce.then_some(&snapshot), replay);
        self.mcp.show_states(&peer);
        self.questions.send_open(&peer);
        if !is_replayed {
            let thread = self.journal.id();
            for review in self.machine.open_reviews() {
                let params = auto_review::started(thread.to_string(), review);
                peer.notify::<protocol::ItemAutoApprovalReviewStarted>(&params);
            }
        }
        self.agents.show_questions(&peer);
    }

    async fn begin_event_log(&mut self) {
        let live = self.machine.live();
        let turn = match live.turns.last() {
            Some(turn) => Some(turn.id.clone()),
            None => self.journal.last_turn().await,
        };
        self.broadcast.begin_event_log(&self.journal.new_id(), turn, live);
    }
}
