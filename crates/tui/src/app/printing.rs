//! Printing a thread, each thing once and in the order of the thread: finished items, the plan when it changes, and the
//! end of a turn.

use protocol::{CommandExecutionSource, ThreadItem, Turn, TurnPlanStep};

use crate::app::program::App;
use crate::cells;
use crate::context::Context;
use crate::palette::Palette;
use crate::session::{ActiveTurn, Open};
use crate::text::Line;

/// Prints what can be: finished items, and the finished part of a text that is being written. While
/// such a text stands half in the terminal, others wait, so that it stays in one piece; and what began
/// after a text comes after it, as in the thread.
pub(super) fn print_finished(app: &mut App) {
    if app.session.is_loading {
        return;
    }
    let mut context = app.context();
    let mut open = std::mem::take(&mut app.session.open);
    let is_open = |open: &Open| !open.is_complete || open.is_undecided;
    let is_streaming = |open: &Open| open.running.is_text() && open.running.has_begun();
    if let Some(at) = open.iter().position(|it| is_open(it) && is_streaming(it)) {
        if !open[at].is_undecided {
            let lines = open[at].running.finished(&context);
            app.output.print(lines);
        }
        app.session.open = open;
        return;
    }
    // One that is complete and half printed comes before the others.
    open.sort_by_key(|it| !(it.is_complete && it.running.has_begun()));
    let mut waits = false;
    open.retain_mut(|it| {
        waits |= is_open(it) && it.running.is_text();
        if waits || is_open(it) {
            return true;
        }
        print_item(app, it, &mut context);
        app.session.printed.insert(std::mem::take(&mut it.id));
        false
    });
    print_plan(app);
    let is_text = |it: &&mut Open| it.running.is_text() && !it.is_undecided;
    if let Some(text) = open.iter_mut().find(is_text) {
        let lines = text.running.finished(&context);
        if !lines.is_empty() {
            app.print_explored();
        }
        app.output.print(lines);
    }
    app.session.open = open;
}

fn print_item(app: &mut App, open: &mut Open, context: &mut Context) {
    let item = open.running.item();
    if cells::explores(item) {
        return app.session.explored.add(item, context);
    }
    let is_change = matches!(item, ThreadItem::FileChange(_));
    if is_change {
        context.change_rows = app.session.change_rows.free(&open.turn_id);
    }
    let lines = open.running.finished(context);
    if lines.is_empty() {
        return;
    }
    if is_change {
        app.session.change_rows.take(lines.len());
    }
    app.print_explored();
    app.output.print(lines);
    app.output.print([Line::default()]);
}

/// Takes the plan of the turn. It is printed where it differs from before.
pub(super) fn take_plan(app: &mut App, explanation: Option<String>, steps: Vec<TurnPlanStep>) {
    if app.session.plan == steps {
        return;
    }
    app.session.plan = steps;
    // What is complete comes before it.
    print_finished(app);
    app.session.new_plan = Some(explanation.unwrap_or_default());
    print_finished(app);
}

fn print_plan(app: &mut App) {
    let Some(explanation) = app.session.new_plan.take() else { return };
    if app.session.plan.is_empty() {
        return;
    }
    app.print_explored();
    let lines = cells::plan(&app.session.plan, &explanation, &app.context());
    app.output.print(lines);
    app.output.print([Line::default()]);
}

/// The duration of a turn in which the agent worked, in words. The server's duration comes before what the program
/// measured.
pub(super) fn duration(app: &App, turn: &Turn) -> Option<String> {
    // A notification names no items.
    let has_worked = match turn.items.is_empty() {
        true => app.session.has_worked,
        false => turn.items.iter().any(is_work),
    };
    if !has_worked {
        return None;
    }
    let is_it = |running: &&ActiveTurn| running.id.as_ref() == Some(&turn.id);
    let measured = app.session.turn.as_ref().filter(is_it).map(|running| {
        app.now.saturating_sub(running.started_ms).saturating_add(running.before_ms)
    });
    let ms = turn.duration_ms.and_then(|ms| u64::try_from(ms).ok()).or(measured)?;
    Some(cells::duration(ms))
}

/// Prints the last line of a turn, when what comes before it is printed.
pub(super) fn print_end(app: &mut App, text: String) {
    if app.session.is_loading {
        app.session.late_end = Some(text);
        return;
    }
    let line = Line::new(text, Palette::QUIET);
    app.output.print([line, Line::default()]);
}

/// Prints the last line of a turn that ended while earlier ones were read.
pub(super) fn print_late_end(app: &mut App) {
    if let Some(text) = app.session.late_end.take() {
        app.print_explored();
        print_end(app, text);
    }
}

/// Returns whether the item is the agent's work, and not what the user wrote or ran.
pub(super) fn is_work(item: &ThreadItem) -> bool {
    match item {
        ThreadItem::UserMessage(_) => false,
        ThreadItem::CommandExecution(it) => it.source != CommandExecutionSource::UserShell,
        _ => true,
    }
}
