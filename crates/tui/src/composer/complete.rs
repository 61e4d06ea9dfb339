//! The lists that open while a word is written: commands after `/`, files after `@`, skills after `$`.

use std::ops::Range;
use std::path::PathBuf;

use unicode_segmentation::UnicodeSegmentation;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style, width};
use crate::view::View;

use super::buffer::Pos;
use super::chip::is_chip;
use super::edit::Editor;

/// Rows of the list.
const MAX_ROWS: usize = 8;
/// Bytes of a word on either side of the cursor, of which more opens no list.
const MAX_WORD: usize = 1024;

/// A command that `/` offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Without the `/`.
    pub name: String,
    /// The description of the command.
    pub description: String,
    /// Its arguments, as in `<name>` or `[name]`. A command is submitted as soon as it is chosen if it has
    /// none, and when its name was written in full if they may be left out.
    pub hint: Option<String>,
    /// True if it can be used now; otherwise it is shown dimmed.
    pub is_available: bool,
}

/// A row of the files or skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The displayed text.
    pub label: String,
    /// The text next to it.
    pub detail: String,
    /// Characters of the label to highlight, by index, ascending.
    pub matches: Vec<usize>,
    /// The insertion that choosing it makes.
    pub insertion: Insertion,
}

/// The inserted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// Text, as it is.
    Text(String),
    /// A skill.
    Skill {
        /// Its name.
        name: String,
        /// Its definition file.
        path: String,
    },
    /// Another resource.
    Mention {
        /// Its name.
        name: String,
        /// Its address, as in `app://ID`.
        path: String,
    },
}

/// A search that the application answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Goes with the answer.
    pub token: u64,
    /// The kind of search.
    pub kind: QueryKind,
    /// The text typed after the sign.
    pub text: String,
}

/// The subject of a [`Query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// Files of the folder.
    Files,
}

/// The effect of a key on the list.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Moved,
    Chosen { range: Range<Pos>, insertion: Insertion, submits: bool },
}

/// The list, open or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Popup {
    commands: Vec<Command>,
    skills: Vec<Candidate>,
    open: Option<Open>,
    /// Where a list was closed: it stays so until another word is written.
    dismissed: Option<Pos>,
    tokens: u64,
}

#[derive(Clone, Debug)]
struct Open {
    sign: char,
    range: Range<Pos>,
    text: String,
    token: u64,
    rows: Vec<Row>,
    /// True if rows for the text are still to come.
    waits: bool,
    selected: usize,
    first: usize,
}

#[derive(Clone, Debug)]
struct Row {
    candidate: Candidate,
    is_available: bool,
    submits: bool,
}

impl Popup {
    pub(super) fn set_commands(&mut self, commands: Vec<Command>) {
        self.commands = commands;
    }

