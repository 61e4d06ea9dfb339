//! A list to choose from, with an incremental search: threads, models, themes, skills, agents.
//!
//! The rows come in pages of [`PAGE`] from the application, and only the pages near the selected row are
//! kept, so a list of any length costs the same.

mod pages;
mod view;

#[cfg(test)]
mod tests;

use std::cell::Cell;

use crate::terminal::input::{Code, Key};
use crate::text::Line;

use pages::Pages;

/// Rows of a page: what most screens show. Each row of a search that is not shown delays those that are.
pub const PAGE: usize = 50;

/// A row of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The id of the row's subject; unique in the list.
    pub id: String,
    /// The first text of the row.
    pub title: String,
    /// The text after the title.
    pub detail: String,
    /// True if it is where the search was found, which stands out.
    pub has_hit: bool,
    /// The texts at the right, from left to right: the most important last, which stays where there
    /// is little room.
    pub columns: Vec<String>,
}

impl Row {
    /// A message: its first line, and how many follow.
    #[must_use]
    pub fn of_message(id: String, text: &str) -> Self {
        let more = text.lines().count().saturating_sub(1);
        Self {
            id,
            title: text.lines().next().unwrap_or_default().to_owned(),
            detail: String::new(),
            has_hit: false,
            columns: if more > 0 { vec![format!("{more} more lines")] } else { Vec::new() },
        }
    }
}

/// A page that the list needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Goes with the answer.
    pub token: u64,
    /// Its first row is number `page * PAGE` of those that match. Pages are asked for in any order.
    pub page: usize,
    /// The search text.
    pub search: String,
    /// True if rows of other folders should be left out.
    pub only_folder: bool,
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The list took it: draw it again, and see whether it needs a page.
    Changed,
    /// A row was chosen.
    Chosen(Row),
    /// Nothing was chosen.
    Cancelled,
    /// The list has no use for it.
    Ignored,
}

/// The list.
#[derive(Clone, Debug)]
pub struct Picker {
    title: String,
    search: String,
    /// Set if rows of other folders can be left out: true if they are.
    only_folder: Option<bool>,
    /// All rows, where the application gave them at once.
    fixed: Option<Vec<Row>>,
    pages: Pages,
    selected: usize,
    /// The first row on the screen and how many there are, as they were drawn last.
    window: Cell<(usize, usize)>,
    /// The preview of the row with this id.
    preview: Option<(String, Vec<Line>)>,
    /// True if the rows of the previous search are shown as such.
    is_slow: bool,
    notice: Option<String>,
    /// The help about keys, where they are unusual.
    help: Option<&'static str>,
}

