//! Messages in Markdown (CommonMark with tables, struck out text and task lists) while they are written.
//!
//! A [`Stream`] gives the lines of each block once the block has ended; only the open block is rendered
//! again. Prose is wrapped at the width of the screen. Lines of code are not, so that they are copied as
//! they are.

mod blocks;
mod inline;
mod link;
mod scan;
mod table;

use crate::context::Context;
use crate::highlight::Code;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};
use blocks::{Block, Blocks, Leaf, Prefix, Text};
use inline::Flow;

/// Bytes of a line that are taken at once.
const PIECE: usize = 4 << 10;

/// A message that arrives in parts.
///
/// Whether it is given as source text ([`Context::raw`]) is decided when the first lines are asked for.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Text of an unfinished piece.
    rest: String,
    /// True if a line has begun before `rest`.
    is_inside: bool,
    blocks: Blocks,
    /// The source, line by line, until it is known whether it is wanted.
    source: Vec<String>,
    source_line: String,
    is_raw: Option<bool>,
    state: State,
}

/// The state that rendering a block takes from the blocks before.
#[derive(Clone, Debug, Default)]
struct State {
    /// The last line of a paragraph that goes on.
    carried: Vec<Span>,
    /// True if `carried` is the paragraph's first line.
    starts: bool,
    code: Code,
}

impl Stream {
    /// Takes a part of the text. Costs time in proportion to `delta` alone.
    pub fn push(&mut self, delta: &str) {
        for part in delta.split_inclusive('\n') {
            self.push_source(part);
            if self.is_raw == Some(true) {
                continue;
            }
            // In steps, so that taking pieces off `rest` never moves much.
            let mut part = part;
            while !part.is_empty() {
                let (step, left) = part.split_at(part.floor_char_boundary(PIECE));
                self.rest.push_str(step);
                while self.rest.len() > PIECE || self.rest.ends_with('\n') {
                    self.piece();
                }
                part = left;
            }
        }
    }

    /// Ends the text: everything is finished.
    pub fn end(&mut self) {
        if !self.source_line.is_empty() {
            self.push_source("\n");
        }
        if self.is_raw == Some(true) {
            return;
        }
        if !self.rest.is_empty() || self.is_inside {
            self.rest.push('\n');
            while !self.rest.is_empty() {
                self.piece();
            }
        }
        self.blocks.end();
    }

    /// The lines that will not change, each given once.
    pub fn finished(&mut self, context: &Context) -> Vec<Line> {
        let source = std::mem::take(&mut self.source);
        match *self.is_raw.get_or_insert(context.raw) {
            true => source.into_iter().map(Line::plain).collect(),
            false => self.state.render(self.blocks.take(), context),
        }
    }

    /// The last `rows` lines of what is not finished, each of them as wide as the screen at most.
    ///
    /// Ask for what is [finished](Self::finished) first.
    #[must_use]
    pub fn open(&self, context: &Context, rows: usize) -> Vec<Line> {
        // No character is wider than two cells, or longer than 4 bytes without being several.
        let most = context.width().saturating_mul(rows).saturating_mul(4);
        let mut lines = match self.is_raw.unwrap_or(context.raw) {
            true => {
                let cut = self.source_line.len().saturating_sub(most);
                let at = self.source_line.floor_char_boundary(cut);
                vec![Line::plain(self.source_line[at..].to_owned())]
            }
            false => self.open_blocks(context, most),
        };
        lines =
            lines.iter().flat_map(|line| line.wrapped(context.width(), &Line::default())).collect();
        if lines.last().is_some_and(|line| line.spans.is_empty()) {
            lines.pop();
        }
        lines.split_off(lines.len().saturating_sub(rows))
    }

    fn open_blocks(&self, context: &Context, most: usize) -> Vec<Line> {
        let mut blocks = self.blocks.preview(most);
        let rest = self.rest.trim_end_matches('\r');
        // Dashes below a paragraph may become a list or a heading.
        let is_undecided = blocks.is_paragraph() && rest.bytes().all(|byte| b"-= ".contains(&byte));
        match self.is_inside {
            true => blocks.more(rest, true),
            false if !rest.is_empty() && !is_undecided => blocks.line(rest, true),
            false => {}
        }
        blocks.end();
        self.state.clone().render(blocks.take(), context)
    }

    fn push_source(&mut self, part: &str) {
        if self.is_raw == Some(false) {
            return;
        }
        match part.strip_suffix('\n') {
            Some(end) => {
                self.source_line.push_str(end);
                let mut line = std::mem::take(&mut self.source_line);
                // The carriage return may have come before, in a part of its own.
                if line.ends_with('\r') {
                    line.pop();
                }
                self.source.push(line);
            }
            None => self.source_line.push_str(part),
        }
    }

