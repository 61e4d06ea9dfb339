//! Going back: to before an earlier message, in this thread or in a copy, with the files or without.

use protocol::{
    NotedPath, RestoredFiles, SortDirection, ThreadForkParams, ThreadItem, ThreadRollbackParams,
    ThreadStartParams, ThreadTurnsListParams, ThreadTurnsListResponse, TurnItemsView, UserInput,
};

use crate::app::filling::{Message, What};
use crate::app::program::App;
use crate::app::{lists, opening, undo_switch};
use crate::ask::{Ask, Offer};
use crate::diff;
use crate::palette::Palette;
use crate::picker::{Picker, Row};
use crate::text::Line;

/// Messages that are offered: those of the latest turns.
const MESSAGES: u32 = 100;

/// A way to go back.
const HERE: &str = "here";
const WITH_FILES: &str = "files";
const OVERWRITING: &str = "overwrite";
const COPY: &str = "copy";
const STAY: &str = "stay";

const NOT_UNDONE: &str = "Nothing was undone";

/// Offers the user's messages of this thread, the latest first.
pub(super) fn choose_message(app: &mut App, _: &str) {
    let Some(thread_id) = app.session.id.clone() else { return };
    let params = ThreadTurnsListParams {
        thread_id,
        cursor: None,
        limit: Some(MESSAGES),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::Summary),
    };
    app.call::<protocol::ThreadTurnsList>(&params, |app, result| match result {
        Ok(page) => messages_listed(app, &page),
        Err(error) => app.error(&format!("The messages cannot be listed: {}", error.message)),
    });
}

fn messages_listed(app: &mut App, page: &ThreadTurnsListResponse) {
    let mut messages = Vec::new();
    for (at, turn) in page.data.iter().enumerate() {
        let said = turn.items.iter().find_map(|item| match item {
            ThreadItem::UserMessage(message) => Some(written(&message.content)),
            _ => None,
        });
        let Some(text) = said.filter(|text| !text.is_empty()) else { continue };
        let before = page.data.get(at + 1).map(|turn| turn.id.clone());
        // Of the last one that was read it is not known whether it is the first.
        if before.is_none() && page.next_cursor.is_some() {
            continue;
        }
        let turns = u32::try_from(at + 1).unwrap_or(u32::MAX);
        messages.push(Message { text, turns, before });
    }
    if messages.is_empty() {
        return app.notice("There is no earlier message to edit.");
    }
    let row = |(at, message): (usize, &Message)| Row {
        id: at.to_string(),
        title: message.text.clone(),
        detail: String::new(),
        has_hit: false,
        columns: vec![match message.turns {
            1 => "latest".to_owned(),
            turns => format!("{turns} turns back"),
        }],
    };
    let rows = messages.iter().enumerate().map(row).collect();
    lists::choose(app, Picker::fixed("Edit an earlier message", rows), What::Messages(messages));
}

/// A message was chosen: asks how to go back.
pub(super) fn message_chosen(app: &mut App, row: &Row, messages: Vec<Message>) {
    let message = row.id.parse::<usize>().ok().and_then(|at| messages.into_iter().nth(at));
    let Some(message) = message else { return };
    let turns = match message.turns {
        1 => "the latest turn".to_owned(),
        turns => format!("the {turns} latest turns"),
    };
    let back = format!("Undo {turns}");
    let mut ways = Vec::new();
    if app.settings.undoes {
        ways.push(Offer::new(WITH_FILES, 'f', back.clone()).with_effect("with their file changes"));
        ways.push(Offer::new(HERE, 't', back).with_effect("files stay as they are"));
    } else {
        let effect = "files stay as they are: features.undo is off";
        ways.push(Offer::new(HERE, 't', back).with_effect(effect));
    }
    ways.push(
        Offer::new(COPY, 'c', "Continue in a copy of the thread up to there")
            .with_effect("this thread and its files stay unchanged"),
    );
    ways.push(Offer::new(STAY, 'n', "Do nothing").on_escape());
    let facts = message.text.lines().map(|line| Line::plain(line.to_owned())).collect();
    let ask = Ask::offer("Edit this message", facts, ways);
    app.open_dialog(ask, move |app, reply| {
        if let Some(way) = reply.as_str().filter(|way| *way != STAY) {
            go_back(app, way, message);
        }
    });
}

/// A way was chosen.
fn go_back(app: &mut App, way: &str, message: Message) {
    let Message { text, turns, before } = message;
    match way {
        COPY => match (before, app.session.id.clone()) {
            (Some(turn), Some(id)) => {
                let params = ThreadForkParams {
                    thread_id: id,
                    last_turn_id: Some(turn),
                    ..ThreadForkParams::default()
                };
                opening::fork(app, params, Some(text));
            }
            // Nothing comes before it.
            _ => {
                let params = ThreadStartParams::default();
                opening::open::<protocol::ThreadStart>(app, &params, true, Some(text));
            }
        },
        way => {
            let Some(params) = rollback(app, turns) else { return };
            let restore_files = way == WITH_FILES;
            let params = ThreadRollbackParams { restore_files, ..params };
            roll_back(app, params, Some(text));
        }
    }
}

