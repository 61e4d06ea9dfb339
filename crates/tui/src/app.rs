//! The state machine: what the person types, what the server sends and the time go in; frames and effects
//! come out. It has no access to anything else.

mod account;
mod answers;
mod asking;
mod calls;
mod choosing;
mod commands;
mod completion;
mod configuration;
mod dialogs;
mod earlier;
mod elapsed;
mod events;
mod feedback;
mod filling;
mod images;
mod joining;
mod keys;
mod live;
mod login;
mod mcp;
mod memory;
mod models;
mod notices;
mod notifications;
mod pending_images;
mod plan;
mod queue;
mod reading;
mod sent;
mod settings;
mod status;
mod status_picker;
mod taking;
mod terminals;
mod trust;
mod turns;
mod vi;
mod waiting;

use std::collections::VecDeque;
use std::path::PathBuf;

use jsonrpc::{ErrorObject, RequestId};
use protocol::{OpeningOverrides, TurnStartParams};

use crate::app::calls::Calls;
use crate::app::dialogs::Dialogs;
use crate::app::filling::{Choosing, Reading};
use crate::app::login::state::Login;
use crate::app::notices::state::Notices;
use crate::app::pending_images::PendingImages;
use crate::app::queue::Queue;
use crate::app::sent::Sent;
use crate::app::settings::Settings;
use crate::app::trust::state::Trust;
use crate::ask::Ask;
use crate::composer::{Composer, Draft};
use crate::context::Context;
use crate::here::Found;
use crate::history::{History, Search};
use crate::palette::Palette;
use crate::run::Ended;
use crate::session::Session;
use crate::terminal::input::{Input, Key, Reply};
use crate::terminal::screen::{Frame, Size};
use crate::text::{Line, Style};
use crate::view::View;

pub use crate::app::events::{Effect, Event, Start, StartThread};
pub use crate::app::settings::Environment;

/// A question of the server's.
#[derive(Debug)]
struct Question {
    id: RequestId,
    ask: Ask,
}

/// The state of the connection.
#[derive(Debug, PartialEq, Eq)]
enum Connection {
    Opening,
    Open,
    /// Lost; the next attempt is at this time, in milliseconds.
    Lost {
        attempts: u32,
        retry_at: Option<u64>,
    },
}

/// The state of the terminal program.
#[derive(Debug)]
pub struct App {
    environment: Environment,
    settings: Settings,
    start: Option<Start>,
    cwd: PathBuf,
    size: Size,
    palette: Palette,
    /// Milliseconds since the start.
    now: u64,
    connection: Connection,
    session: Session,
    composer: Composer,
    /// Earlier messages; none before they were needed.
    history: Option<History>,
    search: Option<Search>,
    /// The messages that were sent before the earlier messages were read.
    typed: Vec<Draft>,
    /// The key that waits for them.
    waiting: Option<Key>,
    /// When the message that is being written is kept, in milliseconds.
    keep_at: Option<u64>,
    /// Messages that wait for the end of the turn.
    queue: Queue,
    sent: Sent,
    images: PendingImages,
    questions: VecDeque<Question>,
    dialogs: Dialogs<Self>,
    login: Login,
    trust: Trust<Self>,
    notices: Notices,
    /// True if the answer to `config/read` is still to come.
    is_configuring: bool,
    /// Why the configuration cannot be read, until that is said.
    unread_config: Option<String>,
    /// True if the first thread was requested over this connection.
    has_begun: bool,
    /// True if the hint about the first keys was shown.
    has_hinted: bool,
    /// The model that was named last and is not in the list.
    doubted_model: Option<String>,
    /// True if the news of models were checked.
    has_checked_models: bool,
    /// The server's home folder.
    agent_home: String,
    /// Settings of the first thread, from the command line.
    opening: OpeningOverrides,
    choosing: Option<Choosing>,
    /// The text that is read on the whole screen.
    reading: Option<Reading>,
    /// True if the terminal shows the alternate screen for a list or a text.
    is_overlaid: bool,
    /// Deadline for a second Esc to go back to an earlier message.
    edits_until: u64,
    /// The notice above the composer, until this time.
    notice: Option<(Line, u64)>,
    /// Settings that the next `turn/start` changes, for later turns, too; its other members are empty.
    overrides: TurnStartParams,
    /// Token of the composer's search that was sent last.
    searched: Option<u64>,
    /// True if the terminal marks pasted text.
    marks_pastes: bool,
    /// When a key was pressed last.
    last_key: Option<u64>,
    is_focused: bool,
    /// Deadline for a second Ctrl+C to quit.
    quits_until: u64,
    printed: Vec<Line>,
    effects: VecDeque<Effect>,
    calls: Calls<Self>,
}

