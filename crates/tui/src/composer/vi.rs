//! The keys of Vi: modes, counts, motions, operators, one register (the last kill) and `.`.

use crate::terminal::input::{Code, Key};

use super::buffer::Pos;
use super::edit::{Editor, Previous};
use super::{emacs, motion};

/// The largest count; more digits change nothing.
const MAX_COUNT: usize = 10_000;
/// Keys of one change that `.` repeats; a longer change is not repeated.
const MAX_RECORDED: usize = 10_000;

/// The mode of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are typed.
    #[default]
    Insert,
    /// They are commands.
    Normal,
}

/// The state of the Vi keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Vi {
    enabled: bool,
    mode: Mode,
    pending: Pending,
    /// The last `f`, `F`, `t` or `T` and its character.
    find: Option<(char, char)>,
    /// The keys of the last change, and of the one under way.
    change: Vec<Key>,
    recording: Option<Vec<Key>>,
    replays: bool,
}

/// A command that is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pending {
    count: Option<usize>,
    /// `d`, `c` or `y`, and the count before it.
    operator: Option<(char, usize)>,
    /// `f`, `F`, `t`, `T`, `r` or `g`, which another character follows.
    prefix: Option<char>,
}

/// Where a motion ends and what an operator takes on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Up to the place.
    Before(Pos),
    /// Up to the character at the place and that one, too.
    Through(Pos),
    /// All lines from here to there.
    Lines(Pos),
}

impl Vi {
    pub(super) fn set_enabled(&mut self, enabled: bool) {
        *self = Self { enabled, ..Self::default() };
    }

    pub(super) fn mode(&self) -> Option<Mode> {
        self.enabled.then_some(self.mode)
    }

    /// Returns whether characters are typed.
    pub(super) fn inserts(&self) -> bool {
        self.mode == Mode::Insert
    }

    pub(super) fn start_inserting(&mut self) {
        self.mode = Mode::Insert;
        self.pending = Pending::default();
        self.recording = None;
    }

    /// Takes note of a key that is typed or edits while inserting, for `.`.
    pub(super) fn note(&mut self, key: Key) {
        if let Some(keys) = self.recording.as_mut().filter(|keys| keys.len() < MAX_RECORDED) {
            keys.push(key);
        }
    }

    /// Takes a key that is a command; returns whether it was one.
    pub(super) fn key(&mut self, editor: &mut Editor, key: Key) -> bool {
        if !self.enabled {
            return false;
        }
        if self.mode == Mode::Insert {
            self.note(key);
            if key != Key::plain(Code::Esc) {
                return false;
            }
            self.mode = Mode::Normal;
            self.end_change();
            let at = editor.cursor();
            if !self.replays {
                editor.close_group();
            }
            if at.byte > 0 {
                editor.move_to(editor.left());
            }
            return true;
        }
        self.normal(editor, key)
    }

    fn normal(&mut self, editor: &mut Editor, key: Key) -> bool {
        if self.recording.is_none() && !self.replays {
            self.recording = Some(Vec::new());
            editor.open_group();
        }
        self.note(key);
        let previous = editor.begin();
        let taken = self.command(editor, key, &previous);
        if self.mode == Mode::Normal {
            if self.pending == Pending::default() {
                // It was no change, or `end_change` took it.
                self.recording = None;
                if !self.replays {
                    editor.close_group();
                }
            }
            stay_on_line(editor);
        }
        taken
    }

    fn end_change(&mut self) {
        if let Some(keys) = self.recording.take() {
            self.change = keys;
        }
    }

