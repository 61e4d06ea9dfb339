//! The screen in tmux, whose history takes rows when the window shrinks and gives them back when it grows.

use proptest::prelude::*;
use tui::palette::Depth;
use tui::terminal::screen::{Frame, Screen, Size};
use tui::text::Line;

/// A row of tmux's grid.
#[derive(Clone, Debug, Default)]
struct Row {
    text: String,
    /// Whether the next one continues it.
    is_wrapped: bool,
}

/// What tmux 3.3 does with the bytes of frames and with a new size.
struct Tmux {
    /// The history, and the rows of the screen behind it.
    rows: Vec<Row>,
    size: Size,
    row: usize,
    column: usize,
    /// The rows of the cursor that were asked for.
    replies: Vec<usize>,
}

impl Tmux {
    fn new(columns: usize, rows: usize) -> Self {
        let size = Size { columns, rows };
        Self { rows: vec![Row::default(); rows], size, row: 0, column: 0, replies: vec![0] }
    }

    fn first(&self) -> usize {
        self.rows.len() - self.size.rows
    }

    fn current(&mut self) -> &mut Row {
        let at = self.first() + self.row;
        &mut self.rows[at]
    }

    fn process(&mut self, bytes: &[u8]) {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\x1b' => {
                    let body = rest.strip_prefix('[').unwrap();
                    let end = body.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    let number = body[..end].parse().unwrap_or(1);
                    self.control(body.as_bytes()[end] as char, number);
                    rest = &body[end + 1..];
                }
                '\r' => self.column = 0,
                '\n' => self.line_feed(),
                c => self.put(c),
            }
        }
    }

    fn control(&mut self, kind: char, number: usize) {
        match kind {
            'A' => self.row = self.row.saturating_sub(number),
            'B' => self.row = (self.row + number).min(self.size.rows - 1),
            'G' => self.column = (number - 1).min(self.size.columns - 1),
            'K' => self.erase(),
            'J' => {
                self.erase();
                let below = self.first() + self.row + 1;
                self.rows[below..].fill(Row::default());
            }
            'L' => {
                let (at, end) = (self.first() + self.row, self.rows.len());
                for _ in 0..number {
                    self.rows.insert(at, Row::default());
                }
                self.rows.truncate(end);
            }
            'M' => {
                let (at, end) = (self.first() + self.row, self.rows.len());
                self.rows.drain(at..(at + number).min(end));
                self.rows.resize(end, Row::default());
            }
            'n' => self.replies.push(self.row),
            'm' | 'h' | 'l' => {}
            other => panic!("CSI {other}"),
        }
    }

    fn erase(&mut self) {
        let column = self.column;
        let row = self.current();
        row.text = row.text.chars().take(column).collect();
        row.is_wrapped = false;
    }

    fn line_feed(&mut self) {
        match self.row + 1 < self.size.rows {
            true => self.row += 1,
            false => self.rows.push(Row::default()),
        }
    }

    fn put(&mut self, c: char) {
        if self.column == self.size.columns {
            self.current().is_wrapped = true;
            self.line_feed();
            self.column = 0;
        }
        let column = self.column;
        let row = self.current();
        let mut cells: Vec<char> = row.text.chars().collect();
        cells.resize(cells.len().max(column + 1), ' ');
        cells[column] = c;
        row.text = cells.into_iter().collect();
        self.column += 1;
    }

    fn resize(&mut self, size: Size) {
        let (old, hidden) = (self.size, self.first());
        // The height first: rows below the cursor go, then those at the top; and they come back.
        let fewer = old.rows.saturating_sub(size.rows);
        let below = fewer.min(old.rows - 1 - self.row);
        self.rows.truncate(self.rows.len() - below);
        self.row -= fewer - below;
        let more = size.rows.saturating_sub(old.rows);
        let back = more.min(hidden);
        self.row += back;
        self.rows.extend(std::iter::repeat_n(Row::default(), more - back));
        self.size.rows = size.rows;
        if size.columns == old.columns {
            return;
        }
        // Then the width: lines are broken anew, and the cursor stays at its character.
        let cursor = self.first() + self.row;
        let mut rows: Vec<Row> = Vec::new();
        let (mut line, mut place) = (String::new(), None);
        for (at, row) in self.rows.iter().enumerate() {
            if at == cursor {
                place = Some(line.chars().count() + self.column);
            }
            line.push_str(&row.text);
            // A row that is empty is not joined to the one before it.
            let next = self.rows.get(at + 1);
            let goes_on = next.is_some_and(|next| next.is_wrapped || !next.text.is_empty());
            if row.is_wrapped && goes_on {
                continue;
            }
            let start = rows.len();
            let cells: Vec<char> = std::mem::take(&mut line).chars().collect();
            let parts: Vec<String> =
                cells.chunks(size.columns).map(|part| part.iter().collect()).collect();
            let count = parts.len().max(1);
            rows.extend(
                parts
                    .into_iter()
                    .enumerate()
                    .map(|(at, text)| Row { text, is_wrapped: at + 1 < count }),
            );
            if rows.len() == start {
                rows.push(Row::default());
            }
            if let Some(offset) = place.take() {
                let down = (offset / size.columns).min(count - 1);
                (self.row, self.column) = (start + down, offset - down * size.columns);
            }
        }
        rows.resize(rows.len().max(size.rows), Row::default());
        let first = rows.len() - size.rows;
        self.rows = rows;
        self.size = size;
        match self.row.checked_sub(first) {
            Some(row) => self.row = row,
            None => (self.row, self.column) = (0, 0),
        }
        self.column = self.column.min(size.columns);
    }

    /// All lines, without empty ones: tmux has some where something was erased.
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        for row in &self.rows {
            lines.last_mut().unwrap().push_str(&row.text);
            if !row.is_wrapped {
                lines.push(String::new());
            }
        }
        lines
            .iter()
            .map(|line| line.trim_end().to_owned())
            .filter(|line| !line.is_empty())
            .collect()
    }
}

