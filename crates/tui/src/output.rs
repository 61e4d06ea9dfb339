//! The output of a command, as a terminal would display it line by line.
//!
//! Colours, carriage returns, backspaces and the erasing of a line are obeyed, so that a progress bar is
//! its last state. Every other escape sequence is displayed as text, and on a line with such a text nothing is
//! written over or erased: what would do that is displayed, too. Memory is bounded: the first and the
//! last lines are kept.

use std::collections::VecDeque;

use protocol::CommandExecutionItem;

use crate::context::Context;
use crate::palette::{Depth, Palette};
use crate::text::{Color, Line, Span, Style};

/// Characters of a line that are kept.
const LINE: usize = 4 << 10;
/// The first lines that are kept, and their bytes.
const HEAD: (usize, usize) = (100, 64 << 10);
/// The last lines that are kept, and their bytes.
const TAIL: (usize, usize) = (1000, 512 << 10);
/// Bytes of an escape sequence that has not ended.
const SEQUENCE: usize = 64;

/// The output of a command that may still run.
#[derive(Clone, Debug, Default)]
pub struct Output {
    head: Vec<Stored>,
    tail: VecDeque<Stored>,
    tail_bytes: usize,
    row: Row,
    style: Style,
    /// An escape sequence whose end has not come.
    sequence: String,
    lines: u64,
    bytes: u64,
    /// Bytes that never came, whose lines are not known.
    omitted: u64,
    is_head_full: bool,
}

/// The line that is being written.
#[derive(Clone, Debug, Default)]
struct Row {
    cells: Vec<(char, Style)>,
    cursor: usize,
    /// True if the line returns to its beginning, unless it ends here.
    returns: bool,
    /// True if any character is one that is made visible: those are never overwritten.
    is_kept: bool,
    /// Characters beyond the limit.
    cut: u64,
    /// Bytes that the line took.
    bytes: u64,
}

/// A line, with the end of each style's text.
#[derive(Clone, Debug, Default)]
struct Stored {
    text: String,
    runs: Vec<(usize, Style)>,
    cut: u64,
    bytes: u64,
}

impl Output {
    /// Takes more output.
    pub fn push(&mut self, text: &str) {
        for c in text.chars() {
            let bytes = c.len_utf8() as u64;
            self.bytes += bytes;
            self.row.bytes += bytes;
            match self.sequence.is_empty() {
                true => self.character(c),
                false => self.in_sequence(c),
            }
        }
    }

    /// Takes the output of a command that is over, or that has been running. In the middle of long output, a
    /// line says how many bytes are missing: it is not the command's.
    pub fn push_item(&mut self, item: &CommandExecutionItem) {
        let text = item.aggregated_output.as_deref().unwrap_or_default();
        let gap = item.omitted_output_bytes.and_then(|omitted| {
            let line = format!("\n… {omitted} bytes of output left out …\n");
            text.split_once(&line).map(|(head, tail)| (head, omitted, tail))
        });
        let Some((head, omitted, tail)) = gap else { return self.push(text) };
        self.push(head);
        self.omit(omitted);
        self.push(tail);
    }

    /// The next bytes are not there. What follows begins a line.
    fn omit(&mut self, bytes: u64) {
        if self.line_count() > self.lines {
            std::mem::take(&mut self.sequence).chars().for_each(|c| self.row.put(c, self.style));
            self.end_line();
        }
        self.bytes += bytes;
        self.omitted += bytes;
        self.is_head_full = true;
    }

    /// Returns the number of lines, the unfinished one included.
    #[must_use]
    pub fn line_count(&self) -> u64 {
        self.lines + u64::from(!self.row.is_empty() || !self.sequence.is_empty())
    }

    /// The last lines, at most `rows`, cut at the width of the screen. Where lines are left out, the
    /// first says how many.
    #[must_use]
    pub fn tail(&self, context: &Context, rows: usize) -> Vec<Line> {
        let last = match self.line_count() > rows as u64 {
            true => rows.saturating_sub(1),
            false => rows,
        };
        let lines = self.lines(context, 0, last);
        let fit = lines.iter().take(rows).map(|line| line.truncated(context.width()));
        fit.collect()
    }

