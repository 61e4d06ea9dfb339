//! The state of the program: its parts, each the owner of its own, and what all flows do with them. A flow is a
//! module of functions over it.

use std::path::Path;

use jsonrpc::{ErrorObject, Method};
use protocol::{ConfigBatchWriteParams, ConfigEdit, MergeStrategy};
use serde_json::Value;

use crate::app::acknowledged::Notices;
use crate::app::asks::Asks;
use crate::app::beginning::Beginning;
use crate::app::credentials::Login;
use crate::app::dialogs::DialogId;
use crate::app::events::{Effect, Ended};
use crate::app::filling::Filling;
use crate::app::first_start::FirstStart;
use crate::app::folder_trust::Trust;
use crate::app::outbox::Outbox;
use crate::app::output::Output;
use crate::app::own_prompts::OwnPrompts;
use crate::app::pending_images::PendingImages;
use crate::app::server::Server;
use crate::app::settings::{Environment, Settings};
use crate::app::writing::Writing;
use crate::ask::Ask;
use crate::context::{Context, MAX_CHANGE_ROWS};
use crate::palette::Palette;
use crate::session::Session;
use crate::text::Line;

/// The program.
#[derive(Debug)]
pub struct App {
    pub(super) environment: Environment,
    pub(super) settings: Settings,
    /// Milliseconds since the start.
    pub(super) now: u64,
    pub(super) beginning: Beginning,
    pub(super) server: Server<Self>,
    pub(super) session: Session,
    pub(super) writing: Writing,
    pub(super) own_prompts: OwnPrompts,
    pub(super) images: PendingImages,
    pub(super) outbox: Outbox,
    pub(super) asks: Asks<Self>,
    pub(super) filling: Filling,
    pub(super) login: Login,
    pub(super) trust: Trust<Self>,
    pub(super) first_start: FirstStart,
    pub(super) notices: Notices,
    pub(super) output: Output,
}

impl App {
    /// Calls a method; `then` takes the answer, unless the connection is lost before it comes.
    pub(super) fn call<M: Method>(
        &mut self,
        params: &M::Params,
        then: impl FnOnce(&mut Self, Result<M::Result, ErrorObject>) + 'static,
    ) {
        match serde_json::to_value(params) {
            Ok(params) => {
                let tag = self.server.calls_mut().add::<M>(then);
                self.output.emit(Effect::Call { tag, method: M::NAME, params });
            }
            Err(error) => then(self, Err(ErrorObject::internal(format!("{}: {error}", M::NAME)))),
        }
    }

    /// Calls a method whose result is of no interest. A refusal is printed: `what` did not happen.
    pub(super) fn call_or_report<M: Method>(&mut self, params: &M::Params, what: &'static str) {
        self.call::<M>(params, move |app, result| {
            if let Err(error) = result {
                app.error(&format!("{what}: {}", error.message));
            }
        });
    }

    /// Calls a method and prints what `text` makes of its result.
    pub(super) fn call_and_show<M: Method>(
        &mut self,
        params: &M::Params,
        text: impl FnOnce(M::Result) -> String + 'static,
    ) {
        self.call::<M>(params, |app, result| match result {
            Ok(result) => app.info(&text(result)),
            Err(error) => app.error(&format!("The server refused: {}", error.message)),
        });
    }

    /// Stores values in the user's configuration, all of them or none, and goes on with the path of the file,
    /// or with why they were not stored. Null removes a key. A value that another source overrides is stored,
    /// and a warning says so.
    pub(super) fn store_settings(
        &mut self,
        values: Vec<(String, Value)>,
        then: impl FnOnce(&mut Self, Result<String, String>) + 'static,
    ) {
        let edit = |(key_path, value)| ConfigEdit {
            key_path,
            value,
            merge_strategy: MergeStrategy::Replace,
        };
        let params = ConfigBatchWriteParams {
            edits: values.into_iter().map(edit).collect(),
            file_path: None,
            expected_version: None,
            reload_user_config: true,
        };
        self.call::<protocol::ConfigBatchWrite>(&params, |app, result| {
            let stored = result.map(|written| {
                if let Some(overridden) = &written.overridden_metadata {
                    app.warning(&overridden.message);
                }
                app.folder(&written.file_path)
            });
            then(app, stored.map_err(|error| error.message));
        });
    }

    /// Opens a dialog that the user asked for, or that the last key led to: before all others.
    pub(super) fn open_dialog(
        &mut self,
        ask: Ask,
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) -> DialogId {
        self.asks.dialogs_mut().open(ask, Box::new(then), None)
    }

    /// As [`App::open_dialog`], with a function that shows what the checked items would look like.
    pub(super) fn open_checklist(
        &mut self,
        ask: Ask,
        preview: fn(&mut Self, Vec<String>),
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) {
        self.asks.dialogs_mut().open(ask, Box::new(then), Some(preview));
    }

