//! Opening, listing, closing and deleting sessions. A session is a thread of the server, and its id the
//! thread's.

use std::path::Path;

use jsonrpc::{ErrorObject, Event, Notification, RequestId};
use protocol::{
    ModelListParams, SkillsListParams, SkillsListResponse, SortDirection, Thread, ThreadIdParams,
    ThreadListCwdFilter, ThreadListParams, ThreadReadParams, ThreadResumeParams, ThreadSortKey,
    ThreadSourceKind, ThreadStartParams, ThreadStartResponse, ThreadStatus, ThreadTurnsListParams,
    ThreadTurnsListResponse, Turn, TurnItemsView, TurnStartedNotification, TurnStatus,
};
use serde_json::json;

use super::{Adapter, Running, for_editor};
use crate::map::settings::Settings;
use crate::map::{commands, mcp};
use crate::schema::session::{
    ListSessionsRequest, ListSessionsResponse, OpenSessionRequest, OpenSessionResponse, Place,
    SessionIdRequest, SessionInfo, StopReason,
};
use crate::schema::{Version, code, v2};
use crate::session::{Held, Session};

/// Sessions of a page.
const PAGE: u32 = 50;
/// Turns of a page of the history.
const TURNS: u32 = 10;
/// Longest title, in characters.
const MAX_TITLE: usize = 200;

/// A request that opens a session.
struct Opening {
    id: RequestId,
    kind: Kind,
    cwd: String,
    folders: Vec<String>,
    /// The turn in progress, as far as it had come when the session was opened.
    live: Vec<Turn>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    New,
    /// With the history.
    Load,
    /// Without it.
    Resume,
}

impl Adapter {
    pub(super) fn new_session(&mut self, id: &RequestId, place: Place) -> Result<(), ErrorObject> {
        let opening = opening(id, Kind::New, &place)?;
        let config = mcp::overrides(&place.mcp_servers).map_err(ErrorObject::invalid_params)?;
        let params = ThreadStartParams {
            cwd: Some(place.cwd),
            config,
            model: self.options.model.clone(),
            model_provider: self.options.model_provider.clone(),
            ..ThreadStartParams::default()
        };
        let provider = self.options.model_provider.clone();
        self.when_logged_in(id, provider, move |this| {
            this.call::<protocol::ThreadStart>(&params, |this, result| {
                this.opened(opening, result);
            });
        });
        Ok(())
    }

    pub(super) fn load_session(
        &mut self,
        id: &RequestId,
        params: OpenSessionRequest,
    ) -> Result<(), ErrorObject> {
        self.open_session(id, Kind::Load, params)
    }

    pub(super) fn resume_session(
        &mut self,
        id: &RequestId,
        params: OpenSessionRequest,
    ) -> Result<(), ErrorObject> {
        self.open_session(id, Kind::Resume, params)
    }

    fn open_session(
        &mut self,
        id: &RequestId,
        kind: Kind,
        params: OpenSessionRequest,
    ) -> Result<(), ErrorObject> {
        let OpenSessionRequest { session_id, place } = params;
        let opening = opening(id, kind, &place)?;
        let config = mcp::overrides(&place.mcp_servers).map_err(ErrorObject::invalid_params)?;
        if self.sessions.get(&session_id).is_some_and(|session| session.turn.is_some()) {
            let message = "a turn of this session is running: wait for its end, or cancel it";
            return Err(ErrorObject::invalid_request(message));
        }
        let running = Running::Opening(session_id.clone());
        if self.requests.values().any(|other| *other == running) {
            let message = "the session is being opened: wait for the answer, or cancel it";
            return Err(ErrorObject::invalid_request(message));
        }
        self.requests.insert(id.clone(), running);
        let read = ThreadReadParams { thread_id: session_id.clone(), include_turns: false };
        let params = ThreadResumeParams {
            thread_id: session_id,
            cwd: Some(place.cwd),
            config,
            // Without those that are over: they are read in pages.
            exclude_turns: false,
            ..ThreadResumeParams::default()
        };
        self.call::<protocol::ThreadRead>(&read, move |this, result| {
            let thread = match result {
                Ok(read) => read.thread,
                Err(error) => return this.refuse(&opening.id, &for_editor(error)),
            };
            let is_active = matches!(thread.status, ThreadStatus::Active { .. });
            if is_active && !is_same_folder(&thread.cwd, &opening.cwd) {
                return this.refuse(&opening.id, &elsewhere(&thread.cwd, &opening.cwd));
            }
            let id = opening.id.clone();
            this.when_logged_in(&id, Some(thread.model_provider), move |this| {
                this.call::<protocol::ThreadResume>(&params, |this, result| {
                    this.opened(opening, result);
                });
            });
        });
        Ok(())
    }

