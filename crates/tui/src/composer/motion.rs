//! Where the cursor goes: by characters as people see them, by words, by lines.

use unicode_segmentation::UnicodeSegmentation;

use super::buffer::{Buffer, Pos};
use super::chip::is_chip;

/// The classes of characters in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Space,
    Word,
    Sign,
    Chip,
}

/// The class of a character, or of a cluster that begins with it.
pub(super) fn class_of(c: char) -> Class {
    match c {
        c if is_chip(c) => Class::Chip,
        c if c.is_whitespace() => Class::Space,
        c if c.is_alphanumeric() || c == '_' => Class::Word,
        _ => Class::Sign,
    }
}

/// Bytes of the first character of `text` as people see it; chips stand alone.
pub(super) fn first_len(text: &str) -> usize {
    let mut bytes = text.bytes();
    if let (Some(0..0x80), None | Some(0..0x80)) = (bytes.next(), bytes.next()) {
        return 1;
    }
    let Some(cluster) = text.graphemes(true).next() else { return 0 };
    cut(cluster)
}

/// Bytes of the last character of `text` as people see it.
fn last_len(text: &str) -> usize {
    if let [.., 0..0x80, 0..0x80] | [0..0x80] = text.as_bytes() {
        return 1;
    }
    let Some(cluster) = text.graphemes(true).next_back() else { return 0 };
    match cluster.char_indices().rev().find(|(_, c)| is_chip(*c)) {
        Some((at, c)) if at + c.len_utf8() == cluster.len() => c.len_utf8(),
        Some((at, c)) => cluster.len() - at - c.len_utf8(),
        None => cluster.len(),
    }
}

/// Bytes of a cluster up to its chip, or of the chip that it begins with.
fn cut(cluster: &str) -> usize {
    match cluster.char_indices().find(|(_, c)| is_chip(*c)) {
        Some((0, c)) => c.len_utf8(),
        Some((at, _)) => at,
        None => cluster.len(),
    }
}

/// The first character after the place; `\n` at the end of a line but the last.
pub(super) fn char_at(buffer: &Buffer, pos: Pos) -> Option<char> {
    let next = buffer.line(pos.line)[pos.byte..].chars().next();
    next.or_else(|| (pos.line + 1 < buffer.lines().len()).then_some('\n'))
}

/// One character on; the same place at the end.
pub(super) fn right(buffer: &Buffer, pos: Pos) -> Pos {
    let rest = &buffer.line(pos.line)[pos.byte..];
    match rest.is_empty() {
        false => Pos { byte: pos.byte + first_len(rest), ..pos },
        true if pos.line + 1 < buffer.lines().len() => Pos { line: pos.line + 1, byte: 0 },
        true => pos,
    }
}

/// One character back; the same place at the start.
pub(super) fn left(buffer: &Buffer, pos: Pos) -> Pos {
    let before = &buffer.line(pos.line)[..pos.byte];
    match (before.is_empty(), pos.line.checked_sub(1)) {
        (false, _) => Pos { byte: pos.byte - last_len(before), ..pos },
        (true, Some(line)) => Pos { line, byte: buffer.line(line).len() },
        (true, None) => pos,
    }
}

fn class_at(buffer: &Buffer, pos: Pos) -> Option<Class> {
    char_at(buffer, pos).map(class_of)
}

fn class_before(buffer: &Buffer, pos: Pos) -> Option<Class> {
    let before = left(buffer, pos);
    (before != pos).then(|| class_at(buffer, before)).flatten()
}

fn skip_right(buffer: &Buffer, mut pos: Pos, skips: impl Fn(Class) -> bool) -> Pos {
    while class_at(buffer, pos).is_some_and(&skips) {
        pos = right(buffer, pos);
    }
    pos
}

fn skip_left(buffer: &Buffer, mut pos: Pos, skips: impl Fn(Class) -> bool) -> Pos {
    while class_before(buffer, pos).is_some_and(&skips) {
        pos = left(buffer, pos);
    }
    pos
}

/// The end of this word or the next.
pub(super) fn word_right(buffer: &Buffer, pos: Pos) -> Pos {
    let start = skip_right(buffer, pos, |class| matches!(class, Class::Space | Class::Sign));
    match class_at(buffer, start) {
        Some(Class::Chip) => right(buffer, start),
        _ => skip_right(buffer, start, |class| class == Class::Word),
    }
}

/// The start of this word or the one before.
pub(super) fn word_left(buffer: &Buffer, pos: Pos) -> Pos {
    let end = skip_left(buffer, pos, |class| matches!(class, Class::Space | Class::Sign));
    match class_before(buffer, end) {
        Some(Class::Chip) => left(buffer, end),
        _ => skip_left(buffer, end, |class| class == Class::Word),
    }
}

/// The start of what stands between spaces before the place.
pub(super) fn token_left(buffer: &Buffer, pos: Pos) -> Pos {
    let end = skip_left(buffer, pos, |class| class == Class::Space);
    skip_left(buffer, end, |class| class != Class::Space)
}

/// Vi's `w`: the start of the next word or run of signs.
pub(super) fn next_start(buffer: &Buffer, pos: Pos) -> Pos {
    let end = match class_at(buffer, pos) {
        None | Some(Class::Space) => pos,
        Some(Class::Chip) => right(buffer, pos),
        Some(class) => skip_right(buffer, pos, |it| it == class),
    };
    skip_right(buffer, end, |class| class == Class::Space)
}

/// Vi's `e`: the last character of this word or of the next.
pub(super) fn next_last(buffer: &Buffer, pos: Pos) -> Pos {
    let start = skip_right(buffer, right(buffer, pos), |class| class == Class::Space);
    match class_at(buffer, start) {
        None => left(buffer, start),
        Some(Class::Chip) => start,
        Some(class) => left(buffer, skip_right(buffer, start, |it| it == class)),
    }
}

/// Vi's `b`: the start of this word or run of signs, or of the one before.
pub(super) fn previous_start(buffer: &Buffer, pos: Pos) -> Pos {
    let end = skip_left(buffer, pos, |class| class == Class::Space);
    match class_before(buffer, end) {
        None => end,
        Some(Class::Chip) => left(buffer, end),
        Some(class) => skip_left(buffer, end, |it| it == class),
    }
}

/// The start of the line.
pub(super) fn line_start(pos: Pos) -> Pos {
    Pos { byte: 0, ..pos }
}

/// The end of the line.
pub(super) fn line_end(buffer: &Buffer, pos: Pos) -> Pos {
    Pos { byte: buffer.line(pos.line).len(), ..pos }
}

/// The first character of the line that is not a space.
pub(super) fn first_sign(buffer: &Buffer, pos: Pos) -> Pos {
    let line = buffer.line(pos.line);
    Pos { byte: line.len() - line.trim_start().len(), ..pos }
}