    /// Gives one piece of the text to the blocks: a line, or so much of it as is taken at once.
    fn piece(&mut self) {
        let end = self.rest.bytes().take(PIECE + 1).position(|byte| byte == b'\n');
        let at = end.unwrap_or_else(|| self.rest.floor_char_boundary(PIECE));
        let piece = &self.rest[..at];
        let piece = if end.is_some() { piece.strip_suffix('\r').unwrap_or(piece) } else { piece };
        match self.is_inside {
            true => self.blocks.more(piece, end.is_some()),
            false => self.blocks.line(piece, end.is_some()),
        }
        self.is_inside = end.is_none();
        self.rest.drain(..at + usize::from(end.is_some()));
    }
}

impl State {
    fn render(&mut self, blocks: Vec<Block>, context: &Context) -> Vec<Line> {
        let mut lines = Vec::new();
        for block in blocks {
            self.block(block, context, &mut lines);
        }
        lines
    }

    fn block(&mut self, block: Block, context: &Context, lines: &mut Vec<Line>) {
        if let Some(gap) = &block.gap {
            let quotes = gap.iter().rposition(|it| matches!(it, Prefix::Quote));
            lines.push(prefix(&gap[..quotes.map_or(0, |at| at + 1)]));
        }
        match block.leaf {
            Leaf::Text(text) => self.text(text, block.prefix, context, lines),
            Leaf::Code { language } => self.code = Code::new(&language, context),
            Leaf::CodeLine(line) => {
                let mut shown = prefix(&block.prefix);
                shown.spans.extend(self.code.line(&line));
                lines.push(shown);
            }
            Leaf::Empty => lines.push(prefix(&block.prefix)),
        }
    }

    fn text(
        &mut self,
        mut text: Text,
        before: Vec<Prefix>,
        context: &Context,
        lines: &mut Vec<Line>,
    ) {
        let task = take_task(&mut text, &before);
        let mut first = prefix(&before);
        let mut below = prefix(&before.into_iter().map(Prefix::below).collect::<Vec<_>>());
        if let Some(task) = task {
            first.push(task, Palette::ACCENT);
            below.push("  ", Style::PLAIN);
        }
        let mut carried = std::mem::take(&mut self.carried);
        let starts = text.continues.is_none() || std::mem::take(&mut self.starts);
        if text.continues == Some(true) && !carried.is_empty() {
            carried.push(Span::new(" ", Style::PLAIN));
        }
        let mut flows = inline::flows(&text, context);
        if !carried.is_empty() {
            if let Some(Flow::Line(line)) = flows.first_mut() {
                line.spans.splice(0..0, carried);
            } else {
                flows.insert(0, Flow::Line(Line { spans: carried }));
            }
        }
        let free = context.width().saturating_sub(first.width()).max(2);
        let start = lines.len();
        let mut taken = 0;
        for flow in flows {
            let shown = match flow {
                Flow::Line(line) => line.wrapped(free, &Line::default()),
                Flow::Table(table) => table.lines(free),
                Flow::Rule => vec![Line::new("─".repeat(free.min(40)), Palette::QUIET)],
            };
            let has_prefix = first.width() + 2 <= context.width();
            for line in shown {
                let is_first = lines.len() == start && starts;
                let mut whole = match (has_prefix, is_first) {
                    (false, _) => Line::default(),
                    (true, true) => first.clone(),
                    (true, false) => below.clone(),
                };
                taken = whole.spans.len();
                whole.spans.extend(line.spans);
                lines.push(whole);
            }
        }
        if text.is_continued && lines.len() > start {
            let last = lines.pop().unwrap_or_default();
            self.starts = starts && lines.len() == start;
            self.carried = last.spans.into_iter().skip(taken).collect();
        }
    }
}

/// The box of a task, which is taken off the text of an item.
fn take_task(text: &mut Text, before: &[Prefix]) -> Option<&'static str> {
    let rest = text
        .source
        .strip_prefix('[')
        .filter(|_| matches!(before.last(), Some(Prefix::Marker(_))))?;
    let task = match rest.get(..3)? {
        "x] " | "X] " => "☑ ",
        " ] " => "☐ ",
        _ => return None,
    };
    text.source.drain(..4);
    Some(task)
}

fn prefix(parts: &[Prefix]) -> Line {
    let mut line = Line::default();
    for part in parts {
        match part {
            Prefix::Quote => line.push("│ ", Palette::QUIET),
            Prefix::Marker(None) => line.push("• ", Palette::QUIET),
            Prefix::Marker(Some(number)) => line.push(format!("{number}. "), Palette::QUIET),
            Prefix::Below(None) => line.push("  ", Style::PLAIN),
            Prefix::Below(Some(number)) => {
                line.push(" ".repeat(number.to_string().len() + 2), Style::PLAIN)
            }
        };
    }
    line
}

#[cfg(test)]
mod tests;