struct Bench {
    tmux: Tmux,
    screen: Screen,
    printed: Vec<String>,
}

impl Bench {
    fn new(columns: usize, rows: usize) -> Self {
        let size = Size { columns, rows };
        let screen = Screen::new(size, Depth::Monochrome).in_tmux(true);
        Self { tmux: Tmux::new(columns, rows), screen, printed: Vec::new() }
    }

    fn draw(&mut self, printed: &[String], live: &[Line], row: usize) {
        let lines = printed.iter().map(|text| Line::plain(text.clone())).collect();
        let cursor = Some((row.min(live.len() - 1), 1));
        let bytes = self.screen.draw(&Frame { printed: lines, live: live.to_vec(), cursor });
        self.tmux.process(&bytes);
        // Replies come late.
        for row in std::mem::take(&mut self.tmux.replies) {
            self.screen.set_cursor_row(row);
        }
        self.printed.extend(printed.iter().cloned());
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        let size = Size { columns, rows };
        self.tmux.resize(size);
        let bytes = self.screen.resize(size, true);
        self.tmux.process(&bytes);
    }
}

fn live() -> Vec<Line> {
    let texts = [
        "~ works on it",
        "",
        "> write here what is to be done, or / for commands",
        "~ a model, a folder, a branch",
    ];
    texts.iter().map(|text| Line::plain((*text).to_owned())).collect()
}

fn printed(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("line {number}")).collect()
}

#[test]
fn a_window_that_is_tiny_for_a_while_leaves_no_copies() {
    for count in [0, 3, 12, 18, 20, 40] {
        for sizes in [
            &[(10, 3), (2, 1), (80, 24)][..],
            &[(20, 22), (80, 24), (14, 12), (80, 24)],
            &[(80, 4), (30, 4), (30, 20), (80, 24)],
        ] {
            let mut bench = Bench::new(80, 24);
            bench.draw(&printed(count), &live(), 2);
            let before = bench.tmux.lines();
            for (columns, rows) in sizes {
                bench.resize(*columns, *rows);
                bench.draw(&[], &live(), 2);
            }
            assert_eq!(bench.tmux.lines(), before, "{count} lines, {sizes:?}");
        }
    }
}

#[test]
fn a_window_that_grows_row_by_row_leaves_none_either() {
    let mut bench = Bench::new(40, 12);
    bench.draw(&printed(30), &live(), 2);
    let before = bench.tmux.lines();
    for rows in [2, 3, 4, 5, 9, 12] {
        bench.resize(40, rows);
        bench.draw(&[], &live(), 2);
    }
    assert_eq!(bench.tmux.lines(), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_printed_is_lost(
        count in 0..40_usize,
        steps in prop::collection::vec((1..60_usize, 1..20_usize, 0..4_usize, 0..3_usize), 1..12),
    ) {
        let mut bench = Bench::new(60, 20);
        bench.draw(&printed(count), &live(), 2);
        for (number, (columns, rows, row, prints)) in steps.into_iter().enumerate() {
            bench.resize(columns, rows);
            let more: Vec<String> = (0..prints).map(|it| format!("more {number}.{it}")).collect();
            bench.draw(&more, &live(), row);
        }
        bench.resize(60, 20);
        bench.draw(&[], &live(), 2);
        // A line may stand behind the rest of one of the live region, where it is not known what tmux did.
        let lines = bench.tmux.lines().join("\n");
        let mut rest = lines.as_str();
        for printed in &bench.printed {
            let at = rest.find(&format!("{printed}\n"));
            prop_assert!(at.is_some(), "{} in {}", printed, lines);
            rest = &rest[at.unwrap_or_default()..];
        }
    }
}

#[test]
fn a_window_of_one_cell_loses_nothing_either() {
    let mut bench = Bench::new(60, 20);
    bench.draw(&[], &live(), 2);
    for (number, (columns, rows, row, prints)) in
        [(1, 1, 0, 1), (41, 2, 0, 0), (20, 4, 0, 0), (20, 5, 0, 0), (9, 1, 0, 0)]
            .into_iter()
            .enumerate()
    {
        bench.resize(columns, rows);
        let more: Vec<String> = (0..prints).map(|it| format!("more {number}.{it}")).collect();
        bench.draw(&more, &live(), row);
    }
    bench.resize(60, 20);
    bench.draw(&[], &live(), 2);
    let lines = bench.tmux.lines();
    assert!(lines.iter().any(|line| line.contains("more 0.0")), "{lines:?}");
}
