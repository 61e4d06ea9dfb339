//! The dialog for whatever the server asks: approvals, permissions, questions, forms of MCP servers.
//!
//! It shows all of what would happen. Nothing is cut off without saying so, and an answer that allows
//! something is taken only when all of it was on the screen, or after a second press that says what was
//! not. Keys that were meant for something else are ignored, see [`guard`]. A letter answers only when nothing
//! is typed after it for a moment, so that a word never answers.

mod approval;
mod checklist;
mod choices;
mod facts;
mod field;
mod form;
mod guard;
mod local;
mod permissions;
mod questions;
mod step;
mod values;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::path::Path;

use jsonrpc::{ErrorObject, Method};
use protocol::elicitation::McpServerElicitationRequestParams;
use protocol::item::ThreadItem;
use protocol::tool::{
    DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::Line;
use crate::view::View;

use checklist::Checklist;
use choices::Choices;
use form::{Elicitation, Form};
use guard::Guard;
use local::Entry;
use questions::Questions;
use step::{Step, encoded};

pub(crate) use checklist::CheckItem;
pub(crate) use form::item_of_call;
pub(crate) use local::Offer;
pub use step::{Answer, FollowUp};

const NO_ANSWER: &str = "That key is not an answer; pause before the next one";

/// When the request came, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The time, in milliseconds.
    pub now_ms: u64,
    /// When the last key was pressed.
    pub last_key_ms: Option<u64>,
    /// True if a message is being written.
    pub is_writing: bool,
    /// The folder of the thread.
    pub cwd: &'c Path,
    /// The item that the request is about, with the patch or the command.
    pub item: Option<&'c ThreadItem>,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self { now_ms: 0, last_key_ms: None, is_writing: false, cwd: Path::new("/"), item: None }
    }
}

/// An open request.
#[derive(Clone, Debug)]
pub struct Ask {
    title: Line,
    /// The proposed action, its place, its rights, and its reason.
    facts: Vec<Line>,
    control: Control,
    guard: Guard,
    /// The reason why the last key had no effect.
    notice: Option<String>,
    /// The key whose next press accepts although not all was on the screen.
    confirms: Option<Key>,
    /// The letter that answers unless more is typed at once.
    pending: Option<Pending>,
    scroll: Cell<Scroll>,
    /// Title and facts as they were wrapped last, and to how many columns: a command may be long.
    wrapped: RefCell<(usize, Vec<Line>)>,
}

#[derive(Clone, Debug)]
enum Control {
    Choices(Box<Choices>),
    Questions(Questions),
    Form(Box<Form>),
    Entry(Entry),
    Checklist(Checklist),
}

/// A letter that answers at `due_ms`: the first letter of a word does not.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: Key,
    due_ms: u64,
    confirms: Option<Key>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Scroll {
    columns: usize,
    first: usize,
    shown: usize,
    total: usize,
    /// Rows from the top that were on the screen at this width.
    seen: usize,
}

impl Ask {
    /// The dialog for a request.
    ///
    /// # Errors
    /// The answer to send at once where there is nothing to ask: unknown methods, parameters that do not
    /// fit, and what this program does not do.
    pub fn new(method: &str, params: Value, context: Context<'_>) -> Result<Self, Box<Answer>> {
        let (title, facts, control) = match method {
            protocol::ItemCommandExecutionRequestApproval::NAME => {
                chosen(approval::command(read(method, params)?, context.item))
            }
            protocol::ItemFileChangeRequestApproval::NAME => {
                let params = read(method, params)?;
                chosen(approval::file_change(&params, context.item, context.cwd))
            }
            protocol::ItemPermissionsRequestApproval::NAME => {
                chosen(permissions::request(read(method, params)?))
            }
            protocol::ItemToolRequestUserInput::NAME => {
                let questions = Questions::new(read(method, params)?);
                let title = "The agent asks you".to_owned();
                (title, Vec::new(), Control::Questions(questions))
            }
            protocol::McpServerElicitationRequest::NAME => elicitation(method, params)?,
            protocol::ItemToolCall::NAME => return Err(refused_tool(&read(method, params)?)),
            _ => return Err(refused(ErrorObject::method_not_found(method))),
        };
        let guard = Guard::new(context.now_ms, context.last_key_ms, context.is_writing);
        Ok(Self::with(title, facts, control, guard))
    }

