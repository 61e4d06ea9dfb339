//! The meaning of colours. The 16 colours of the terminal's palette are used, which users choose to
//! be legible on their background; only backgrounds and highlighted code need to know whether that
//! is dark.

use crate::text::{Color, Style};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// True if the terminal's background is light.
    pub light: bool,
    /// The number of colours that the terminal can display.
    pub depth: Depth,
}

impl Default for Palette {
    fn default() -> Self {
        Self { light: false, depth: Depth::Sixteen }
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

    /// The words of a line that were added. Without enough colours, underlined.
    #[must_use]
    pub fn added_words(self) -> Style {
        self.words(Self::ADDED, (0x1f, 0x4d, 0x2b), (0xb9, 0xf0, 0xc5))
    }

    /// The words of a line that were removed. Without enough colours, underlined.
    #[must_use]
    pub fn removed_words(self) -> Style {
        self.words(Self::REMOVED, (0x5c, 0x22, 0x26), (0xff, 0xcf, 0xcf))
    }

    fn words(self, plain: Style, dark: (u8, u8, u8), light: (u8, u8, u8)) -> Style {
        let (r, g, b) = if self.light { light } else { dark };
        match self.depth {
            Depth::Monochrome | Depth::Sixteen => plain.underline(),
            Depth::Indexed | Depth::Full => plain.bg(Color::Rgb(r, g, b)),
        }
    }
}
