//! The contrast of all styles, in every depth and on usual backgrounds.

use super::*;
use crate::highlight::{theme, theme_names};

/// Usual dark backgrounds: black, and those of well-known themes.
const DARK: [u32; 7] = [0x000000, 0x1e1e1e, 0x282c34, 0x002b36, 0x1e1e2e, 0x3b4252, 0x300a24];
/// Usual light ones.
const LIGHT: [u32; 6] = [0xffffff, 0xfafafa, 0xfdf6e3, 0xeff1f5, 0xfbf1c7, 0xd5d6db];
/// The user's own text on them, which is usually nearly black or white.
const OWN: [u32; 2] = [0xe5e5e5, 0x000000];

const DEPTHS: [Depth; 4] = [Depth::Monochrome, Depth::Sixteen, Depth::Indexed, Depth::Full];

fn rgb(color: u32) -> Rgb {
    let [_, r, g, b] = color.to_be_bytes();
    (r, g, b)
}

/// All styles that are drawn, with those of code in every theme.
fn styles(palette: Palette) -> Vec<Style> {
    let mut styles = vec![
        Style::PLAIN,
        Palette::QUIET,
        Palette::QUIET.italic(),
        Palette::STRONG,
        Palette::ACCENT,
        Palette::LINK,
        Palette::ADDED,
        Palette::REMOVED,
        Palette::WARNING,
        Palette::ERROR,
        Palette::SELECTED,
        palette.added_words(),
        palette.removed_words(),
        Palette::added_words(palette).dim(),
    ];
    styles.extend((0..16).map(Style::ansi));
    styles.extend((0..16).map(|color| Style::ansi(color).dim()));
    for name in theme_names() {
        let theme = theme(name).unwrap();
        let colors =
            [theme.comment, theme.string, theme.number, theme.keyword, theme.call, theme.type_name];
        styles.extend(colors.map(|color| Style::PLAIN.fg(color)));
    }
    styles
}

/// The contrast of a style as it is displayed, on a background with the user's own text colour.
fn contrast_of(style: Style, background: Rgb, own: Rgb) -> f64 {
    let value = |color: Color, or: Rgb| match color {
        Color::Default => or,
        Color::Ansi(color) => indexed(color),
        Color::Rgb(r, g, b) => (r, g, b),
    };
    let bg = value(style.bg, background);
    let (r, g, b) = value(style.fg, own);
    // Terminals draw dimmed text with two thirds of its distance from the background.
    let dimmed = |text: u8, ground: u8| {
        u8::try_from((u16::from(text) * 2 + u16::from(ground)) / 3).unwrap_or(u8::MAX)
    };
    let fg = match style.dim {
        true => (dimmed(r, bg.0), dimmed(g, bg.1), dimmed(b, bg.2)),
        false => (r, g, b),
    };
    contrast(fg, bg)
}

#[test]
fn every_style_has_enough_contrast_on_a_known_background() {
    for (grounds, own) in [(DARK.as_slice(), OWN[0]), (LIGHT.as_slice(), OWN[1])] {
        for ground in grounds.iter().map(|ground| rgb(*ground)) {
            for depth in DEPTHS {
                // The 16 have usual values for a usual background only: users who change one change the other.
                if depth == Depth::Sixteen && ![(0, 0, 0), (255, 255, 255)].contains(&ground) {
                    continue;
                }
                let palette = Palette { background: Some(ground), depth };
                for style in styles(palette) {
                    let found = contrast_of(palette.resolved(style), ground, rgb(own));
                    assert!(found >= MIN_CONTRAST, "{found:.2}: {style:?} {palette:?}");
                }
            }
        }
    }
}

#[test]
fn every_style_has_enough_contrast_on_black_and_white_without_an_answer() {
    for (ground, own) in [((0, 0, 0), OWN[0]), ((255, 255, 255), OWN[1])] {
        for depth in DEPTHS {
            let palette = Palette { background: None, depth };
            for style in styles(palette) {
                let found = contrast_of(palette.resolved(style), ground, rgb(own));
                assert!(found >= MIN_CONTRAST, "{found:.2}: {style:?} {palette:?} on {ground:?}");
            }
        }
    }
}

#[test]
fn any_background_gets_legible_text() {
    for r in (0..=255).step_by(15) {
        for g in (0..=255).step_by(15) {
            for b in (0..=255).step_by(51) {
                let ground = (r, g, b);
                let palette = Palette { background: Some(ground), depth: Depth::Full };
                for style in [Palette::QUIET, Palette::ACCENT, Palette::ERROR] {
                    let found = contrast_of(palette.resolved(style), ground, (0, 0, 0));
                    assert!(found >= MIN_CONTRAST, "{found:.2}: {style:?} on {ground:?}");
                }
            }
        }
    }
}

#[test]
fn hues_stay_apart_where_the_background_is_known() {
    for ground in [(0, 0, 0), (255, 255, 255)] {
        for depth in [Depth::Indexed, Depth::Full] {
            let palette = Palette { background: Some(ground), depth };
            let mut colors: Vec<Color> =
                [1, 2, 3, 4, 5, 6, 8].map(|it| palette.resolved(Style::ansi(it)).fg).to_vec();
            colors.sort_unstable_by_key(|color| format!("{color:?}"));
            colors.dedup();
            assert_eq!(colors.len(), 7, "{palette:?}");
        }
    }
}

#[test]
fn no_color_has_attributes_only() {
    let palette = Palette::from(Depth::Monochrome);
    let shown = palette.resolved(Palette::ERROR.bg(Color::Rgb(1, 2, 3)).dim());
    assert_eq!(shown, Style { bold: true, dim: true, ..Style::PLAIN });
}

#[test]
fn values_of_the_palette_of_256_come_back_as_themselves() {
    for color in 16..=255 {
        let value = indexed(color);
        assert_eq!(contrast::quantized(contrast::quantized(value)), contrast::quantized(value));
    }
    let known = [(29, (0, 135, 95)), (63, (95, 95, 255)), (243, (118, 118, 118))];
    for (color, value) in known {
        assert_eq!((indexed(color), contrast::quantized(value)), (value, value));
    }
}
