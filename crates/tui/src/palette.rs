//! The meaning of colours, and the only place that chooses them.
//!
//! What is drawn names a hue or says that it is less important ([`Style::dim`]). [`Palette::resolved`] turns that into
//! a colour with enough contrast: against the background that the terminal reported, and against both black and white
//! while it is not known. The user's own colours are used for text without a meaning only.

mod contrast;

#[cfg(test)]
mod tests;

use crate::text::{Color, Style};

pub(crate) use contrast::nearest_of_256;
pub use contrast::{MIN_CONTRAST, Rgb, contrast, indexed};

/// The number of colours of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// `NO_COLOR` is set, or the terminal has none: attributes only.
    Monochrome,
    /// The palette of 16.
    #[default]
    Sixteen,
    /// The palette of 256.
    Indexed,
    /// Red, green and blue.
    Full,
}

/// The styles of everything that is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// The terminal's background; absent while it has not answered.
    pub background: Option<Rgb>,
    /// The number of colours that the terminal can display.
    pub depth: Depth,
}

impl From<Depth> for Palette {
    fn from(depth: Depth) -> Self {
        Self { background: None, depth }
    }
}

/// The hues, in the order of the terminal's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hue {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    Grey,
}

impl Hue {
    /// The hue of a colour of the palette; none of black and white, which may be the background's.
    fn of_ansi(color: u8) -> Option<Self> {
        Some(match color {
            1 | 9 => Self::Red,
            2 | 10 => Self::Green,
            3 | 11 => Self::Yellow,
            4 | 12 => Self::Blue,
            5 | 13 => Self::Magenta,
            6 | 14 => Self::Cyan,
            8 => Self::Grey,
            _ => return None,
        })
    }

    /// The colour on a dark background and on a light one.
    fn forms(self) -> (Rgb, Rgb) {
        match self {
            Self::Red => ((0xf4, 0x70, 0x67), (0xb3, 0x26, 0x1e)),
            Self::Green => ((0x6b, 0xc4, 0x6d), (0x11, 0x63, 0x29)),
            Self::Yellow => ((0xd5, 0xa7, 0x2b), (0x7d, 0x4e, 0x00)),
            Self::Blue => ((0x6c, 0xb6, 0xff), (0x05, 0x50, 0xae)),
            Self::Magenta => ((0xc7, 0x92, 0xea), (0x66, 0x39, 0xba)),
            Self::Cyan => ((0x39, 0xc5, 0xcf), (0x0b, 0x6b, 0x77)),
            Self::Grey => ((0x9a, 0xa0, 0xa6), (0x5f, 0x63, 0x68)),
        }
    }

    /// The colour of the palette of 16 that is legible in its usual values; none for grey, for which text is dimmed.
    /// Terminals differ in those values. Green, yellow and cyan are too bright on white in all of them.
    fn of_16(self, is_light: bool) -> Option<u8> {
        let (dark, light) = match self {
            Self::Red => (9, 1),
            Self::Green => (2, 4),
            Self::Yellow => (11, 5),
            Self::Blue => (14, 4),
            Self::Magenta => (13, 5),
            Self::Cyan => (6, 4),
            Self::Grey => return None,
        };
        Some(if is_light { light } else { dark })
    }
}

#[allow(missing_docs, reason = "each style is named after what it is for")]
impl Palette {
    pub const QUIET: Style = Style::DIM;
    pub const STRONG: Style = Style::BOLD;
    pub const ACCENT: Style = Style::ansi(6);
    pub const CODE: Style = Style::ansi(6);
    pub const HEADING: Style = Style::BOLD;
    pub const LINK: Style = Style::ansi(6).underline();
    pub const ADDED: Style = Style::ansi(2);
    pub const REMOVED: Style = Style::ansi(1);
    pub const GOOD: Style = Style::ansi(2);
    pub const WARNING: Style = Style::ansi(3);
    pub const ERROR: Style = Style::ansi(1).bold();
    pub const SELECTED: Style = Style { reversed: true, ..Style::PLAIN };

