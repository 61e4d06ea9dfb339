//! The live region: what is being done, what waits, the question or the composer, and the status line.

use protocol::{ThreadItem, TurnPlanStepStatus};

use crate::app::{App, Connection};
use crate::cells;
use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Line, Style};

/// Rows of the live region without the question or the composer.
const MAX_ROWS: usize = 9;
/// Rows of the composer.
const MAX_COMPOSER: usize = 12;

impl App {
    /// The rows and the cursor.
    pub(super) fn live(&self) -> (Vec<Line>, Option<(usize, usize)>) {
        let (columns, height) = (self.size.columns, self.size.rows);
        let status = if height >= 4 { self.with_mode(self.status_line()) } else { None };
        let below = usize::from(status.is_some());
        let ask = self.questions.front().map(|question| &question.ask);
        let view = match ask.or_else(|| self.dialogs.front()) {
            Some(ask) => ask.view(columns, height.saturating_sub(below).max(1)),
            None => {
                let most = (height / 2).clamp(1, MAX_COMPOSER);
                match (&self.search, &self.history) {
                    (Some(search), Some(history)) => search.view(history, columns, most),
                    _ => self.composer.view(columns, most),
                }
            }
        };
        let free = height.saturating_sub(below + view.lines.len());
        let mut lines = self.above(free.min(MAX_ROWS));
        // A question stands apart, where there is room.
        if !self.is_unasked() && !lines.is_empty() && lines.len() < free {
            lines.push(Line::default());
        }
        let first = lines.len();
        lines.extend(view.lines);
        let free = height.saturating_sub(lines.len());
        let completions = self.composer.completions(columns).filter(|_| ask.is_none());
        match completions.filter(|view| view.lines.len() <= free) {
            Some(view) => lines.extend(view.lines),
            None => lines.extend(status),
        }
        (lines, view.cursor.map(|(row, column)| (first + row, column)))
    }

    /// Returns the lines above the composer, in at most `rows` rows: the most important last.
    fn above(&self, rows: usize) -> Vec<Line> {
        let mut tail = Vec::new();
        tail.extend(self.background());
        tail.extend(self.working());
        tail.extend(self.queued());
        tail.extend(self.notice.as_ref().map(|(line, _)| line.clone()));
        if let Connection::Lost { .. } = self.connection {
            tail.push(Line::new("Not connected to the server; trying again.", Palette::WARNING));
        }
        let free = rows.saturating_sub(tail.len() + usize::from(!tail.is_empty()));
        let mut lines = self.open_items(free);
        if !tail.is_empty() && lines.len() + tail.len() < rows {
            tail.insert(0, Line::default());
        }
        lines.extend(tail);
        let left_out = lines.len().saturating_sub(rows);
        lines.drain(..left_out);
        lines
    }

    /// The items in progress, the latest last.
    fn open_items(&self, rows: usize) -> Vec<Line> {
        let context = self.context();
        let mut lines = Vec::new();
        let open = self.session.open.iter().rev();
        for open in open.filter(|open| !self.is_in_background(open)) {
            let free = rows - lines.len();
            if free == 0 {
                break;
            }
            let mut of_item = self.open_item(open, &context, free);
            let surplus = of_item.len().saturating_sub(free);
            of_item.drain(..surplus);
            of_item.append(&mut lines);
            lines = of_item;
        }
        lines
    }

    fn open_item(&self, open: &crate::session::Open, context: &Context, rows: usize) -> Vec<Line> {
        if open.running.is_text() {
            return open.running.open(context, rows);
        }
        // A message that was sent into the turn, and stands after the answer that is being written.
        if let (ThreadItem::UserMessage(_), true) = (open.running.item(), open.is_complete) {
            let lines = cells::finished(open.running.item(), context);
            return lines.into_iter().take(rows.min(3)).collect();
        }
        let mut lines = vec![open.running.headline(self.elapsed(open.started_ms, 0))];
        lines.extend(open.running.open(context, rows.saturating_sub(1).min(3)));
        lines
    }

    fn working(&self) -> Option<Line> {
        let turn = self.session.turn.as_ref()?;
        let (mark, what) = match (&turn.retry, turn.is_interrupting) {
            (_, true) => ("■ ", "Interrupting"),
            (Some(_), false) => ("! ", "Trying again"),
            (None, false) => ("● ", "Working"),
        };
        let mut line = Line::new(mark, self.mark_style(turn.started_ms)).with(what, Style::BOLD);
        if let Some(elapsed) = self.elapsed(turn.started_ms, turn.before_ms) {
            line.push(format!("  {}", cells::duration(elapsed)), Palette::QUIET);
        }
        if let Some(step) =
            self.session.plan.iter().position(|it| it.status == TurnPlanStepStatus::InProgress)
        {
            let (step, all) = (&self.session.plan[step].step, (step + 1, self.session.plan.len()));
            line.push(format!("  step {} of {}: {step}", all.0, all.1), Palette::QUIET);
        }
        if let Some(why) = &turn.retry {
            line.push(format!("  {why}"), Palette::WARNING);
        }
        if !turn.is_interrupting {
            line.push("  Esc interrupts", Palette::QUIET);
        }
        Some(line)
    }
}
