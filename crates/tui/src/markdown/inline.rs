//! The inside of a paragraph, a heading or a table: emphasis, code, links.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream};

use super::blocks::Text;
use super::link;
use super::table::Table;
use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Color, Line, Span, Style};

/// Text of a block, before it is wrapped.
#[derive(Debug)]
pub(super) enum Flow {
    Line(Line),
    Table(Table),
    Rule,
}

/// Returns the display of a block's text.
pub(super) fn flows(text: &Text, context: &Context) -> Vec<Flow> {
    let mut options = Options::ENABLE_STRIKETHROUGH;
    options.set(Options::ENABLE_TABLES, text.is_table);
    // What continues a paragraph must not be taken for the start of another block.
    let guarded = text.continues.map(|_| format!(".{}", text.source));
    let source = guarded.as_deref().unwrap_or(&text.source);
    let parser = Parser::new_ext(source, options);
    let definitions = parser.reference_definitions().iter();
    let mut defined: Vec<_> = definitions.map(|(_, it)| it.span.clone()).collect();
    defined.sort_unstable_by_key(|span| span.start);
    let mut writer = Writer {
        context,
        flows: Vec::new(),
        line: Line::default(),
        styles: Vec::new(),
        link: None,
        table: None,
        guard: guarded.is_some(),
    };
    // Definitions stay visible: where they apply may have been printed before they came.
    for span in defined {
        writer.write(source[span].trim_end(), Palette::QUIET);
        writer.end_line();
    }
    for event in TextMergeStream::new(parser) {
        writer.event(event);
    }
    writer.end_line();
    writer.flows
}

struct Writer<'c> {
    context: &'c Context,
    flows: Vec<Flow>,
    line: Line,
    styles: Vec<Style>,
    /// Where the open link goes, and the first of its spans.
    link: Option<(String, usize)>,
    table: Option<Table>,
    /// True if the first character is the guard, to be removed.
    guard: bool,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.code(&code),
            Event::Html(html) | Event::InlineHtml(html) => self.write_lines(&html, Palette::QUIET),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text),
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
            Event::SoftBreak => self.write(" ", Style::PLAIN),
            Event::HardBreak => self.end_line(),
            Event::Rule => self.flows.push(Flow::Rule),
            Event::TaskListMarker(done) => self.text(if done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level: HeadingLevel::H1, .. } => {
                self.styles.push(Palette::HEADING.underline());
            }
            Tag::Heading { .. } | Tag::Strong => self.styles.push(Palette::HEADING),
            Tag::Emphasis => self.styles.push(Style::PLAIN.italic()),
            Tag::Strikethrough => {
                self.styles.push(Style { crossed_out: true, ..Style::PLAIN });
            }
            Tag::Link { dest_url, .. } => {
                self.link = Some((dest_url.into_string(), self.line.spans.len()));
                self.styles.push(Palette::LINK);
            }
            Tag::Image { dest_url, .. } => {
                // An image inside of a link is a part of its text.
                if self.link.is_none() {
                    self.link = Some((dest_url.into_string(), self.line.spans.len()));
                }
                self.styles.push(Palette::LINK);
            }
            Tag::Table(alignments) => self.table = Some(Table { alignments, rows: Vec::new() }),
            Tag::TableHead => {
                self.styles.push(Palette::STRONG);
                self.row();
            }
            Tag::TableRow => self.row(),
            Tag::Item => self.write("• ", Palette::QUIET),
            _ => {}
        }
    }

    fn row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_line();
            }
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::TableHead => {
                self.styles.pop();
            }
            TagEnd::Link => {
                self.styles.pop();
                self.end_link();
            }
            TagEnd::Image => {
                self.styles.pop();
                // Inside of a link there is still the style of that.
                if !self.styles.contains(&Palette::LINK) {
                    self.end_link();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.flows.extend(self.table.take().map(Flow::Table)),
            TagEnd::Paragraph | TagEnd::Item | TagEnd::CodeBlock | TagEnd::HtmlBlock => {
                self.end_line();
            }
            _ => {}
        }
    }

    fn end_link(&mut self) {
        let Some((destination, first)) = self.link.take() else { return };
        let first = first.min(self.line.spans.len());
        let text: String = self.line.spans[first..].iter().map(Span::text).collect();
        if text.trim().is_empty() {
            self.write("link", Palette::LINK);
        }
        let shown = link::shown(&text, &destination, self.context);
        let spans = self.line.spans.split_off(first).into_iter();
        self.line.spans.extend(spans.map(|span| match &shown.target {
            Some(target) => span.linked(target),
            None => span,
        }));
        self.note(shown.note);
    }

    fn note(&mut self, note: Option<String>) {
        if let Some(note) = note {
            self.write(&format!(" ({note})"), Palette::QUIET);
        }
    }

    fn text(&mut self, text: &str) {
        let text = match std::mem::take(&mut self.guard) {
            true => text.strip_prefix('.').unwrap_or(text),
            false => text,
        };
        if self.link.is_some() {
            return self.write_lines(text, Style::PLAIN);
        }
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.end_line();
            }
            for (part, address) in link::find(line, self.context) {
                match address {
                    Some(shown) => self.address(part, Palette::LINK, shown),
                    None => self.write(part, Style::PLAIN),
                }
            }
        }
    }

    fn code(&mut self, code: &str) {
        let target = match self.link {
            None => link::file(code, self.context),
            Some(_) => None,
        };
        self.address(code, Palette::CODE, link::Shown { target, note: None });
    }

    fn address(&mut self, text: &str, style: Style, shown: link::Shown) {
        let span = Span::prose(text.to_owned(), self.style(style));
        self.line.spans.push(match &shown.target {
            Some(target) => span.linked(target),
            None => span,
        });
        self.note(shown.note);
    }

    /// Text of several lines.
    fn write_lines(&mut self, text: &str, style: Style) {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.end_line();
            }
            self.write(line, style);
        }
    }

    fn write(&mut self, text: &str, style: Style) {
        if !text.is_empty() {
            let style = self.style(style);
            self.line.spans.push(Span::prose(text.to_owned(), style));
        }
    }

    fn style(&self, style: Style) -> Style {
        self.styles.iter().fold(style, |style, more| Style {
            fg: if style.fg == Color::Default { more.fg } else { style.fg },
            bold: style.bold || more.bold,
            italic: style.italic || more.italic,
            underline: style.underline || more.underline,
            crossed_out: style.crossed_out || more.crossed_out,
            ..style
        })
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Some((_, first)) = &mut self.link {
            // The text of a link across lines: what comes is linked, what was is text.
            *first = 0;
        }
        if line.spans.is_empty() {
            return;
        }
        self.flows.push(Flow::Line(line));
    }
}
