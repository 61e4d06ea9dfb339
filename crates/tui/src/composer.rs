//! The editor in which the user writes: several lines, chips for pasted text and images, undo, a kill
//! ring, Emacs or Vi keys, completion. It does no I/O: images and files come from the application.

mod buffer;
mod burst;
mod chip;
mod complete;
mod draft;
mod edit;
mod emacs;
mod layout;
mod motion;
mod vi;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::Line;
use crate::view::View;

use burst::Burst;
use complete::Popup;
use edit::Editor;
use vi::Vi;

pub use complete::{Candidate, Command, Insertion, Query, QueryKind};
pub use draft::{ChipKind, Draft, DraftElement};
pub use vi::Mode;

/// Characters and lines of pasted text of which more becomes a chip.
const MAX_INLINE_CHARS: usize = 1000;
const MAX_INLINE_LINES: usize = 10;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The composer took it: draw it again.
    Changed,
    /// The message was sent off; the composer is empty.
    Submitted(Draft),
    /// The composer has no use for it.
    Ignored,
}

/// The editor.
#[derive(Clone, Debug, Default)]
pub struct Composer {
    editor: Editor,
    vi: Vi,
    burst: Burst,
    /// When Enter came so soon after a character that it may be a line break of a paste.
    held_enter: Option<u64>,
    popup: Popup,
    placeholder: &'static str,
}

impl Composer {
    /// An empty composer with Emacs keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns Vi keys on, starting to insert, or off.
    pub fn set_vi(&mut self, on: bool) {
        self.editor.close_group();
        self.vi.set_enabled(on);
    }

    /// The mode of the Vi keys; `None` with Emacs keys.
    #[must_use]
    pub fn mode(&self) -> Option<Mode> {
        self.vi.mode()
    }

    /// Turns the recognition of unmarked pastes off (`disable_paste_burst`) or on.
    pub fn set_paste_burst_disabled(&mut self, disabled: bool) {
        self.burst.set_disabled(disabled);
        self.held_enter = None;
    }

    /// Sets the text that is shown while nothing is written.
    pub fn set_placeholder(&mut self, text: &'static str) {
        self.placeholder = text;
    }

