//! Questions of the model: options, a text of the user's own, or both.

use std::collections::BTreeMap;

use protocol::tool::{
    ToolRequestUserInputAnswer, ToolRequestUserInputParams, ToolRequestUserInputQuestion,
    ToolRequestUserInputResponse,
};

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style};

use super::field::Field;
use super::step::{Answer, FollowUp, Rows, Step, encoded};

/// The rows after the answers: the same ways to refuse as for every question.
const REFUSALS: [(&str, &str); 2] =
    [("No, continue without an answer", " (n, Esc)"), ("No, and stop the turn", " (c, Ctrl+C)")];

/// The questions, of which one is displayed at a time.
#[derive(Clone, Debug)]
pub(super) struct Questions {
    questions: Vec<Question>,
    at: usize,
}

#[derive(Clone, Debug)]
struct Question {
    asked: ToolRequestUserInputQuestion,
    /// Which options are chosen.
    chosen: Vec<bool>,
    /// The user's own text.
    field: Field,
    /// The option, or after the last one the text, or after that one of the refusals.
    selected: usize,
}

impl Questions {
    pub(super) fn new(params: ToolRequestUserInputParams) -> Self {
        let question = |asked: ToolRequestUserInputQuestion| Question {
            chosen: vec![false; asked.options.as_ref().map_or(0, Vec::len)],
            field: Field::new(String::new(), asked.is_secret),
            selected: 0,
            asked,
        };
        Self { questions: params.questions.into_iter().map(question).collect(), at: 0 }
    }

    pub(super) fn key(&mut self, key: Key) -> Step {
        let count = self.questions.len();
        let is_interrupt = key == Key::ctrl('c');
        let Some(question) = self.questions.get_mut(self.at).filter(|_| !is_interrupt) else {
            return stopped();
        };
        match (key.code, question.chosen_refusal(key)) {
            (Code::Esc, _) | (_, Some(Refusal::GoOn)) => return done(&[]),
            (_, Some(Refusal::Stop)) => return stopped(),
            (Code::Tab, None) if !key.shift => self.at = (self.at + 1) % count,
            (Code::Tab, None) => self.at = (self.at + count - 1) % count,
            (Code::Enter, None) => {
                question.choose_selected();
                if self.at + 1 == count {
                    return done(&self.questions);
                }
                self.at += 1;
            }
            _ => return question.key(key),
        }
        Step::Stay
    }

    /// True if the letter or number answers at once.
    pub(super) fn answers_at_once(&self, key: Key) -> bool {
        let question = self.questions.get(self.at);
        key.typed().is_some() && question.is_some_and(|it| it.chosen_refusal(key).is_some())
    }

    /// True if what is typed goes into a field that the user turned to.
    pub(super) fn takes_words(&self) -> bool {
        self.questions.get(self.at).is_some_and(|it| it.is_text())
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let Some(question) = self.questions.get_mut(self.at).filter(|it| it.takes_text()) {
            question.selected = question.chosen.len();
            question.field.insert(text);
        }
    }

    pub(super) fn rows(&self, columns: usize) -> Rows {
        let mut rows = Rows::default();
        let Some(question) = self.questions.get(self.at) else { return rows };
        let asked = &question.asked;
        let number = match self.questions.len() {
            0 | 1 => String::new(),
            count => format!(" ({} of {count})", self.at + 1),
        };
        let head = Line::new(asked.header.clone(), Palette::ACCENT).with(number, Palette::QUIET);
        let none = Line::default();
        rows.lines.extend(head.wrapped(columns, &none));
        for part in asked.question.split('\n') {
            rows.lines.extend(Line::plain(part.to_owned()).wrapped(columns, &none));
        }
        question.rows(columns, &mut rows);
        let last = self.at + 1 == self.questions.len();
        let enter = if last { "Enter sends" } else { "Enter continues" };
        let several = if question.chosen.is_empty() { "" } else { ", Space chooses several" };
        let tab = if self.questions.len() > 1 { ", Tab the other questions" } else { "" };
        let help = format!("{enter}{several}{tab}");
        rows.lines.extend(Line::new(help, Palette::QUIET).wrapped(columns, &none));
        rows
    }
}

impl Question {
    fn takes_text(&self) -> bool {
        self.asked.is_other || self.chosen.is_empty()
    }

    /// True if the row of the user's own text is selected.
    fn is_text(&self) -> bool {
        self.takes_text() && self.selected == self.chosen.len()
    }

    /// Rows before the refusals.
    fn answer_rows(&self) -> usize {
        self.chosen.len() + usize::from(self.takes_text())
    }

    /// The refusal that a key chooses: Enter the selected one, a letter or a number while no text is written.
    fn chosen_refusal(&self, key: Key) -> Option<Refusal> {
        let answers = self.answer_rows();
        let row = match (key.code, key.typed()) {
            (Code::Enter, _) => self.selected,
            (_, Some('n')) if !self.is_text() => answers,
            (_, Some('c')) if !self.is_text() => answers + 1,
            (_, Some(c)) if !self.is_text() => (c.to_digit(10)? as usize).checked_sub(1)?,
            _ => return None,
        };
        match row.checked_sub(answers)? {
            0 => Some(Refusal::GoOn),
            1 => Some(Refusal::Stop),
            _ => None,
        }
    }

    fn choose_selected(&mut self) {
        if !self.chosen.iter().any(|it| *it)
            && let Some(chosen) = self.chosen.get_mut(self.selected)
        {
            *chosen = true;
        }
    }