    fn opened(&mut self, mut opening: Opening, result: Result<ThreadStartResponse, ErrorObject>) {
        let mut opened = match result {
            Ok(opened) => opened,
            Err(error) => return self.refuse(&opening.id, &for_editor(error)),
        };
        let id = opened.thread.id.clone();
        let before = self.sessions.get(&id).map(|session| session.settings.clone());
        let is_cancelled = !self.is_running(&opening.id);
        if is_cancelled || !is_same_folder(&opened.cwd, &opening.cwd) {
            // It is loaded already, by a turn or another client.
            self.refuse(&opening.id, &elsewhere(&opened.cwd, &opening.cwd));
            if before.is_none() {
                self.unsubscribe(id);
            }
            return;
        }
        opening.live = std::mem::take(&mut opened.thread.turns);
        opening.live.retain(|turn| turn.status == TurnStatus::InProgress);
        // What the server reports about it from now on is shown after the answer.
        let settings = Settings::new(&opened, Vec::new(), &opening.folders);
        let mut session = Session::new(opened.cwd.clone(), settings);
        let request = opening.id.clone();
        session.held = Some(Held { request, events: Vec::new(), notices: Vec::new() });
        self.sessions.insert(id.clone(), session);
        let params = ModelListParams { limit: Some(100), ..ModelListParams::default() };
        self.call::<protocol::ModelList>(&params, move |this, result| {
            let models = match result {
                Ok(list) => list.data,
                Err(error) => return this.fail_opening(&opening, &id, &error),
            };
            if !this.is_opening(&opening, &id) {
                return;
            }
            if let Some(session) = this.sessions.get_mut(&id) {
                session.settings = Settings::new(&opened, models, &opening.folders);
                if let Some(before) = &before {
                    session.settings.choose_as(before);
                }
            }
            match opening.kind {
                Kind::Load => this.load_turns(opening, id, None),
                Kind::New | Kind::Resume => {
                    for turn in &opening.live {
                        this.join_turn(&id, turn);
                    }
                    this.ready(&opening, &id);
                }
            }
        });
    }

    /// Returns whether a session is still being opened by this request: it may have been cancelled,
    /// or closed.
    fn is_opening(&self, opening: &Opening, id: &str) -> bool {
        let held = self.sessions.get(id).and_then(|session| session.held.as_ref());
        held.is_some_and(|held| held.request == opening.id)
    }

    fn fail_opening(&mut self, opening: &Opening, id: &str, error: &ErrorObject) {
        self.refuse(&opening.id, error);
        if self.is_opening(opening, id) {
            self.close(id);
        }
    }

    /// Cancels a request that opens a session.
    pub(super) fn cancel_opening(&mut self, request: &RequestId, id: &str) {
        self.refuse(request, &ErrorObject::new(code::CANCELLED, "the request was cancelled"));
        let held = self.sessions.get(id).and_then(|session| session.held.as_ref());
        if held.is_some_and(|held| held.request == *request) {
            self.close(id);
        }
    }