    /// True on a light background, false on a dark one; absent while the background is not known.
    #[must_use]
    pub fn is_light(self) -> Option<bool> {
        self.background.map(contrast::is_light)
    }

    /// The words of a line that were added. Without enough colours, or on an unknown background, underlined.
    #[must_use]
    pub fn added_words(self) -> Style {
        self.words(Self::ADDED, (0x1f, 0x4d, 0x2b), (0xb9, 0xf0, 0xc5))
    }

    /// The words of a line that were removed. Without enough colours, or on an unknown background, underlined.
    #[must_use]
    pub fn removed_words(self) -> Style {
        self.words(Self::REMOVED, (0x5c, 0x22, 0x26), (0xff, 0xcf, 0xcf))
    }

    fn words(self, plain: Style, dark: Rgb, light: Rgb) -> Style {
        let has_backgrounds = matches!(self.depth, Depth::Indexed | Depth::Full);
        match self.is_light().filter(|_| has_backgrounds) {
            None => plain.underline(),
            Some(is_light) => {
                let (r, g, b) = if is_light { light } else { dark };
                plain.bg(Color::Rgb(r, g, b))
            }
        }
    }

    /// The style as the terminal displays it: with colours that it has, each with enough contrast.
    #[must_use]
    pub fn resolved(self, style: Style) -> Style {
        match self.depth {
            Depth::Monochrome => Style { fg: Color::Default, bg: Color::Default, ..style },
            Depth::Sixteen => self.resolved_to_16(style),
            Depth::Indexed | Depth::Full => self.resolved_to_rgb(style),
        }
    }

    fn resolved_to_16(self, style: Style) -> Style {
        let is_light = self.is_light();
        let hue = match style.fg {
            Color::Default => None,
            Color::Ansi(color) => Hue::of_ansi(color),
            Color::Rgb(r, g, b) => Hue::of_ansi(contrast::nearest_of_16((r, g, b))),
        };
        let is_grey = hue == Some(Hue::Grey) || (style.fg == Color::Default && style.dim);
        // No colour of the 16 is legible both on black and on white.
        let color = hue.zip(is_light).and_then(|(hue, is_light)| hue.of_16(is_light));
        // Many terminals show a bold colour as its bright one, which is too bright on white.
        let bold = style.bold && !(color.is_some() && is_light == Some(true));
        let fg = color.map_or(Color::Default, Color::Ansi);
        Style { fg, bg: Color::Default, dim: is_grey, bold, ..style }
    }

    fn resolved_to_rgb(self, style: Style) -> Style {
        let quantized = |color: Rgb| match self.depth {
            Depth::Indexed => contrast::quantized(color),
            _ => color,
        };
        let ground = match style.bg {
            Color::Rgb(r, g, b) => Some(quantized((r, g, b))),
            _ => self.background,
        };
        let bg = match (style.bg, ground) {
            (Color::Rgb(..), Some((r, g, b))) => Color::Rgb(r, g, b),
            _ => Color::Default,
        };
        let of_hue = |hue: Hue| match ground {
            Some(ground) if contrast::is_light(ground) => hue.forms().1,
            _ => hue.forms().0,
        };
        let wanted = match style.fg {
            Color::Default if style.dim => Some(of_hue(Hue::Grey)),
            Color::Default => None,
            Color::Ansi(color) => Hue::of_ansi(color).map(of_hue),
            Color::Rgb(r, g, b) => Some((r, g, b)),
        };
        let fg = wanted.map(|wanted| match ground {
            Some(ground) => contrast::legible_on(wanted, ground, quantized),
            None => contrast::legible_on_both(wanted, self.depth == Depth::Indexed),
        });
        let fg = match (fg, bg) {
            (Some((r, g, b)), _) => Color::Rgb(r, g, b),
            // The terminal's own colour suits its own background only.
            (None, Color::Rgb(r, g, b)) => {
                let (r, g, b) = contrast::opposite((r, g, b));
                Color::Rgb(r, g, b)
            }
            (None, _) => Color::Default,
        };
        Style { fg, bg, dim: false, ..style }
    }
}