    /// The first and the last lines; between them a line says how much is left out, which is not counted.
    #[must_use]
    pub fn lines(&self, context: &Context, first: usize, last: usize) -> Vec<Line> {
        self.lines_with(context, (first, last), left_out)
    }

    /// The same with other words for what is left out: of the lines, where their number is known, and the bytes.
    #[must_use]
    pub fn lines_with(
        &self,
        context: &Context,
        (first, last): (usize, usize),
        left_out: impl Fn(Option<u64>, u64) -> String,
    ) -> Vec<Line> {
        let current = self.current();
        let kept = self.head.iter().chain(&self.tail).chain(&current);
        let count = self.head.len() + self.tail.len() + usize::from(current.is_some());
        let first = first.min(self.head.len());
        let is_whole = count as u64 == self.line_count() && self.omitted == 0;
        // To say that one line is left out takes a line, too.
        let skipped = match is_whole && count <= first.saturating_add(last).saturating_add(1) {
            true => 0,
            // After the head, lines may be missing before the tail.
            false => count.saturating_sub(first.saturating_add(last)).max(if is_whole {
                0
            } else {
                self.head.len() - first
            }),
        };
        if skipped == 0 && is_whole {
            return kept.map(|line| line.shown(context)).collect();
        }
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let mut shown_lines = 0;
        for (at, line) in kept.enumerate() {
            if at == first {
                lines.push(Line::default());
            }
            if at < first || at >= first + skipped {
                bytes += line.bytes;
                shown_lines += 1;
                lines.push(line.shown(context));
            }
        }
        let missing = (self.line_count() - shown_lines, self.bytes.saturating_sub(bytes));
        if let Some(line) = lines.get_mut(first) {
            let lines = (self.omitted == 0).then_some(missing.0);
            *line = Line::new(left_out(lines, missing.1), Palette::QUIET);
        }
        lines
    }

    fn current(&self) -> Option<Stored> {
        let mut row = self.row.clone();
        for c in self.sequence.chars() {
            row.put(c, self.style);
        }
        (!row.is_empty()).then(|| row.stored())
    }

    fn character(&mut self, c: char) {
        match c {
            '\n' => self.end_line(),
            '\r' => self.row.returns = true,
            '\u{8}' if !self.row.is_kept => self.row.back(),
            '\t' => {
                for _ in 0..8 - self.row.cursor % 8 {
                    self.row.put(' ', self.style);
                }
            }
            '\u{1b}' => self.sequence.push(c),
            _ => self.row.put(c, self.style),
        }
    }

    fn in_sequence(&mut self, c: char) {
        self.sequence.push(c);
        let is_open = match self.sequence.len() {
            2 => c == '[',
            length => length < SEQUENCE && matches!(c, '0'..='9' | ';' | ':'),
        };
        if is_open {
            return;
        }
        let sequence = std::mem::take(&mut self.sequence);
        let parameters =
            sequence.get(2..sequence.len().saturating_sub(c.len_utf8())).unwrap_or_default();
        match c {
            'm' if sequence.starts_with("\u{1b}[") => self.style = styled(self.style, parameters),
            'K' if sequence.starts_with("\u{1b}[")
                && !self.row.is_kept
                && matches!(parameters, "" | "0" | "1" | "2") =>
            {
                self.row.erase(parameters);
            }
            // Not for the terminal: displayed. What ends it may itself be for the terminal.
            _ => {
                let text = &sequence[..sequence.len() - c.len_utf8()];
                text.chars().for_each(|c| self.row.put(c, self.style));
                self.character(c);
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.row).stored();
        self.lines += 1;
        if !self.is_head_full {
            let bytes: usize = self.head.iter().map(|it| it.text.len()).sum();
            self.is_head_full = self.head.len() >= HEAD.0 || bytes + line.text.len() > HEAD.1;
        }
        if !self.is_head_full {
            return self.head.push(line);
        }
        self.tail_bytes += line.text.len();
        self.tail.push_back(line);
        while self.tail.len() > TAIL.0 || self.tail_bytes > TAIL.1 {
            let Some(first) = self.tail.pop_front() else { return };
            self.tail_bytes -= first.text.len();
        }
    }
}

impl Row {
    fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.cut == 0
    }