    /// Takes a key that came at `now_ms`; returns the answer when there is one.
    pub fn key(&mut self, key: Key, now_ms: u64) -> Option<Answer> {
        let settled = self.settle(now_ms);
        if settled.is_some() {
            return settled;
        }
        if let Some(pending) = self.pending.take() {
            match key.typed() {
                _ if key.code == Code::Enter => return self.apply(pending.key, pending.confirms),
                // Pressed twice, or held.
                Some(_) if key == pending.key => {
                    self.pending = Some(pending);
                    return None;
                }
                Some(_) => {
                    self.guard.note(pending.key);
                    self.guard.note(key);
                    self.notice = Some(guard::FOR_THE_MESSAGE.to_owned());
                    return None;
                }
                None => {}
            }
        }
        let confirms = self.confirms.take();
        self.notice = self.guard.refuses(now_ms, key).map(str::to_owned);
        if self.notice.is_some() || self.scrolls(key) {
            return None;
        }
        if self.waits(key) {
            if let Some(choices) = self.choices_mut()
                && let Some(index) = choices.choice_of(key)
            {
                choices.point_at(index);
            }
            self.pending = Some(Pending { key, due_ms: now_ms + guard::TYPING, confirms });
            return None;
        }
        self.apply(key, confirms)
    }

    /// Takes the answer of a letter after which nothing was typed.
    pub fn settle(&mut self, now_ms: u64) -> Option<Answer> {
        let pending = self.pending.take_if(|pending| pending.due_ms <= now_ms)?;
        self.apply(pending.key, pending.confirms)
    }

    /// When [`Ask::settle`] is due, in milliseconds.
    #[must_use]
    pub fn settles_at(&self) -> Option<u64> {
        self.pending.map(|pending| pending.due_ms)
    }

    /// Takes out what was typed and belongs to the message that is being written.
    pub fn take_words(&mut self) -> String {
        let mut words = self.guard.take_words();
        match &self.control {
            Control::Choices(choices) => words.push_str(&choices.written()),
            Control::Form(form) => words.push_str(&form.written()),
            Control::Questions(_) | Control::Entry(_) | Control::Checklist(_) => {}
        }
        words
    }

    /// True if the key answers with a letter or a number, which may be the beginning of a word. In a dialog
    /// that the user opened nothing else can be meant.
    fn waits(&self, key: Key) -> bool {
        if key.typed().is_none() || self.guard.is_wanted() {
            return false;
        }
        match &self.control {
            Control::Choices(choices) => {
                choices.choice_of(key).is_some_and(|index| choices.is_ready(index))
            }
            Control::Form(form) => {
                form.open_choices().is_some_and(|choices| choices.choice_of(key).is_some())
            }
            Control::Questions(questions) => questions.answers_at_once(key),
            Control::Entry(_) | Control::Checklist(_) => false,
        }
    }

    fn choices_mut(&mut self) -> Option<&mut Choices> {
        match &mut self.control {
            Control::Choices(choices) => Some(choices),
            _ => None,
        }
    }

    /// Takes a key that was meant for the dialog.
    fn apply(&mut self, key: Key, confirms: Option<Key>) -> Option<Answer> {
        let before = self.control.clone();
        let step = match &mut self.control {
            Control::Choices(choices) => choices.key(key),
            Control::Questions(questions) => questions.key(key),
            Control::Form(form) => form.key(key),
            Control::Entry(entry) => entry.key(key),
            Control::Checklist(list) => list.key(key),
        };
        match step {
            Step::Ignored if key.typed().is_some() => {
                self.guard.note(key);
                self.notice = Some(NO_ANSWER.to_owned());
                None
            }
            Step::Stay | Step::Ignored => None,
            Step::Notice(notice) => {
                self.notice = Some(notice);
                None
            }
            Step::Done { answer, accepts } => {
                if accepts && confirms != Some(key) && !self.was_displayed(key) {
                    self.control = before;
                    return None;
                }
                Some(answer)
            }
        }
    }

    /// Returns whether all facts were on the screen. If not, the same key again accepts.
    fn was_displayed(&mut self, key: Key) -> bool {
        let Scroll { total, seen, .. } = self.scroll.get();
        if total == 0 {
            return false;
        }
        let hidden = total - seen;
        if hidden > 0 {
            self.notice = Some(format!(
                "{hidden} of {total} lines were not on the screen: PgDn shows them; the same key \
                 again accepts anyway"
            ));
            self.confirms = Some(key);
        }
        hidden == 0
    }

