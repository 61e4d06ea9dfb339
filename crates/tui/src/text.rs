//! Styled text, measured in cells of the terminal.
//!
//! A [`Span`] never holds a character that the terminal would act on: control characters and characters
//! that hide or reorder text are replaced by their numbers when it is made, so whatever a model, a
//! command or a file says can only ever be displayed.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Cells between two tab stops.
const TAB: usize = 4;

/// A colour of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The user's own choice for the terminal.
    #[default]
    Default,
    /// One of the 16 colours of the terminal's palette: 0 to 7, bright from 8 on.
    Ansi(u8),
    /// Red, green and blue; the nearest colour of the palette where the terminal has only that.
    Rgb(u8, u8, u8),
}

/// The look of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the members are the attributes of terminals")]
pub struct Style {
    pub fg: Color,
    pub bg: Color,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub crossed_out: bool,
    pub reversed: bool,
}

impl Style {
    /// The terminal's own.
    pub const PLAIN: Self = Self {
        fg: Color::Default,
        bg: Color::Default,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        crossed_out: false,
        reversed: false,
    };
    /// Less important than the text around it.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };
    /// More important than the text around it.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };

    /// In one of the 16 colours of the palette.
    #[must_use]
    pub const fn ansi(color: u8) -> Self {
        Self { fg: Color::Ansi(color), ..Self::PLAIN }
    }

    /// The same with this colour.
    #[must_use]
    pub const fn fg(self, fg: Color) -> Self {
        Self { fg, ..self }
    }

    /// The same on this background.
    #[must_use]
    pub const fn bg(self, bg: Color) -> Self {
        Self { bg, ..self }
    }

    /// The same in bold.
    #[must_use]
    pub const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// The same, dimmed.
    #[must_use]
    pub const fn dim(self) -> Self {
        Self { dim: true, ..self }
    }

    /// The same in italics.
    #[must_use]
    pub const fn italic(self) -> Self {
        Self { italic: true, ..self }
    }

    /// The same, underlined.
    #[must_use]
    pub const fn underline(self) -> Self {
        Self { underline: true, ..self }
    }
}

/// Text in one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    text: Cow<'static, str>,
    style: Style,
    link: Option<Arc<str>>,
}

impl Span {
    /// Text on one line: line breaks and other control characters are shown as their numbers, tabs as
    /// four spaces.
    pub fn new(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        Self { text: displayed(text.into()), style, link: None }
    }

    /// As [`Span::new`], for what is read and not approved: emoji of several characters and joined letters
    /// are kept whole.
    pub fn prose(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        let text = without_tabs(text.into());
        let text = match visible::prose(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(shown) => Cow::Owned(shown),
        };
        Self { text, style, link: None }
    }

    /// The same as a link (OSC 8). Nothing is linked where `target` holds a control character or is
    /// longer than 2,000 bytes, which terminals refuse.
    #[must_use]
    pub fn linked(mut self, target: &str) -> Self {
        let fits = target.len() <= 2000 && target.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        self.link = fits.then(|| Arc::from(target));
        self
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The style.
    #[must_use]
    pub fn style(&self) -> Style {
        self.style
    }

    /// Where the link goes.
    #[must_use]
    pub fn link(&self) -> Option<&Arc<str>> {
        self.link.as_ref()
    }

    /// The width in cells.
    #[must_use]
    pub fn width(&self) -> usize {
        width(&self.text)
    }

    /// The same text and link in another style.
    #[must_use]
    pub fn styled(&self, style: Style) -> Self {
        Self { style, ..self.clone() }
    }

    /// A part of the text, in the same style and with the same link.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        self.with(&self.text[range])
    }

    /// The same style and link with another text, which must come out of a span.
    fn with(&self, text: &str) -> Self {
        Self { text: Cow::Owned(text.to_owned()), ..self.clone() }
    }
}

fn without_tabs(text: Cow<'static, str>) -> Cow<'static, str> {
    match text.contains('\t') {
        true => Cow::Owned(text.replace('\t', &" ".repeat(TAB))),
        false => text,
    }
}

fn displayed(text: Cow<'static, str>) -> Cow<'static, str> {
    let text = without_tabs(text);
    match visible::line(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => Cow::Owned(shown),
    }
}

/// The width of a text in cells.
#[must_use]
pub fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.graphemes(true).map(grapheme_width).sum(),
    }
}

/// The cells of a grapheme. Terminals agree on single characters; of emoji that are made of several, some
/// make one character of two cells and others draw each, so that the larger number is assumed.
fn grapheme_width(grapheme: &str) -> usize {
    let each = || grapheme.chars().map(|c| c.width().unwrap_or(0)).sum();
    UnicodeWidthStr::width(grapheme).max(each())
}

/// Returns whether terminals may disagree about the width of a text: it has a grapheme of several
/// characters that are not just a letter and its accents.
fn has_doubtful_width(text: &str) -> bool {
    !text.is_ascii()
        && text.graphemes(true).any(|grapheme| {
            let mut more = grapheme.chars().skip(1).peekable();
            more.peek().is_some()
                && (more.any(|c| c.width() != Some(0) || matches!(c, '\u{fe0f}' | '\u{200d}')))
        })
}

/// A line of spans. As it comes from [`Line::wrapped`] it fits into the screen; otherwise it is as long
/// as the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The text, from left to right.
    pub spans: Vec<Span>,
}

impl Line {
    /// A line in one style.
    pub fn new(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        Self::from(Span::new(text, style))
    }

    /// A line in the terminal's own style.
    pub fn plain(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(text, Style::PLAIN)
    }

