//! Commands that run: those of the turn and those that outlived theirs, in a list with their output
//! (`/ps`), above the composer, and their end (`/stop`). The protocol ends all terminals of the background
//! together, so one of several cannot be ended alone.

use protocol::{CommandExecutionItem, ThreadIdParams, ThreadItem};

use crate::app::App;
use crate::cells;
use crate::palette::Palette;
use crate::picker::Row;
use crate::session::Open;
use crate::text::{Line, Style};

/// Commands of the background that are shown above the composer.
const SHOWN: usize = 3;
/// Lines of output that are printed of the command that was chosen.
const PRINTED: usize = 20;

impl App {
    /// The commands in progress, the earliest first.
    fn commands(&self) -> impl Iterator<Item = (&Open, &CommandExecutionItem)> {
        self.session.open.iter().filter(|open| !open.is_complete).filter_map(|open| {
            match open.running.item() {
                ThreadItem::CommandExecution(item) => Some((open, item)),
                _ => None,
            }
        })
    }

    /// Returns whether a command outlived the turn that began it.
    pub(super) fn is_in_background(&self, open: &Open) -> bool {
        let is_command = matches!(open.running.item(), ThreadItem::CommandExecution(_));
        is_command && !open.is_complete && self.session.turn_id() != Some(&*open.turn_id)
    }

    fn background_count(&self) -> usize {
        self.session.open.iter().filter(|open| self.is_in_background(open)).count()
    }

    /// As rows of a list; the row's id is the item's.
    pub(super) fn terminal_rows(&self) -> Vec<Row> {
        let row = |(open, item): (&Open, &CommandExecutionItem)| {
            let is_background = self.is_in_background(open);
            let place = if is_background { "in the background" } else { "of this turn" };
            let elapsed = self.now.saturating_sub(open.started_ms);
            Row {
                id: open.id.clone(),
                title: first_line(&item.command),
                detail: String::new(),
                columns: vec![place.to_owned(), cells::duration(elapsed)],
            }
        };
        self.commands().map(row).collect()
    }

    /// The latest output of a command, for the list.
    pub(super) fn terminal_output(&self, id: &str, rows: usize) -> Vec<Line> {
        let open = self.session.open.iter().find(|open| open.id == id);
        let mut lines = open.map(|it| it.running.open(&self.context(), rows)).unwrap_or_default();
        if lines.is_empty() {
            lines.push(Line::new("  (no output so far)", Palette::QUIET));
        }
        lines
    }

    /// `/ps`.
    pub(super) fn show_terminals(&mut self, _: &str) {
        match self.commands().count() {
            0 => self.notice("No command runs."),
            _ => self.choose_terminal(),
        }
    }

    /// Prints what a command said last.
    pub(super) fn print_terminal(&mut self, id: &str) {
        let Some(open) = self.session.open.iter().find(|open| open.id == id) else {
            return self.notice("That command has ended.");
        };
        let headline = open.running.headline(self.elapsed(open.started_ms, 0));
        let output = self.terminal_output(id, PRINTED);
        self.print(headline.wrapped(self.size.columns, &Line::plain("  ")));
        self.print(output);
        self.print([Line::default()]);
    }

    /// The user wants this command of the list to end.
    pub(super) fn stop_terminal(&mut self, id: &str) {
        let Some(open) = self.session.open.iter().find(|open| open.id == id) else { return };
        if !self.is_in_background(open) {
            return self.notice("The turn waits for this command: Esc interrupts both.");
        }
        match self.background_count() {
            1 => self.stop_terminals(""),
            count => {
                let text = format!("/stop ends all {count} commands of the background together.");
                self.notice(text);
            }
        }
    }

    /// `/stop`.
    pub(super) fn stop_terminals(&mut self, _: &str) {
        let Some(thread_id) = self.thread_id() else { return };
        // A command of this turn may be in the background, too, which only the server knows.
        if self.commands().count() == 0 {
            return self.notice("No command runs.");
        }
        let params = ThreadIdParams { thread_id };
        self.call_or_report::<protocol::ThreadBackgroundTerminalsClean>(
            &params,
            "The commands of the background were not ended",
        );
        self.notice("Ending the commands of the background.");
    }

    /// The commands of the background in a few rows.
    pub(super) fn background(&self) -> Vec<Line> {
        let commands: Vec<&CommandExecutionItem> = self
            .commands()
            .filter(|(open, _)| self.is_in_background(open))
            .map(|(_, item)| item)
            .collect();
        let mut lines: Vec<Line> = commands
            .iter()
            .take(SHOWN)
            .map(|item| {
                let line = Line::new("◦ ", Palette::ACCENT)
                    .with(first_line(&item.command), Style::PLAIN)
                    .with("  in the background: /ps", Palette::QUIET);
                line.truncated(self.size.columns)
            })
            .collect();
        if commands.len() > SHOWN {
            let more = commands.len() - SHOWN;
            lines.push(Line::new(format!("  and {more} more commands"), Palette::QUIET));
        }
        lines
    }
}

fn first_line(text: &str) -> String {
    visible::line(text.lines().next().unwrap_or_default()).to_string()
}