/// `/undo`: shows what taking the latest turn back would do to files, and asks.
pub(super) fn undo(app: &mut App, _: &str) {
    if !app.settings.undoes {
        let here = Offer::new(HERE, 't', "Undo the latest turn");
        let mut ways = vec![here.with_effect("files stay as they are")];
        ways.extend(undo_switch::offers(app));
        return ask_for_undo(app, undo_switch::facts(), ways);
    }
    let Some(params) = rollback(app, 1) else { return };
    let params = ThreadRollbackParams { restore_files: true, dry_run: true, ..params };
    app.call::<protocol::ThreadRollback>(&params, |app, result| match result {
        Ok(planned) => undo_planned(app, planned.files.as_ref()),
        // Such as that of a turn that was not recorded.
        Err(error) => {
            let text = format!("Files cannot be restored: {}", error.message);
            let here = Offer::new(HERE, 't', "Undo the latest turn");
            let here = here.with_effect("files stay as they are");
            ask_for_undo(app, vec![Line::new(text, Palette::WARNING)], vec![here]);
        }
    });
}

/// Parameters that take back turns of this thread.
fn rollback(app: &mut App, num_turns: u32) -> Option<ThreadRollbackParams> {
    let thread_id = app.thread_id()?;
    Some(ThreadRollbackParams {
        thread_id,
        num_turns,
        restore_files: false,
        dry_run: false,
        overwrite_changes: false,
    })
}

/// Takes turns back; `text` is then to be edited.
fn roll_back(app: &mut App, params: ThreadRollbackParams, text: Option<String>) {
    let turns = params.num_turns;
    app.call::<protocol::ThreadRollback>(&params, move |app, result| match result {
        Ok(done) => undone(app, done.files.as_ref(), turns, text),
        Err(error) => app.error(&format!("{NOT_UNDONE}: {}", error.message)),
    });
}

/// Shows what a rollback would do, and asks.
fn undo_planned(app: &mut App, files: Option<&RestoredFiles>) {
    let (restored_count, conflicts, not_restored) = match files {
        Some(files) => (files.restored.len(), &*files.conflicts, &*files.not_restored),
        None => (0, [].as_slice(), [].as_slice()),
    };
    let restored = files_of(restored_count);
    let here = Offer::new(HERE, 't', "Undo the latest turn");
    let here = here.with_effect(match not_restored.len() {
        0 if restored_count + conflicts.len() == 0 => "it changed no files",
        _ => "files stay as they are",
    });
    // What may lose something is never the first, and all of it has to have been on the screen.
    let ways = match conflicts.len() {
        // There is nothing to choose.
        0 if restored_count == 0 => vec![here],
        0 => {
            let title = format!("Undo the latest turn and restore {restored}");
            vec![Offer::new(WITH_FILES, 'r', title), here]
        }
        conflicts => {
            let title = format!("Undo the latest turn and restore {restored}");
            let lost = format!("later changes of {} are lost", files_of(conflicts));
            vec![here, Offer::new(OVERWRITING, 'o', title).with_effect(lost).granting()]
        }
    };
    let mut facts = diff::unified(files.map_or("", |files| &files.diff), &app.context());
    if facts.is_empty() {
        facts.push(Line::plain("The turn changed no files."));
    }
    if files.is_some_and(|files| files.diff_truncated) {
        let text = "The diff is too long to show in full.";
        facts.push(Line::new(text, Palette::WARNING));
    }
    for (noted, what) in [(conflicts, "changed since"), (not_restored, "not restored")] {
        facts.extend(noted.iter().map(|NotedPath { path, reason }| {
            Line::new(format!("{what}: {path} ({reason})"), Palette::WARNING)
        }));
    }
    ask_for_undo(app, facts, ways);
}

fn ask_for_undo(app: &mut App, facts: Vec<Line>, mut ways: Vec<Offer>) {
    ways.push(Offer::new(STAY, 'n', "Do nothing").on_escape());
    app.open_dialog(Ask::offer("Undo", facts, ways), |app, reply| {
        if let Some(way) = reply.as_str().filter(|way| *way != STAY) {
            undo_chosen(app, way);
        }
    });
}

fn undo_chosen(app: &mut App, way: &str) {
    if undo_switch::chosen(app, way) {
        return;
    }
    let Some(params) = rollback(app, 1) else { return };
    let (restore_files, overwrite_changes) = (way != HERE, way == OVERWRITING);
    roll_back(app, ThreadRollbackParams { restore_files, overwrite_changes, ..params }, None);
}

/// Turns were taken back.
fn undone(app: &mut App, files: Option<&RestoredFiles>, turns: u32, text: Option<String>) {
    let what = match turns {
        1 => "The latest turn was undone".to_owned(),
        turns => format!("The {turns} latest turns were undone"),
    };
    let mut said = match files.map(|files| files.restored.len()) {
        Some(0) => format!("{what}; no file was restored."),
        Some(count) => format!("{what}; {} restored.", files_of(count)),
        None => format!("{what}; files stay as they are."),
    };
    if let Some(files) = files {
        for (noted, why) in [
            (&files.conflicts, "Not restored, because it has changed since"),
            (&files.not_restored, "Not restored"),
        ] {
            for NotedPath { path, reason } in noted {
                said.push_str(&format!("\n{why}: {path} ({reason})"));
            }
        }
    }
    app.session.diff.clear();
    app.session.answer = None;
    app.info(&said);
    if let Some(text) = text {
        app.writing.put_back(&text);
    }
}

fn files_of(count: usize) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

/// The text of a message.
fn written(content: &[UserInput]) -> String {
    let texts = content.iter().filter_map(|input| match input {
        UserInput::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