    /// Shows the history, a page after the other.
    fn load_turns(&mut self, opening: Opening, id: String, cursor: Option<String>) {
        let params = ThreadTurnsListParams {
            thread_id: id.clone(),
            cursor,
            limit: Some(TURNS),
            sort_direction: Some(SortDirection::Asc),
            items_view: Some(TurnItemsView::Full),
        };
        self.call::<protocol::ThreadTurnsList>(&params, move |this, result| {
            let ThreadTurnsListResponse { data, next_cursor, .. } = match result {
                Ok(page) => page,
                Err(error) => return this.fail_opening(&opening, &id, &for_editor(error)),
            };
            if !this.is_opening(&opening, &id) {
                return;
            }
            let later = this.turns_begun(&id);
            let is_over = |turn: &&Turn| {
                !later.contains(&turn.id) && opening.live.iter().all(|live| live.id != turn.id)
            };
            for turn in data.iter().filter(is_over) {
                this.show_turn(&id, turn);
            }
            match next_cursor {
                Some(cursor) => this.load_turns(opening, id, Some(cursor)),
                None => {
                    for turn in &opening.live {
                        this.show_turn(&id, turn);
                    }
                    this.ready(&opening, &id);
                }
            }
        });
    }

    /// The turns that began while a session was being opened: what is held has all of them.
    fn turns_begun(&self, id: &str) -> Vec<String> {
        let held = self.sessions.get(id).and_then(|session| session.held.as_ref());
        let begun = |event: &Event| match event {
            Event::Notification { method, params, .. } if method == protocol::TurnStarted::NAME => {
                // One that cannot be read is reported when it is its turn.
                serde_json::from_str::<TurnStartedNotification>(params.get())
                    .ok()
                    .map(|it| it.turn.id)
            }
            _ => None,
        };
        held.into_iter().flat_map(|held| held.events.iter().filter_map(begun)).collect()
    }

