//! Answers to our calls, and the connection's beginning and end.

use jsonrpc::Method;
use protocol::{
    ConfigReadParams, ConfigReadResponse, InitializeResponse, OpeningOverrides, SortDirection,
    Thread, ThreadForkParams, ThreadListCwdFilter, ThreadListParams, ThreadResumeParams,
    ThreadSortKey, ThreadStartParams, ThreadStartResponse,
};

use crate::app::configuration::Configuration;
use crate::app::events::{Effect, Ended, StartThread};
use crate::app::program::App;
use crate::app::status::check_status_item;
use crate::app::{access, completion, first_question, joining, lists, login, notices, trust};
use crate::highlight;
use crate::palette::Palette;
use crate::server_queue::ServerQueue;
use crate::session::Session;
use crate::text::{Line, Style};

pub(super) fn connected(app: &mut App, opened: &InitializeResponse) -> bool {
    if app.server.connected(&opened.agent_home) {
        app.notice("Connected again.");
    }
    app.beginning.connected();
    read_configuration(app);
    // The questions come again; those that do not are answered.
    app.asks.clear_questions();
    if let Some(id) = app.session.id.clone() {
        resume_thread(app, id, OpeningOverrides::default());
    }
    true
}

/// Asks for the configuration. The first thread is opened when it is known.
pub(super) fn read_configuration(app: &mut App) {
    let params = ConfigReadParams {
        cwd: Some(app.beginning.cwd_text()),
        include_defaults: true,
        include_layers: true,
    };
    app.beginning.set_configuring(true);
    app.call::<protocol::ConfigRead>(&params, |app, result| match result {
        Ok(read) => configure(app, &read),
        Err(error) => unconfigured(app, &error.message),
    });
}

/// Opens the thread of the start, unless that was done.
fn begin(app: &mut App) {
    if app.session.id.is_none()
        && let Some((thread, overrides)) = app.beginning.begin()
    {
        open_first(app, thread, overrides);
    }
}

/// Opens the thread of the start.
fn open_first(app: &mut App, thread: StartThread, overrides: OpeningOverrides) {
    match thread {
        StartThread::New => {
            let worktree = app.beginning.worktree();
            start_thread(
                app,
                &ThreadStartParams { worktree, ..ThreadStartParams::from(overrides) },
            );
        }
        StartThread::Resume(id) => resume_thread(app, id, overrides),
        StartThread::Fork(id) => fork_thread(app, id, overrides),
        StartThread::Choose => lists::choose_thread(app),
        StartThread::Latest => find_latest(app, overrides, resume_thread),
        StartThread::ForkLatest => find_latest(app, overrides, fork_thread),
    }
}

/// Opens a new thread.
pub(super) fn start_thread(app: &mut App, params: &ThreadStartParams) {
    open::<protocol::ThreadStart>(app, params, false, None);
}

/// Opens a thread that exists.
pub(super) fn resume_thread(app: &mut App, thread_id: String, overrides: OpeningOverrides) {
    let params = ThreadResumeParams { thread_id, ..ThreadResumeParams::from(overrides) };
    open::<protocol::ThreadResume>(app, &params, true, None);
}

/// Opens a copy of a thread.
pub(super) fn fork_thread(app: &mut App, thread_id: String, overrides: OpeningOverrides) {
    let params = ThreadForkParams { thread_id, ..ThreadForkParams::from(overrides) };
    fork(app, params, None);
}

/// Opens a copy of a thread, and says so when its turns are on the screen; `text` is to be edited in it.
pub(super) fn fork(app: &mut App, params: ThreadForkParams, text: Option<String>) {
    let of_here = app.session.name.clone().filter(|_| app.is_shown(&params.thread_id));
    let origin = of_here.map_or_else(String::new, |name| format!(" {name:?}"));
    app.call::<protocol::ThreadFork>(&params.clone(), move |app, result| match result {
        Ok(response) => {
            opened(app, response, true);
            app.session.arrival = Some(format!(
                "You are in a copy{}. The original thread{origin} is unchanged: /resume {} returns \
                 to it.",
                if params.last_turn_id.is_some() { " of its beginning" } else { "" },
                params.thread_id
            ));
            if let Some(text) = text {
                app.writing.put_back(&text);
            }
        }
        Err(error) => unopened(app, &error.message),
    });
}

/// Opens a thread. If it may have turns, they are read afterwards; `text` is to be edited in it.
pub(super) fn open<M: Method<Result = ThreadStartResponse>>(
    app: &mut App,
    params: &M::Params,
    has_turns: bool,
    text: Option<String>,
) {
    app.call::<M>(params, move |app, result| match result {
        Ok(response) => {
            opened(app, response, has_turns);
            if let Some(text) = text {
                app.writing.put_back(&text);
            }
        }
        Err(error) => unopened(app, &error.message),
    });
}

/// Opens the latest thread of the folder with `open`, or a new one.
fn find_latest(
    app: &mut App,
    overrides: OpeningOverrides,
    open: fn(&mut App, String, OpeningOverrides),
) {
    let params = ThreadListParams {
        limit: Some(1),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        sort_direction: Some(SortDirection::Desc),
        cwd: Some(ThreadListCwdFilter::One(app.beginning.cwd_text())),
        ..ThreadListParams::default()
    };
    app.call::<protocol::ThreadList>(&params, move |app, result| match result {
        Ok(list) => match list.data.into_iter().next() {
            Some(thread) => open(app, thread.id, overrides),
            None => {
                app.notice("This folder has no earlier thread, so this is a new one.");
                start_thread(app, &ThreadStartParams::from(overrides));
            }
        },
        Err(error) => unopened(app, &error.message),
    });
}