impl Picker {
    /// A list whose pages the application provides, see [`Picker::need`].
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            search: String::new(),
            only_folder: None,
            fixed: None,
            pages: Pages::default(),
            selected: 0,
            window: Cell::new((0, 1)),
            preview: None,
            is_slow: false,
            notice: None,
            help: None,
        }
    }

    /// A list of a few rows, which it searches itself.
    #[must_use]
    pub fn fixed(title: impl Into<String>, rows: Vec<Row>) -> Self {
        let mut picker = Self { fixed: Some(rows), ..Self::new(title) };
        picker.filter();
        picker
    }

    /// Offers to leave out the rows of other folders (Tab), which is on or off at first.
    #[must_use]
    pub fn with_folder_filter(mut self, on: bool) -> Self {
        self.only_folder = Some(on);
        self
    }

    /// Searches for these words at first.
    #[must_use]
    pub fn with_search(mut self, words: &str) -> Self {
        self.search = words.to_owned();
        self
    }

    /// Says what keys do in place of the usual.
    #[must_use]
    pub fn with_help(mut self, help: &'static str) -> Self {
        self.help = Some(help);
        self
    }

    /// Replaces the rows of a list of a few rows; the selected one stays so, or the one in its place.
    pub fn set_rows(&mut self, rows: Vec<Row>) {
        if self.fixed.as_ref() == Some(&rows) {
            return;
        }
        let selected = self.selected().map(|row| row.id.clone());
        self.fixed = Some(rows);
        self.filter();
        self.selected = self.selected.min(self.pages.len().saturating_sub(1));
        if let Some(id) = selected {
            self.select(&id);
        }
    }

    /// Selects the row with this id, if it is among the rows that are known.
    pub fn select(&mut self, id: &str) {
        if let Some(index) = self.pages.position(id) {
            self.selected = index;
        }
    }

    /// The page to provide next with [`Picker::set_page`]; each is asked for once.
    pub fn need(&mut self) -> Option<Need> {
        if self.fixed.is_some() {
            return None;
        }
        let (first, height) = self.window.get();
        // Who searches looks at the first rows; who has moved on may go on.
        let ahead = if self.selected > 0 { PAGE } else { 0 };
        let wanted = self.selected.min(first)..self.selected.max(first + height) + ahead;
        let page = self.pages.need(wanted)?;
        Some(Need {
            token: self.pages.token(),
            page,
            search: self.search.clone(),
            only_folder: self.only_folder.unwrap_or(false),
        })
    }

    /// Provides a page. One of fewer than [`PAGE`] rows is the last. `total` is the number of rows that
    /// match, where it is known. Pages for an older search are dropped.
    pub fn set_page(&mut self, token: u64, page: usize, rows: Vec<Row>, total: Option<usize>) {
        self.pages.set(token, page, rows, total);
        self.is_slow &= self.is_stale();
        self.selected = self.selected.min(self.pages.len().saturating_sub(1));
    }

    /// Returns whether the rows of a search are still to come.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.pages.is_stale()
    }

    /// Shows that the rows are still those of the search before. Where the next ones come at once, the list
    /// would flicker with every letter.
    pub fn show_stale(&mut self) {
        self.is_slow = self.is_stale();
    }

    /// Reports that a page could not be provided.
    pub fn set_failure(&mut self, token: u64, message: impl Into<String>) {
        if token == self.pages.token() {
            self.notice = Some(message.into());
        }
    }

    /// The selected row, once it is known.
    #[must_use]
    pub fn selected(&self) -> Option<&Row> {
        self.pages.get(self.selected)
    }

    /// Sets the preview of a row.
    pub fn set_preview(&mut self, id: impl Into<String>, lines: Vec<Line>) {
        self.preview = Some((id.into(), lines));
    }

    /// Returns whether the selected row has no preview yet.
    #[must_use]
    pub fn needs_preview(&self) -> bool {
        let id = self.preview.as_ref().map(|(id, _)| id);
        self.selected().is_some_and(|row| Some(&row.id) != id)
    }

    /// Takes a key: text searches, Tab changes the folder filter, Enter chooses, Esc gives up.
    pub fn key(&mut self, key: Key) -> Outcome {
        let (_, height) = self.window.get();
        let last = self.pages.len().saturating_sub(1);
        let page = height.max(2) - 1;
        match key.code {
            Code::Esc => return Outcome::Cancelled,
            Code::Char('c') if key.ctrl => return Outcome::Cancelled,
            Code::Enter => return self.choose(),
            Code::Up => self.selected = self.selected.saturating_sub(1),
            Code::Char('p') if key.ctrl => self.selected = self.selected.saturating_sub(1),
            Code::Down => self.selected = (self.selected + 1).min(last),
            Code::Char('n') if key.ctrl => self.selected = (self.selected + 1).min(last),
            Code::PageUp => self.selected = self.selected.saturating_sub(page),
            Code::PageDown => self.selected = (self.selected + page).min(last),
            Code::Home => self.selected = 0,
            Code::End => self.selected = last,
            Code::Tab if self.only_folder.is_some() => {
                self.only_folder = self.only_folder.map(|on| !on);
                self.restart();
            }
            Code::Backspace => {
                if self.search.pop().is_some() {
                    self.restart();
                }
            }
            Code::Char('u') if key.ctrl => {
                self.search.clear();
                self.restart();
            }
            _ => match key.typed() {
                Some(c) => {
                    self.search.push(c);
                    self.restart();
                }
                None => return Outcome::Ignored,
            },
        }
        Outcome::Changed
    }

    fn choose(&mut self) -> Outcome {
        // Rows of the search before are not what the person asks for.
        match self.selected().filter(|_| !self.pages.is_stale()) {
            Some(row) => Outcome::Chosen(row.clone()),
            None => Outcome::Changed,
        }
    }

    /// Takes pasted text into the search.
    pub fn paste(&mut self, text: &str) {
        self.search.extend(text.chars().map(|c| if c == '\n' { ' ' } else { c }));
        self.restart();
    }

    fn restart(&mut self) {
        self.selected = 0;
        self.notice = None;
        self.window.set((0, self.window.get().1));
        self.pages.restart();
        self.filter();
    }

    /// Provides what matches of rows that were given at once.
    fn filter(&mut self) {
        let Some(rows) = &self.fixed else { return };
        let words: Vec<&str> = self.search.split_whitespace().collect();
        let matches = |row: &&Row| {
            words.iter().all(|word| {
                let mut texts = [&row.title, &row.detail].into_iter().chain(&row.columns);
                texts.any(|text| crate::history::find(text, word).is_some())
            })
        };
        let rows = rows.iter().filter(matches).cloned().collect();
        self.pages.set_all(rows);
    }
}