    /// Answers the request; what was held back follows, and the commands.
    fn ready(&mut self, opening: &Opening, id: &str) {
        if !self.is_opening(opening, id) {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let modes = session.settings.modes();
        let config_options = session.settings.options();
        let cwd = session.cwd.clone();
        let held = session.held.take();
        let is_new = opening.kind == Kind::New;
        match self.version {
            Version::First => {
                let session_id = is_new.then(|| id.to_owned());
                let response = OpenSessionResponse { session_id, modes, config_options };
                self.answer(&opening.id, &response);
            }
            Version::Second => {
                if !is_new {
                    self.show_state(id);
                }
                let config_options = v2::config_options(&config_options);
                let response = v2::Opened { session_id: is_new.then_some(id), config_options };
                self.answer(&opening.id, &response);
            }
        }
        if let Some(Held { events, notices, .. }) = held {
            events.into_iter().for_each(|event| self.event(event));
            notices.into_iter().for_each(|notice| self.notice(id, notice));
        }
        self.list_skills_of(id.to_owned(), cwd);
    }

    /// The skills have changed.
    pub(super) fn list_skills(&mut self) {
        let folders = self.sessions.iter().filter(|(_, session)| session.held.is_none());
        let folders: Vec<(String, String)> =
            folders.map(|(id, session)| (id.clone(), session.cwd.clone())).collect();
        for (id, cwd) in folders {
            self.list_skills_of(id, cwd);
        }
    }

    fn list_skills_of(&mut self, id: String, cwd: String) {
        let params = SkillsListParams { cwds: vec![cwd], ..SkillsListParams::default() };
        self.call::<protocol::SkillsList>(&params, move |this, result| {
            this.skills_listed(&id, result);
        });
    }

    fn skills_listed(&mut self, id: &str, result: Result<SkillsListResponse, ErrorObject>) {
        let skills = match result {
            Ok(listed) => commands::skills(&listed),
            Err(error) => {
                tracing::warn!(target: "acp", "the skills cannot be listed: {error}");
                Vec::new()
            }
        };
        let Some(session) = self.sessions.get_mut(id) else { return };
        let update = commands::available(&skills);
        session.skills = skills;
        self.update(id, &update);
    }

    pub(super) fn list_sessions(
        &mut self,
        id: &RequestId,
        params: ListSessionsRequest,
    ) -> Result<(), ErrorObject> {
        if let Some(cwd) = &params.cwd {
            check_folder("cwd", cwd)?;
        }
        let id = id.clone();
        let params = ThreadListParams {
            cursor: params.cursor,
            limit: Some(PAGE),
            sort_key: Some(ThreadSortKey::UpdatedAt),
            sort_direction: Some(SortDirection::Desc),
            source_kinds: Some(vec![
                ThreadSourceKind::Editor,
                ThreadSourceKind::Cli,
                ThreadSourceKind::AppServer,
            ]),
            cwd: params.cwd.map(ThreadListCwdFilter::One),
            ..ThreadListParams::default()
        };
        self.call::<protocol::ThreadList>(&params, move |this, result| match result {
            Ok(list) => {
                let sessions = list.data.iter().map(session_info).collect();
                let response = ListSessionsResponse { sessions, next_cursor: list.next_cursor };
                this.answer(&id, &response);
            }
            Err(error) => this.refuse(&id, &error),
        });
        Ok(())
    }

    pub(super) fn close_session(
        &mut self,
        id: &RequestId,
        params: SessionIdRequest,
    ) -> Result<(), ErrorObject> {
        self.session(&params.session_id)?;
        self.close(&params.session_id);
        self.answer(id, &json!({}));
        Ok(())
    }

    /// Deleting what does not exist succeeds, as the protocol asks for.
    pub(super) fn delete_session(&mut self, id: &RequestId, params: SessionIdRequest) {
        self.close(&params.session_id);
        let id = id.clone();
        let params = ThreadIdParams { thread_id: params.session_id };
        self.call::<protocol::ThreadDelete>(&params, move |this, result| {
            match result.map_err(for_editor) {
                Err(error) if error.code != code::NOT_FOUND => this.refuse(&id, &error),
                Ok(_) | Err(_) => this.answer(&id, &json!({})),
            }
        });
    }

    /// Ends the work of a session, and forgets it. Its prompt is answered: it was cancelled.
    pub(super) fn close(&mut self, id: &str) {
        self.interrupt(id);
        let Some(mut session) = self.sessions.remove(id) else { return };
        if let Some(held) = session.held.take() {
            let message = "the session was closed before it was open";
            self.refuse(&held.request, &ErrorObject::new(code::CANCELLED, message));
        }
        if let Some(turn) = session.turn.take() {
            self.end_work(id, turn, Ok(StopReason::Cancelled));
        }
        self.refuse_pending(session.pending);
        self.agents.retain(|_, session| session != id);
        self.unsubscribe(id.to_owned());
    }

    fn unsubscribe(&mut self, thread_id: String) {
        let params = ThreadIdParams { thread_id };
        self.call::<protocol::ThreadUnsubscribe>(&params, |_, result| {
            if let Err(error) = result {
                tracing::warn!(target: "acp", "thread/unsubscribe: {error}");
            }
        });
    }
}

/// # Errors
/// A folder is not absolute.
fn opening(id: &RequestId, kind: Kind, place: &Place) -> Result<Opening, ErrorObject> {
    check_folder("cwd", &place.cwd)?;
    for (at, folder) in place.additional_directories.iter().enumerate() {
        check_folder(&format!("additionalDirectories[{at}]"), folder)?;
    }
    let folders = place.additional_directories.clone();
    let cwd = place.cwd.clone();
    Ok(Opening { id: id.clone(), kind, cwd, folders, live: Vec::new() })
}

/// The error for a session whose turn works in another folder.
fn elsewhere(present: &str, wanted: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!(
        "`cwd`: the session works in {} at present, not in {}: open it with that folder",
        visible::exact_line(present),
        visible::exact_line(wanted)
    ))
}

fn check_folder(member: &str, folder: &str) -> Result<(), ErrorObject> {
    if Path::new(folder).is_absolute() {
        return Ok(());
    }
    let folder: String = folder.chars().take(200).collect();
    Err(ErrorObject::invalid_params(format!("`{member}`: `{folder}` is not an absolute path")))
}

/// Returns whether both name the same folder, but for a slash at the end.
fn is_same_folder(one: &str, other: &str) -> bool {
    Path::new(one).components().eq(Path::new(other).components())
}

fn session_info(thread: &Thread) -> SessionInfo {
    let title = thread.name.clone().or_else(|| {
        let first = thread.preview.lines().find(|line| !line.trim().is_empty())?;
        Some(first.chars().take(MAX_TITLE).collect())
    });
    let updated_at = jiff::Timestamp::from_second(thread.updated_at).ok();
    SessionInfo {
        session_id: thread.id.clone(),
        cwd: thread.cwd.clone(),
        title,
        updated_at: updated_at.map(|time| time.to_string()),
    }
}
