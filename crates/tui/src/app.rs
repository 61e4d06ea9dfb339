//! The state machine: what the person types, what the server sends and the time go in; frames and effects
//! come out. It has no access to anything else.
//!
//! [`App`] is made of owners of a part of the state each, such as `writing`, `outbox` and `asks`. What happens is
//! in flows: modules of functions over the program, which this one calls.

mod access;
mod account;
mod acknowledged;
mod appearance;
mod asking;
mod asks;
mod available;
mod beginning;
mod calls;
mod choosing;
mod commands;
mod completion;
mod configuration;
mod credentials;
mod cursors;
mod dialogs;
mod earlier;
mod elapsed;
mod events;
mod feedback;
mod filling;
mod first_question;
mod first_start;
mod folder_trust;
mod images;
mod joining;
mod keys;
mod lists;
mod live;
mod login;
mod mcp;
mod memory;
mod messages;
mod model_choice;
mod models;
mod notices;
mod notifications;
mod opening;
mod other_server;
mod outbox;
mod output;
mod own_prompts;
mod pending_images;
mod plan;
mod printing;
mod program;
mod questions;
mod queue;
mod queueing;
mod reading;
mod removing;
mod sent;
mod server;
mod settings;
mod status;
mod status_report;
mod taking;
mod terminals;
mod thread_rows;
mod transcript;
mod trust;
mod undo_switch;
mod vi;
mod worktrees;
mod writing;

pub use status::check_status_item;

use std::path::PathBuf;

use jsonrpc::ErrorObject;

use crate::app::acknowledged::Notices;
use crate::app::asks::Asks;
use crate::app::beginning::Beginning;
use crate::app::credentials::Login;
use crate::app::filling::Filling;
use crate::app::first_start::FirstStart;
use crate::app::folder_trust::Trust;
use crate::app::outbox::Outbox;
use crate::app::output::Output;
use crate::app::own_prompts::OwnPrompts;
use crate::app::pending_images::PendingImages;
use crate::app::server::Server;
use crate::app::settings::Settings;
use crate::app::writing::Writing;
use crate::composer::{Composer, Draft};
use crate::here::Found;
use crate::palette::Palette;
use crate::session::Session;
use crate::terminal::input::{Input, Reply};
use crate::terminal::screen::{Frame, Size};
use crate::view::View;

pub use crate::app::events::{Effect, Ended, Event, Start, StartThread};
pub use crate::app::program::App;
pub use crate::app::settings::Environment;

impl App {
    /// A program that has just been started.
    #[must_use]
    pub fn new(start: Start, environment: Environment, cwd: PathBuf, size: Size) -> Self {
        let palette = Palette { background: environment.background, depth: environment.depth };
        let mut composer = Composer::new();
        composer.set_commands(commands::command_list());
        Self {
            environment,
            settings: Settings::default(),
            now: 0,
            beginning: Beginning::new(start, cwd),
            server: Server::new(),
            session: Session::default(),
            writing: Writing::new(composer),
            own_prompts: OwnPrompts::new(commands::command_list()),
            images: PendingImages::default(),
            outbox: Outbox::default(),
            asks: Asks::default(),
            filling: Filling::default(),
            login: Login::default(),
            trust: Trust::default(),
            first_start: FirstStart::default(),
            notices: Notices::default(),
            output: Output::new(size, palette),
        }
    }

    /// The colours in use.
    #[must_use]
    pub fn palette(&self) -> Palette {
        self.output.palette()
    }

