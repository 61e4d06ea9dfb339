//! A list of decisions, each with its number and a letter.

use std::cell::RefCell;
use std::ops::Range;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style};

use super::step::{Answer, Rows, Step};

/// A decision.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) letter: char,
    pub(super) label: String,
    /// Its effect beyond this request.
    pub(super) effect: Option<String>,
    /// True if it allows anything.
    pub(super) accepts: bool,
    pub(super) answer: Answer,
}

/// The decisions that a request offers.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    choices: Vec<Choice>,
    selected: usize,
    /// The choice of which the last key said that it was not all on the screen.
    warned: Option<usize>,
    /// The answer of Esc and Ctrl+C.
    escape: Answer,
    interrupt: Answer,
    /// The rows of each choice, and which rows were displayed.
    drawn: RefCell<(Vec<Range<usize>>, Range<usize>)>,
}

impl Choices {
    pub(super) fn new(mut choices: Vec<Choice>, escape: Answer, interrupt: Answer) -> Self {
        // A letter stands for the first choice that wants it.
        let mut taken = Vec::new();
        for choice in &mut choices {
            if taken.contains(&choice.letter) {
                choice.letter = ' ';
            }
            taken.push(choice.letter);
        }
        Self { choices, selected: 0, warned: None, escape, interrupt, drawn: RefCell::default() }
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let count = self.choices.len();
        let warned = self.warned.take();
        match key.code {
            Code::Esc => return Step::Done { answer: self.escape.clone(), accepts: false },
            Code::Char('c') if key.ctrl => {
                return Step::Done { answer: self.interrupt.clone(), accepts: false };
            }
            Code::Up if count > 0 => self.selected = (self.selected + count - 1) % count,
            Code::Down if count > 0 => self.selected = (self.selected + 1) % count,
            Code::Char('p') if key.ctrl && count > 0 => {
                self.selected = (self.selected + count - 1) % count;
            }
            Code::Char('n') if key.ctrl && count > 0 => self.selected = (self.selected + 1) % count,
            Code::Enter => return self.take(self.selected, warned),
            _ => {
                let Some(c) = key.typed() else { return Step::Ignored };
                let by_number = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1));
                let by_letter = || self.choices.iter().position(|it| it.letter == c && c != ' ');
                match by_number.filter(|at| *at < count).or_else(by_letter) {
                    Some(index) => return self.take(index, warned),
                    None => return Step::Ignored,
                }
            }
        }
        Step::Stay
    }

    fn take(&mut self, index: usize, warned: Option<usize>) -> Step {
        let Some(choice) = self.choices.get(index) else { return Step::Ignored };
        let was_shown = {
            let (rows, shown) = &*self.drawn.borrow();
            rows.get(index).is_some_and(|rows| shown.start <= rows.start && rows.end <= shown.end)
        };
        self.selected = index;
        // Selecting it displays as much of it as there is room for.
        if choice.accepts && !was_shown && warned != Some(index) {
            self.warned = Some(index);
            let text = "This choice was not all on the screen: the same key again takes it";
            return Step::Notice(text.to_owned());
        }
        Step::Done { answer: choice.answer.clone(), accepts: choice.accepts }
    }

    pub(super) fn note_shown(&self, rows: Range<usize>) {
        self.drawn.borrow_mut().1 = rows;
    }

    /// Returns the answer of Esc, if that choice is not on the screen.
    pub(super) fn hidden_refusal(&self) -> Option<&str> {
        let is_it = |choice: &Choice| !choice.accepts && choice.answer.reply == self.escape.reply;
        let index = self.choices.iter().position(is_it)?;
        let (rows, shown) = &*self.drawn.borrow();
        let row = rows.get(index)?.start;
        (!shown.contains(&row)).then_some(self.choices[index].label.as_str())
    }

    pub(super) fn rows(&self, columns: usize) -> Rows {
        let mut rows = Rows::default();
        let mut places = Vec::new();
        for (index, choice) in self.choices.iter().enumerate() {
            let is_selected = index == self.selected;
            let style = if is_selected { Palette::SELECTED } else { Style::PLAIN };
            let sign = if is_selected { "› " } else { "  " };
            let key = match choice.letter {
                ' ' => String::new(),
                letter => format!(" ({letter})"),
            };
            let line = Line::new(format!("{sign}{}. {}", index + 1, choice.label), style)
                .with(key, if is_selected { style } else { Palette::QUIET });
            let start = rows.lines.len();
            let indent = Line::plain("     ");
            rows.lines.extend(line.wrapped(columns, &indent));
            if let Some(effect) = &choice.effect {
                let effect = Line::plain("     ").with(effect.clone(), Palette::QUIET);
                rows.lines.extend(effect.wrapped(columns, &indent));
            }
            places.push(start..rows.lines.len());
            if is_selected {
                rows.focus = start..rows.lines.len();
            }
        }
        self.drawn.borrow_mut().0 = places;
        rows
    }
}