    fn command(&mut self, editor: &mut Editor, key: Key, previous: &Previous) -> bool {
        if let Some(prefix) = self.pending.prefix.take() {
            return self.prefixed(editor, prefix, key);
        }
        let Some(c) = key.typed() else { return self.special(editor, key, previous) };
        if let Some(digit) =
            c.to_digit(10).filter(|digit| *digit > 0 || self.pending.count.is_some())
        {
            let count = self.pending.count.unwrap_or(0) * 10 + digit as usize;
            self.pending.count = Some(count.min(MAX_COUNT));
            return true;
        }
        match c {
            'f' | 'F' | 't' | 'T' | 'r' | 'g' => self.pending.prefix = Some(c),
            'd' | 'c' | 'y' => self.operator(editor, c),
            _ => match self.motion(editor, c, previous) {
                Some(reach) => self.go(editor, reach),
                None if self.pending.operator.is_some() => self.pending = Pending::default(),
                None => {
                    let count = std::mem::take(&mut self.pending).count;
                    self.edit(editor, c, count.unwrap_or(1));
                }
            },
        }
        true
    }

    /// Keys that type no character.
    fn special(&mut self, editor: &mut Editor, key: Key, previous: &Previous) -> bool {
        let was_pending = std::mem::take(&mut self.pending) != Pending::default();
        match key.code {
            Code::Esc => return was_pending,
            Code::Char('r') if key.ctrl => {
                editor.redo();
            }
            Code::Up => return editor.vertical(false, previous),
            Code::Down => return editor.vertical(true, previous),
            Code::Backspace => editor.move_to(editor.left()),
            Code::Left | Code::Right | Code::Home | Code::End => {
                return emacs::key(editor, key);
            }
            Code::Delete => self.edit(editor, 'x', 1),
            _ => return false,
        }
        true
    }

    /// The character after `f`, `F`, `t`, `T`, `r` or `g`.
    fn prefixed(&mut self, editor: &mut Editor, prefix: char, key: Key) -> bool {
        let Some(c) = key.typed() else {
            self.pending = Pending::default();
            return true;
        };
        match (prefix, c) {
            ('g', 'g') => {
                let line = self.pending.count.unwrap_or(1) - 1;
                self.go(editor, Reach::Lines(line_at(editor, line)));
            }
            ('g', _) => self.pending = Pending::default(),
            ('r', _) => {
                let count = std::mem::take(&mut self.pending).count.unwrap_or(1);
                self.overwrite(editor, c, count);
            }
            _ => {
                self.find = Some((prefix, c));
                match find(editor, prefix, c, self.count()) {
                    Some(reach) => self.go(editor, reach),
                    None => self.pending = Pending::default(),
                }
            }
        }
        true
    }

    fn count(&self) -> usize {
        let before = self.pending.operator.map_or(1, |(_, count)| count);
        (self.pending.count.unwrap_or(1) * before).min(MAX_COUNT)
    }

    fn operator(&mut self, editor: &mut Editor, c: char) {
        match self.pending.operator {
            Some((operator, _)) if operator == c => {
                let line = editor.cursor().line + self.count() - 1;
                self.go(editor, Reach::Lines(line_at(editor, line)));
            }
            Some(_) => self.pending = Pending::default(),
            None => {
                let count = self.pending.count.take().unwrap_or(1);
                self.pending.operator = Some((c, count));
            }
        }
    }

    fn motion(&mut self, editor: &mut Editor, c: char, previous: &Previous) -> Option<Reach> {
        let count = self.count();
        let start = editor.cursor();
        let repeat = |step: &dyn Fn(Pos) -> Pos| (0..count).fold(start, |at, _| step(at));
        let buffer = editor.buffer();
        let line = start.line;
        Some(match c {
            'h' => Reach::Before(repeat(&|at| match at.byte {
                0 => at,
                _ => motion::left(buffer, at),
            })),
            'l' | ' ' => Reach::Before(repeat(&|at| match at == motion::line_end(buffer, at) {
                true => at,
                false => motion::right(buffer, at),
            })),
            'w' if matches!(self.pending.operator, Some(('c', _))) => {
                Reach::Through(repeat(&|at| motion::next_last(buffer, motion::left(buffer, at))))
            }
            'w' => Reach::Before(repeat(&|at| motion::next_start(buffer, at))),
            'b' => Reach::Before(repeat(&|at| motion::previous_start(buffer, at))),
            'e' => Reach::Through(repeat(&|at| motion::next_last(buffer, at))),
            '0' => Reach::Before(motion::line_start(start)),
            '^' => Reach::Before(motion::first_sign(buffer, start)),
            '$' => Reach::Before(motion::line_end(buffer, line_at(editor, line + count - 1))),
            'G' => {
                let last = buffer.lines().len();
                Reach::Lines(line_at(editor, self.pending.count.unwrap_or(last) - 1))
            }
            ';' | ',' => {
                let (kind, target) = self.find?;
                let kind = if c == ';' { kind } else { opposite(kind) };
                return find(editor, kind, target, count);
            }
            'j' | 'k' if self.pending.operator.is_some() => {
                let to = if c == 'j' { line + count } else { line.saturating_sub(count) };
                Reach::Lines(line_at(editor, to))
            }
            'j' | 'k' => {
                let mut previous = previous.clone();
                for _ in 0..count {
                    if !editor.vertical(c == 'j', &previous) {
                        break;
                    }
                    previous = editor.begin();
                    editor.resume(&previous);
                }
                Reach::Before(editor.cursor())
            }
            _ => return None,
        })
    }