    /// The settings of the user's shell.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// True if the first thread is still being opened.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.server.is_opening()
            || (self.session.id.is_none() && self.server.is_calling())
            || self.login.is_asking()
    }

    /// Takes an event at `now` milliseconds; returns whether the frame may have changed.
    pub fn handle(&mut self, event: Event, now: u64) -> bool {
        self.now = now;
        // An Enter whose time has come sends, and a letter answers, before anything else is taken.
        let was_due = keys::settle(self);
        questions::settle(self);
        if !self.asks.has_question() {
            asking::settle(self);
        }
        let changed = self.take(event) | self.take_released() | was_due;
        if self.outbox.takes_release() {
            commands::next_queued(self);
        }
        self.overlay();
        changed
    }

    /// Has the terminal show the alternate screen while a list or a text fills it. A question comes before.
    fn overlay(&mut self) {
        let fills = self.asks.is_empty() && !self.filling.is_empty();
        let wants = fills && !self.settings.is_inline && !self.settings.is_full_screen;
        if self.filling.overlay(wants) {
            self.output.emit(Effect::Overlay(wants));
        }
    }

    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::Input(input) => self.input(input),
            Event::Resized(size) => {
                self.output.resize(size);
                true
            }
            Event::Arrived(arrival) => notifications::arrived(self, arrival),
            Event::Connected(opened) => opening::connected(self, &opened),
            Event::Lost { why, can_return } => opening::lost(self, &why, can_return),
            Event::Unsent(tag) => {
                let error =
                    ErrorObject::internal("there is no connection to the server".to_owned());
                notifications::answered(self, tag, Err(error));
                true
            }
            Event::History(texts) => keys::set_history(self, texts),
            Event::Draft(draft) => {
                self.writing.composer_mut().restore(draft);
                self.notice("This message was not sent last time.");
                true
            }
            Event::Unopened(why) => {
                self.warning(&format!(
                    "No browser could be started ({why}): open the address yourself"
                ));
                true
            }
            Event::Exported(result) => taking::exported(self, result),
            Event::Found(Found::Servers(servers)) => login::servers_found(self, &servers),
            Event::Found(Found::Models(server, found)) => {
                other_server::models_found(self, login::OTHER_SERVER, &server, found)
            }
            Event::Found(Found::WritableByAll(folders)) => notices::writable_by_all(self, folders),
            Event::Edited(result) => messages::edited(self, result),
            Event::Image(source, found) => images::image_found(self, source, found),
            Event::Tick => self.tick(),
        }
    }

    /// The next thing to be done.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.output.next_effect()
    }

    /// When [`Event::Tick`] is due, in milliseconds.
    #[must_use]
    pub fn wakes_at(&self) -> Option<u64> {
        [
            self.output.notice_until(),
            self.server.retry_at(),
            elapsed::beat(self),
            self.writing.composer().deadline(),
            self.writing.keep_at(),
            self.asks.settles_at(),
            self.filling.list().and_then(|list| list.late_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The frame at `now` milliseconds.
    pub fn frame(&mut self, now: u64) -> Frame {
        self.now = now;
        choosing::refresh_list(self);
        // What is printed comes when the screen is as it was.
        if self.asks.is_empty()
            && let Some(view) = self.filling_view()
        {
            return Frame { printed: Vec::new(), live: view.lines, cursor: view.cursor };
        }
        printing::print_finished(self);
        elapsed::hint(self);
        let printed = self.output.take_printed();
        let (live, cursor) = live::live(self);
        Frame { printed, live, cursor }
    }

    /// Closes what fills the screen, for the end: what it kept from being printed comes then.
    pub(crate) fn close_views(&mut self) {
        self.filling.close_list();
        self.filling.close_reading();
        printing::print_finished(self);
        self.print_explored();
    }

    /// The list or the text that fills the screen.
    fn filling_view(&mut self) -> Option<View> {
        let size = self.output.size();
        let list = self.filling.list().map(|list| list.picker.view(size.columns, size.rows));
        list.or_else(|| reading::reading_view(self))
    }

    /// The message that was not sent.
    #[must_use]
    pub fn unsent(&self) -> Draft {
        messages::written(self)
    }

    /// The files of the images in messages that are not sent, or whose receipt is not known.
    #[must_use]
    pub fn images_in_use(&self) -> Vec<PathBuf> {
        let present = self.writing.composer().draft();
        self.outbox.drafts().chain([&present]).flat_map(images::image_paths).collect()
    }

    /// The terminal is gone: no question can be answered.
    pub fn terminal_gone(&mut self) -> Ended {
        Ended { code: 129, message: None }
    }

    /// A signal ends the process with this exit code.
    pub fn ended_by_signal(&mut self, code: u8) -> Ended {
        Ended { code, message: self.farewell() }
    }

    fn tick(&mut self) -> bool {
        if self.output.notice_until().is_some_and(|until| self.now >= until) {
            self.output.clear_notice();
        }
        if self.server.takes_retry(self.now) {
            self.output.emit(Effect::Reconnect);
        }
        if self.writing.takes_keeping(self.now) {
            self.output.emit(Effect::Keep(messages::written(self)));
        }
        lists::show_late_rows(self);
        true
    }

    /// Takes an input, unless it waits until a paste before it is examined.
    fn input(&mut self, input: Input) -> bool {
        if images::holds(self, &input) {
            return false;
        }
        match input {
            Input::Key(key) => keys::key(self, key),
            Input::Paste(text) => {
                self.marks_pastes(true);
                keys::pasted(self, text);
            }
            Input::Focus(is_focused) => {
                self.output.set_focused(is_focused);
                return false;
            }
            Input::Reply(Reply::Background(r, g, b)) => self.output.set_background((r, g, b)),
            Input::Reply(Reply::Bracketed(marks_pastes)) => self.marks_pastes(marks_pastes),
            Input::Reply(_) => return false,
        }
        true
    }

    /// Takes what was held until a paste was examined. Returns whether there was anything.
    fn take_released(&mut self) -> bool {
        let mut is_any = false;
        while let Some(input) = self.images.next_released() {
            self.input(input);
            is_any = true;
        }
        is_any
    }
}
