//! The thread as it is when it is opened, even in the middle of a turn, and again after a reconnection:
//! what runs comes with the answer that opens it, as it is at that place among the events, and the finished
//! turns come page by page. Until the last page has come, nothing else is printed.

use protocol::{
    AgentErrorInfo, SortDirection, ThreadItem, ThreadTurnsListParams, ThreadTurnsListResponse,
    Turn, TurnItemsView, TurnStatus,
};

use crate::app::App;
use crate::cells;
use crate::palette::Palette;
use crate::session::Open;

/// Turns that are read at once.
const PAGE: u32 = 100;

impl App {
    /// Takes the turns in progress from the answer that opened the thread. What is being written has its
    /// text so far; the additions that follow the answer belong after it.
    pub(super) fn join(&mut self, turns: &[Turn]) {
        for turn in turns.iter().filter(|turn| turn.status == TurnStatus::InProgress) {
            self.turn_started(turn);
            self.set_elapsed(turn);
            for item in &turn.items {
                // Whether anything else is complete is known when it is read from the store.
                match item {
                    ThreadItem::UserMessage(_) | ThreadItem::HookPrompt(_) => {
                        self.item_completed(item, &turn.id)
                    }
                    _ => self.item_started(item, &turn.id),
                };
            }
        }
    }

    /// The turn may have been running for long.
    fn set_elapsed(&mut self, turn: &Turn) {
        let now = self.environment.started_at.saturating_add_unsigned(self.now / 1_000);
        let elapsed = turn.started_at.map_or(0, |at| now.saturating_sub(at));
        if let Some(turn) = &mut self.session.turn {
            turn.started_ms = self.now;
            turn.before_ms = u64::try_from(elapsed).unwrap_or(0).saturating_mul(1_000);
        }
    }

    /// Asks for the first page of turns, or the next.
    pub(super) fn load_turns(&mut self, cursor: Option<String>) {
        let Some(thread_id) = self.session.id.clone() else { return };
        self.session.is_loading = true;
        let params = ThreadTurnsListParams {
            thread_id,
            cursor,
            limit: Some(PAGE),
            sort_direction: Some(SortDirection::Asc),
            items_view: Some(TurnItemsView::Full),
        };
        self.call::<protocol::ThreadTurnsList>(&params, |app, result| match result {
            Ok(page) => app.turns(page),
            Err(error) => {
                app.error(&format!("The earlier turns cannot be read: {}", error.message));
                app.loaded();
            }
        });
    }

    fn turns(&mut self, page: ThreadTurnsListResponse) {
        self.session.is_loading = false;
        // What is printed in part comes first, and what has come since the opening after all turns.
        let open = std::mem::take(&mut self.session.open);
        let (open, mut newer): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|open| open.running.has_begun());
        self.session.open = open;
        for turn in &page.data {
            self.show_turn(turn, &mut newer);
        }
        self.session.open.append(&mut newer);
        match page.next_cursor {
            Some(cursor) => self.load_turns(Some(cursor)),
            None => self.loaded(),
        }
    }

    /// Shows what is stored of a turn. `newer` are the items that are known from elsewhere, some with more
    /// text than was stored.
    fn show_turn(&mut self, turn: &Turn, newer: &mut Vec<Open>) {
        let whole = ThreadItem::without_attempts(turn.items.clone());
        let stands = |id: &str| whole.iter().any(|item| cells::item_id(item) == id);
        for item in &turn.items {
            let id = cells::item_id(item);
            if let Some(at) = newer.iter().position(|it| it.id == id) {
                self.session.open.push(newer.remove(at));
            }
            // A command may outlive its turn.
            match cells::is_in_progress(item) {
                true => self.item_started(item, &turn.id),
                false => self.item_completed(item, &turn.id),
            };
            if item.cut_off().is_some() && !stands(id) {
                self.decide_texts(&turn.id, true);
            }
        }
        if turn.status != TurnStatus::InProgress {
            self.end_texts(&turn.id);
            self.decide_texts(&turn.id, false);
        }
        self.print_finished();
        if turn.status != TurnStatus::InProgress {
            self.report_end(turn);
        }
    }

    /// All turns are there, or cannot be read.
    fn loaded(&mut self) {
        self.session.is_loading = false;
        // Items that the server no longer knows were cut off by its end.
        for open in self.session.open.iter_mut().filter(|open| !open.is_confirmed) {
            open.running.end();
            (open.is_complete, open.is_undecided) = (true, false);
        }
        self.print_finished();
        let was_cut_off = self.session.left.take().is_some();
        self.return_unanswered();
        if self.session.turn.is_some() {
            return;
        }
        match was_cut_off {
            true => self.give_queue_back(),
            false => self.next_queued(),
        }
    }

    /// The texts of a turn that has ended are complete, whatever the server said of them.
    pub(super) fn end_texts(&mut self, turn_id: &str) {
        let texts = self.session.open.iter_mut().filter(|open| open.running.is_text());
        for open in texts.filter(|open| open.turn_id == turn_id && !open.is_complete) {
            open.running.end();
            open.is_complete = true;
        }
    }

    /// Says once how a turn ended that did not end as it should.
    pub(super) fn report_end(&mut self, turn: &Turn) {
        if !self.session.ended.insert(turn.id.clone()) {
            return;
        }
        match turn.status {
            TurnStatus::Failed => {
                let error = turn.error.as_ref();
                let message = error.map_or("the turn failed", |error| error.message.as_str());
                let details = error.and_then(|error| error.additional_details.as_deref());
                let text = details.map_or(message.to_owned(), |more| format!("{message}\n{more}"));
                self.error(&text);
                if error.is_some_and(|it| it.agent_error_info == Some(AgentErrorInfo::Unauthorized))
                {
                    self.info("/login chooses another account, key or model.");
                }
            }
            TurnStatus::Interrupted => self.message("■ ", Palette::QUIET, "Interrupted."),
            TurnStatus::Completed | TurnStatus::InProgress => {
                // It ended as it should while there was no connection.
                if self.session.left.as_ref() == Some(&turn.id) {
                    self.session.left = None;
                }
            }
        }
    }
}