    /// Moves, or lets the operator act on what lies between.
    fn go(&mut self, editor: &mut Editor, reach: Reach) {
        let Some((operator, _)) = std::mem::take(&mut self.pending).operator else {
            let (Reach::Before(to) | Reach::Through(to)) = reach else {
                let Reach::Lines(to) = reach else { return };
                return editor.move_to(motion::first_sign(editor.buffer(), to));
            };
            return editor.move_to(to);
        };
        let at = editor.cursor();
        if let Reach::Lines(to) = reach {
            return self.on_lines(editor, operator, at.line.min(to.line), at.line.max(to.line));
        }
        let range = match reach {
            Reach::Through(to) => at.min(to)..motion::right(editor.buffer(), at.max(to)),
            Reach::Before(to) | Reach::Lines(to) => at.min(to)..at.max(to),
        };
        editor.move_to(range.start);
        if range.start < range.end {
            editor.keep(editor.buffer().slice(range.clone()));
        }
        if operator != 'y' {
            editor.delete(range);
            self.changed(operator == 'c');
        }
    }

    fn on_lines(&mut self, editor: &mut Editor, operator: char, first: usize, last: usize) {
        let start = Pos { line: first, byte: 0 };
        let end = motion::line_end(editor.buffer(), Pos { line: last, byte: 0 });
        editor.keep(editor.buffer().slice(start..end) + "\n");
        match operator {
            'y' => return editor.move_to(start),
            'c' => {
                editor.delete(start..end);
            }
            _ if last + 1 < editor.buffer().lines().len() => {
                editor.delete(start..Pos { line: last + 1, byte: 0 });
            }
            // The last line goes with the line break before it.
            _ => {
                editor.delete(motion::left(editor.buffer(), start)..end);
                editor.move_to(motion::line_start(editor.cursor()));
            }
        }
        self.changed(operator == 'c');
    }

    /// A change is complete, or goes on with what is typed.
    fn changed(&mut self, inserts: bool) {
        match inserts {
            true => self.mode = Mode::Insert,
            false => self.end_change(),
        }
    }

    fn edit(&mut self, editor: &mut Editor, c: char, count: usize) {
        let at = editor.cursor();
        let end = motion::line_end(editor.buffer(), at);
        let start = motion::line_start(at);
        match c {
            'x' | 'D' | 'C' | 's' | 'X' | 'S' | 'Y' => {
                let (operator, motion) = match c {
                    'x' => ('d', 'l'),
                    's' => ('c', 'l'),
                    'X' => ('d', 'h'),
                    'D' => ('d', '$'),
                    'C' => ('c', '$'),
                    'S' => return self.on_lines(editor, 'c', at.line, at.line),
                    _ => return self.on_lines(editor, 'y', at.line, at.line),
                };
                self.pending.operator = Some((operator, count));
                let reach = self.motion(editor, motion, &Previous::default());
                return self.go(editor, reach.unwrap_or(Reach::Before(at)));
            }
            'p' | 'P' => return self.put(editor, c == 'p', count),
            'u' => {
                (0..count).all(|_| editor.undo());
                return;
            }
            '.' => return self.repeat(editor, count),
            'i' => {}
            'a' if at < end => editor.move_to(editor.right()),
            'a' => {}
            'I' => editor.move_to(motion::first_sign(editor.buffer(), at)),
            'A' => editor.move_to(end),
            'o' => editor.replace(end..end, "\n"),
            'O' => {
                editor.replace(start..start, "\n");
                editor.move_to(start);
            }
            _ => return,
        }
        self.changed(true);
    }

