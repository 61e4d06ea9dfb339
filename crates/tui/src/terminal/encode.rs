//! Spans as bytes of the terminal: colours and attributes (SGR) and links (OSC 8), each only where it
//! changes.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use crate::palette::{Depth, Palette, nearest_of_256};
use crate::text::{Color, Span, Style};

/// Styles whose colours are kept; when there are more, all are found again.
const MAX_RESOLVED: usize = 512;

/// The current style of the terminal's writing.
#[derive(Debug, Default)]
pub(super) struct Pen {
    palette: Palette,
    style: Style,
    link: Option<Arc<str>>,
    /// Styles as the palette resolves them.
    resolved: HashMap<Style, Style>,
}

impl Pen {
    pub(super) fn new(palette: Palette) -> Self {
        Self { palette, ..Self::default() }
    }

    /// One that has written nothing, with the same colours.
    pub(super) fn blank(&self) -> Self {
        Self::new(self.palette)
    }

    pub(super) fn palette(&self) -> Palette {
        self.palette
    }

    /// Chooses other colours for what is written from now on.
    pub(super) fn set_palette(&mut self, palette: Palette) {
        self.palette = palette;
        self.resolved.clear();
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
            codes.color(style.fg, 30, self.palette.depth);
        }
        if style.bg != base.bg {
            codes.color(style.bg, 40, self.palette.depth);
        }
        out.push(b'm');
    }

    /// The style as the terminal displays it.
    fn shown(&mut self, style: Style) -> Style {
        if style == Style::PLAIN {
            return style;
        }
        if self.resolved.len() >= MAX_RESOLVED {
            self.resolved.clear();
        }
        *self.resolved.entry(style).or_insert_with(|| self.palette.resolved(style))
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
