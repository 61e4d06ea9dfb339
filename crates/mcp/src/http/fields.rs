//! Passes on the fields of server-sent events that the parser takes. It fails on others, and on a
//! `retry` that is not a number, where the specification ignores them.

/// Bounds of the pause before a stream is opened again, in milliseconds. Without the lower one, a
/// server could be asked hundreds of times a second; without the upper one, a stream is lost.
const SHORTEST_RETRY: u64 = 1_000;
pub(super) const LONGEST_RETRY: u64 = 30_000;
/// Longest line that is not `data`: an `id` or the name of an event.
const MAX_LINE: usize = 8 << 10;
const DATA: &[u8] = b"data:";

/// A filter for the fields of one stream of server-sent events.
#[derive(Default)]
pub(super) struct Fields {
    /// The start of a line whose field is not known yet, or a whole line that is not `data`.
    line: Vec<u8>,
    kind: LineKind,
    is_begun: bool,
    after_return: bool,
    /// The fields that the event has so far: the parser fails on a repeated one.
    seen: Vec<&'static str>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LineKind {
    /// It is kept until its end.
    #[default]
    Kept,
    /// It is passed on as it comes.
    Data,
    /// It is too long, and left out.
    Skipped,
}

impl Fields {
    /// The part of these bytes, and of those kept before, that the parser takes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(bytes.len());
        loop {
            if std::mem::take(&mut self.after_return) {
                match bytes {
                    [] => self.after_return = true,
                    [b'\n', rest @ ..] => bytes = rest,
                    _ => {}
                }
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.extend(part, &mut passed);
            let [ending, rest @ ..] = rest else { return passed };
            self.after_return = *ending == b'\r';
            self.finish(&mut passed);
            bytes = rest;
        }
    }

    fn extend(&mut self, part: &[u8], passed: &mut Vec<u8>) {
        match self.kind {
            LineKind::Skipped => return,
            LineKind::Data => return passed.extend_from_slice(part),
            LineKind::Kept => {}
        }
        let missing = DATA.len().saturating_sub(self.line.len()).min(part.len());
        let (start, rest) = part.split_at(missing);
        self.line.extend_from_slice(start);
        if self.line == DATA {
            self.kind = LineKind::Data;
            passed.append(&mut self.line);
            return passed.extend_from_slice(rest);
        }
        match self.line.len() + rest.len() > MAX_LINE {
            true => {
                self.kind = LineKind::Skipped;
                self.line.clear();
            }
            false => self.line.extend_from_slice(rest),
        }
    }

    /// The line ends here.
    fn finish(&mut self, passed: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.line);
        match std::mem::take(&mut self.kind) {
            LineKind::Data => passed.push(b'\n'),
            LineKind::Skipped => {}
            LineKind::Kept => {
                let is_first = !std::mem::replace(&mut self.is_begun, true);
                let line = match is_first {
                    true => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line),
                    false => &line,
                };
                if line.is_empty() {
                    self.seen.clear();
                    return passed.push(b'\n');
                }
                if let Some(line) = self.taken(line) {
                    passed.extend_from_slice(line.as_bytes());
                    passed.push(b'\n');
                }
            }
        }
        self.is_begun = true;
    }

    /// A line that is not `data:`, as the parser takes it.
    fn taken(&mut self, line: &[u8]) -> Option<String> {
        let line = std::str::from_utf8(line).ok()?;
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let (name, value) = match name {
            // After a byte order mark, or without a colon.
            "data" => return Some(format!("data: {value}")),
            "id" if !value.contains('\0') => ("id", value.to_owned()),
            "event" => ("event", value.to_owned()),
            "retry" => {
                let pause: u64 = value.trim_ascii().parse().ok()?;
                ("retry", pause.clamp(SHORTEST_RETRY, LONGEST_RETRY).to_string())
            }
            _ => return None,
        };
        if self.seen.contains(&name) {
            return None;
        }
        self.seen.push(name);
        Some(format!("{name}: {value}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(text: &str, size: usize) -> String {
        let mut fields = Fields::default();
        let parts = text.as_bytes().chunks(size).flat_map(|part| fields.push(part));
        String::from_utf8_lossy(&parts.collect::<Vec<u8>>()).into_owned()
    }

    #[test]
    fn fields_that_the_parser_fails_on_are_left_out() {
        let check = |text: &str, expect: &str| {
            for size in [1, 3, 1000] {
                assert_eq!(passed(text, size), expect, "{text:?}");
            }
        };
        check("retry: 0\n\n", "retry: 1000\n\n");
        check("retry:5000\r\n\r\n", "retry: 5000\n\n");
        check("retry: 999999999\n\n", "retry: 30000\n\n");
        check("retry: 99999999999999999999\ndata: x\n\n", "data: x\n\n");
        check("retry: soon\nretry: -1\nid: 1\n\n", "id: 1\n\n");
        check(": ping\nodd: 1\nword\ndata:x\rdata\n\r\n", "data:x\ndata: \n\n");
        check("id: 1\nid: 2\nevent: a\n\nid: 3\n\n", "id: 1\nevent: a\n\nid: 3\n\n");
        check("\u{feff}data: x\n\n\u{feff}data: y\n", "data: x\n\n");
        check(&format!("id: {}\ndata: x\n\n", "i".repeat(MAX_LINE)), "data: x\n\n");
    }

    proptest! {
        #[test]
        fn what_is_passed_on_does_not_depend_on_the_division(
            text in "(data:|id:|retry:|[0-9a: \r\n]){0,40}",
            size in 1usize..20,
        ) {
            prop_assert_eq!(passed(&text, size), passed(&text, text.len().max(1)));
        }
    }
}
