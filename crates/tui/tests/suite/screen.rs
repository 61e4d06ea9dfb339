//! What the bytes of frames do to a terminal.

use std::num::NonZeroU16;

use proptest::prelude::*;
use tui::palette::{Depth, Palette};
use tui::terminal::screen::{Frame, Screen, Size};
use tui::text::{Line, Style};

const HISTORY: usize = 10_000;

/// A terminal of its own, which never answers.
struct Emulator {
    parser: vt100::Parser,
    screen: Screen,
    printed: Vec<String>,
}

impl Emulator {
    fn new(columns: usize, rows: usize) -> Self {
        Self {
            parser: vt100::Parser::new(cells(rows), cells(columns), HISTORY),
            screen: Screen::new(Size { columns, rows }, Depth::Full),
            printed: Vec::new(),
        }
    }

    fn draw(&mut self, frame: &Frame) -> usize {
        let bytes = self.screen.draw(frame);
        self.parser.process(&bytes);
        self.printed.extend(frame.printed.iter().map(Line::text));
        bytes.len()
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        self.parser.screen_mut().set_size(cells(rows), cells(columns));
        let bytes = self.screen.resize(Size { columns, rows }, false);
        self.parser.process(&bytes);
    }

    /// Everything that the terminal holds, history first.
    fn rows(&mut self) -> Vec<String> {
        let screen = self.parser.screen_mut();
        let (height, columns) = screen.size();
        let (height, columns) = (usize::from(height.get()), columns.get());
        screen.set_scrollback(usize::MAX);
        let mut rows = Vec::new();
        loop {
            let left = screen.scrollback();
            rows.push(screen.rows(0, columns).next().unwrap());
            if left == 0 {
                rows.extend(screen.rows(0, columns).skip(1).take(height));
                break;
            }
            screen.set_scrollback(left - 1);
        }
        while rows.last().is_some_and(|row| row.trim_end().is_empty()) {
            rows.pop();
        }
        rows
    }
}

fn cells(count: usize) -> NonZeroU16 {
    NonZeroU16::new(count as u16).unwrap()
}

fn lines(texts: &[&str]) -> Vec<Line> {
    texts.iter().map(|text| Line::plain((*text).to_owned())).collect()
}

fn frame(printed: &[&str], live: &[&str], cursor: (usize, usize)) -> Frame {
    Frame { printed: lines(printed), live: lines(live), cursor: Some(cursor) }
}

#[test]
fn what_is_printed_stands_above_the_live_region_and_scrolls_into_the_history() {
    let mut terminal = Emulator::new(20, 5);
    terminal.draw(&frame(&[], &["> ", "status"], (0, 2)));
    assert_eq!(terminal.rows(), ["> ", "status"]);
    terminal.draw(&frame(&["one"], &["> ", "status"], (0, 2)));
    assert_eq!(terminal.rows(), ["one", "> ", "status"]);
    assert_eq!(terminal.parser.screen().cursor_position(), (1, 2));
    terminal.draw(&frame(&["two", "three", "four"], &["> a", "status"], (0, 3)));
    assert_eq!(terminal.rows(), ["one", "two", "three", "four", "> a", "status"]);
    assert_eq!(terminal.parser.screen().cursor_position(), (3, 3));
    let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    terminal.draw(&frame(&many, &["> a", "status"], (0, 3)));
    assert_eq!(terminal.rows().len(), 4 + 20 + 2);
    assert_eq!(terminal.rows()[23..], ["19", "> a", "status"]);
}

#[test]
fn a_frame_that_changes_nothing_costs_nothing_and_text_that_grows_only_itself() {
    let mut terminal = Emulator::new(80, 24);
    let live = |text: &str| frame(&[], &[text, "", "> ", "model · folder"], (2, 2));
    terminal.draw(&live("The answer"));
    assert_eq!(terminal.draw(&live("The answer")), 0);
    let bytes = terminal.draw(&live("The answer is"));
    assert!(bytes < 48, "{bytes}");
    assert_eq!(terminal.rows(), ["The answer is", "", "> ", "model · folder"]);
}

#[test]
fn printing_does_not_draw_the_live_region_again() {
    let mut terminal = Emulator::new(80, 24);
    let live = ["a long line of the live region", "> what is being typed", "status"];
    terminal.draw(&frame(&[], &live, (1, 2)));
    let bytes = terminal.draw(&frame(&["done"], &live, (1, 2)));
    assert!(bytes < 60, "{bytes}");
}

