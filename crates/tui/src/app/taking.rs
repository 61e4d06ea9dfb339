//! Copies out of the thread: the latest answer or a block of its code, into the clipboard, and the
//! whole thread as Markdown, into a file.

use std::path::PathBuf;

use base64::Engine as _;
use protocol::{
    SortDirection, ThreadItem, ThreadTurnsListParams, ThreadTurnsListResponse, TurnItemsView,
};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::app::events::Effect;
use crate::app::filling::What;
use crate::app::lists;
use crate::app::program::App;
use crate::picker::{Picker, Row};

/// Bytes of a text that terminals take into their clipboard: many ignore longer sequences.
const MAX_COPIED: usize = 74_000;
/// Turns that are read at once.
const PAGE: u32 = 100;
/// Characters of a file's name that come from the thread's.
const MAX_NAME: usize = 40;

/// An export whose turns are still being read.
struct Exporting {
    path: PathBuf,
    items: Vec<ThreadItem>,
    thread: String,
}

/// `/copy`: the latest answer; `/copy code`: a block of its code; `/copy N`: the Nth block.
pub(super) fn copy(app: &mut App, what: &str) {
    let Some(answer) = app.session.answer.clone() else {
        return app.notice("There is no answer to copy yet.");
    };
    if what.is_empty() {
        return copy_text(app, &answer);
    }
    let mut blocks = code_blocks(&answer);
    match (what, what.parse::<usize>()) {
        (_, Ok(number)) if (1..=blocks.len()).contains(&number) => {
            let (_, text) = blocks.swap_remove(number - 1);
            copy_text(app, &text);
        }
        (_, Ok(_)) => {
            let count = blocks.len();
            let blocks = match count {
                0 => "no block of code".to_owned(),
                1 => "1 block of code".to_owned(),
                count => format!("{count} blocks of code"),
            };
            app.notice(format!("The latest answer has {blocks}."));
        }
        ("code", _) => match blocks.as_slice() {
            [] => app.notice("The latest answer has no block of code."),
            [(_, text)] => copy_text(app, &text.clone()),
            _ => choose_code(app, blocks),
        },
        _ => app.notice("/copy, /copy code, or /copy and the number of a block of code"),
    }
}

fn choose_code(app: &mut App, blocks: Vec<(String, String)>) {
    let row = |(at, (language, text)): (usize, &(String, String))| Row {
        id: at.to_string(),
        title: text.lines().next().unwrap_or_default().to_owned(),
        detail: language.clone(),
        has_hit: false,
        columns: vec![format!("{} lines", text.lines().count())],
    };
    let rows = blocks.iter().enumerate().map(row).collect();
    let texts = blocks.into_iter().map(|(_, text)| text).collect();
    lists::choose(app, Picker::fixed("Copy a block of code", rows), What::Code(texts));
}

/// The terminal copies, if it supports that (OSC 52).
pub(super) fn copy_text(app: &mut App, text: &str) {
    if text.len() > MAX_COPIED {
        return app.warning(&format!(
            "{} bytes exceed the limit of terminal clipboards ({MAX_COPIED}): /export writes the \
             thread to a file.",
            text.len()
        ));
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    app.output.emit(Effect::Write(format!("\x1b]52;c;{encoded}\x1b\\").into_bytes()));
    app.notice(format!("{} bytes were copied to the terminal's clipboard.", text.len()));
}

/// `/export [FILE]`.
pub(super) fn export(app: &mut App, file: &str) {
    let Some(thread) = app.thread_id() else { return };
    let file = match file {
        "" => export_name(app),
        file => file.to_owned(),
    };
    let path = app.cwd().join(file);
    export_from(app, Exporting { path, items: Vec::new(), thread }, None);
}

/// From the thread's name or first words, and the day.
fn export_name(app: &App) -> String {
    let now = app.environment.started_at.saturating_add_unsigned(app.now / 1_000);
    let now = jiff::Timestamp::from_second(now).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let day = now.strftime("%Y-%m-%d");
    let name = app.session.name.as_deref().unwrap_or("thread").to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(MAX_NAME).collect();
    format!("{day}-{}.md", if name.is_empty() { "thread" } else { &name })
}

fn export_from(app: &mut App, exporting: Exporting, cursor: Option<String>) {
    let params = ThreadTurnsListParams {
        thread_id: exporting.thread.clone(),
        cursor,
        limit: Some(PAGE),
        sort_direction: Some(SortDirection::Asc),
        items_view: Some(TurnItemsView::Full),
    };
    app.call::<protocol::ThreadTurnsList>(&params, |app, result| match result {
        Ok(page) => export_read(app, exporting, page),
        Err(error) => app.error(&format!("The thread was not exported: {}", error.message)),
    });
}

fn export_read(app: &mut App, mut exporting: Exporting, page: ThreadTurnsListResponse) {
    exporting
        .items
        .extend(page.data.into_iter().flat_map(|turn| ThreadItem::without_attempts(turn.items)));
    if page.next_cursor.is_some() {
        return export_from(app, exporting, page.next_cursor);
    }
    let text = protocol::describe::markdown(app.session.name.as_deref(), &exporting.items);
    let text = format!("{}\n", text.trim_end());
    app.output.emit(Effect::Export { path: exporting.path, text });
}

/// The file was written, or not.
pub(super) fn exported(app: &mut App, result: Result<PathBuf, String>) -> bool {
    match result {
        Ok(path) => app.info(&format!("The thread was written to {}", path.display())),
        Err(why) => app.error(&format!("The thread was not exported: {why}")),
    }
    true
}

/// Language and text of each block of code.
fn code_blocks(markdown: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                open = Some((language, String::new()));
            }
            Event::Text(text) => {
                if let Some((_, block)) = &mut open {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_code_are_found_as_they_are_displayed() {
        let text =
            "One:\n\n```rust\nfn a() {}\n```\n\n- two\n\n  ~~~\n  b\n  ~~~\n\n    indented\n";
        let blocks = code_blocks(text);
        let expected = [("rust", "fn a() {}\n"), ("", "b\n")];
        let found: Vec<_> = blocks.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found[..2], expected);
        assert_eq!(code_blocks("no `code` here"), []);
    }
}