    /// Goes to the beginning of the line, if that was asked for. Where something is kept, that is displayed
    /// instead, after everything that is there.
    fn return_now(&mut self) {
        if !std::mem::take(&mut self.returns) {
            return;
        }
        self.cursor = 0;
        if self.is_kept {
            self.cursor = self.cells.len();
            self.write('\r', Style::PLAIN);
        }
    }

    fn back(&mut self) {
        self.return_now();
        self.cursor = self.cursor.saturating_sub(1);
    }

    fn put(&mut self, c: char, style: Style) {
        self.return_now();
        // The joiners of emoji conceal nothing.
        let is_made_visible = visible::is_hidden(c) && !matches!(c, '\u{fe0f}' | '\u{200d}');
        if is_made_visible && !self.is_kept {
            self.is_kept = true;
            // What follows does not overwrite, either.
            self.cursor = self.cells.len();
        }
        self.write(c, style);
    }

    fn write(&mut self, c: char, style: Style) {
        match self.cells.get_mut(self.cursor) {
            Some(cell) => *cell = (c, style),
            None if self.cursor >= LINE => self.cut += 1,
            None => self.cells.push((c, style)),
        }
        self.cursor += usize::from(self.cursor < LINE);
    }

    fn erase(&mut self, part: &str) {
        self.return_now();
        match part {
            "1" => {
                let end = self.cells.len().min(self.cursor + 1);
                self.cells[..end].fill((' ', Style::PLAIN));
            }
            "2" => {
                self.cells.clear();
                self.cells.resize(self.cursor, (' ', Style::PLAIN));
                self.cut = 0;
            }
            _ => {
                self.cells.truncate(self.cursor);
                self.cut = 0;
            }
        }
    }

    fn stored(&self) -> Stored {
        let mut stored = Stored { cut: self.cut, bytes: self.bytes, ..Stored::default() };
        // Blanks at the end are what remains of an erased line.
        let blank = |cell: &&(char, Style)| cell.0 == ' ';
        let end = self.cells.len() - self.cells.iter().rev().take_while(blank).count();
        for (c, style) in &self.cells[..end] {
            stored.text.push(*c);
            match stored.runs.last_mut() {
                Some((end, last)) if last == style => *end = stored.text.len(),
                _ => stored.runs.push((stored.text.len(), *style)),
            }
        }
        stored
    }
}

impl Stored {
    fn shown(&self, context: &Context) -> Line {
        let mut line = Line::default();
        let mut start = 0;
        for (end, style) in &self.runs {
            let style = match context.palette.depth {
                Depth::Monochrome => style.fg(Color::Default),
                _ => *style,
            };
            line.spans.push(Span::new(self.text[start..*end].to_owned(), style));
            start = *end;
        }
        if self.cut > 0 {
            line.push(format!(" … {} more characters", self.cut), Palette::QUIET);
        }
        line
    }
}

fn left_out(lines: Option<u64>, bytes: u64) -> String {
    format!("… {} left out", amount(lines, bytes))
}

/// Lines, where their number is known, and bytes in words.
#[must_use]
pub fn amount(lines: Option<u64>, bytes: u64) -> String {
    let size = match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    };
    match lines {
        Some(1) => format!("1 line ({size})"),
        Some(lines) => format!("{lines} lines ({size})"),
        None => size,
    }
}

