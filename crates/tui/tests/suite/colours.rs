//! The colours of all states on a dark and on a light background, as text: `tests/styles/*.txt`. Each row has a letter
//! for each cell that is not plain; the letters are explained at the end of the file, and the text is in `tests/states`.

use std::collections::BTreeSet;
use std::fmt::Write;

use tui::app::Event;
use tui::palette::{Depth, MIN_CONTRAST, Palette, Rgb, contrast, indexed};
use tui::terminal::input::{Input, Reply};
use vt100::Color;

use crate::harness::{Bench, in_palette};
use crate::pictures::{SIZES, compare, states};

const DARK: Rgb = (0x1e, 0x1e, 0x1e);
const LIGHT: Rgb = (0xff, 0xff, 0xff);

/// The look of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Look {
    fg: (u8, Rgb),
    bg: (u8, Rgb),
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

/// A colour that can be compared: its kind, and its number or its parts.
fn color(color: Color) -> (u8, Rgb) {
    match color {
        Color::Default => (0, (0, 0, 0)),
        Color::Idx(number) => (1, (number, 0, 0)),
        Color::Rgb(r, g, b) => (2, (r, g, b)),
    }
}

fn described((kind, (r, g, b)): (u8, Rgb)) -> String {
    match kind {
        0 => "default".to_owned(),
        1 => format!("color {r}"),
        _ => format!("#{r:02x}{g:02x}{b:02x}"),
    }
}

impl Look {
    fn is_plain(self) -> bool {
        self.fg.0 == 0
            && self.bg.0 == 0
            && !self.dim
            && !self.bold
            && !self.italic
            && !self.underline
            && !self.inverse
    }

    fn colors(self) -> String {
        match self.bg.0 {
            0 => described(self.fg),
            _ => format!("{} on {}", described(self.fg), described(self.bg)),
        }
    }

    fn attributes(self) -> String {
        let all = [
            (self.bold, " bold"),
            (self.dim, " dim"),
            (self.italic, " italic"),
            (self.underline, " underlined"),
            (self.inverse, " reversed"),
        ];
        all.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
    }
}

/// The cells of the screen with text, row by row.
fn looks(bench: &Bench) -> Vec<Vec<Option<Look>>> {
    let screen = bench.terminal.screen();
    let (rows, columns) = screen.size();
    let look = |row, column| {
        let cell = screen.cell(row, column)?;
        let look = Look {
            fg: color(cell.fgcolor()),
            bg: color(cell.bgcolor()),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
            inverse: cell.inverse(),
        };
        let is_blank = cell.contents().trim().is_empty() && !look.inverse && look.bg.0 == 0;
        (!is_blank && !cell.is_wide_continuation()).then_some(look)
    };
    (0..rows.get())
        .map(|row| (0..columns.get()).map(|column| look(row, column)).collect())
        .collect()
}

#[test]
fn every_state_has_its_colours_on_both_backgrounds() {
    let on = |background| Palette { background: Some(background), depth: Depth::Full };
    let found = states().into_iter().map(|(name, state)| {
        let mut found = String::new();
        let mut legend: Vec<(Look, Look)> = Vec::new();
        for (columns, rows) in SIZES {
            let dark = in_palette(on(DARK), || state(columns, rows));
            let light = in_palette(on(LIGHT), || state(columns, rows));
            assert_eq!(dark.shown(), light.shown(), "{name}");
            writeln!(found, "== {columns} x {rows}").unwrap();
            let mut map = String::new();
            for (dark, light) in looks(&dark).into_iter().zip(looks(&light)) {
                let row: String =
                    dark.into_iter().zip(light).map(|cell| letter(cell, &mut legend)).collect();
                writeln!(map, "{}", row.trim_end()).unwrap();
            }
            writeln!(found, "{}\n", map.trim_end()).unwrap();
        }
        for (number, (dark, light)) in legend.iter().enumerate() {
            let attributes = dark.attributes();
            assert_eq!(attributes, light.attributes(), "{name}");
            let letter = char::from(b'a' + u8::try_from(number).unwrap());
            writeln!(
                found,
                "{letter}: dark {}, light {}{attributes}",
                dark.colors(),
                light.colors()
            )
            .unwrap();
        }
        (name, found)
    });
    compare("styles", &found.collect::<Vec<_>>());
}