    /// Adds text at the end.
    pub fn push(&mut self, text: impl Into<Cow<'static, str>>, style: Style) -> &mut Self {
        self.spans.push(Span::new(text, style));
        self
    }

    /// The same with text added at the end.
    #[must_use]
    pub fn with(mut self, text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        self.push(text, style);
        self
    }

    /// The width in cells.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spans.iter().map(Span::width).sum()
    }

    /// Returns whether terminals may disagree about the width.
    pub(crate) fn has_doubtful_width(&self) -> bool {
        self.spans.iter().any(|span| has_doubtful_width(&span.text))
    }

    /// The text without styles.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(Span::text).collect()
    }

    /// The line cut at `columns` cells, with `…` as the last where something is left out.
    #[must_use]
    pub fn truncated(&self, columns: usize) -> Self {
        if self.width() <= columns {
            return self.clone();
        }
        let mut cut = Self::default();
        let mut free = columns.saturating_sub(1);
        for span in &self.spans {
            let fits = prefix(span.text(), free);
            free -= width(&span.text()[..fits]);
            cut.spans.push(span.with(&span.text()[..fits]));
            if fits < span.text().len() {
                break;
            }
        }
        if columns > 0 {
            cut.push("…", Style::DIM);
        }
        cut
    }

    /// Lines of at most `columns` cells, broken between words where that is possible. Lines after the first
    /// start with `indent`. With less than two cells besides the indentation nothing is indented.
    #[must_use]
    pub fn wrapped(&self, columns: usize, indent: &Self) -> Vec<Self> {
        let columns = columns.max(2);
        if self.width() <= columns {
            return vec![self.clone()];
        }
        let none = Self::default();
        let indent = if indent.width() + 2 <= columns { indent } else { &none };
        Wrap { columns, indent, lines: Vec::new(), line: Self::default(), used: 0, blank: true }
            .run(self)
    }
}

impl From<Span> for Line {
    fn from(span: Span) -> Self {
        Self { spans: vec![span] }
    }
}

/// Bytes of the longest beginning of `text` that takes at most `columns` cells.
fn prefix(text: &str, columns: usize) -> usize {
    if text.is_ascii() {
        return text.len().min(columns);
    }
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme_width(grapheme);
        if used > columns {
            return at;
        }
    }
    text.len()
}

/// The state of [`Line::wrapped`].
struct Wrap<'l> {
    columns: usize,
    indent: &'l Line,
    lines: Vec<Line>,
    line: Line,
    used: usize,
    /// True if `line` holds nothing but its indentation.
    blank: bool,
}

impl Wrap<'_> {
    fn run(mut self, line: &Line) -> Vec<Line> {
        // A word may go over several spans, so words are looked for in the whole text.
        let text = line.text();
        let mut cursor = Cursor { spans: &line.spans, offset: 0 };
        for word in text.split_word_bounds_by_space() {
            let columns = width(word);
            if self.used + columns > self.columns && !self.blank {
                if word.trim_start().is_empty() {
                    // The space at which the line is broken.
                    cursor.take(word.len(), |_, _| {});
                    self.next_line();
                    continue;
                }
                self.next_line();
            }
            let mut left = word;
            loop {
                let mut fits = prefix(left, self.columns - self.used);
                if fits == left.len() {
                    break;
                }
                if fits == 0 && self.blank {
                    // Not even one wide character fits.
                    fits = left.graphemes(true).next().map_or(left.len(), str::len);
                }
                self.push(&mut cursor, fits);
                left = &left[fits..];
                self.next_line();
            }
            self.push(&mut cursor, left.len());
        }
        if !self.blank || self.lines.is_empty() {
            self.lines.push(self.line);
        }
        self.lines
    }

    fn push(&mut self, cursor: &mut Cursor<'_>, bytes: usize) {
        let (line, used) = (&mut self.line, &mut self.used);
        cursor.take(bytes, |span, text| {
            *used += width(text);
            match line.spans.last_mut() {
                // The words of a line are one span, not one each.
                Some(last) if last.style == span.style && last.link == span.link => {
                    last.text.to_mut().push_str(text);
                }
                _ => line.spans.push(span.with(text)),
            }
        });
        self.blank &= bytes == 0;
    }

    fn next_line(&mut self) {
        self.used = self.indent.width();
        self.blank = true;
        self.lines.push(std::mem::replace(&mut self.line, self.indent.clone()));
    }
}

/// A place in the spans of a line.
struct Cursor<'l> {
    spans: &'l [Span],
    offset: usize,
}

impl Cursor<'_> {
    /// Passes over `bytes` of the text, giving each piece with its span.
    fn take(&mut self, mut bytes: usize, mut each: impl FnMut(&Span, &str)) {
        while let Some((span, rest)) = self.spans.split_first() {
            let left = &span.text()[self.offset..];
            let taken = left.len().min(bytes);
            if taken > 0 {
                each(span, &left[..taken]);
            }
            bytes -= taken;
            self.offset += taken;
            if taken < left.len() || (bytes == 0 && taken > 0 && taken < left.len()) {
                return;
            }
            self.spans = rest;
            self.offset = 0;
            if bytes == 0 {
                return;
            }
        }
    }
}

/// Words and the runs of spaces between them.
trait WordsAndSpaces {
    fn split_word_bounds_by_space(&self) -> impl Iterator<Item = &str>;
}

impl WordsAndSpaces for str {
    fn split_word_bounds_by_space(&self) -> impl Iterator<Item = &str> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let is_space = first == ' ';
            let end = rest.find(|c: char| (c == ' ') != is_space).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            Some(word)
        })
    }
}
