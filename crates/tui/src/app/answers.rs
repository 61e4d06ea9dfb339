//! Answers to our calls, and the connection's beginning and end.

use jsonrpc::{ErrorObject, Method};
use protocol::{
    ConfigReadParams, ConfigReadResponse, InitializeResponse, OpeningOverrides, SandboxPolicy,
    SortDirection, ThreadForkParams, ThreadListCwdFilter, ThreadListParams, ThreadResumeParams,
    ThreadSortKey, ThreadStartParams, ThreadStartResponse,
};
use serde_json::Value;

use crate::app::configuration::Configuration;
use crate::app::status::detail;
use crate::app::{App, Connection, Effect, StartThread};
use crate::highlight;
use crate::link::Tag;
use crate::run::Ended;
use crate::session::Session;

impl App {
    pub(super) fn connected(&mut self, opened: &InitializeResponse) -> bool {
        self.agent_home.clone_from(&opened.agent_home);
        let was_lost = matches!(self.connection, Connection::Lost { .. });
        self.connection = Connection::Open;
        if was_lost {
            self.notice("Connected again.");
        }
        self.has_begun = false;
        self.read_configuration();
        // The questions come again; those that do not are answered.
        self.questions.clear();
        if let Some(id) = self.session.id.clone() {
            self.resume_thread(id, OpeningOverrides::default());
        }
        true
    }

    /// Asks for the configuration. The first thread is opened when it is known.
    pub(super) fn read_configuration(&mut self) {
        let params = ConfigReadParams {
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            include_defaults: true,
            include_layers: true,
        };
        self.is_configuring = true;
        self.call::<protocol::ConfigRead>(&params, |app, result| match result {
            Ok(read) => app.configure(&read),
            Err(error) => app.unconfigured(&error.message),
        });
    }

    /// Opens the thread of the start, unless that was done.
    fn begin(&mut self) {
        if self.session.id.is_none()
            && !std::mem::replace(&mut self.has_begun, true)
            && let Some(start) = self.start.clone()
        {
            self.open_first(start.thread, start.overrides);
        }
    }

    /// Opens the thread of the start.
    pub(super) fn open_first(&mut self, thread: StartThread, overrides: OpeningOverrides) {
        match thread {
            StartThread::New => self.start_thread(&ThreadStartParams::from(overrides)),
            StartThread::Resume(id) => self.resume_thread(id, overrides),
            StartThread::Fork(id) => self.fork_thread(id, overrides),
            StartThread::Choose => self.choose_thread(),
            StartThread::Latest => self.find_latest(overrides, Self::resume_thread),
            StartThread::ForkLatest => self.find_latest(overrides, Self::fork_thread),
        }
    }

    /// Opens a new thread.
    pub(super) fn start_thread(&mut self, params: &ThreadStartParams) {
        self.open::<protocol::ThreadStart>(params, false, None);
    }

    /// Opens a thread that exists.
    pub(super) fn resume_thread(&mut self, thread_id: String, overrides: OpeningOverrides) {
        let params = ThreadResumeParams { thread_id, ..ThreadResumeParams::from(overrides) };
        self.open::<protocol::ThreadResume>(&params, true, None);
    }

    /// Opens a copy of a thread.
    pub(super) fn fork_thread(&mut self, thread_id: String, overrides: OpeningOverrides) {
        let params = ThreadForkParams { thread_id, ..ThreadForkParams::from(overrides) };
        self.open::<protocol::ThreadFork>(&params, true, None);
    }

    /// Opens a thread. If it may have turns, they are read afterwards; `text` is to be edited in it.
    pub(super) fn open<M: Method<Result = ThreadStartResponse>>(
        &mut self,
        params: &M::Params,
        has_turns: bool,
        text: Option<String>,
    ) {
        self.call::<M>(params, move |app, result| match result {
            Ok(opened) => {
                app.opened(opened, has_turns);
                if let Some(text) = text {
                    app.put_back(&text);
                }
            }
            Err(error) => app.unopened(&error.message),
        });
    }

    /// Opens the latest thread of the folder with `open`, or a new one.
    fn find_latest(
        &mut self,
        overrides: OpeningOverrides,
        open: fn(&mut Self, String, OpeningOverrides),
    ) {
        let params = ThreadListParams {
            limit: Some(1),
            sort_key: Some(ThreadSortKey::UpdatedAt),
            sort_direction: Some(SortDirection::Desc),
            cwd: Some(ThreadListCwdFilter::One(self.cwd.to_string_lossy().into_owned())),
            ..ThreadListParams::default()
        };
        self.call::<protocol::ThreadList>(&params, move |app, result| match result {
            Ok(list) => match list.data.into_iter().next() {
                Some(thread) => open(app, thread.id, overrides),
                None => {
                    app.notice("There is no earlier thread of this folder: this is a new one.");
                    app.start_thread(&ThreadStartParams::from(overrides));
                }
            },
            Err(error) => app.unopened(&error.message),
        });
    }