impl App {
    /// A program that has just been started.
    #[must_use]
    pub fn new(start: Start, environment: Environment, cwd: PathBuf, size: Size) -> Self {
        let palette = Palette { light: false, depth: environment.depth };
        let mut composer = Composer::new();
        composer.set_commands(Self::command_list());
        Self {
            settings: Settings::default(),
            opening: start.overrides.clone(),
            start: Some(start),
            cwd,
            size,
            palette,
            now: 0,
            connection: Connection::Opening,
            session: Session::default(),
            composer,
            history: None,
            search: None,
            typed: Vec::new(),
            waiting: None,
            keep_at: None,
            queue: Queue::default(),
            sent: Sent::default(),
            images: PendingImages::default(),
            questions: VecDeque::new(),
            dialogs: Dialogs::default(),
            login: Login::default(),
            trust: Trust::default(),
            notices: Notices::default(),
            is_configuring: false,
            unread_config: None,
            has_begun: false,
            has_hinted: false,
            doubted_model: None,
            has_checked_models: false,
            agent_home: String::new(),
            choosing: None,
            reading: None,
            is_overlaid: false,
            edits_until: 0,
            notice: None,
            overrides: TurnStartParams::default(),
            searched: None,
            marks_pastes: false,
            last_key: None,
            is_focused: true,
            quits_until: 0,
            printed: Vec::new(),
            effects: VecDeque::new(),
            calls: Calls::default(),
            environment,
        }
    }

    /// Returns the meaning of colours.
    #[must_use]
    pub fn palette(&self) -> Palette {
        self.palette
    }