    /// Opens a dialog by itself: after the others, and its first key has to be meant for it.
    pub(super) fn open_dialog_later(
        &mut self,
        ask: Ask,
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) {
        let is_writing = !self.writing.composer().is_empty();
        let ask = ask.guarded(self.now, self.writing.last_key(), is_writing);
        self.asks.dialogs_mut().open_later(ask, Box::new(then));
    }

    /// Prints the places that were explored since something else was printed.
    pub(super) fn print_explored(&mut self) {
        let explored = std::mem::take(&mut self.session.explored);
        if !explored.is_empty() {
            let line = explored.line(&self.context());
            self.output.print([line, Line::default()]);
        }
    }

    pub(super) fn print(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.print_explored();
        self.output.print(lines);
    }

    pub(super) fn error(&mut self, text: &str) {
        self.print_explored();
        self.output.message("✗ ", Palette::ERROR, text);
    }

    pub(super) fn warning(&mut self, text: &str) {
        self.print_explored();
        self.output.message("! ", Palette::WARNING, text);
    }

    pub(super) fn info(&mut self, text: &str) {
        self.print_explored();
        self.output.message("· ", Palette::QUIET, text);
    }

    /// Shows a line above the composer for some seconds.
    pub(super) fn notice(&mut self, text: impl Into<String>) {
        self.output.notice(text.into(), self.now);
    }

    /// Informs the user, who looks at something else.
    pub(super) fn notify(&mut self, event: &str, text: &str) {
        if self.output.is_focused() || !self.settings.notifications.includes(event) {
            return;
        }
        let bytes = match self.settings.rings {
            true => b"\x07".to_vec(),
            false => format!("\x1b]9;{}\x1b\\", visible::line(text)).into_bytes(),
        };
        self.output.emit(Effect::Write(bytes));
    }

    /// The id of the thread; without one, a notice says so.
    pub(super) fn thread_id(&mut self) -> Option<String> {
        let id = self.session.id.clone();
        if id.is_none() {
            self.notice("The thread is still being opened.");
        }
        id
    }

    pub(super) fn is_shown(&self, thread: &str) -> bool {
        self.session.id.as_deref() == Some(thread)
    }

    /// The folder of the thread, or that of the start while there is no thread.
    pub(super) fn cwd(&self) -> &Path {
        self.session.cwd.as_deref().unwrap_or_else(|| self.beginning.cwd())
    }

    /// As [`App::cwd`], for a message of the protocol.
    pub(super) fn working_folder(&self) -> String {
        self.cwd().to_string_lossy().into_owned()
    }

    /// A folder as people write it.
    pub(super) fn folder(&self, path: &str) -> String {
        let home = self.environment.home.as_ref().and_then(|home| home.to_str());
        match home.and_then(|home| path.strip_prefix(home)) {
            Some("") => "~".to_owned(),
            Some(rest) if rest.starts_with('/') => format!("~{rest}"),
            _ => path.to_owned(),
        }
    }

    /// The settings that cells are rendered with now.
    pub(super) fn context(&self) -> Context {
        Context {
            columns: self.output.columns(),
            palette: self.output.palette(),
            cwd: self.cwd().to_owned(),
            opener: self.settings.opener.clone(),
            raw: self.settings.raw,
            theme: self.settings.theme.clone(),
            hide_reasoning: self.settings.hides_reasoning,
            change_rows: MAX_CHANGE_ROWS,
        }
    }

    /// The duration of something, in milliseconds, where that is shown. `before_ms` is how long it had
    /// lasted when it was first seen.
    pub(super) fn elapsed(&self, started_ms: u64, before_ms: u64) -> Option<u64> {
        let elapsed = || self.now.saturating_sub(started_ms).saturating_add(before_ms);
        self.settings.animations.then(elapsed)
    }

    /// Has the message kept in the agent's home, after a time without changes.
    pub(super) fn keep_soon(&mut self) {
        self.writing.keep_soon(self.now);
    }

    /// Keys that follow each other at once are a paste only in a terminal that does not mark pastes.
    pub(super) fn marks_pastes(&mut self, marks_pastes: bool) {
        self.writing.set_marks_pastes(marks_pastes, self.settings.disable_paste_burst);
    }

    pub(super) fn quit(&mut self) {
        let message = self.farewell();
        self.output.emit(Effect::Quit(Ended { code: 0, message }));
    }

    /// The command that comes back to the thread.
    pub(super) fn farewell(&self) -> Option<String> {
        let id = self.session.id.as_ref().filter(|_| self.session.has_turns)?;
        Some(format!("To continue: agentd resume {id}"))
    }
}

/// A value of the protocol as one word.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(members)) => members.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}