/// The style of the parameters of `SGR`. Backgrounds and the attribute that hides text are left out: text
/// must not be made illegible.
fn styled(mut style: Style, parameters: &str) -> Style {
    let mut numbers = parameters.split([';', ':']).map(|it| match it {
        "" => Some(0),
        number => number.parse::<u16>().ok(),
    });
    while let Some(number) = numbers.next() {
        match number {
            Some(0) => style = Style::PLAIN,
            Some(1) => style.bold = true,
            Some(2) => style.dim = true,
            Some(3) => style.italic = true,
            Some(4) => style.underline = true,
            Some(9) => style.crossed_out = true,
            Some(22) => (style.bold, style.dim) = (false, false),
            Some(23) => style.italic = false,
            Some(24) => style.underline = false,
            Some(29) => style.crossed_out = false,
            Some(color @ 30..=37) => style.fg = legible((color - 30) as u8),
            Some(color @ 90..=97) => style.fg = legible((color - 90 + 8) as u8),
            Some(39) => style.fg = Color::Default,
            Some(kind @ (38 | 48)) => {
                let mut part = || numbers.next().flatten().unwrap_or_default().min(255) as u8;
                let color = match part() {
                    5 => indexed(part()),
                    2 => nearest(part(), part(), part()),
                    _ => Color::Default,
                };
                if kind == 38 {
                    style.fg = color;
                }
            }
            _ => {}
        }
    }
    style
}

/// A colour of the palette, unless it may be the background's.
fn legible(color: u8) -> Color {
    match color {
        0 | 7 | 15 => Color::Default,
        color => Color::Ansi(color),
    }
}

fn indexed(color: u8) -> Color {
    match color {
        0..16 => legible(color),
        232.. => Color::Default,
        _ => {
            let level = |part: u8| part % 6 * 51;
            let color = color - 16;
            nearest(level(color / 36), level(color / 6), level(color))
        }
    }
}

