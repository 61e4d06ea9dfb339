//! The output besides the live region: lines that are printed, the notice above the composer, and effects.

use std::collections::VecDeque;

use crate::app::events::Effect;
use crate::palette::{Palette, Rgb};
use crate::terminal::screen::Size;
use crate::text::{Line, Style};

/// Duration of a notice, in milliseconds.
const NOTICE_MS: u64 = 4_000;

/// The outgoing side of the program, and what it knows about the terminal.
#[derive(Debug)]
pub(super) struct Output {
    size: Size,
    palette: Palette,
    is_focused: bool,
    printed: Vec<Line>,
    /// The line above the composer, and the time in milliseconds at which it goes.
    notice: Option<(Line, u64)>,
    effects: VecDeque<Effect>,
}

impl Output {
    pub(super) fn new(size: Size, palette: Palette) -> Self {
        Self {
            size,
            palette,
            is_focused: true,
            printed: Vec::new(),
            notice: None,
            effects: VecDeque::new(),
        }
    }

    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn columns(&self) -> usize {
        self.size.columns
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
    }

    pub(super) fn palette(&self) -> Palette {
        self.palette
    }

    /// The terminal has a background of this colour.
    pub(super) fn set_background(&mut self, background: Rgb) {
        if self.palette.background != Some(background) {
            self.palette.background = Some(background);
            self.emit(Effect::Recolor(self.palette));
        }
    }

    pub(super) fn is_focused(&self) -> bool {
        self.is_focused
    }

    pub(super) fn set_focused(&mut self, is_focused: bool) {
        self.is_focused = is_focused;
    }

    pub(super) fn print(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.printed.extend(lines);
    }

    /// Prints a message with a mark, wrapped, and an empty line after it.
    pub(super) fn message(&mut self, mark: &'static str, style: Style, text: &str) {
        let indent = Line::plain("  ");
        for (number, text) in text.lines().enumerate() {
            let mark = if number == 0 { mark } else { "  " };
            let line = Line::new(mark, style).with(text.to_owned(), style);
            self.printed.extend(line.wrapped(self.size.columns, &indent));
        }
        self.printed.push(Line::default());
    }

    /// Takes out what is printed with the next frame.
    pub(super) fn take_printed(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.printed)
    }

    /// Shows a line above the composer for some seconds.
    pub(super) fn notice(&mut self, text: String, now: u64) {
        self.notice = Some((Line::new(text, Palette::QUIET), now + NOTICE_MS));
    }

    pub(super) fn clear_notice(&mut self) {
        self.notice = None;
    }

    pub(super) fn notice_line(&self) -> Option<&Line> {
        self.notice.as_ref().map(|(line, _)| line)
    }

    /// When the notice goes, in milliseconds.
    pub(super) fn notice_until(&self) -> Option<u64> {
        self.notice.as_ref().map(|(_, until)| *until)
    }

    /// Adds something to be done.
    pub(super) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// The next thing to be done.
    pub(super) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}