fn letter((dark, light): (Option<Look>, Option<Look>), legend: &mut Vec<(Look, Look)>) -> char {
    let (Some(dark), Some(light)) = (dark, light) else { return ' ' };
    if dark.is_plain() && light.is_plain() {
        return ' ';
    }
    let at = legend.iter().position(|it| *it == (dark, light)).unwrap_or_else(|| {
        legend.push((dark, light));
        legend.len() - 1
    });
    char::from(b'a' + u8::try_from(at).unwrap())
}

/// The contrast of a cell in a terminal with this background, whose own text is nearly white or black.
fn contrast_of(look: Look, background: Rgb) -> f64 {
    let own = if background == LIGHT { (0, 0, 0) } else { (0xe5, 0xe5, 0xe5) };
    let value = |(kind, (r, g, b)): (u8, Rgb), or: Rgb| match kind {
        0 => or,
        1 => indexed(r),
        _ => (r, g, b),
    };
    let (fg, bg) = (value(look.fg, own), value(look.bg, background));
    // Dimmed text has two thirds of the distance from the background.
    let part = |fg: u8, bg: u8| u8::try_from((u16::from(fg) * 2 + u16::from(bg)) / 3).unwrap();
    match look.dim {
        true => contrast((part(fg.0, bg.0), part(fg.1, bg.1), part(fg.2, bg.2)), bg),
        false => contrast(fg, bg),
    }
}

/// All text of all states has enough contrast on the usual backgrounds, with the terminal's answer and without.
fn check_contrast(depth: Depth) {
    let black = (0, 0, 0);
    let dark = if matches!(depth, Depth::Indexed | Depth::Full) { DARK } else { black };
    // The 16 have usual values on usual backgrounds only.
    for (answer, backgrounds) in
        [(Some(dark), [dark, dark]), (Some(LIGHT), [LIGHT, LIGHT]), (None, [black, LIGHT])]
    {
        let palette = Palette { background: answer, depth };
        for (name, state) in states() {
            let bench = in_palette(palette, || state(100, 40));
            let pairs: BTreeSet<Look> = looks(&bench).into_iter().flatten().flatten().collect();
            for (look, background) in pairs.iter().flat_map(|it| backgrounds.map(|on| (*it, on))) {
                let found = contrast_of(look, background);
                let colors = look.colors();
                assert!(found >= MIN_CONTRAST, "{name}, {palette:?}: {found:.2} of {colors}");
            }
        }
    }
}

#[test]
fn all_text_of_all_states_has_a_contrast_of_4_5_without_colors() {
    check_contrast(Depth::Monochrome);
}

#[test]
fn all_text_of_all_states_has_a_contrast_of_4_5_in_16_colors() {
    check_contrast(Depth::Sixteen);
}

#[test]
fn all_text_of_all_states_has_a_contrast_of_4_5_in_256_colors() {
    check_contrast(Depth::Indexed);
}

#[test]
fn all_text_of_all_states_has_a_contrast_of_4_5_in_all_colors() {
    check_contrast(Depth::Full);
}

#[test]
fn the_answer_of_the_terminal_recolours_what_is_on_the_screen() {
    let unknown = Palette { background: None, depth: Depth::Full };
    let mut bench = in_palette(unknown, || Bench::open(80, 24));
    let colors = |bench: &Bench| -> BTreeSet<Look> {
        looks(bench).into_iter().skip(2).flatten().flatten().collect()
    };
    let before = (colors(&bench), bench.shown());
    bench.event(Event::Input(Input::Reply(Reply::Background(255, 255, 255))));
    assert_eq!(bench.shown(), before.1);
    assert_ne!(colors(&bench), before.0);
    let drawn = bench.drawn;
    // The same answer again changes nothing, and writes nothing.
    bench.event(Event::Input(Input::Reply(Reply::Background(255, 255, 255))));
    assert_eq!(bench.drawn, drawn);
}