    /// Returns the settings of the user's shell.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns whether the first thread is still being opened.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        self.connection == Connection::Opening
            || (self.session.id.is_none() && !self.calls.is_empty())
            || self.login.is_asking()
    }

    /// Takes an event at `now` milliseconds; returns whether the frame may have changed.
    pub fn handle(&mut self, event: Event, now: u64) -> bool {
        self.now = now;
        let changed = self.take(event);
        self.overlay();
        changed
    }

    /// Has the terminal show the alternate screen while a list or a text fills it. A question comes before.
    fn overlay(&mut self) {
        let fills = self.is_unasked() && (self.reading.is_some() || self.choosing.is_some());
        let wants = fills && !self.settings.is_inline && !self.settings.is_full_screen;
        if wants != self.is_overlaid {
            self.is_overlaid = wants;
            self.effects.push_back(Effect::Overlay(wants));
        }
    }

    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::Input(input) => self.input(input),
            Event::Resized(size) => {
                self.size = size;
                true
            }
            Event::Arrived(arrival) => self.arrived(arrival),
            Event::Connected(opened) => self.connected(&opened),
            Event::Lost { why, can_return } => self.lost(&why, can_return),
            Event::Unsent(tag) => {
                let error =
                    ErrorObject::internal("there is no connection to the server".to_owned());
                self.answered(tag, Err(error));
                true
            }
            Event::History(texts) => self.set_history(texts),
            Event::Draft(draft) => {
                self.composer.restore(draft);
                self.notice("This message was not sent last time.");
                true
            }
            Event::Unopened(why) => {
                self.warning(&format!(
                    "Open the address yourself, since no browser could be started: {why}"
                ));
                true
            }
            Event::Exported(result) => self.exported(result),
            Event::Found(Found::Servers(servers)) => self.servers_found(&servers),
            Event::Found(Found::WritableByAll(folders)) => self.writable_by_all(folders),
            Event::Edited(result) => self.edited(result),
            Event::Image(source, found) => self.image_found(source, found),
            Event::Tick => self.tick(),
        }
    }

    /// The next thing to be done.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Event::Tick`] is due, in milliseconds.
    #[must_use]
    pub fn wakes_at(&self) -> Option<u64> {
        let notice = self.notice.as_ref().map(|(_, until)| *until);
        let retry = match self.connection {
            Connection::Lost { retry_at, .. } => retry_at,
            Connection::Opening | Connection::Open => None,
        };
        let late = self.choosing.as_ref().and_then(|choosing| choosing.late_at);
        [notice, retry, self.beat(), self.composer.deadline(), self.keep_at, late]
            .into_iter()
            .flatten()
            .min()
    }

    /// The frame at `now` milliseconds.
    pub fn frame(&mut self, now: u64) -> Frame {
        self.now = now;
        self.refresh_list();
        // What is printed comes when the screen is as it was.
        if self.is_unasked()
            && let Some(view) = self.filling()
        {
            return Frame { printed: Vec::new(), live: view.lines, cursor: view.cursor };
        }
        self.print_finished();
        self.hint();
        let printed = std::mem::take(&mut self.printed);
        let (live, cursor) = self.live();
        Frame { printed, live, cursor }
    }

    /// Returns whether neither the server nor the program asks anything.
    fn is_unasked(&self) -> bool {
        self.questions.is_empty() && self.dialogs.is_empty()
    }

    /// Closes what fills the screen, for the end: what it kept from being printed comes then.
    pub(crate) fn close_views(&mut self) {
        (self.choosing, self.reading) = (None, None);
    }

    /// The list or the text that fills the screen.
    fn filling(&mut self) -> Option<View> {
        let size = self.size;
        let list = self.choosing.as_ref().map(|it| it.picker.view(size.columns, size.rows));
        list.or_else(|| self.reading_view())
    }

    /// The message that was not sent.
    #[must_use]
    pub fn unsent(&self) -> Draft {
        self.written()
    }

    /// The terminal is gone: no question can be answered.
    pub fn terminal_gone(&mut self) -> Ended {
        Ended { code: 129, message: None }
    }

    /// A signal ends the process with this exit code.
    pub fn ended_by_signal(&mut self, code: u8) -> Ended {
        Ended { code, message: self.farewell() }
    }

    /// Returns the command that resumes the thread.
    fn farewell(&self) -> Option<String> {
        let id = self.session.id.as_ref().filter(|_| self.session.has_turns)?;
        Some(format!("To continue: agentd resume {id}"))
    }

    fn quit(&mut self) {
        let message = self.farewell();
        self.effects.push_back(Effect::Quit(Ended { code: 0, message }));
    }

    /// Returns the present settings for rendering cells.
    fn context(&self) -> Context {
        Context {
            columns: self.size.columns,
            palette: self.palette,
            cwd: self.session.cwd.clone().unwrap_or_else(|| self.cwd.clone()),
            opener: self.settings.opener.clone(),
            raw: self.settings.raw,
            theme: self.settings.theme.clone(),
            hide_reasoning: self.settings.hides_reasoning,
        }
    }

    fn print(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.printed.extend(lines);
    }

    /// Prints a message with a mark, wrapped, with an empty line after it.
    fn message(&mut self, mark: &'static str, style: Style, text: &str) {
        let indent = Line::plain("  ");
        for (number, text) in text.lines().enumerate() {
            let mark = if number == 0 { mark } else { "  " };
            let line = Line::new(mark, style).with(text.to_owned(), style);
            self.printed.extend(line.wrapped(self.size.columns, &indent));
        }
        self.printed.push(Line::default());
    }

    fn error(&mut self, text: &str) {
        self.message("✗ ", Palette::ERROR, text);
    }

    fn warning(&mut self, text: &str) {
        self.message("! ", Palette::WARNING, text);
    }

    fn info(&mut self, text: &str) {
        self.message("· ", Palette::QUIET, text);
    }

    /// Shows a line above the composer for some seconds.
    fn notice(&mut self, text: impl Into<String>) {
        self.notice = Some((Line::new(text.into(), Palette::QUIET), self.now + 4_000));
    }

    fn tick(&mut self) -> bool {
        if self.notice.as_ref().is_some_and(|(_, until)| self.now >= *until) {
            self.notice = None;
        }
        if let Connection::Lost { retry_at: at @ Some(_), .. } = &mut self.connection
            && at.is_some_and(|at| self.now >= at)
        {
            *at = None;
            self.effects.push_back(Effect::Reconnect);
        }
        if self.keep_at.is_some_and(|at| self.now >= at) {
            self.keep_at = None;
            self.effects.push_back(Effect::Keep(self.written()));
        }
        self.show_late_rows();
        self.composer.tick(self.now);
        true
    }

    /// Keys that follow each other at once are a paste only in a terminal that does not mark pastes.
    fn marks_pastes(&mut self, marks_pastes: bool) {
        self.marks_pastes = marks_pastes;
        let disabled = marks_pastes || self.settings.disable_paste_burst;
        self.composer.set_paste_burst_disabled(disabled);
    }

    fn input(&mut self, input: Input) -> bool {
        if self.holds(&input) {
            return false;
        }
        match input {
            Input::Key(key) => self.key(key),
            Input::Paste(text) => {
                self.marks_pastes(true);
                self.pasted(text);
            }
            Input::Focus(is_focused) => {
                self.is_focused = is_focused;
                return false;
            }
            Input::Reply(Reply::Background(r, g, b)) => {
                let brightness = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b);
                self.palette.light = brightness > 127_500;
            }
            Input::Reply(Reply::Bracketed(marks_pastes)) => self.marks_pastes(marks_pastes),
            Input::Reply(_) => return false,
        }
        true
    }
}