    pub(super) fn lost(&mut self, why: &str, can_return: bool) -> bool {
        self.calls.reset();
        self.sent.connection_lost();
        self.dialogs.close_all();
        self.login.reset();
        self.trust.reset();
        if !can_return {
            let message = format!("{why}. The thread is stored.");
            self.effects.push_back(Effect::Quit(Ended { code: 1, message: Some(message) }));
            return true;
        }
        let attempts = match self.connection {
            Connection::Lost { attempts, .. } => attempts + 1,
            Connection::Opening | Connection::Open => {
                self.warning(&format!("{why}; connecting again"));
                0
            }
        };
        let wait = 250 << attempts.min(5);
        self.connection = Connection::Lost { attempts, retry_at: Some(self.now + wait) };
        true
    }

    pub(super) fn answered(&mut self, tag: Tag, result: Result<Value, ErrorObject>) {
        if let Some(then) = self.calls.answered(tag) {
            then(self, result);
        }
    }

    fn unopened(&mut self, why: &str) {
        let message = format!("The thread cannot be opened: {why}");
        // The same file is the reason, mostly.
        let unread = self.unread_config.take();
        self.report_unread(unread.filter(|unread| unread != why));
        if self.session.id.is_some() {
            return self.error(&message);
        }
        self.effects.push_back(Effect::Quit(Ended { code: 1, message: Some(message) }));
    }

    fn unconfigured(&mut self, why: &str) {
        self.is_configuring = false;
        // Said when it is known whether the thread fails for the same reason.
        self.unread_config = Some(why.to_owned());
        self.begin();
    }

    fn report_unread(&mut self, why: Option<String>) {
        if let Some(why) = why {
            self.error(&format!("The configuration cannot be read: {why}"));
        }
    }

    fn configure(&mut self, read: &ConfigReadResponse) {
        self.is_configuring = false;
        let was_full = self.settings.is_full_screen;
        let config = Configuration::new(&read.config);
        self.settings.read(config);
        self.login.read(config);
        self.notices.read(config);
        if let Some(name) = self.settings.theme.take() {
            match highlight::theme(&name) {
                Ok(_) => self.settings.theme = Some(name),
                Err(error) => self.warning(&format!("tui.theme: {error}")),
            }
        }
        let items = &self.settings.status_line;
        let unknown: Vec<_> = items.iter().filter(|item| detail(item).is_none()).collect();
        if !unknown.is_empty() {
            let text = format!(
                "tui.status_line has no items {unknown:?}; /statusline lists those that there are"
            );
            self.warning(&text);
        }
        self.marks_pastes(self.marks_pastes);
        if self.settings.is_full_screen != was_full {
            self.effects.push_back(Effect::Alternate(self.settings.is_full_screen));
        }
        self.check_trust(read, self.cwd.to_string_lossy().into_owned(), Self::begin);
    }

    /// Shows a thread: the one that was opened, or the same one after a reconnection.
    fn opened(&mut self, opened: ThreadStartResponse, has_turns: bool) {
        let ThreadStartResponse {
            thread,
            model,
            cwd,
            sandbox,
            approval_policy,
            reasoning_effort,
            model_provider,
            ..
        } = opened;
        let unread = self.unread_config.take();
        self.report_unread(unread);
        let is_same = self.session.id.as_ref() == Some(&thread.id);
        if !is_same {
            self.session = Session::default();
            self.questions.clear();
            self.greet(&model, &cwd, &thread, has_turns);
        }
        let session = &mut self.session;
        session.id = Some(thread.id);
        session.name = thread.name;
        session.model = model;
        session.cwd = Some(cwd.into());
        session.branch = thread.git_info.and_then(|git| git.branch);
        session.effort = reasoning_effort;
        session.approval = word(&approval_policy);
        session.sandbox = sandbox_word(&sandbox).to_owned();
        let folder = session.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        session.left = session.turn.take().and_then(|turn| turn.id);
        session.open.retain(|open| open.running.has_begun());
        session.open.iter_mut().for_each(|open| open.is_confirmed = false);
        if has_turns {
            self.load_turns(None);
            self.join(&thread.turns);
        }
        self.load_skills();
        if !is_same {
            self.overrides.collaboration_mode = None;
            self.warn_of_sandbox(&sandbox);
        }
        if let Some(folder) = folder {
            self.check_trust_of(&folder);
        }
        let prompt = self.start.take().and_then(|start| start.prompt);
        self.check_login(&model_provider, prompt);
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

fn sandbox_word(policy: &SandboxPolicy) -> &'static str {
    match policy {
        SandboxPolicy::DangerFullAccess {} => "full access",
        SandboxPolicy::ReadOnly { .. } => "read only",
        SandboxPolicy::WorkspaceWrite { .. } => "writes in the folder",
        SandboxPolicy::ExternalSandbox { .. } => "sandboxed from outside",
    }
}