pub(super) fn lost(app: &mut App, why: &str, can_return: bool) -> bool {
    app.server.drop_calls();
    app.outbox.sent_mut().connection_lost();
    app.session.queue.drop_calls();
    app.asks.dialogs_mut().close_all();
    app.login.reset();
    app.trust.reset();
    if !can_return {
        let message = format!("{why}. The thread is stored.");
        app.output.emit(Effect::Quit(Ended { code: 1, message: Some(message) }));
        return true;
    }
    if app.server.retry(app.now) {
        app.warning(&format!("{why}; reconnecting"));
    }
    true
}

fn unopened(app: &mut App, why: &str) {
    let message = format!("The thread cannot be opened: {why}");
    // The same file is the reason, mostly.
    let unread = app.beginning.take_unread_config();
    report_unread(app, unread.filter(|unread| unread != why));
    if app.session.id.is_some() {
        return app.error(&message);
    }
    app.output.emit(Effect::Quit(Ended { code: 1, message: Some(message) }));
}

fn unconfigured(app: &mut App, why: &str) {
    app.beginning.set_configuring(false);
    // Said when it is known whether the thread fails for the same reason.
    app.beginning.set_unread_config(why.to_owned());
    begin(app);
}

fn report_unread(app: &mut App, why: Option<String>) {
    if let Some(why) = why {
        app.error(&format!("The configuration cannot be read: {why}"));
    }
}

fn configure(app: &mut App, read: &ConfigReadResponse) {
    app.beginning.set_configuring(false);
    let was_full = app.settings.is_full_screen;
    let config = Configuration::new(&read.config);
    app.settings.read(config);
    app.login.read(config);
    app.notices.read(config);
    if let Some(name) = app.settings.theme.take() {
        match highlight::theme(&name) {
            Ok(_) => app.settings.theme = Some(name),
            Err(error) => app.warning(&format!("tui.theme: {error}")),
        }
    }
    let items = app.settings.status_line.clone();
    for why in items.iter().filter_map(|item| check_status_item(item).err()) {
        app.warning(&format!("tui.status_line: {why}"));
    }
    app.marks_pastes(app.writing.marks_pastes());
    if app.settings.is_full_screen != was_full {
        app.output.emit(Effect::Alternate(app.settings.is_full_screen));
    }
    let config = read.clone();
    first_question::prepare(app, read, move |app| {
        let cwd = app.beginning.cwd_text();
        trust::check_trust(app, &config, cwd, begin, read_configuration);
    });
}

/// Shows a thread: the one that was opened, or the same one after a reconnection.
fn opened(app: &mut App, response: ThreadStartResponse, has_turns: bool) {
    let ThreadStartResponse {
        thread,
        model,
        cwd,
        sandbox,
        approval_policy,
        reasoning_effort,
        model_provider,
        instruction_sources,
        ..
    } = response;
    let unread = app.beginning.take_unread_config();
    report_unread(app, unread);
    let is_same = app.session.id.as_ref() == Some(&thread.id);
    if !is_same && app.session.id.is_some() {
        // What was chosen for the thread before, such as its mode, is not this one's.
        app.outbox.take_overrides();
    }
    if !is_same {
        app.print_explored();
        app.session = Session::default();
        app.asks.clear_questions();
        greet(app, &model, &cwd, &thread, has_turns);
    }
    let session = &mut app.session;
    // The server says so if anything is in its queue.
    session.queue = ServerQueue::default();
    session.id = Some(thread.id);
    session.name = thread.name;
    session.model = model;
    session.provider.clone_from(&model_provider);
    session.instructions = instruction_sources;
    session.cwd = Some(cwd.into());
    session.branch = thread.git_info.and_then(|git| git.branch);
    session.worktree = thread.worktree;
    session.effort = reasoning_effort;
    access::show(app, &approval_policy, &sandbox);
    let session = &mut app.session;
    let folder = session.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    session.left = session.turn.take().and_then(|turn| turn.id);
    session.open.retain(|open| open.running.has_begun());
    session.open.iter_mut().for_each(|open| open.is_confirmed = false);
    if has_turns {
        joining::load_turns(app, None);
        joining::join(app, &thread.turns);
    }
    completion::load_skills(app);
    if !is_same {
        app.outbox.overrides_mut().collaboration_mode = None;
        notices::warn_of_sandbox(app, &sandbox);
    }
    if let Some(folder) = folder {
        trust::check_trust_of(app, &folder, read_configuration);
    }
    let prompt = app.beginning.take_start().and_then(|start| start.prompt);
    login::check_login(app, &model_provider, prompt);
}

/// Prints the headline of a thread, before its first item.
fn greet(app: &mut App, model: &str, cwd: &str, thread: &Thread, has_turns: bool) {
    let folder = app.folder(cwd);
    let title = Line::new("agentd", Style::BOLD)
        .with(format!("  {model}  "), Style::PLAIN)
        .with(folder, Palette::QUIET);
    app.print([title]);
    if app.settings.tooltips && !has_turns && app.beginning.takes_hint() {
        let hint = "Describe a task. / lists commands, @ files, $ skills, ! runs a shell command.";
        let hint = Line::new(hint, Palette::QUIET).wrapped(app.output.columns(), &Line::default());
        app.print(hint);
    }
    if let Some(name) = &thread.name {
        app.print([Line::new(name.clone(), Palette::QUIET)]);
    }
    app.print([Line::default()]);
}