    pub(super) fn set_skills(&mut self, skills: Vec<Candidate>) {
        self.skills = skills;
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn query(&self) -> Option<Query> {
        let open = self.open.as_ref().filter(|open| open.sign == '@')?;
        Some(Query { token: open.token, kind: QueryKind::Files, text: open.text.clone() })
    }

    pub(super) fn set_files(&mut self, token: u64, files: Vec<Candidate>) {
        if let Some(open) = self.open.as_mut().filter(|open| open.token == token) {
            open.rows = files.into_iter().map(Row::of).collect();
            open.waits = false;
            (open.selected, open.first) = (0, 0);
        }
    }

    /// Opens, changes or closes the list as the word at the cursor wants it.
    pub(super) fn refresh(&mut self, editor: &Editor) {
        let Some((sign, range, text)) = word(editor) else {
            self.open = None;
            self.dismissed = None;
            return;
        };
        if self.dismissed == Some(range.start) {
            return;
        }
        self.dismissed = None;
        if let Some(open) = self.open.as_mut().filter(|it| it.sign == sign && it.text == text) {
            open.range = range;
            return;
        }
        self.tokens += 1;
        let rows = match sign {
            '/' => self.matching_commands(&text),
            '$' => self.matching_skills(&text),
            // The rows of the last search stay until the new ones come.
            _ => match self.open.take() {
                Some(open) if open.sign == '@' && open.range.start == range.start => open.rows,
                _ => Vec::new(),
            },
        };
        let waits = sign == '@';
        self.open = (waits || !rows.is_empty()).then_some(Open {
            token: self.tokens,
            selected: 0,
            first: 0,
            sign,
            range,
            text,
            rows,
            waits,
        });
    }

    /// The arguments of a command.
    pub(super) fn hint(&self, name: &str) -> Option<&str> {
        self.commands.iter().find(|command| command.name == name)?.hint.as_deref()
    }

    fn matching_commands(&self, text: &str) -> Vec<Row> {
        let found = ranked(&self.commands, |command| &command.name, text);
        let row = |(command, matches): (&Command, Vec<usize>)| {
            let hint = command.hint.as_ref().map(|hint| format!(" {hint}")).unwrap_or_default();
            // What may follow may also be left out, where the whole name is written.
            let is_whole = command.name == text && hint.starts_with(" [");
            Row {
                submits: command.hint.is_none() || is_whole,
                is_available: command.is_available,
                candidate: Candidate {
                    label: format!("/{}{hint}", command.name),
                    detail: command.description.clone(),
                    matches: matches.into_iter().map(|at| at + 1).collect(),
                    insertion: Insertion::Text(format!("/{} ", command.name)),
                },
            }
        };
        found.into_iter().map(row).collect()
    }

    fn matching_skills(&self, text: &str) -> Vec<Row> {
        let found = ranked(&self.skills, |skill| &skill.label, text);
        found
            .into_iter()
            .map(|(skill, matches)| Row::of(Candidate { matches, ..skill.clone() }))
            .collect()
    }

    /// Takes a key; `None` if no list is open or the key is not for it.
    pub(super) fn key(&mut self, key: Key) -> Option<Act> {
        let open = self.open.as_mut()?;
        let plain = !key.ctrl && !key.alt && !key.shift;
        let count = open.rows.len();
        match key.code {
            Code::Esc => {
                self.dismissed = Some(open.range.start);
                self.open = None;
                return Some(Act::Moved);
            }
            _ if count == 0 => return None,
            Code::Up if plain => open.selected = (open.selected + count - 1) % count,
            Code::Down if plain => open.selected = (open.selected + 1) % count,
            Code::Char('p') if key.ctrl => open.selected = (open.selected + count - 1) % count,
            Code::Char('n') if key.ctrl => open.selected = (open.selected + 1) % count,
            // What was found for other text is not what the person asks for.
            Code::Enter | Code::Tab if plain && open.waits => return None,
            Code::Enter | Code::Tab if plain => {
                let row = open.rows.swap_remove(open.selected);
                let range = open.range.clone();
                let submits = row.submits && key.code == Code::Enter;
                self.open = None;
                self.dismissed = Some(range.start);
                return Some(Act::Chosen { range, insertion: row.candidate.insertion, submits });
            }
            _ => return None,
        }
        open.first = open.first.clamp((open.selected + 1).saturating_sub(MAX_ROWS), open.selected);
        Some(Act::Moved)
    }

    pub(super) fn view(&self, columns: usize) -> Option<View> {
        let open = self.open.as_ref()?;
        let mut view = View::default();
        if open.rows.is_empty() {
            let text = if open.waits { "searching …" } else { "no file matches" };
            view.lines.push(Line::new(text, Palette::QUIET).truncated(columns));
            return Some(view);
        }
        let rows = open.rows.iter().enumerate().skip(open.first).take(MAX_ROWS);
        let label_cells = rows.clone().map(|(_, row)| width(&row.candidate.label)).max();
        let label_cells = label_cells.unwrap_or(0).min(columns / 2);
        for (index, row) in rows {
            view.lines.push(row.line(index == open.selected, label_cells).truncated(columns));
        }
        Some(view)
    }
}

impl Row {
    fn of(candidate: Candidate) -> Self {
        Self { candidate, is_available: true, submits: false }
    }

