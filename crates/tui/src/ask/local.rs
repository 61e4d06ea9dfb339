//! Dialogs of the program's own: a list of choices, a line of text, or items to check. Their answers stay in
//! this program: the reply is the id of a choice, the text, the list of checked items, or null where the
//! user left the dialog.

use serde_json::Value;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::Line;

use super::checklist::{CheckItem, Checklist};
use super::choices::{Choice, Choices};
use super::field::Field;
use super::guard::Guard;
use super::step::{Answer, Rows, Step};
use super::{Ask, Control};

/// One of the choices of a dialog.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// The reply.
    id: String,
    letter: char,
    label: String,
    effect: Option<String>,
    accepts: bool,
    is_escape: bool,
}

impl Offer {
    pub(crate) fn new(id: impl Into<String>, letter: char, label: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            letter,
            label: label.into(),
            effect: None,
            accepts: false,
            is_escape: false,
        }
    }

    /// Adds its meaning, in a line below it.
    pub(crate) fn with_effect(mut self, effect: impl Into<String>) -> Self {
        self.effect = Some(effect.into());
        self
    }

    /// It grants something: all of the dialog has to have been on the screen.
    pub(crate) fn granting(mut self) -> Self {
        self.accepts = true;
        self
    }

    /// Esc chooses it, too.
    pub(crate) fn on_escape(mut self) -> Self {
        self.is_escape = true;
        self
    }
}

impl Ask {
    /// A list of choices. Esc chooses the one that says so, and leaves the dialog where there is none.
    pub(crate) fn offer(title: &str, facts: Vec<Line>, offers: Vec<Offer>) -> Self {
        let escape = offers.iter().find(|offer| offer.is_escape);
        let escape = escape.map_or_else(left, |offer| reply(Value::String(offer.id.clone())));
        let choices = offers.into_iter().map(|offer| {
            let answer = reply(Value::String(offer.id));
            let choice = match offer.accepts {
                true => Choice::yes(offer.letter, offer.label, answer),
                false => Choice::no(offer.letter, offer.label, answer),
            };
            Choice { effect: offer.effect, ..choice }
        });
        let choices = Choices::new(choices.collect(), escape.clone(), escape);
        Self::local(title, facts, Control::Choices(Box::new(choices)))
    }

    /// A line of text. A secret one is shown as dots, and must not be empty.
    pub(crate) fn entry(title: &str, facts: Vec<Line>, label: &str, is_secret: bool) -> Self {
        let entry = Entry {
            label: format!("{label}: "),
            field: Field::new(String::new(), is_secret),
            may_be_empty: !is_secret,
        };
        Self::local(title, facts, Control::Entry(entry))
    }

    /// Begins a line of text with what was written before.
    pub(crate) fn with_text(mut self, text: &str) -> Self {
        if let Control::Entry(entry) = &mut self.control {
            entry.field = Field::new(text.to_owned(), entry.field.is_secret());
        }
        self
    }

    /// Items to check and to put in order.
    pub(crate) fn checklist(title: &str, facts: Vec<Line>, items: Vec<CheckItem>) -> Self {
        Self::local(title, facts, Control::Checklist(Checklist::new(items)))
    }

    /// Keys that were meant for something else do nothing: the dialog opens by itself.
    pub(crate) fn guarded(
        mut self,
        now_ms: u64,
        last_key_ms: Option<u64>,
        is_writing: bool,
    ) -> Self {
        self.guard = Guard::new(now_ms, last_key_ms, is_writing);
        self
    }

    /// Shows a line below everything until the next key.
    pub(crate) fn with_notice(mut self, text: impl Into<String>) -> Self {
        self.notice = Some(text.into());
        self
    }

    /// The items that are checked now, in their order.
    pub(crate) fn checked(&self) -> Option<Vec<String>> {
        match &self.control {
            Control::Checklist(list) => Some(list.checked()),
            _ => None,
        }
    }

    fn local(title: &str, facts: Vec<Line>, control: Control) -> Self {
        Self::with(title.to_owned(), facts, control, Guard::open())
    }
}

/// A line of text, sent with Enter.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    label: String,
    field: Field,
    may_be_empty: bool,
}

impl Entry {
    pub(super) fn key(&mut self, key: Key) -> Step {
        match key.code {
            Code::Esc => Step::refused(left()),
            Code::Char('c') if key.ctrl => Step::refused(left()),
            Code::Enter if self.field.is_empty() && !self.may_be_empty => {
                Step::Notice("Nothing is written yet. Esc goes back".to_owned())
            }
            Code::Enter => Step::refused(reply(Value::String(self.field.text()))),
            _ if self.field.key(key) => Step::Stay,
            _ if key.typed().is_some() => Step::Notice("The text has the maximum length".into()),
            _ => Step::Ignored,
        }
    }

    pub(super) fn paste(&mut self, text: &str) -> bool {
        self.field.insert(text.trim())
    }

    pub(super) fn rows(&self, columns: usize) -> Rows {
        let (mut lines, cursor) = self.field.rows(&self.label, columns);
        let focus = 0..lines.len();
        let help = Line::new("Enter continues, Esc goes back", Palette::QUIET);
        lines.extend(help.wrapped(columns, &Line::default()));
        Rows { lines, focus, cursor: Some(cursor) }
    }
}

/// The user left the dialog.
pub(super) fn left() -> Answer {
    reply(Value::Null)
}

/// Nothing is printed about it here: who asked says what came of it.
pub(super) fn reply(value: Value) -> Answer {
    Answer::new(Ok(value), Line::default())
}