/// The colour of the palette with the nearest hue.
fn nearest(red: u8, green: u8, blue: u8) -> Color {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most - least < 48 {
        return Color::Default;
    }
    let middle = least + (most - least) / 2;
    let bit = |part: u8, value: u8| if part > middle { value } else { 0 };
    Color::Ansi(bit(red, 1) + bit(green, 2) + bit(blue, 4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(output: &Output, first: usize, last: usize) -> String {
        let lines = output.lines(&Context::default(), first, last);
        lines.iter().map(|line| line.text()).collect::<Vec<_>>().join("\n")
    }

    fn check(text: &str, expect: &str) {
        for size in [1, 3, 1000] {
            let mut output = Output::default();
            let mut rest = text;
            while !rest.is_empty() {
                let (part, left) = rest.split_at(rest.ceil_char_boundary(size));
                output.push(part);
                rest = left;
            }
            assert_eq!(shown(&output, 50, 50), expect, "{text:?} by {size}");
        }
    }

    #[test]
    fn lines_are_as_a_terminal_shows_them() {
        check("a\r\nb\n", "a\nb");
        check("10%\r20%\rdone", "done");
        check("10% long\rok\u{1b}[K\n", "ok");
        check("abc\u{8}\u{8}x", "axc");
        check("abc\u{1b}[2K\rx", "x");
        check("a\tb", "a       b");
        check("\u{1b}[1;31mred\u{1b}[0m", "red");
    }

    #[test]
    fn other_sequences_are_text() {
        check("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}");
        check("\u{1b}[2J\u{1b}[6n", "\\u{1b}[2J\\u{1b}[6n");
        check("\u{1b}[?1049h", "\\u{1b}[?1049h");
        check("\u{1b}]52;c;YQ==\u{1b}\\", "\\u{1b}]52;c;YQ==\\u{1b}\\");
        check("\u{1b}[3\nx", "\\u{1b}[3\nx");
        check("\u{1b}\u{1b}[31mx", "\\u{1b}x");
        check("x\u{1b}[", "x\\u{1b}[");
        check("\u{9b}31m\u{202e}", "\\u{9b}31m\\u{202e}");
    }

    #[test]
    fn what_was_made_visible_is_never_written_over() {
        check("\u{1b}]52;c;YQ==\u{7}\rok", "\\u{1b}]52;c;YQ==\\u{7}\\u{d}ok");
        check("\u{202e}x\u{8}\u{8}ok", "\\u{202e}x\\u{8}\\u{8}ok");
        check("\u{1b}[6n\u{1b}[2K\u{1b}[1Kok", "\\u{1b}[6n\\u{1b}[2K\\u{1b}[1Kok");
        check("curl evil\r\u{1b}[8mok", "okrl evil");
        check("curl evil\r\u{7}ok", "curl evil\\u{7}ok");
        check("\u{7}bell\r\nnext\rline", "\\u{7}bell\nline");
        check("50 %\r100 %\r", "100 %");
        check("✔\u{fe0f} 1\r✔\u{fe0f} 2", "✔\\u{fe0f} 2");
    }

    #[test]
    fn output_that_never_came_counts() {
        let command = |text: &str, omitted: Option<u64>| -> CommandExecutionItem {
            serde_json::from_value(serde_json::json!({
                "id": "c", "command": "yes", "cwd": "/", "status": "completed", "commandActions": [],
                "aggregatedOutput": text, "omittedOutputBytes": omitted,
            }))
            .unwrap()
        };
        let lines = |item: &CommandExecutionItem, first, last| {
            let mut output = Output::default();
            output.push_item(item);
            shown(&output, first, last)
        };
        let text = "a\nb\n… 5000000 bytes of output left out …\ny\nz\n";
        let item = command(text, Some(5_000_000));
        assert_eq!(lines(&item, 0, 1), "… 5000 kB left out\nz");
        assert_eq!(lines(&item, 1, 5), "a\n… 5000 kB left out\ny\nz");
        assert_eq!(lines(&item, usize::MAX, usize::MAX), "a\nb\n… 5000 kB left out\ny\nz");
        // A command can print such a line itself; that misleads only about its own output.
        let item = command(text, None);
        assert_eq!(lines(&item, 9, 9), text.trim_end());
    }

    #[test]
    fn colours_stay_legible() {
        let check =
            |parameters: &str, expect: Style| assert_eq!(styled(Style::PLAIN, parameters), expect);
        check("31;1", Style::ansi(1).bold());
        check("38;5;9;4", Style::ansi(9).underline());
        check("38;2;250;10;10", Style::ansi(1));
        check("48;5;1;8;30;37", Style::PLAIN);
        check("38;5;196", Style::ansi(1));
        check("999999999;38", Style::PLAIN);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let mut output = Output::default();
        for line in 0..10 {
            output.push(&format!("{line}\n"));
        }
        assert_eq!(shown(&output, 2, 1), "0\n1\n… 7 lines (14 bytes) left out\n9");
        assert_eq!(shown(&output, 0, 1), "… 9 lines (18 bytes) left out\n9");
        let tail = |rows| {
            let lines = output.tail(&Context::default(), rows);
            lines.iter().map(Line::text).collect::<Vec<_>>().join("|")
        };
        assert_eq!(tail(0), "");
        assert_eq!(tail(2), "… 9 lines (18 bytes) left out|9");
        assert_eq!(tail(10).split('|').count(), 10);
        // A line that says that one is left out would take its place.
        assert_eq!(shown(&output, 4, 5), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9");
        assert_eq!(shown(&output, 4, 4), "0\n1\n2\n3\n… 2 lines (4 bytes) left out\n6\n7\n8\n9");
        assert_eq!(shown(&output, 5, 5), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9");
        for line in 10..100_000 {
            output.push(&format!("{line}\n"));
        }
        assert_eq!(shown(&output, 1, 1), "0\n… 99998 lines (588 kB) left out\n99999");
        assert_eq!(shown(&output, 500, 5000).lines().count(), 100 + 1 + 1000);
        assert_eq!(output.line_count(), 100_000);
        let mut long = Output::default();
        long.push(&"x".repeat(LINE + 10));
        assert!(shown(&long, 1, 1).ends_with("x … 10 more characters"));
    }

    proptest! {
        #[test]
        fn nothing_is_for_the_terminal_to_act_on(text in "[\\x1b\\[\\]m0-9;K\\n\\r\\x08\\x07a\u{e9}\u{9b}]{0,80}", cut in 0..80_usize) {
            let mut whole = Output::default();
            whole.push(&text);
            let mut parts = Output::default();
            let (first, second) = text.split_at(text.floor_char_boundary(cut));
            parts.push(first);
            parts.push(second);
            let shown = shown(&whole, 100, 100);
            prop_assert_eq!(&shown, &tests::shown(&parts, 100, 100));
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
        }
    }
}