    fn line(&self, is_selected: bool, label_cells: usize) -> Line {
        let base = match (is_selected, self.is_available) {
            (true, _) => Palette::SELECTED,
            (false, true) => Style::PLAIN,
            (false, false) => Palette::QUIET,
        };
        let mut line = Line::new(if is_selected { "› " } else { "  " }, base);
        let mut matches = self.candidate.matches.iter().copied().peekable();
        for (index, c) in self.candidate.label.chars().enumerate() {
            let is_match = matches.next_if_eq(&index).is_some();
            line.push(c.to_string(), if is_match { base.bold() } else { base });
        }
        let pad = label_cells.saturating_sub(width(&self.candidate.label)) + 2;
        line.push(" ".repeat(pad), base);
        line.push(self.candidate.detail.clone(), if is_selected { base } else { Palette::QUIET });
        if !self.is_available {
            line.push(" (not now)", base);
        }
        line
    }
}

/// The word that the cursor stands after or in, if it begins with a sign that opens a list: the sign, the
/// whole word, and what stands between the sign and the cursor.
fn word(editor: &Editor) -> Option<(char, Range<Pos>, String)> {
    let at = editor.cursor();
    let line = editor.buffer().line(at.line);
    let stops = |c: char| c.is_whitespace() || is_chip(c);
    // Longer words are no names, and looking for their ends at each key would take long.
    let from = line.floor_char_boundary(at.byte.saturating_sub(MAX_WORD));
    let to = line.floor_char_boundary(line.len().min(at.byte + MAX_WORD));
    let before = &line[from..at.byte];
    let start = match before.char_indices().rev().find(|(_, c)| stops(*c)) {
        Some((found, c)) => from + found + c.len_utf8(),
        None if from == 0 => 0,
        None => return None,
    };
    let end = match line[at.byte..to].find(stops) {
        Some(found) => at.byte + found,
        None if to == line.len() => to,
        None => return None,
    };
    let sign = line[start..].chars().next()?;
    let is_list = match sign {
        '/' => start == 0 && at.line == 0 && !line[1..end].contains('/'),
        '@' | '$' => true,
        _ => false,
    };
    if !is_list || at.byte == start {
        return None;
    }
    let range = Pos { byte: start, ..at }..Pos { byte: end, ..at };
    Some((sign, range, line[start + 1..at.byte].to_owned()))
}

/// The rows whose name has the characters of `text` in their order, without regard to case, with the
/// places of these characters: names that begin with it first, then those that contain it.
fn ranked<'r, T>(
    rows: &'r [T],
    name: impl Fn(&T) -> &String,
    text: &str,
) -> Vec<(&'r T, Vec<usize>)> {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let mut found: Vec<(usize, &T, Vec<usize>)> = Vec::new();
    for row in rows {
        let lower: Vec<char> =
            name(row).chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect();
        let whole = (0..lower.len()).find(|at| lower[*at..].starts_with(&text));
        let matches: Vec<usize> = match whole {
            Some(at) => (at..at + text.len()).collect(),
            None => {
                let mut from = 0;
                let each = text.iter().map_while(|c| {
                    let at = from + lower[from..].iter().position(|it| it == c)?;
                    from = at + 1;
                    Some(at)
                });
                each.collect()
            }
        };
        if matches.len() == text.len() {
            found.push((whole.map_or(2, |at| at.min(1)), row, matches));
        }
    }
    found.sort_by_key(|(rank, _, _)| *rank);
    found.into_iter().map(|(_, row, matches)| (row, matches)).collect()
}

/// See [`super::Composer::pasted_path`].
pub(super) fn image_path(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    if text.len() > 4096 || text.contains('\n') {
        return None;
    }
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let path = if let Some(path) = quoted('\'').or_else(|| quoted('"')) {
        path.to_owned()
    } else if let Some(rest) = text.strip_prefix("file://") {
        percent_decoded(rest.strip_prefix("localhost").unwrap_or(rest))?
    } else {
        match unescaped(text) {
            Some(path) => path,
            // A file manager copies an absolute path as it is.
            None if text.starts_with('/') => text.to_owned(),
            None => return None,
        }
    };
    let extension = path.rsplit('.').next()?.to_ascii_lowercase();
    let is_image = matches!(extension.as_str(), "png" | "jpg" | "jpeg" | "gif" | "webp");
    (is_image && path.len() > extension.len() + 1).then(|| PathBuf::from(path))
}

/// A word as a shell takes it, with backslashes before its spaces; a space without one ends it.
fn unescaped(text: &str) -> Option<String> {
    let mut path = String::new();
    let mut parts = text.graphemes(true);
    while let Some(part) = parts.next() {
        match part {
            "\\" => path.push_str(parts.next()?),
            " " | "\t" => return None,
            _ => path.push_str(part),
        }
    }
    Some(path)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}