    fn overwrite(&mut self, editor: &mut Editor, c: char, count: usize) {
        let at = editor.cursor();
        let line_end = motion::line_end(editor.buffer(), at);
        let end = (0..count)
            .try_fold(at, |at, _| (at < line_end).then(|| motion::right(editor.buffer(), at)));
        let Some(end) = end else { return };
        editor.delete(at..end);
        editor.insert(&c.to_string().repeat(count));
        editor.move_to(editor.left());
        self.changed(false);
    }

    fn put(&mut self, editor: &mut Editor, behind: bool, count: usize) {
        let Some(text) = editor.kept().map(|text| text.repeat(count)) else { return };
        let at = editor.cursor();
        let end = motion::line_end(editor.buffer(), at);
        match text.strip_suffix('\n') {
            Some(lines) if behind => {
                editor.replace(end..end, &format!("\n{lines}"));
                editor.move_to(Pos { line: at.line + 1, byte: 0 });
            }
            Some(_) => {
                let start = motion::line_start(at);
                editor.replace(start..start, &text);
                editor.move_to(start);
            }
            None => {
                let place = if behind && at < end { editor.right() } else { at };
                editor.replace(place..place, &text);
                editor.move_to(editor.left());
            }
        }
        self.changed(false);
    }

    fn repeat(&mut self, editor: &mut Editor, count: usize) {
        let keys = std::mem::take(&mut self.change);
        self.recording = None;
        self.replays = true;
        for key in (0..count).flat_map(|_| &keys) {
            match (self.mode, key.typed(), key.code) {
                (Mode::Insert, Some(c), _) => editor.type_char(c),
                (Mode::Insert, None, Code::Enter) => editor.insert("\n"),
                (Mode::Insert, None, code) if code != Code::Esc => {
                    emacs::key(editor, *key);
                }
                _ => {
                    self.key(editor, *key);
                }
            }
        }
        self.replays = false;
        self.change = keys;
    }
}

/// In normal mode the cursor stands on a character.
fn stay_on_line(editor: &mut Editor) {
    let at = editor.cursor();
    if at.byte > 0 && at == motion::line_end(editor.buffer(), at) {
        let goal = editor.begin();
        editor.move_to(editor.left());
        editor.resume(&goal);
    }
}

/// The start of a line, the last one at most.
fn line_at(editor: &Editor, line: usize) -> Pos {
    Pos { line: line.min(editor.buffer().lines().len() - 1), byte: 0 }
}

fn opposite(kind: char) -> char {
    if kind.is_uppercase() { kind.to_ascii_lowercase() } else { kind.to_ascii_uppercase() }
}

/// The `count`th `target` in the line, after the cursor or before it.
fn find(editor: &Editor, kind: char, target: char, count: usize) -> Option<Reach> {
    let at = editor.cursor();
    let line = editor.buffer().line(at.line);
    let place = |byte| Pos { byte, ..at };
    if kind.is_uppercase() {
        let found = line[..at.byte].rmatch_indices(target).nth(count - 1)?.0;
        return Some(Reach::Before(match kind {
            'F' => place(found),
            _ => place(found + target.len_utf8()),
        }));
    }
    let from = editor.right().byte;
    let found = from + line.get(from..)?.match_indices(target).nth(count - 1)?.0;
    Some(Reach::Through(match kind {
        'f' => place(found),
        _ => motion::left(editor.buffer(), place(found)),
    }))
}