    /// Returns whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.editor.buffer().is_empty()
    }

    /// Takes a key that came at `now_ms`.
    pub fn key(&mut self, key: Key, now_ms: u64) -> Outcome {
        let inserts = self.vi.inserts();
        // Something follows: it was a line break.
        if let Some(at) = self.held_enter.take() {
            self.insert_in_burst('\n', at);
        }
        if inserts && self.takes_as_burst(key, now_ms) {
            return Outcome::Changed;
        }
        if inserts && let Some(c) = key.typed() {
            self.burst.character(now_ms, self.editor.cursor());
            self.editor.type_char(c);
            self.vi.note(key);
            self.popup.refresh(&self.editor);
            return Outcome::Changed;
        }
        self.end_burst();
        if let Some(outcome) = self.popup_key(key) {
            return outcome;
        }
        if let Some(outcome) = self.enter(key) {
            return outcome;
        }
        let taken = self.vi.key(&mut self.editor, key);
        let taken = taken || self.vi.inserts() && emacs::key(&mut self.editor, key);
        self.popup.refresh(&self.editor);
        match taken {
            true => Outcome::Changed,
            false => Outcome::Ignored,
        }
    }

    /// Within a paste that the terminal does not mark, line breaks and tabs are text.
    fn takes_as_burst(&mut self, key: Key, now_ms: u64) -> bool {
        let c = match key.code {
            Code::Char('j') if key.ctrl => '\n',
            Code::Enter if !key.ctrl => '\n',
            Code::Tab if !key.shift => '\t',
            _ => return false,
        };
        if self.burst.includes(now_ms) {
            self.insert_in_burst(c, now_ms);
            return true;
        }
        let sends = key == Key::plain(Code::Enter);
        if sends && self.burst.may_go_on(now_ms) {
            self.held_enter = Some(now_ms);
        }
        self.held_enter.is_some()
    }

    fn insert_in_burst(&mut self, c: char, now_ms: u64) {
        self.burst.character(now_ms, self.editor.cursor());
        self.editor.type_char(c);
        self.popup.close();
    }

    fn enter(&mut self, key: Key) -> Option<Outcome> {
        let breaks = match key.code {
            Code::Char('j') if key.ctrl => true,
            Code::Enter => key.shift || key.alt || self.editor.take_backslash(),
            _ => return None,
        };
        if breaks {
            self.editor.insert("\n");
            self.vi.note(Key::plain(Code::Enter));
            self.popup.refresh(&self.editor);
            return Some(Outcome::Changed);
        }
        Some(match self.draft().is_blank() {
            true => Outcome::Ignored,
            false => Outcome::Submitted(self.take()),
        })
    }

    fn popup_key(&mut self, key: Key) -> Option<Outcome> {
        match self.popup.key(key)? {
            complete::Act::Moved => {}
            complete::Act::Chosen { range, insertion, submits } => {
                self.editor.complete(range, insertion);
                self.popup.refresh(&self.editor);
                if submits {
                    self.popup.close();
                    return Some(Outcome::Submitted(self.take()));
                }
            }
        }
        Some(Outcome::Changed)
    }

    /// When [`Composer::tick`] is due, if nothing comes before.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.held_enter.map(|at| at.saturating_add(burst::PAUSE)).or_else(|| self.burst.deadline())
    }

    /// Ends an unmarked paste whose time is over, and takes an Enter after which nothing came.
    pub fn tick(&mut self, now_ms: u64) -> Outcome {
        if self.deadline().is_none_or(|deadline| now_ms < deadline) {
            return Outcome::Ignored;
        }
        self.end_burst();
        self.popup.refresh(&self.editor);
        match self.held_enter.take() {
            Some(_) => self.key(Key::plain(Code::Enter), now_ms),
            None => Outcome::Changed,
        }
    }

    fn end_burst(&mut self) {
        let Some(start) = self.burst.end() else { return };
        self.editor.seal();
        let range = start..self.editor.cursor();
        if range.start < range.end {
            self.editor.fold(range, is_long);
        }
    }

    /// Takes pasted text. Long text becomes a chip.
    pub fn paste(&mut self, text: String) {
        self.end_burst();
        match is_long(&text) {
            true => self.editor.insert_pasted(text),
            false => self.editor.insert(&text),
        }
        self.popup.refresh(&self.editor);
    }

    /// The path in a pasted text that is nothing but the path of an image file: plain, quoted, escaped for
    /// a shell, or a `file:` address. Whether the file exists is for the application to see, which then
    /// calls [`Composer::attach_image`] in place of [`Composer::paste`].
    #[must_use]
    pub fn pasted_path(text: &str) -> Option<PathBuf> {
        complete::image_path(text)
    }

    /// Adds an image file at the cursor, with its width and height in pixels where they are known.
    pub fn attach_image(&mut self, path: &str, size: Option<(u32, u32)>) {
        self.end_burst();
        self.editor.insert_image(path, size);
        self.popup.refresh(&self.editor);
    }

    /// Returns the composed text.
    #[must_use]
    pub fn draft(&self) -> Draft {
        self.editor.draft()
    }

    /// Hands over what is written and empties the composer.
    pub fn take(&mut self) -> Draft {
        let draft = self.draft();
        self.restore(Draft::default());
        draft
    }

    /// Removes what is written; undo brings it back.
    pub fn clear(&mut self) {
        self.end_burst();
        self.editor.close_group();
        self.vi.start_inserting();
        self.editor.clear();
        self.popup.close();
    }

    /// Puts a draft in the place of what is written, with the cursor at its end. Elements whose ranges do
    /// not fit the text are left out; the text is kept whole.
    pub fn restore(&mut self, draft: Draft) {
        self.burst.end();
        self.held_enter = None;
        self.vi.start_inserting();
        self.editor.restore(draft);
        self.popup.close();
    }

    /// Sets the commands that `/` offers.
    pub fn set_commands(&mut self, commands: Vec<Command>) {
        self.popup.set_commands(commands);
        self.popup.refresh(&self.editor);
    }

    /// Sets the skills and other resources that `$` offers.
    pub fn set_skills(&mut self, skills: Vec<Candidate>) {
        self.popup.set_skills(skills);
        self.popup.refresh(&self.editor);
    }

    /// The search that the application should answer with [`Composer::set_files`], if one is open.
    #[must_use]
    pub fn query(&self) -> Option<Query> {
        self.popup.query()
    }

    /// Sets the files found for a query. Answers to an older query are dropped.
    pub fn set_files(&mut self, token: u64, files: Vec<Candidate>) {
        self.popup.set_files(token, files);
    }

    /// The open list of completions in at most 8 rows; `None` if none is open.
    #[must_use]
    pub fn completions(&self, columns: usize) -> Option<View> {
        self.popup.view(columns)
    }

    /// Returns the composed text, in at most `max_rows` rows around the cursor.
    #[must_use]
    pub fn view(&self, columns: usize, max_rows: usize) -> View {
        let mut view = self.editor.view(columns, max_rows);
        if self.is_empty() && !self.placeholder.is_empty() && max_rows > 0 {
            let hint = Line::new(self.placeholder, Palette::QUIET);
            view.lines[0].spans.extend(hint.spans);
            view.lines[0] = view.lines[0].truncated(columns);
        }
        if let Some(wanted) = self.wanted_argument().filter(|_| max_rows > 0) {
            view.lines[0].push(wanted.to_owned(), Palette::QUIET);
            view.lines[0] = view.lines[0].truncated(columns);
        }
        view
    }

    /// Returns the argument that the command still needs, where nothing but its name is written.
    fn wanted_argument(&self) -> Option<&str> {
        let buffer = self.editor.buffer();
        let line = buffer.line(0);
        let name = line.strip_prefix('/')?.strip_suffix(' ')?;
        let is_alone = self.editor.cursor().line == 0 && self.draft().text == line;
        self.popup.hint(name).filter(|_| is_alone)
    }
}

fn is_long(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'\n').count() >= MAX_INLINE_LINES
        || text.chars().nth(MAX_INLINE_CHARS).is_some()
}
