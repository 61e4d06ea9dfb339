//! Answers to our calls, and the connection's beginning and end.

use jsonrpc::ErrorObject;
use protocol::{
    ConfigReadParams, ConfigReadResponse, InitializeResponse, SandboxPolicy, SortDirection, Thread,
    ThreadListCwdFilter, ThreadListParams, ThreadListResponse, ThreadSortKey, ThreadStartResponse,
    TurnStartResponse,
};
use serde_json::{Value, json};

use crate::app::status::detail;
use crate::app::then::Then;
use crate::app::{App, Connection, Effect, StartThread};
use crate::highlight;
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
            self.call_with("thread/resume", json!({ "threadId": id }), Then::Reopen);
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
        self.call::<protocol::ConfigRead>(&params, Then::Configure);
    }

    /// Opens the thread of the start, unless that was done.
    fn begin(&mut self) {
        if self.session.id.is_none()
            && !std::mem::replace(&mut self.has_begun, true)
            && let Some(start) = self.start.clone()
        {
            self.open_thread(start.thread, start.overrides);
        }
    }

    /// Opens the thread of the start.
    pub(super) fn open_thread(&mut self, thread: StartThread, overrides: Value) {
        let with = |id: Option<String>| {
            let mut params = if overrides.is_object() { overrides.clone() } else { json!({}) };
            if let Some(id) = id {
                params["threadId"] = Value::String(id);
            }
            params
        };
        match thread {
            StartThread::New => self.call_with("thread/start", with(None), Then::Open),
            StartThread::Resume(id) => {
                self.call_with("thread/resume", with(Some(id)), Then::Reopen);
            }
            StartThread::Fork(id) => self.call_with("thread/fork", with(Some(id)), Then::Reopen),
            StartThread::Choose => self.choose_thread(),
            StartThread::Latest => self.find_latest("thread/resume"),
            StartThread::ForkLatest => self.find_latest("thread/fork"),
        }
    }

    fn find_latest(&mut self, method: &'static str) {
        let params = ThreadListParams {
            limit: Some(1),
            sort_key: Some(ThreadSortKey::UpdatedAt),
            sort_direction: Some(SortDirection::Desc),
            cwd: Some(ThreadListCwdFilter::One(self.cwd.to_string_lossy().into_owned())),
            ..ThreadListParams::default()
        };
        self.call::<protocol::ThreadList>(&params, Then::Latest(method));
    }

    pub(super) fn lost(&mut self, why: &str, can_return: bool) -> bool {
        self.keep_unanswered();
        self.dialogs.reset();
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

    pub(super) fn answered(&mut self, tag: u64, result: Result<Value, ErrorObject>) {
        let Some(then) = self.calls.remove(&tag) else { return };
        match (then, result) {
            (Then::Run, result) => {
                if let Some(then) = self.dialogs.answered(tag) {
                    then(self, result);
                }
            }
            (Then::Configure, Ok(value)) => match serde_json::from_value(value) {
                Ok(config) => self.configure(&config),
                Err(error) => self.unconfigured(&error.to_string()),
            },
            (then @ (Then::Open | Then::Reopen | Then::ReopenWith(_)), Ok(value)) => {
                match serde_json::from_value(value) {
                    Ok(opened) => self.opened(opened, !matches!(then, Then::Open)),
                    Err(error) => self.error(&format!("the thread cannot be shown: {error}")),
                }
                if let Then::ReopenWith(text) = then {
                    self.put_back(&text);
                }
            }
            (Then::List(listing), Ok(value)) => self.listed(listing, value),
            (Then::Turns, Ok(value)) => match serde_json::from_value(value) {
                Ok(page) => self.turns(page),
                Err(error) => self.error(&format!("the turns cannot be shown: {error}")),
            },
            (Then::Latest(method), Ok(value)) => self.latest(method, value),
            (Then::Turn(_), Ok(value)) => {
                // The notification may be later than the answer, and the next key earlier than both.
                if let Ok(TurnStartResponse { turn }) = serde_json::from_value(value) {
                    self.turn_started(&turn);
                }
            }
            (Then::Steer(_) | Then::Done(_), Ok(_)) => {}
            (Then::Files(token), Ok(value)) => self.found(token, value),
            (Then::Skills, Ok(value)) => self.set_skills(&value),
            (Then::UndoPlanned, Ok(value)) => self.undo_planned(&value),
            (Then::Undone { turns, text }, Ok(value)) => self.undone(&value, turns, text),
            (Then::Show(text), Ok(value)) => self.info(&text(&value)),
            (then, Err(error)) => self.refused(then, &error),
        }
    }

    fn refused(&mut self, then: Then, error: &ErrorObject) {
        let what = match then {
            Then::Configure => return self.unconfigured(&error.message),
            // It got the refusal.
            Then::Run => return,
            Then::List(listing) => return self.unlisted(listing, &error.message),
            Then::Turns => {
                self.error(&format!("The earlier turns cannot be read: {}", error.message));
                return self.loaded();
            }
            Then::Open | Then::Reopen | Then::ReopenWith(_) | Then::Latest(_) => {
                let message = format!("The thread cannot be opened: {}", error.message);
                // The same file is the reason, mostly.
                let unread = self.unread_config.take();
                self.report_unread(unread.filter(|why| *why != error.message));
                if self.session.id.is_some() {
                    return self.error(&message);
                }
                self.effects.push_back(Effect::Quit(Ended { code: 1, message: Some(message) }));
                return;
            }
            Then::Turn(draft) => {
                self.session.turn = None;
                self.give_back(vec![draft]);
                "The message was not sent"
            }
            // The turn has just ended: the message starts the next one.
            Then::Steer(draft) if self.session.turn.is_none() => return self.start_turn(draft),
            Then::Steer(draft) => {
                self.wait_for_end(draft);
                self.notice("The turn takes no more input: the message waits for its end.");
                return;
            }
            // A search that the next one replaced.
            Then::Files(_) => return,
            Then::Skills => "The skills cannot be listed",
            Then::UndoPlanned | Then::Undone { .. } => "Nothing was taken back",
            Then::Done(what) => what,
            Then::Show(_) => "The server refused",
        };
        self.error(&format!("{what}: {}", error.message));
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
        self.settings.read(&read.config);
        self.login.read(&read.config);
        self.notices.read(&read.config);
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

    fn latest(&mut self, method: &'static str, value: Value) {
        let found: Option<Thread> = serde_json::from_value(value)
            .ok()
            .and_then(|list: ThreadListResponse| list.data.into_iter().next());
        let overrides =
            self.start.as_ref().map(|start| start.overrides.clone()).unwrap_or_default();
        match (found, method) {
            (None, _) => {
                self.notice("There is no earlier thread of this folder: this is a new one.");
                self.open_thread(StartThread::New, overrides);
            }
            (Some(thread), "thread/fork") => {
                self.open_thread(StartThread::Fork(thread.id), overrides);
            }
            (Some(thread), _) => self.open_thread(StartThread::Resume(thread.id), overrides),
        }
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
        session.effort = reasoning_effort.map(|effort| word(&effort));
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
            self.overrides.remove("collaborationMode");
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
fn word(value: &impl serde::Serialize) -> String {
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
