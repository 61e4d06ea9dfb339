//! Items to check, in an order that can be changed.

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style, width};

use super::local::{left, reply};
use super::step::{Rows, Step};

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckItem {
    pub(crate) id: String,
    pub(crate) detail: String,
    pub(crate) is_checked: bool,
}

/// The list and the selected row.
#[derive(Clone, Debug)]
pub(super) struct Checklist {
    items: Vec<CheckItem>,
    selected: usize,
}

impl Checklist {
    pub(super) fn new(items: Vec<CheckItem>) -> Self {
        Self { items, selected: 0 }
    }

    pub(super) fn checked(&self) -> Vec<String> {
        let checked = self.items.iter().filter(|item| item.is_checked);
        checked.map(|item| item.id.clone()).collect()
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let (at, count) = (self.selected, self.items.len());
        match key.code {
            Code::Esc => return Step::refused(left()),
            Code::Char('c') if key.ctrl => return Step::refused(left()),
            Code::Enter => {
                return Step::refused(reply(self.checked().into()));
            }
            Code::Up => self.selected = at.saturating_sub(1),
            Code::Down => self.selected = (at + 1).min(count.saturating_sub(1)),
            Code::Char(' ') => {
                if let Some(item) = self.items.get_mut(at) {
                    item.is_checked ^= true;
                }
            }
            Code::Left if at > 0 => {
                self.items.swap(at, at - 1);
                self.selected = at - 1;
            }
            Code::Right if at + 1 < count => {
                self.items.swap(at, at + 1);
                self.selected = at + 1;
            }
            _ => return Step::Ignored,
        }
        Step::Stay
    }

    pub(super) fn rows(&self, columns: usize) -> Rows {
        let mut rows = Rows::default();
        let longest = self.items.iter().map(|item| width(&item.id)).max().unwrap_or(0);
        for (index, item) in self.items.iter().enumerate() {
            let is_selected = index == self.selected;
            let style = if is_selected { Palette::SELECTED } else { Style::PLAIN };
            let quiet = if is_selected { style } else { Palette::QUIET };
            let sign = if is_selected { "› " } else { "  " };
            let mark = if item.is_checked { "[x] " } else { "[ ] " };
            let pad = " ".repeat(longest - width(&item.id));
            let line = Line::new(format!("{sign}{mark}{}{pad}", item.id), style)
                .with(format!("  {}", item.detail), quiet);
            if is_selected {
                rows.focus = rows.lines.len()..rows.lines.len() + 1;
            }
            rows.lines.push(line.truncated(columns));
        }
        let help = "Space toggles, ← → move, Enter saves, Esc cancels";
        rows.lines.extend(Line::new(help, Palette::QUIET).wrapped(columns, &Line::default()));
        rows
    }
}