#[test]
fn a_long_line_is_wrapped_by_the_terminal() {
    let mut terminal = Emulator::new(10, 6);
    terminal.draw(&frame(&[], &["> "], (0, 2)));
    for text in ["0123456789", "0123456789abc", "012345678世界"] {
        terminal.draw(&frame(&[text], &["> "], (0, 2)));
    }
    let rows = ["0123456789", "0123456789", "abc", "012345678", "世界", "> "];
    assert_eq!(terminal.rows(), rows);
}

#[test]
fn nothing_that_the_terminal_would_act_on_is_written() {
    let mut terminal = Emulator::new(60, 4);
    let evil = "\x1b]0;title\x07\x1b[2J\u{9b}6n\r\n\u{202e}abc\x1b]52;c;YQ==\x1b\\";
    terminal.draw(&frame(&[evil], &[evil], (0, 0)));
    let text = terminal.rows().concat();
    assert!(text.contains("\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{9b}6n\\u{d}\\u{a}"), "{text}");
}

#[test]
fn links_and_colours_end_where_their_text_ends() {
    let mut screen = Screen::new(
        Size { columns: 40, rows: 5 },
        Palette { background: Some((0, 0, 0)), depth: Depth::Sixteen },
    );
    let mut line = Line::plain("see ");
    line.spans.push(tui::text::Span::new("docs", Style::ansi(4)).linked("https://a.example/"));
    line.push(" now", Style::PLAIN);
    let bytes = screen.draw(&Frame { printed: vec![line], ..Frame::default() });
    let text = String::from_utf8(bytes).unwrap();
    let link = "see \x1b]8;;https://a.example/\x1b\\\x1b[96mdocs\x1b]8;;\x1b\\\x1b[m now\r\n";
    assert!(text.contains(link), "{text:?}");
}

fn texts(rows: usize, columns: usize) -> impl Strategy<Value = Vec<String>> {
    let text = prop_oneof![
        "[a-z ]{0,12}",
        "[a-c]{0,3}",
        "(世|é|👍🏽|x){0,8}",
        proptest::string::string_regex(&format!("[a-z]{{0,{}}}", columns * 2)).unwrap(),
    ];
    prop::collection::vec(text, 0..rows)
}

#[derive(Clone, Debug)]
enum Step {
    Draw { printed: Vec<String>, live: Vec<String>, cursor: (usize, usize) },
    Resize(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (texts(6, 20), texts(14, 20), (0_usize..14, 0_usize..30))
            .prop_map(|(printed, live, cursor)| Step::Draw { printed, live, cursor }),
        1 => (2_usize..40, 1_usize..12).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
    ]
}

/// A row as the emulator gives it.
fn shown(line: &str) -> String {
    line.trim_end_matches(' ').to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_screen_shows_each_frame(steps in prop::collection::vec(step(), 1..40)) {
        let mut terminal = Emulator::new(20, 8);
        for step in steps {
            match step {
                Step::Resize(columns, rows) => terminal.resize(columns, rows),
                Step::Draw { printed, live, cursor } => {
                    let as_lines = |texts: &[String]| -> Vec<Line> {
                        texts.iter().map(|text| Line::plain(text.clone())).collect()
                    };
                    let frame = Frame {
                        printed: as_lines(&printed),
                        live: as_lines(&live),
                        cursor: Some(cursor),
                    };
                    terminal.draw(&frame);
                    let size = terminal.screen.size();
                    let fits = live.len().saturating_sub(size.rows);
                    let mut expected: Vec<String> = frame.live[fits..]
                        .iter()
                        .map(|line| shown(&line.truncated(size.columns).text()))
                        .collect();
                    while expected.last().is_some_and(String::is_empty) {
                        expected.pop();
                    }
                    let rows: Vec<String> =
                        terminal.rows().iter().map(|row| shown(row)).collect();
                    let from = rows.len().saturating_sub(expected.len());
                    prop_assert_eq!(&rows[from..], &expected[..]);
                }
            }
        }
    }

    #[test]
    fn everything_printed_is_in_the_terminal_once_and_in_order(
        frames in prop::collection::vec((texts(9, 20), texts(14, 20)), 1..30),
    ) {
        let mut terminal = Emulator::new(20, 8);
        for (number, (printed, live)) in frames.iter().enumerate() {
            let printed = printed
                .iter()
                .map(|text| Line::plain(format!("{number}:{text}")).truncated(20))
                .collect();
            let live = live.iter().map(|text| Line::plain(text.clone())).collect();
            terminal.draw(&Frame { printed, live, cursor: None });
        }
        terminal.draw(&Frame::default());
        let rows: Vec<String> = terminal.rows().iter().map(|row| shown(row)).collect();
        let printed: Vec<String> = terminal.printed.iter().map(|row| shown(row)).collect();
        prop_assert_eq!(rows, printed);
    }
}
