//! The treatment of messages that wait for the end of the turn. They are shown, listed, edited and
//! removed, and come back into the composer when the turn does not end by itself.

use protocol::{UserInput, UserMessageItem};

use crate::app::App;
use crate::app::queue::MAX_QUEUED;
use crate::composer::Draft;
use crate::palette::Palette;
use crate::text::Line;

/// Messages that are shown above the composer.
const SHOWN: usize = 3;

impl App {
    /// Keeps a message for the end of the turn.
    pub(super) fn enqueue(&mut self, draft: Draft) {
        match self.session.turn {
            Some(_) if !draft.is_blank() => self.wait_for_end(draft),
            Some(_) => {}
            None => self.submit(draft),
        }
    }

    /// Puts a message into the queue, or back into the composer where the queue is full.
    pub(super) fn wait_for_end(&mut self, draft: Draft) {
        if self.queue.is_full() {
            self.notice(format!("{MAX_QUEUED} messages wait already; this one was not added."));
            return self.give_back(vec![draft]);
        }
        self.queue.push(draft);
        self.keep_soon();
    }

    /// Sends what waits, up to the first message that begins a turn.
    pub(super) fn next_queued(&mut self) {
        while self.session.turn.is_none()
            && !self.login.holds()
            && let Some(draft) = self.queue.pop_front()
        {
            self.keep_soon();
            let Some((name, rest)) = draft.command() else {
                let is_shell = draft.shell().is_some();
                self.submit(draft);
                match is_shell || self.session.id.is_none() {
                    true => return,
                    false => continue,
                }
            };
            let (name, rest) = (name.to_owned(), rest.to_owned());
            self.command(&name, &rest, draft);
            // It begins a turn, or opens another thread, with an answer that comes later.
            if !Self::is_for_any_time(&name) {
                return;
            }
        }
    }

    /// A turn that did not end by itself takes no message with it that was written for afterwards: all of
    /// them are in the composer again.
    pub(super) fn give_queue_back(&mut self) {
        let drafts = self.queue.take_all();
        if drafts.len() > 1 {
            let count = drafts.len();
            self.notice(format!("The {count} messages that waited are in the composer again."));
        }
        self.give_back(drafts);
    }

    /// Puts messages into the composer, before what is being written there.
    pub(super) fn give_back(&mut self, mut drafts: Vec<Draft>) {
        if drafts.is_empty() {
            return;
        }
        drafts.push(self.composer.draft());
        self.composer.restore(Draft::joined(drafts));
        self.keep_soon();
    }

    /// The server has this message.
    pub(super) fn received(&mut self, message: &UserMessageItem) {
        let text = message.content.iter().find_map(|input| match input {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        // The same words from earlier are printed already.
        if self.session.printed.contains(&message.id) {
            return;
        }
        self.sent.received(text.unwrap_or_default());
    }

    /// Puts messages that the server turned out not to have back into the composer.
    pub(super) fn return_unanswered(&mut self) {
        let drafts = self.sent.take_unanswered();
        self.give_back(drafts);
    }

    /// Everything that was written and not sent, as one message.
    pub(super) fn written(&self) -> Draft {
        let waiting = self.sent.unanswered().iter().chain(self.queue.drafts()).cloned();
        Draft::joined(waiting.chain([self.composer.draft()]))
    }

    /// Opens the list of the messages that wait.
    pub(super) fn show_queue(&mut self, _: &str) {
        match self.queue.is_empty() {
            true => self.notice("No message waits. Tab, in place of Enter, lets one wait."),
            false => self.choose_queued(),
        }
    }

    /// Takes the last message back into the composer.
    pub(super) fn edit_last_queued(&mut self) {
        if let Some(number) = self.queue.last() {
            self.edit_queued(number);
        }
    }

    /// Puts a message into the composer; what is there waits in its place.
    pub(super) fn edit_queued(&mut self, number: u64) {
        let present = self.composer.draft();
        let Some(draft) = self.queue.take(number) else {
            return self.notice("That message was sent meanwhile.");
        };
        if !present.is_blank() {
            self.queue.push(present);
        }
        self.composer.restore(draft);
        self.queue.set_edited(number);
        self.keep_soon();
    }

    /// Removes a message that waits. It can be found with Ctrl+R.
    pub(super) fn remove_queued(&mut self, number: u64) {
        let Some(draft) = self.queue.take(number) else { return };
        self.remember(draft);
        self.notice("Removed. Ctrl+R finds it again.");
        self.keep_soon();
    }

    /// Returns the waiting messages, above the composer.
    pub(super) fn queued(&self) -> Vec<Line> {
        let first = |draft: &Draft| draft.shown().lines().next().unwrap_or_default().to_owned();
        let unanswered = self.sent.unanswered().iter().map(|draft| {
            Line::new("? ", Palette::WARNING)
                .with(first(draft), Palette::QUIET)
                .with("  (perhaps not received)", Palette::QUIET)
        });
        let mut lines: Vec<Line> = unanswered.take(SHOWN).collect();
        let count = self.queue.len();
        let waiting = self.queue.drafts().take(SHOWN).enumerate();
        lines.extend(waiting.map(|(at, draft)| {
            let mut line = Line::new("↳ ", Palette::QUIET).with(first(draft), Palette::QUIET);
            if at == 0 {
                let keys = if count > 1 {
                    "↑ edits the last, Alt+↑ lists them"
                } else {
                    "↑ edits it"
                };
                line.push(format!("  (sent at the end of the turn; {keys})"), Palette::QUIET);
            }
            line.truncated(self.size.columns)
        }));
        if count > SHOWN {
            lines.push(Line::new(format!("  and {} more messages", count - SHOWN), Palette::QUIET));
        }
        lines
    }
}
