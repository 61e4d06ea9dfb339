//! A list of decisions, each with its number and a letter. One of them may have a field, in which the user
//! writes what to do instead.

use std::cell::RefCell;
use std::ops::Range;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style};

use super::field::Field;
use super::step::{Answer, FollowUp, Rows, Step};

const NOTHING_WRITTEN: &str = "Nothing is written yet: Esc refuses without instructions";

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
    /// True if the user writes what to do instead.
    pub(super) has_field: bool,
}

impl Choice {
    /// A decision that allows something.
    pub(super) fn yes(letter: char, label: impl Into<String>, answer: Answer) -> Self {
        Self { accepts: true, ..Self::no(letter, label, answer) }
    }

    /// A decision that allows nothing.
    pub(super) fn no(letter: char, label: impl Into<String>, answer: Answer) -> Self {
        let (label, effect) = (label.into(), None);
        Self { letter, label, effect, accepts: false, answer, has_field: false }
    }

    pub(super) fn with_effect(self, effect: impl Into<String>) -> Self {
        Self { effect: Some(effect.into()), ..self }
    }
}

/// The ways to refuse, which are the same for every question: `n` and Esc go on without it, `s` says what to
/// do instead, `c` and Ctrl+C stop the turn. A question that is not part of a turn has only the first.
pub(super) fn refusals(decline: &Answer, stop: Option<&Answer>) -> Vec<Choice> {
    let mut choices = vec![Choice::no('n', "No, continue without it", decline.clone())];
    if let Some(stop) = stop {
        let instead = Choice::no('s', "No, and say what to do instead", decline.clone());
        choices.push(Choice { has_field: true, ..instead });
        choices.push(Choice::no('c', "No, and stop the turn", stop.clone()));
    }
    choices
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
    field: Field,
    /// True if the user writes into the field of the selected choice.
    is_writing: bool,
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
        Self {
            choices,
            selected: 0,
            warned: None,
            escape,
            interrupt,
            field: Field::new(String::new(), false),
            is_writing: false,
            drawn: RefCell::default(),
        }
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let count = self.choices.len();
        let warned = self.warned.take();
        match key.code {
            Code::Esc => return Step::refused(self.escape.clone()),
            Code::Char('c') if key.ctrl => return Step::refused(self.interrupt.clone()),
            Code::Up if count > 0 => self.select((self.selected + count - 1) % count),
            Code::Down if count > 0 => self.select((self.selected + 1) % count),
            Code::Enter if self.is_writing => return self.instruct(),
            _ if self.is_writing => return self.write(key),
            Code::Char('p') if key.ctrl && count > 0 => {
                self.select((self.selected + count - 1) % count);
            }
            Code::Char('n') if key.ctrl && count > 0 => self.select((self.selected + 1) % count),
            Code::Enter => return self.take(self.selected, warned),
            _ => {
                return self.choice_of(key).map_or(Step::Ignored, |at| self.take(at, warned));
            }
        }
        Step::Stay
    }

    /// The choice that a letter or a number stands for, unless text is being written.
    pub(super) fn choice_of(&self, key: Key) -> Option<usize> {
        let c = key.typed().filter(|_| !self.is_writing)?;
        let by_number = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1));
        let by_letter = || self.choices.iter().position(|it| it.letter == c && c != ' ');
        by_number.filter(|at| *at < self.choices.len()).or_else(by_letter)
    }

    /// Shows a choice as the one that is about to be taken, if all of it is on the screen.
    pub(super) fn point_at(&mut self, index: usize) {
        if self.was_shown(index) {
            self.select(index);
        }
    }

    /// True if the user writes what to do instead.
    pub(super) fn is_writing(&self) -> bool {
        self.is_writing
    }

    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    /// Inserts text into the open field. Returns whether it fits.
    pub(super) fn paste(&mut self, text: &str) -> bool {
        self.field.insert(text.trim_end())
    }

    /// The text in the field.
    pub(super) fn written(&self) -> String {
        self.field.text()
    }

    fn select(&mut self, index: usize) {
        (self.selected, self.is_writing) = (index, false);
    }

    fn write(&mut self, key: Key) -> Step {
        match self.field.key(key) {
            true => Step::Stay,
            false if key.typed().is_some() => {
                Step::Notice("The text has the maximum length".into())
            }
            false => Step::Ignored,
        }
    }

    /// Refuses with what was written.
    fn instruct(&mut self) -> Step {
        let text = self.field.text();
        let Some(choice) = self.choices.get(self.selected).filter(|_| !text.trim().is_empty())
        else {
            return Step::Notice(NOTHING_WRITTEN.to_owned());
        };
        let mut answer = choice.answer.clone();
        answer.summary.push("; the agent gets your instructions instead", Palette::QUIET);
        self.field = Field::new(String::new(), false);
        Step::refused(answer.and(FollowUp::Instruct(text)))
    }

    fn take(&mut self, index: usize, warned: Option<usize>) -> Step {
        let was_shown = self.was_shown(index);
        let Some(choice) = self.choices.get(index) else { return Step::Ignored };
        self.selected = index;
        if choice.has_field {
            self.is_writing = true;
            return Step::Stay;
        }
        // Selecting it displays as much of it as there is room for.
        if choice.accepts && !was_shown && warned != Some(index) {
            self.warned = Some(index);
            let text = "This choice was not fully on the screen: the same key again chooses it";
            return Step::Notice(text.to_owned());
        }
        Step::Done { answer: choice.answer.clone(), accepts: choice.accepts }
    }

    /// True if a key takes the choice: what allows something has to have been on the screen.
    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.choices.get(index).is_some_and(|choice| !choice.accepts) || self.was_shown(index)
    }

    fn was_shown(&self, index: usize) -> bool {
        let (rows, shown) = &*self.drawn.borrow();
        rows.get(index).is_some_and(|rows| shown.start <= rows.start && rows.end <= shown.end)
    }

    pub(super) fn note_shown(&self, rows: Range<usize>) {
        self.drawn.borrow_mut().1 = rows;
    }

    /// Returns the answer of Esc, if that choice is not on the screen.
    pub(super) fn hidden_refusal(&self) -> Option<&str> {
        let index = self.choice_of_escape()?;
        let (rows, shown) = &*self.drawn.borrow();
        let row = rows.get(index)?.start;
        (!shown.contains(&row)).then_some(self.choices[index].label.as_str())
    }

    fn choice_of_escape(&self) -> Option<usize> {
        self.choices.iter().position(|it| !it.accepts && it.answer == self.escape)
    }

    /// The rows, with the selected choice marked if the list takes the keys.
    pub(super) fn rows(&self, columns: usize, has_focus: bool) -> Rows {
        let mut rows = Rows::default();
        let mut places = Vec::new();
        for index in 0..self.choices.len() {
            let start = rows.lines.len();
            let is_selected = has_focus && index == self.selected;
            self.choice_rows(index, is_selected, columns, &mut rows);
            places.push(start..rows.lines.len());
            if is_selected {
                rows.focus = start..rows.lines.len();
            }
        }
        self.drawn.borrow_mut().0 = places;
        rows
    }

    fn choice_rows(&self, index: usize, is_selected: bool, columns: usize, rows: &mut Rows) {
        let choice = &self.choices[index];
        let style = if is_selected { Palette::SELECTED } else { Style::PLAIN };
        let sign = if is_selected { "› " } else { "  " };
        let line = Line::new(format!("{sign}{}. {}", index + 1, choice.label), style)
            .with(self.keys_of(index), if is_selected { style } else { Palette::QUIET });
        let indent = Line::plain("     ");
        rows.lines.extend(line.wrapped(columns, &indent));
        if let Some(effect) = &choice.effect {
            let effect = Line::plain("     ").with(effect.clone(), Palette::QUIET);
            rows.lines.extend(effect.wrapped(columns, &indent));
        }
        if is_selected && self.is_writing {
            let (lines, (row, column)) = self.field.rows("     > ", columns);
            rows.cursor = Some((rows.lines.len() + row, column));
            rows.lines.extend(lines);
            let help =
                Line::plain("     ").with("Enter sends, ↑ ↓ return to the answers", Palette::QUIET);
            rows.lines.extend(help.wrapped(columns, &indent));
        }
    }

    /// The keys besides the number that stand for a choice.
    fn keys_of(&self, index: usize) -> String {
        let choice = &self.choices[index];
        let is_interrupt =
            !choice.has_field && choice.answer == self.interrupt && self.interrupt != self.escape;
        let mut keys: Vec<String> = Vec::new();
        keys.extend(Some(choice.letter).filter(|letter| *letter != ' ').map(String::from));
        keys.extend((self.choice_of_escape() == Some(index)).then(|| "Esc".to_owned()));
        keys.extend(is_interrupt.then(|| "Ctrl+C".to_owned()));
        match keys.is_empty() {
            true => String::new(),
            false => format!(" ({})", keys.join(", ")),
        }
    }
}