    /// It is in front now, as new to the reader as one that has just come.
    pub(crate) fn comes_to_front(&mut self, now_ms: u64) {
        self.guard.appears_again(now_ms);
    }

    /// Takes pasted text, into the field that is being written, or for the message.
    pub fn paste(&mut self, text: &str, now_ms: u64) {
        (self.confirms, self.pending) = (None, None);
        let text_key = Key::plain(Code::Enter);
        let fits = match (self.guard.refuses(now_ms, text_key), &mut self.control) {
            (None, Control::Questions(questions)) if questions.takes_words() => {
                questions.paste(text);
                true
            }
            (None, Control::Form(form)) => {
                form.paste(text);
                true
            }
            (None, Control::Entry(entry)) => entry.paste(text),
            (None, Control::Choices(choices)) if choices.is_writing() => choices.paste(text),
            (refusal, _) => {
                self.guard.note_paste(text);
                self.notice = Some(refusal.unwrap_or(guard::FOR_THE_MESSAGE).to_owned());
                return;
            }
        };
        self.notice = (!fits).then(|| "The text is too long".to_owned());
    }

    /// PgUp and PgDn move through the facts.
    fn scrolls(&mut self, key: Key) -> bool {
        let mut scroll = self.scroll.get();
        let page = scroll.shown.max(1);
        match key.code {
            Code::PageDown => {
                scroll.first = (scroll.first + page).min(scroll.total.saturating_sub(scroll.shown));
            }
            Code::PageUp => scroll.first = scroll.first.saturating_sub(page),
            _ => return false,
        }
        self.scroll.set(scroll);
        true
    }

    /// The dialog in at most `max_rows` rows.
    #[must_use]
    pub fn view(&self, columns: usize, max_rows: usize) -> View {
        self.wrap_facts(columns);
        let facts = &self.wrapped.borrow().1;
        let rows = match &self.control {
            Control::Choices(choices) => choices.rows(columns, true),
            Control::Questions(questions) => questions.rows(columns),
            Control::Form(form) => form.rows(columns),
            Control::Entry(entry) => entry.rows(columns),
            Control::Checklist(list) => list.rows(columns),
        };
        let notice = self.notice.as_ref().map(|text| {
            let line = Line::new(text.clone(), Palette::WARNING);
            line.wrapped(columns, &Line::default())
        });
        let mut notice = notice.unwrap_or_default();
        // What is asked about comes before all the ways to answer, as long as one of these can be seen.
        notice.truncate(max_rows.saturating_sub(2).max(max_rows.min(1)));
        let free = max_rows - notice.len();
        let wanted = rows.lines.len().min(free);
        // Of choices that are cut off, the last row says so.
        let least = (rows.focus.len() + 1).clamp(1, (free / 2).max(1)).min(wanted);
        let for_control =
            free.saturating_sub(facts.len()).clamp(least, wanted.max(least)).min(wanted);
        let mut view =
            View { lines: self.shown_facts(facts, columns, free - for_control), cursor: None };
        let offset = view.lines.len();
        let is_cut = for_control < rows.lines.len() && for_control > 1;
        let for_rows = for_control - usize::from(is_cut);
        let first = rows.focus.end.saturating_sub(for_rows).min(rows.focus.start);
        let first = first.min(rows.lines.len() - for_rows.min(rows.lines.len()));
        if let Control::Choices(choices) = &self.control {
            choices.note_shown(first..first + for_rows);
        }
        let hidden = rows.lines.len().saturating_sub(for_rows);
        let visible = rows.lines.into_iter().skip(first).take(for_rows);
        view.lines.extend(visible.map(|line| line.truncated(columns)));
        if is_cut {
            let mut texts = vec![format!("… {hidden} more rows of choices (Up, Down)")];
            if let Control::Choices(choices) = &self.control
                && let Some(refusal) = choices.hidden_refusal()
            {
                // How to refuse can always be seen.
                let long = format!("{}; Esc: {refusal}", texts[0]);
                texts = vec![
                    long,
                    format!("Esc: {refusal} … {hidden} more rows"),
                    format!("Esc: {refusal} … {hidden} more"),
                    format!("Esc: {refusal}"),
                ];
            }
            let fits = |text: &&String| crate::text::width(text) <= columns;
            let text = texts.iter().find(fits).or(texts.last()).cloned().unwrap_or_default();
            view.lines.push(Line::new(text, Palette::WARNING).truncated(columns));
        }
        view.cursor = rows.cursor.and_then(|(row, column)| {
            let row = row.checked_sub(first).filter(|row| *row < for_rows)?;
            Some((offset + row, column.min(columns.saturating_sub(1))))
        });
        view.lines.extend(notice);
        if columns < 2 {
            // Lines are wrapped to two columns at least.
            view.lines.iter_mut().for_each(|line| *line = line.truncated(columns));
        }
        view
    }

