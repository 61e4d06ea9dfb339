//! A text that is read on the whole screen: the transcript of a thread or of an agent, a long diff.

use protocol::{
    SortDirection, ThreadIdParams, ThreadItem, ThreadResumeParams, ThreadTurnsListParams,
    ThreadTurnsListResponse, TurnItemsView,
};

use crate::app::App;
use crate::app::filling::{Of, Reading};
use crate::cells::{self, Delta};
use crate::pager::{Block, Outcome, Pager};
use crate::terminal::input::Key;
use crate::text::Line;
use crate::view::View;

/// Turns that are read at once.
const PAGE: u32 = 30;

impl App {
    /// Opens the transcript of the thread on the screen.
    pub(super) fn read_transcript(&mut self, _: &str) {
        let Some(id) = self.thread_id() else { return };
        let name = self.session.name.as_deref().unwrap_or("this thread");
        self.read_thread(id, format!("Transcript of {name}"), false);
    }

    /// Opens the transcript of an agent's thread, with what comes from now on.
    pub(super) fn read_agent(&mut self, id: String) {
        let params = ThreadResumeParams { thread_id: id.clone(), ..ThreadResumeParams::default() };
        self.call_or_report::<protocol::ThreadResume>(&params, "The agent's events are not shown");
        let title = format!("Agent {id}");
        self.read_thread(id, title, true);
    }

    fn read_thread(&mut self, id: String, title: String, is_subscribed: bool) {
        let mut pager = Pager::new(title);
        pager.set_has_earlier();
        self.reading = Some(Reading { pager, of: Of::Thread { id, cursor: None, is_subscribed } });
        self.read_earlier();
    }

    /// Opens lines, from the first on.
    pub(super) fn read_lines(&mut self, title: &str, lines: Vec<Line>) {
        self.reading = Some(Reading { pager: Pager::of_lines(title, lines), of: Of::Lines });
    }

    /// Returns whether the open view takes the key.
    pub(super) fn reads(&mut self, key: Key) -> bool {
        let context = self.context();
        let Some(reading) = &mut self.reading else { return false };
        match reading.pager.key(key, &context) {
            Outcome::Changed | Outcome::Ignored => self.read_earlier(),
            Outcome::Closed => self.close_reading(),
        }
        true
    }

    fn close_reading(&mut self) {
        let Some(Reading { of, .. }) = self.reading.take() else { return };
        if let Of::Thread { id, is_subscribed: true, .. } = of {
            let params = ThreadIdParams { thread_id: id };
            self.call_or_report::<protocol::ThreadUnsubscribe>(
                &params,
                "The agent's events still come",
            );
        }
    }

    /// Takes pasted text into the search of the open view; false where there is none.
    pub(super) fn paste_into_reading(&mut self, text: &str) -> bool {
        let context = self.context();
        let Some(reading) = &mut self.reading else { return false };
        reading.pager.paste(text, &context);
        true
    }

    pub(super) fn reading_view(&mut self) -> Option<View> {
        let (context, rows) = (self.context(), self.size.rows);
        Some(self.reading.as_mut()?.pager.view(&context, rows))
    }

    /// Asks for the turns before those that are there, if the reader comes near.
    fn read_earlier(&mut self) {
        let Some(Reading { pager, of: Of::Thread { id, cursor, .. } }) = &mut self.reading else {
            return;
        };
        if !pager.needs_earlier() {
            return;
        }
        let params = ThreadTurnsListParams {
            thread_id: id.clone(),
            cursor: cursor.clone(),
            limit: Some(PAGE),
            sort_direction: Some(SortDirection::Desc),
            items_view: Some(TurnItemsView::Full),
        };
        let id = id.clone();
        self.call::<protocol::ThreadTurnsList>(&params, move |app, result| match result {
            Ok(page) => app.earlier_read(&id, page),
            Err(error) => app.earlier_failed(&id, &error.message),
        });
    }

    fn earlier_read(&mut self, thread: &str, page: ThreadTurnsListResponse) {
        let context = self.context();
        let Some(pager) = self.reading_of(thread) else { return };
        let items =
            page.data.into_iter().rev().flat_map(|turn| ThreadItem::without_attempts(turn.items));
        let new = items.filter(|item| !pager.has_item(cells::item_id(item)));
        let blocks = new.map(|item| Block::Item(Box::new(item))).collect();
        pager.prepend(blocks, page.next_cursor.is_some());
        pager.go_on_searching(&context);
        if let Some(Reading { of: Of::Thread { cursor, .. }, .. }) = &mut self.reading {
            *cursor = page.next_cursor;
        }
        self.read_earlier();
    }

    fn earlier_failed(&mut self, thread: &str, why: &str) {
        if let Some(pager) = self.reading_of(thread) {
            pager.set_failure(format!("Earlier turns cannot be read: {why}"));
        }
    }

    /// An item of the thread that is read has begun, or is complete. Returns whether it is displayed.
    pub(super) fn read_item(&mut self, thread: &str, item: &ThreadItem) -> bool {
        self.reading_of(thread).map(|pager| pager.set_item(item)).is_some()
    }

    pub(super) fn read_delta(&mut self, delta: &Delta) -> bool {
        self.reading_of(delta.thread_id()).is_some_and(|pager| pager.delta(delta))
    }

    fn reading_of(&mut self, thread: &str) -> Option<&mut Pager> {
        match &mut self.reading {
            Some(Reading { pager, of: Of::Thread { id, .. } }) if id == thread => Some(pager),
            _ => None,
        }
    }
}
