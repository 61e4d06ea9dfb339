//! The live region: what is being done, what waits, the question or the composer, and the status line.

use protocol::{ThreadItem, TurnPlanStepStatus};

use crate::app::program::App;
use crate::app::{elapsed, status, terminals, vi};
use crate::cells;
use crate::composer::Draft;
use crate::context::Context;
use crate::palette::Palette;
use crate::server_queue;
use crate::session::Open;
use crate::text::{Line, Style};

/// Rows of the live region without the question or the composer.
const MAX_ROWS: usize = 9;
/// Messages that are shown above the composer.
const SHOWN: usize = 3;
/// Rows of the composer.
const MAX_COMPOSER: usize = 12;

/// The rows and the cursor.
pub(super) fn live(app: &App) -> (Vec<Line>, Option<(usize, usize)>) {
    let (columns, height) = (app.output.columns(), app.output.size().rows);
    let status = if height >= 4 { vi::with_mode(app, status::status_line(app)) } else { None };
    let below = usize::from(status.is_some());
    let view = match app.asks.front() {
        Some(ask) => ask.view(columns, height.saturating_sub(below).max(1)),
        None => {
            let most = (height / 2).clamp(1, MAX_COMPOSER);
            app.writing.view(columns, most)
        }
    };
    let free = height.saturating_sub(below + view.lines.len());
    let mut lines = above(app, free.min(MAX_ROWS));
    // A question stands apart, where there is room.
    if !app.asks.is_empty() && !lines.is_empty() && lines.len() < free {
        lines.push(Line::default());
    }
    let first = lines.len();
    lines.extend(view.lines);
    let free = height.saturating_sub(lines.len());
    let completions =
        app.writing.composer().completions(columns).filter(|_| !app.asks.has_question());
    match completions.filter(|view| view.lines.len() <= free) {
        Some(view) => lines.extend(view.lines),
        None => lines.extend(status),
    }
    (lines, view.cursor.map(|(row, column)| (first + row, column)))
}

/// The part above the composer, in at most `rows` rows: the most important last.
fn above(app: &App, rows: usize) -> Vec<Line> {
    let mut tail = Vec::new();
    tail.extend(terminals::background(app));
    tail.extend(working(app));
    tail.extend(queued(app));
    tail.extend(app.output.notice_line().cloned());
    if app.server.is_lost() {
        tail.push(Line::new("Not connected to the server; trying again.", Palette::WARNING));
    }
    let free = rows.saturating_sub(tail.len() + usize::from(!tail.is_empty()));
    let mut lines = open_items(app, free);
    if !tail.is_empty() && lines.len() + tail.len() < rows {
        tail.insert(0, Line::default());
    }
    lines.extend(tail);
    let left_out = lines.len().saturating_sub(rows);
    lines.drain(..left_out);
    lines
}

/// The items in progress, the latest last.
fn open_items(app: &App, rows: usize) -> Vec<Line> {
    let context = app.context();
    let mut lines = Vec::new();
    let open = app.session.open.iter().rev();
    // What waits for an answer is in the question.
    let is_shown = |open: &&Open| {
        let is_elsewhere = terminals::is_in_background(app, open) || app.asks.is_about(&open.id);
        !is_elsewhere && !is_exploring(open)
    };
    let exploring = exploring(app, &context).filter(|_| rows > 0);
    let rows = rows - usize::from(exploring.is_some());
    for open in open.filter(is_shown) {
        let free = rows - lines.len();
        if free == 0 {
            break;
        }
        let mut of_item = open_item(app, open, &context, free);
        let surplus = of_item.len().saturating_sub(free);
        of_item.drain(..surplus);
        of_item.append(&mut lines);
        lines = of_item;
    }
    exploring.into_iter().chain(lines).collect()
}

/// The line of what is being explored, or was and is not printed yet.
fn exploring(app: &App, context: &Context) -> Option<Line> {
    let is_elsewhere =
        |open: &Open| terminals::is_in_background(app, open) || app.asks.is_about(&open.id);
    let running = app.session.open.iter().filter(|it| is_exploring(it) && !is_elsewhere(it));
    let mut explored = app.session.explored.clone();
    let mut since = None;
    for open in running {
        explored.add(open.running.item(), context);
        if !open.is_complete {
            since = since.or(Some(open.started_ms));
        }
    }
    match since {
        _ if explored.is_empty() => None,
        Some(since) => Some(explored.running(app.elapsed(since, 0), context)),
        None => Some(explored.line(context)),
    }
}

