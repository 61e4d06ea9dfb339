//! The drawing of a list.

use std::ops::Range;

use crate::history;
use crate::palette::Palette;
use crate::text::{Line, Style, width};
use crate::view::View;

use super::{Picker, Row};

/// From so many columns on, the preview stands next to the list, and from so many rows on below it.
const BESIDE: usize = 100;
const BELOW: usize = 20;
/// From so many rows on there are a title and help.
const FRAMED: usize = 6;

impl Picker {
    /// The list in at most `max_rows` rows.
    #[must_use]
    pub fn view(&self, columns: usize, max_rows: usize) -> View {
        let mut view = View::default();
        if max_rows == 0 {
            return view;
        }
        let is_framed = max_rows >= FRAMED;
        if is_framed {
            view.lines.push(self.title_line());
        }
        let search = Line::new("search: ", Palette::QUIET).with(self.search.clone(), Style::PLAIN);
        view.cursor = Some((view.lines.len(), search.width().min(columns.saturating_sub(1))));
        view.lines.push(search);
        if let Some(notice) = self.notice.as_ref().filter(|_| max_rows > 2) {
            view.lines.push(Line::new(notice.clone(), Palette::ERROR));
        }
        let free = (max_rows - view.lines.len()).saturating_sub(usize::from(is_framed));
        self.body(columns, free, &mut view.lines);
        if is_framed {
            view.lines.push(Line::new(self.help(), Palette::QUIET));
        }
        view.lines.iter_mut().for_each(|line| *line = line.truncated(columns));
        view
    }

    fn title_line(&self) -> Line {
        let mut line = Line::new(self.title.clone(), Palette::HEADING);
        let count = match (self.pages.total(), self.pages.len()) {
            (_, 0) => String::new(),
            (Some(total), _) => format!("  {} of {total}", self.selected + 1),
            (None, seen) => format!("  {} of {seen} or more", self.selected + 1),
        };
        line.push(count, Palette::QUIET);
        match self.only_folder {
            Some(true) => line.push("  this folder", Palette::ACCENT),
            Some(false) => line.push("  all folders", Palette::ACCENT),
            None => &mut line,
        };
        line
    }

    fn help(&self) -> String {
        if let Some(help) = self.help {
            return help.to_owned();
        }
        let folder = match self.only_folder {
            Some(true) => ", Tab all folders",
            Some(false) => ", Tab this folder only",
            None => "",
        };
        format!("Enter chooses, Esc cancels{folder}")
    }

    fn body(&self, columns: usize, rows: usize, lines: &mut Vec<Line>) {
        let id = self.selected().map(|row| &row.id);
        let preview = self.preview.as_ref().filter(|(of, _)| Some(of) == id);
        let preview = preview.map(|(_, lines)| lines.as_slice());
        match preview {
            Some(preview) if columns >= BESIDE => {
                let left = columns / 2;
                let mut list = self.list(left, rows);
                list.resize(rows, Line::default());
                let right = wrapped(preview, columns - left - 2, rows);
                for (index, line) in list.into_iter().enumerate() {
                    let mut line = line.truncated(left);
                    if let Some(part) = right.get(index) {
                        line.push(" ".repeat(left - line.width()) + "│ ", Palette::QUIET);
                        line.spans.extend(part.spans.iter().cloned());
                    }
                    lines.push(line);
                }
            }
            Some(preview) if rows >= BELOW => {
                let below = rows / 3;
                let mut list = self.list(columns, rows - below - 1);
                list.resize(rows - below - 1, Line::default());
                lines.append(&mut list);
                lines.push(Line::new("─".repeat(columns), Palette::QUIET));
                lines.extend(wrapped(preview, columns, below));
            }
            _ => lines.extend(self.list(columns, rows)),
        }
    }

    fn list(&self, columns: usize, rows: usize) -> Vec<Line> {
        let (first, _) = self.window.get();
        let least = (self.selected + 1).saturating_sub(rows);
        let most = self.pages.len().saturating_sub(rows);
        let first = first.clamp(least, self.selected.max(least)).min(most.max(least));
        self.window.set((first, rows));
        if self.pages.len() == 0 && rows > 0 {
            let text = match self.pages.total().is_some() && !self.pages.is_stale() {
                true => "  nothing found",
                false => "  loading …",
            };
            return vec![Line::new(text, Palette::QUIET)];
        }
        let end = (first + rows).min(self.pages.len());
        let shown = (first..end).map(|index| {
            let is_selected = index == self.selected;
            match self.pages.get(index) {
                Some(row) => row.line(is_selected, self.is_slow, columns, &self.search),
                None => Line::new(if is_selected { "› …" } else { "  …" }, Palette::QUIET),
            }
        });
        shown.collect()
    }
}

impl Row {
    fn line(&self, is_selected: bool, is_stale: bool, columns: usize, search: &str) -> Line {
        let style = match (is_selected, is_stale) {
            (true, false) => Palette::SELECTED,
            (_, true) => Palette::QUIET,
            (false, false) => Style::PLAIN,
        };
        let quiet = if is_selected { style } else { Palette::QUIET };
        // The columns at the right take half of the room at most; the last ones stay.
        let mut right = String::new();
        for column in self.columns.iter().rev().filter(|column| !column.is_empty()) {
            if width(&right) + width(column) + 2 > columns / 2 {
                break;
            }
            right = format!("  {column}{right}");
        }
        let mut line = Line::new(if is_selected { "› " } else { "  " }, style);
        line.push(first_line(&self.title), style);
        if !self.detail.is_empty() {
            line.push("  ", quiet);
            match self.has_hit {
                true => push_marked(&mut line, &first_line(&self.detail), search, quiet),
                false => _ = line.push(first_line(&self.detail), quiet),
            }
        }
        let free = columns.saturating_sub(width(&right));
        let mut line = line.truncated(free);
        line.push(" ".repeat(free - line.width().min(free)), style);
        line.push(right, quiet);
        line
    }
}

/// The text with the words of the search standing out, as they were found: at the beginnings of words.
fn push_marked(line: &mut Line, text: &str, search: &str, style: Style) {
    let hit = Style { bold: true, underline: true, ..style };
    let words: Vec<&str> = search.split_whitespace().collect();
    let mut done = 0;
    while let Some(found) =
        words.iter().filter_map(|word| find_word(text, done, word)).min_by_key(|it| it.start)
    {
        line.push(text[done..found.start].to_owned(), style);
        line.push(text[found.clone()].to_owned(), hit);
        done = found.end;
    }
    line.push(text[done..].to_owned(), style);
}

/// The first place from `from` on where a word begins with the letters.
fn find_word(text: &str, from: usize, letters: &str) -> Option<Range<usize>> {
    let mut at = from;
    while let Some(found) = history::find(&text[at..], letters).filter(|it| !it.is_empty()) {
        let found = at + found.start..at + found.end;
        if !text[..found.start].ends_with(char::is_alphanumeric) {
            return Some(found);
        }
        at = found.end;
    }
    None
}

/// The first line, as far as any screen can show it.
fn first_line(text: &str) -> String {
    text.trim_start().lines().next().unwrap_or_default().chars().take(1000).collect()
}

fn wrapped(lines: &[Line], columns: usize, rows: usize) -> Vec<Line> {
    let none = Line::default();
    let wrapped = lines.iter().take(rows).flat_map(|line| line.wrapped(columns, &none));
    wrapped.take(rows).collect()
}