    fn key(&mut self, key: Key) -> Step {
        let options = self.chosen.len();
        let count = self.answer_rows() + REFUSALS.len();
        match key.code {
            Code::Up => self.selected = (self.selected + count - 1) % count,
            Code::Down => self.selected = (self.selected + 1) % count,
            _ if self.is_text() => {
                let fits = self.field.key(key);
                if !fits && key.typed().is_some() {
                    return Step::Notice("The answer has the maximum length".to_owned());
                }
            }
            Code::Char(' ') if key.typed().is_some() && self.selected < options => {
                self.chosen[self.selected] = !self.chosen[self.selected];
            }
            Code::Char('s') if key.typed().is_some() && self.takes_text() => {
                self.selected = options;
            }
            _ => {
                let Some(c) = key.typed() else { return Step::Ignored };
                let number = c.to_digit(10).and_then(|digit| (digit as usize).checked_sub(1));
                match number.filter(|number| *number < self.answer_rows()) {
                    Some(number) if number < options => {
                        self.selected = number;
                        self.chosen[number] = !self.chosen[number];
                    }
                    Some(number) => self.selected = number,
                    None => return Step::Ignored,
                }
            }
        }
        Step::Stay
    }

    fn rows(&self, columns: usize, rows: &mut Rows) {
        let indent = Line::plain("       ");
        let options = self.asked.options.iter().flatten();
        for (index, (option, chosen)) in options.zip(&self.chosen).enumerate() {
            let is_selected = index == self.selected;
            let style = if is_selected { Palette::SELECTED } else { Style::PLAIN };
            let sign = if is_selected { "› " } else { "  " };
            let mark = if *chosen { "●" } else { "○" };
            let line = Line::new(format!("{sign}{mark} {}. {}", index + 1, option.label), style);
            let start = rows.lines.len();
            rows.lines.extend(line.wrapped(columns, &indent));
            if !option.description.is_empty() {
                let line = indent.clone().with(option.description.clone(), Palette::QUIET);
                rows.lines.extend(line.wrapped(columns, &indent));
            }
            if is_selected {
                rows.focus = start..rows.lines.len();
            }
        }
        if self.takes_text() {
            self.text_rows(columns, rows);
        }
        let answers = self.answer_rows();
        for (index, (label, keys)) in REFUSALS.into_iter().enumerate() {
            let is_selected = self.selected == answers + index;
            let style = if is_selected { Palette::SELECTED } else { Style::PLAIN };
            let sign = if is_selected { "› " } else { "  " };
            let keys = match self.is_text() {
                // Letters are text.
                true => format!(" ({}", keys.rsplit(", ").next().unwrap_or_default()),
                false => keys.to_owned(),
            };
            let start = rows.lines.len();
            let line = Line::new(format!("{sign}  {}. {label}", answers + index + 1), style)
                .with(keys, if is_selected { style } else { Palette::QUIET });
            rows.lines.extend(line.wrapped(columns, &indent));
            if is_selected {
                rows.focus = start..rows.lines.len();
            }
        }
    }

    fn text_rows(&self, columns: usize, rows: &mut Rows) {
        let is_selected = self.is_text();
        let sign = if is_selected { "› " } else { "  " };
        let label = format!("{sign}  {}. ", self.chosen.len() + 1);
        let start = rows.lines.len();
        if !is_selected && self.field.is_empty() {
            let line = Line::plain(format!("{label}Something else")).with(" (s)", Palette::QUIET);
            rows.lines.push(line);
            return;
        }
        let (lines, cursor) = self.field.rows(&label, columns);
        rows.lines.extend(lines);
        if is_selected {
            rows.focus = start..rows.lines.len();
            rows.cursor = Some((start + cursor.0, cursor.1));
        }
    }

    fn answers(&self) -> Vec<String> {
        let options = self.asked.options.iter().flatten().zip(&self.chosen);
        let chosen = options.filter(|(_, chosen)| **chosen).map(|(option, _)| option.label.clone());
        let own = Some(self.field.text()).filter(|text| !text.is_empty());
        let mut answers: Vec<String> = chosen.collect();
        // A text that is the label of an option is that option.
        answers.extend(own.filter(|own| !answers.contains(own)));
        answers
    }
}

/// The two ways to refuse.
enum Refusal {
    GoOn,
    Stop,
}

fn stopped() -> Step {
    let summary = Line::new("Skipped the questions and stopped the turn", Palette::WARNING);
    let reply = encoded(&ToolRequestUserInputResponse { answers: BTreeMap::new() });
    Step::refused(Answer::new(reply, summary).and(FollowUp::StopTurn))
}

fn done(questions: &[Question]) -> Step {
    let mut answers = BTreeMap::new();
    let mut parts = Vec::new();
    for question in questions {
        let given = question.answers();
        if given.is_empty() {
            continue;
        }
        let text = match question.asked.is_secret {
            true => "(hidden)".to_owned(),
            false => given.join(", "),
        };
        parts.push(format!("{}: {text}", question.asked.header));
        answers.insert(question.asked.id.clone(), ToolRequestUserInputAnswer { answers: given });
    }
    let (text, style) = match parts.is_empty() {
        true => ("Skipped the questions".to_owned(), Palette::WARNING),
        false => (format!("Answered {}", parts.join("; ")), Palette::GOOD),
    };
    let reply = encoded(&ToolRequestUserInputResponse { answers });
    Step::refused(Answer::new(reply, Line::new(text, style)))
}