/// Returns whether the item is a part of what is explored.
fn is_exploring(open: &Open) -> bool {
    cells::explores(open.running.item())
}

fn open_item(app: &App, open: &Open, context: &Context, rows: usize) -> Vec<Line> {
    if open.running.is_text() {
        return open.running.open(context, rows);
    }
    // A message that was sent into the turn, and stands after the answer that is being written.
    if let (ThreadItem::UserMessage(_), true) = (open.running.item(), open.is_complete) {
        let lines = cells::finished(open.running.item(), context);
        return lines.into_iter().take(rows.min(3)).collect();
    }
    let mut lines = vec![open.running.headline(app.elapsed(open.started_ms, 0), context)];
    lines.extend(open.running.open(context, rows.saturating_sub(1).min(3)));
    lines
}

fn working(app: &App) -> Option<Line> {
    let turn = app.session.turn.as_ref()?;
    let asks = app.asks.has_question();
    let (mark, what) = match (&turn.retry, turn.is_interrupting) {
        (_, true) => ("■ ", "Interrupting".to_owned()),
        (Some(retry), false) => ("! ", elapsed::until_retry(app, retry)),
        (None, false) if asks => ("● ", "Waiting for your answer".to_owned()),
        (None, false) => ("● ", "Working".to_owned()),
    };
    let mut line =
        Line::new(mark, elapsed::mark_style(app, turn.started_ms)).with(what, Style::BOLD);
    if let Some(elapsed) = app.elapsed(turn.started_ms, turn.before_ms) {
        line.push(format!("  {}", cells::duration(elapsed)), Palette::QUIET);
    }
    if let Some(step) =
        app.session.plan.iter().position(|it| it.status == TurnPlanStepStatus::InProgress)
    {
        let (step, all) = (&app.session.plan[step].step, (step + 1, app.session.plan.len()));
        line.push(format!("  step {} of {}: {step}", all.0, all.1), Palette::QUIET);
    }
    if let Some(retry) = &turn.retry {
        line.push(format!("  {}", retry.reason), Palette::WARNING);
    }
    if !turn.is_interrupting && !asks {
        line.push("  Esc interrupts", Palette::QUIET);
    }
    Some(line)
}

/// The messages that wait, above the composer.
fn queued(app: &App) -> Vec<Line> {
    let first = |draft: &Draft| draft.shown().lines().next().unwrap_or_default().to_owned();
    let unanswered = app.outbox.sent().unanswered().iter().map(|draft| {
        Line::new("? ", Palette::WARNING)
            .with(first(draft), Palette::QUIET)
            .with("  (perhaps not received)", Palette::QUIET)
    });
    let mut lines: Vec<Line> = unanswered.take(SHOWN).collect();
    let (on_server, here) = (&app.session.queue, app.outbox.queue());
    let count = on_server.len() + here.len();
    let keys = if count > 1 { "↑ edits the last, Alt+↑ lists them" } else { "↑ edits it" };
    let pause = on_server.pause();
    lines.extend(pause.map(|pause| {
        let starts = match app.session.turn {
            Some(_) => "The queue waits, Tab starts it after the turn",
            None => "The queue waits, Tab starts it",
        };
        Line::new("‖ ", Palette::WARNING)
            .with(starts, Palette::QUIET)
            .with(format!(": {}", server_queue::reason(pause)), Palette::WARNING)
            .truncated(app.output.columns())
    }));
    let firsts = on_server.shown().map(|text| text.lines().next().unwrap_or_default().to_owned());
    let waiting = firsts.chain(here.drafts().map(first)).take(SHOWN).enumerate();
    lines.extend(waiting.map(|(at, first)| {
        let mut line = Line::new("↳ ", Palette::QUIET).with(first, Palette::QUIET);
        if at == 0 {
            let when = if pause.is_none() { "sent at the end of the turn; " } else { "" };
            line.push(format!("  ({when}{keys})"), Palette::QUIET);
        }
        line.truncated(app.output.columns())
    }));
    if count > SHOWN {
        lines.push(Line::new(format!("  and {} more messages", count - SHOWN), Palette::QUIET));
    }
    lines
}
