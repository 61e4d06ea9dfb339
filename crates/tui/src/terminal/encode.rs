//! Spans as bytes of the terminal: colours and attributes (SGR) and links (OSC 8), each only where it
//! changes.

use std::io::Write as _;
use std::sync::Arc;

use crate::palette::Depth;
use crate::text::{Color, Span, Style};

/// The current style of the terminal's writing.
#[derive(Debug, Default)]
pub(super) struct Pen {
    depth: Depth,
    style: Style,
    link: Option<Arc<str>>,
}

impl Pen {
    pub(super) fn new(depth: Depth) -> Self {
        Self { depth, ..Self::default() }
    }

    /// One that has written nothing, with the same colours.
    pub(super) fn blank(&self) -> Self {
        Self::new(self.depth)
    }

    /// Writes `text` in the style and with the link of `span`.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, span: &Span, text: &str) {
        if self.link.as_ref() != span.link() {
            self.link = span.link().cloned();
            let target = self.link.as_deref().unwrap_or_default();
            // Writing to memory cannot fail.
            let _ = write!(out, "\x1b]8;;{target}\x1b\\");
        }
        self.set(out, span.style());
        out.extend_from_slice(text.as_bytes());
    }

    /// Back to the terminal's own style, without a link.
    pub(super) fn reset(&mut self, out: &mut Vec<u8>) {
        if self.link.take().is_some() {
            out.extend_from_slice(b"\x1b]8;;\x1b\\");
        }
        self.set(out, Style::PLAIN);
    }

    fn set(&mut self, out: &mut Vec<u8>, style: Style) {
        let style = self.shown(style);
        if style == self.style {
            return;
        }
        out.extend_from_slice(b"\x1b[");
        let before = std::mem::replace(&mut self.style, style);
        let adds_only = (before.bold <= style.bold)
            && (before.dim <= style.dim)
            && (before.italic <= style.italic)
            && (before.underline <= style.underline)
            && (before.crossed_out <= style.crossed_out)
            && (before.reversed <= style.reversed)
            && (before.fg == style.fg || style.fg != Color::Default)
            && (before.bg == style.bg || style.bg != Color::Default);
        let mut codes = Codes { out, any: false };
        let base = if adds_only { before } else { Style::PLAIN };
        if !adds_only && style != Style::PLAIN {
            codes.add(0);
        }
        let attributes = [
            (style.bold && !base.bold, 1),
            (style.dim && !base.dim, 2),
            (style.italic && !base.italic, 3),
            (style.underline && !base.underline, 4),
            (style.reversed && !base.reversed, 7),
            (style.crossed_out && !base.crossed_out, 9),
        ];
        for (_, code) in attributes.into_iter().filter(|(is_new, _)| *is_new) {
            codes.add(code);
        }
        if style.fg != base.fg {
            codes.color(style.fg, 30, self.depth);
        }
        if style.bg != base.bg {
            codes.color(style.bg, 40, self.depth);
        }
        out.push(b'm');
    }

    /// The style as the terminal can display it.
    fn shown(&self, style: Style) -> Style {
        match self.depth {
            Depth::Monochrome => Style { fg: Color::Default, bg: Color::Default, ..style },
            Depth::Sixteen => {
                Style { fg: nearest_of_16(style.fg), bg: nearest_of_16(style.bg), ..style }
            }
            Depth::Indexed | Depth::Full => style,
        }
    }
}

/// The numbers of one SGR sequence.
struct Codes<'o> {
    out: &'o mut Vec<u8>,
    any: bool,
}

impl Codes<'_> {
    fn add(&mut self, code: u8) {
        if std::mem::replace(&mut self.any, true) {
            self.out.push(b';');
        }
        let _ = write!(self.out, "{code}");
    }

    fn color(&mut self, color: Color, base: u8, depth: Depth) {
        match color {
            Color::Default => {}
            Color::Ansi(index @ 0..8) => self.add(base + index),
            Color::Ansi(index) => self.add(base + 60 + (index & 7)),
            Color::Rgb(r, g, b) if depth == Depth::Full => {
                [base + 8, 2, r, g, b].into_iter().for_each(|code| self.add(code));
            }
            Color::Rgb(r, g, b) => {
                [base + 8, 5, nearest_of_256(r, g, b)].into_iter().for_each(|code| self.add(code));
            }
        }
    }
}

fn nearest_of_16(color: Color) -> Color {
    let Color::Rgb(r, g, b) = color else {
        return color;
    };
    let strongest = r.max(g).max(b);
    let weakest = r.min(g).min(b);
    if strongest - weakest < 48 {
        return match strongest {
            0..64 => Color::Ansi(0),
            64..128 => Color::Ansi(8),
            128..224 => Color::Ansi(7),
            224.. => Color::Default,
        };
    }
    let half = weakest + (strongest - weakest) / 2;
    let bit = |value: u8, bit: u8| if value > half { bit } else { 0 };
    let index = bit(r, 1) | bit(g, 2) | bit(b, 4);
    Color::Ansi(if strongest > 191 { index + 8 } else { index })
}

/// The nearest colour of the cube of 6 × 6 × 6, or of the 24 greys.
fn nearest_of_256(r: u8, g: u8, b: u8) -> u8 {
    if r.abs_diff(g) < 8 && g.abs_diff(b) < 8 {
        return match r {
            0..8 => 16,
            239.. => 231,
            8..239 => 232 + (r - 8) / 10,
        };
    }
    let step = |value: u8| match value {
        0..48 => 0,
        48..115 => 1,
        115.. => (value - 35) / 40,
    };
    16 + 36 * step(r) + 6 * step(g) + step(b)
}
