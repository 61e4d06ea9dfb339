//! Running commands: those of the turn and those that outlived theirs, in a list with their output
//! (`/ps`), above the composer, and their end (`/stop`). The protocol ends all terminals of the background
//! together, so one of several cannot be ended alone.

use protocol::{CommandExecutionItem, ThreadIdParams, ThreadItem};

use crate::app::filling::What;
use crate::app::lists;
use crate::app::program::App;
use crate::cells;
use crate::palette::Palette;
use crate::picker::{Picker, Row};
use crate::session::Open;
use crate::text::{Line, Style};

/// Commands of the background that are shown above the composer.
const SHOWN: usize = 3;
/// Lines of output that are printed of the command that was chosen.
const PRINTED: usize = 20;

/// Opens the list of the commands that run.
fn choose_terminal(app: &mut App) {
    let picker = Picker::fixed("Running commands", terminal_rows(app));
    let picker = picker.with_help("Enter prints the output, Delete ends it, Esc closes");
    lists::choose(app, picker, What::Terminals);
}

/// The commands in progress, the earliest first.
fn commands(app: &App) -> impl Iterator<Item = (&Open, &CommandExecutionItem)> {
    app.session.open.iter().filter(|open| !open.is_complete).filter_map(|open| {
        match open.running.item() {
            ThreadItem::CommandExecution(item) => Some((open, item)),
            _ => None,
        }
    })
}

/// True if a command outlived the turn that began it.
pub(super) fn is_in_background(app: &App, open: &Open) -> bool {
    let is_command = matches!(open.running.item(), ThreadItem::CommandExecution(_));
    is_command && !open.is_complete && app.session.turn_id() != Some(&*open.turn_id)
}

fn background_count(app: &App) -> usize {
    app.session.open.iter().filter(|open| is_in_background(app, open)).count()
}

/// As rows of a list; the row's id is the item's.
pub(super) fn terminal_rows(app: &App) -> Vec<Row> {
    let row = |(open, item): (&Open, &CommandExecutionItem)| {
        let is_background = is_in_background(app, open);
        let place = if is_background { "in the background" } else { "of this turn" };
        let elapsed = app.now.saturating_sub(open.started_ms);
        Row {
            id: open.id.clone(),
            title: first_line(&item.command),
            detail: String::new(),
            has_hit: false,
            columns: vec![place.to_owned(), cells::duration(elapsed)],
        }
    };
    commands(app).map(row).collect()
}

/// The latest output of a command, for the list.
pub(super) fn terminal_output(app: &App, id: &str, rows: usize) -> Vec<Line> {
    let open = app.session.open.iter().find(|open| open.id == id);
    let mut lines = open.map(|it| it.running.open(&app.context(), rows)).unwrap_or_default();
    if lines.is_empty() {
        lines.push(Line::new("  (no output so far)", Palette::QUIET));
    }
    lines
}

/// `/ps`.
pub(super) fn show_terminals(app: &mut App, _: &str) {
    match commands(app).count() {
        0 => app.notice("No commands are running."),
        _ => choose_terminal(app),
    }
}

/// Prints what a command said last.
pub(super) fn print_terminal(app: &mut App, id: &str) {
    let Some(open) = app.session.open.iter().find(|open| open.id == id) else {
        return app.notice("That command has ended.");
    };
    let headline = open.running.headline(app.elapsed(open.started_ms, 0), &app.context());
    let output = terminal_output(app, id, PRINTED);
    app.print(headline.wrapped(app.output.columns(), &Line::plain("  ")));
    app.print(output);
    app.print([Line::default()]);
}

/// The user wants this command of the list to end.
pub(super) fn stop_terminal(app: &mut App, id: &str) {
    let Some(open) = app.session.open.iter().find(|open| open.id == id) else { return };
    if !is_in_background(app, open) {
        return app.notice("The turn waits for this command: Esc interrupts both.");
    }
    match background_count(app) {
        1 => stop_terminals(app, ""),
        count => {
            let text = format!("/stop ends all {count} background commands.");
            app.notice(text);
        }
    }
}

/// `/stop`.
pub(super) fn stop_terminals(app: &mut App, _: &str) {
    let Some(thread_id) = app.thread_id() else { return };
    // A command of this turn may be in the background, too, which only the server knows.
    if commands(app).count() == 0 {
        return app.notice("No commands are running.");
    }
    let params = ThreadIdParams { thread_id };
    app.call_or_report::<protocol::ThreadBackgroundTerminalsClean>(
        &params,
        "The background commands were not ended",
    );
    app.notice("Ending the background commands.");
}

/// The commands of the background in a few rows.
pub(super) fn background(app: &App) -> Vec<Line> {
    let commands: Vec<&CommandExecutionItem> = commands(app)
        .filter(|(open, _)| is_in_background(app, open))
        .map(|(_, item)| item)
        .collect();
    let mut lines: Vec<Line> = commands
        .iter()
        .take(SHOWN)
        .map(|item| {
            let line = Line::new("◦ ", Palette::ACCENT)
                .with(first_line(&item.command), Style::PLAIN)
                .with("  in the background: /ps", Palette::QUIET);
            line.truncated(app.output.columns())
        })
        .collect();
    if commands.len() > SHOWN {
        let more = commands.len() - SHOWN;
        lines.push(Line::new(format!("  and {more} more commands"), Palette::QUIET));
    }
    lines
}

fn first_line(text: &str) -> String {
    visible::line(text.lines().next().unwrap_or_default()).to_string()
}