    fn with(title: String, facts: Vec<Line>, control: Control, guard: Guard) -> Self {
        Self {
            title: Line::new(title, Palette::HEADING),
            facts,
            control,
            guard,
            notice: None,
            confirms: None,
            pending: None,
            scroll: Cell::default(),
            wrapped: RefCell::default(),
        }
    }

    fn wrap_facts(&self, columns: usize) {
        let (width, lines) = &mut *self.wrapped.borrow_mut();
        if *width != columns || lines.is_empty() {
            *width = columns;
            *lines = self.title.wrapped(columns, &Line::default());
            let indent = Line::plain("  ");
            lines.extend(self.facts.iter().flat_map(|line| line.wrapped(columns, &indent)));
        }
    }

    /// The part of the facts that fits, and a line that says how many do not.
    fn shown_facts(&self, facts: &[Line], columns: usize, rows: usize) -> Vec<Line> {
        let mut scroll = self.scroll.get();
        if scroll.columns != columns || scroll.total != facts.len() {
            let first = if scroll.columns == columns { scroll.first } else { 0 };
            scroll = Scroll { columns, first, total: facts.len(), ..Scroll::default() };
        }
        let fits = facts.len() <= rows;
        scroll.shown = if fits { facts.len() } else { rows.saturating_sub(1) };
        scroll.first = scroll.first.min(facts.len() - scroll.shown);
        let end = scroll.first + scroll.shown;
        if scroll.first <= scroll.seen {
            scroll.seen = scroll.seen.max(end);
        }
        self.scroll.set(scroll);
        let mut lines: Vec<Line> = facts[scroll.first..end].to_vec();
        if !fits && rows > 0 {
            let above = scroll.first;
            let below = facts.len() - end;
            let text = format!(
                "… {} lines hidden ({above} above, {below} below; PgUp, PgDn)",
                above + below
            );
            let short = format!("… {} hidden", above + below);
            let text = if crate::text::width(&text) <= columns { text } else { short };
            lines.push(Line::new(text, Palette::WARNING).truncated(columns));
        }
        lines
    }
}

fn elicitation(method: &str, params: Value) -> Result<(String, Vec<Line>, Control), Box<Answer>> {
    let mode = params.get("mode").and_then(Value::as_str).unwrap_or_default();
    if !matches!(mode, "form" | "url") {
        return Ok(chosen(values::unknown_mode(&params)));
    }
    let params: McpServerElicitationRequestParams = read(method, params)?;
    let (title, facts, elicitation) = Form::ask(params);
    let control = match elicitation {
        Elicitation::Choices(choices) => Control::Choices(choices),
        Elicitation::Form(form) => Control::Form(form),
    };
    Ok((title, facts, control))
}

fn chosen((title, facts, choices): (String, Vec<Line>, Choices)) -> (String, Vec<Line>, Control) {
    (title, facts, Control::Choices(Box::new(choices)))
}

fn read<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, Box<Answer>> {
    serde_json::from_value(params).map_err(|error| {
        refused(ErrorObject::invalid_params(format!("the parameters of `{method}`: {error}")))
    })
}

fn refused(error: ErrorObject) -> Box<Answer> {
    let text = format!("Refused a request of the server: {}", error.message);
    Box::new(Answer::new(Err(error), Line::new(text, Palette::WARNING)))
}

fn refused_tool(params: &DynamicToolCallParams) -> Box<Answer> {
    let text = format!("the terminal has no tools of its own, so `{}` is unavailable", params.tool);
    let response = DynamicToolCallResponse {
        content_items: vec![DynamicToolCallOutputContentItem::InputText { text: text.clone() }],
        success: false,
    };
    let summary = Line::new(format!("Refused a tool call: {text}"), Palette::WARNING);
    Box::new(Answer::new(encoded(&response), summary))
}
