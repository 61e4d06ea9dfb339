//! The lines of a session's file, and the conversation that is built from them.

use serde_json::Value;

use super::session::{Call, Entry, Session, Turn};

/// Entries of a session.
const MAX_ENTRIES: usize = 20_000;
/// Bytes of a text.
const MAX_TEXT: usize = 256 << 10;

/// Passes each line that is a JSON object on; counts the others.
pub(super) fn each(
    bytes: &[u8],
    session: &mut Builder,
    mut take: impl FnMut(&Value, &mut Builder),
) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(value @ Value::Object(_)) => take(&value, session),
            _ => session.session.bad_lines += 1,
        }
    }
}

/// Builds a session from its entries in order.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) session: Session,
    count: usize,
}

impl Builder {
    /// The user's words begin a turn, unless the turn has only such words so far.
    pub(super) fn user(&mut self, text: &str, at: i64) {
        let is_open =
            self.session.turns.last().is_some_and(|turn| {
                turn.entries.iter().all(|entry| matches!(entry, Entry::User(_)))
            });
        if text.trim().is_empty() || !self.has_room() {
            return;
        }
        if !is_open {
            let turn = Turn { started_at_ms: at, ended_at_ms: at, entries: Vec::new() };
            self.session.turns.push(turn);
        }
        self.push(Entry::User(cut(text)), at);
    }

    pub(super) fn assistant(&mut self, text: &str, at: i64) {
        if !text.trim().is_empty() && self.has_room() {
            self.push(Entry::Assistant(cut(text)), at);
        }
    }

    pub(super) fn call(&mut self, id: &str, tool: &str, arguments: Value, at: i64) {
        if !self.has_room() {
            return;
        }
        let arguments = match arguments.to_string() {
            text if text.len() > MAX_TEXT => Value::String(cut(&text)),
            _ => arguments,
        };
        let (id, tool) = (id.to_owned(), tool.to_owned());
        self.push(Entry::Call(Call { id, tool, arguments, output: None, is_failed: false }), at);
    }

    pub(super) fn output(&mut self, id: &str, text: &str, is_failed: bool, at: i64) {
        let Some(turn) = self.session.turns.last_mut() else { return };
        let call = turn.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Call(call) if call.id == id && call.output.is_none() => Some(call),
            _ => None,
        });
        if let Some(call) = call {
            call.output = Some(cut(text));
            call.is_failed = is_failed;
            turn.ended_at_ms = turn.ended_at_ms.max(at);
        }
    }

    fn push(&mut self, entry: Entry, at: i64) {
        // What precedes the user's first words belongs to no turn.
        if let Some(turn) = self.session.turns.last_mut() {
            turn.ended_at_ms = turn.ended_at_ms.max(at);
            turn.entries.push(entry);
            self.count += 1;
        }
    }

    fn has_room(&mut self) -> bool {
        self.session.is_cut |= self.count >= MAX_ENTRIES;
        !self.session.is_cut
    }
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let mut end = MAX_TEXT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}\n[{} more bytes were not imported]", &text[..end], text.len() - end)
}

/// Unix milliseconds of `2026-01-02T03:04:05.678Z`; 0 for anything else.
pub(super) fn time(value: &Value) -> i64 {
    value.as_str().and_then(parse_time).unwrap_or(0)
}

fn parse_time(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (date, clock) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let is_date =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_clock =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !is_date || !is_clock || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    // Days since the epoch, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let check = |text: &str, expected| assert_eq!(parse_time(text), expected, "{text}");
        check("1970-01-01T00:00:00Z", Some(0));
        check("2000-02-29T12:00:00.5Z", Some(951_825_600_500));
        check("2026-01-02T03:04:05.678901Z", Some(1_767_323_045_678));
        for bad in ["", "Z", "2026-01-02", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00.é0Z"] {
            check(bad, None);
        }
    }
}
