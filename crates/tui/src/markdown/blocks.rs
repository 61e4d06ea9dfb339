//! The blocks of a text, line by line as CommonMark describes it: containers are matched at the start of
//! each line, and what is left belongs to the open block.
//!
//! Only the open block is kept. It is bounded: a paragraph or a table over its limit is given in parts, so
//! that the cost of a delta does not depend on the length of the message. Where the parts end depends on
//! the text alone, not on how it arrived.

use super::scan;

/// Bytes of a paragraph that are held back because more may change how they look.
const PARAGRAPH: usize = 4 << 10;
/// Bytes of a table that are laid out together.
const TABLE: usize = 16 << 10;
/// Columns of a table.
const COLUMNS: usize = 64;
/// Quotations and lists inside one another.
const DEPTH: usize = 16;

/// A block, or a part of one, that will not change.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The prefix of its lines.
    pub(super) prefix: Vec<Prefix>,
    /// The prefix of the blank line before it, if there is one.
    pub(super) gap: Option<Vec<Prefix>>,
    pub(super) leaf: Leaf,
}

#[derive(Clone, Debug)]
pub(super) enum Leaf {
    /// Source of a paragraph, heading, table or rule.
    Text(Text),
    /// The start of a code block.
    Code {
        language: String,
    },
    CodeLine(String),
    /// An item without content.
    Empty,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) source: String,
    pub(super) is_table: bool,
    /// Set if the text continues the paragraph before it; true if it does so after a space.
    pub(super) continues: Option<bool>,
    /// True if the next block continues this paragraph.
    pub(super) is_continued: bool,
}

/// A container's text before a line.
#[derive(Clone, Debug)]
pub(super) enum Prefix {
    Quote,
    /// The marker of an item, before its first line.
    Marker(Option<u64>),
    /// Spaces as wide as that marker.
    Below(Option<u64>),
}

#[derive(Clone, Debug)]
enum Container {
    Quote,
    Item { kind: char, number: Option<u64>, width: usize, is_shown: bool },
}

#[derive(Clone, Debug, Default)]
enum Open {
    #[default]
    None,
    Paragraph {
        text: Text,
        lines: usize,
        /// Bytes of a table's head.
        head: usize,
    },
    Fence {
        mark: char,
        length: usize,
        indent: usize,
    },
    Indented {
        blank: usize,
    },
}

/// The blocks of a text that is still being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    containers: Vec<Container>,
    open: Open,
    /// Start of a line of code whose end has not come.
    code: String,
    /// Containers that the last block and the next have in common.
    shared: usize,
    is_blank: bool,
    /// Set after the first block: true if the last block stands apart from text around it.
    last: Option<bool>,
    done: Vec<Block>,
}

impl Blocks {
    /// The finished blocks, each once.
    pub(super) fn take(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.done)
    }

    /// The same without the finished blocks, and with at most `most` bytes of an unfinished line of code.
    pub(super) fn preview(&self, most: usize) -> Self {
        let at = self.code.floor_char_boundary(self.code.len().saturating_sub(most));
        Self {
            containers: self.containers.clone(),
            open: self.open.clone(),
            code: self.code[at..].to_owned(),
            done: Vec::new(),
            ..*self
        }
    }

    /// Returns whether the open block is a paragraph, which a line of dashes would make a heading.
    pub(super) fn is_paragraph(&self) -> bool {
        matches!(self.open, Open::Paragraph { .. })
    }

    /// Takes the first piece of a line, and whether the line ends with it.
    pub(super) fn line(&mut self, line: &str, ends: bool) {
        let mut rest = scan::expand(line).into_owned();
        let matched = self.matched(&mut rest);
        if matches!(self.open, Open::Fence { .. }) {
            if matched == self.containers.len() {
                return self.code_line(&rest, ends);
            }
            self.close(matched);
        }
        if ends && scan::is_blank(&rest) {
            return self.blank_line(matched);
        }
        let depth = self.enter(matched, &mut rest);
        if depth < self.containers.len() {
            let is_lazy = self.is_paragraph() && !starts_block(&rest);
            if is_lazy {
                return self.append(&rest, true);
            }
            self.close(depth);
        }
        self.leaf(&rest, ends);
    }

    /// Takes a further piece of a line.
    pub(super) fn more(&mut self, text: &str, ends: bool) {
        match self.open {
            Open::Fence { .. } | Open::Indented { .. } => self.push_code(text, ends),
            Open::Paragraph { .. } => self.append(text, false),
            Open::None => self.paragraph(text, Some(false)),
        }
    }

    /// Ends the text.
    pub(super) fn end(&mut self) {
        if !self.code.is_empty() {
            self.push_code("", true);
        }
        self.close(0);
    }

    /// Returns the number of containers that continue in a line, whose markers are removed.
    fn matched(&self, rest: &mut String) -> usize {
        for (depth, container) in self.containers.iter().enumerate() {
            let content = match container {
                Container::Quote => match scan::quote(rest) {
                    Some(content) => content,
                    None => return depth,
                },
                Container::Item { .. } if scan::is_blank(rest) => continue,
                Container::Item { width, .. } if scan::indentation(rest) >= *width => {
                    &rest[*width..]
                }
                Container::Item { .. } => return depth,
            };
            *rest = scan::expand(content).into_owned();
        }
        self.containers.len()
    }

    /// Opens the containers that start in a line; how many are open then.
    fn enter(&mut self, mut depth: usize, rest: &mut String) -> usize {
        while depth < DEPTH {
            let interrupts = self.is_paragraph() && depth == self.containers.len();
            if matches!(self.open, Open::Indented { .. }) && scan::indentation(rest) >= 4 {
                break;
            }
            let content = if let Some(content) = scan::quote(rest) {
                self.close(depth);
                self.containers.push(Container::Quote);
                content
            } else if scan::is_rule(rest) || interrupts && scan::is_underline(rest) {
                break;
            } else if let Some(marker) = scan::marker(rest, interrupts) {
                self.item(depth, marker);
                rest.get(marker.width..).unwrap_or_default()
            } else {
                break;
            };
            *rest = scan::expand(content).into_owned();
            depth += 1;
        }
        depth
    }

    fn item(&mut self, depth: usize, marker: scan::Marker) {
        let before = match self.containers.get(depth) {
            Some(Container::Item { kind, number, .. }) if *kind == marker.kind => *number,
            _ => None,
        };
        self.close(depth);
        self.containers.push(Container::Item {
            kind: marker.kind,
            number: before.map(|number| number + 1).or(marker.number),
            width: marker.width,
            is_shown: false,
        });
    }

    fn blank_line(&mut self, matched: usize) {
        if let Open::Indented { blank } = &mut self.open {
            *blank += 1;
        } else {
            self.close_leaf();
        }
        // An item continues after blank lines, a quotation does not.
        self.close_containers(matched);
        self.is_blank = true;
    }

    /// Takes the rest of a line after the markers of containers, all of which continue.
    fn leaf(&mut self, rest: &str, ends: bool) {
        if let Open::Indented { blank } = &mut self.open {
            if scan::indentation(rest) >= 4 {
                for _ in 0..std::mem::take(blank) {
                    self.push_code("", true);
                }
                return self.push_code(&rest[4..], ends);
            }
            self.close_leaf();
        }
        if self.is_paragraph() {
            if scan::is_underline(rest) {
                self.append(rest, true);
                if let Open::Paragraph { text, .. } = std::mem::take(&mut self.open) {
                    self.finish(Leaf::Text(text), true);
                }
                return;
            }
            if !starts_block(rest) {
                return self.append(rest, true);
            }
            self.close_leaf();
        }
        if scan::is_blank(rest) {
            return;
        }
        if scan::indentation(rest) >= 4 {
            self.open = Open::Indented { blank: 0 };
            self.finish(Leaf::Code { language: String::new() }, true);
            self.push_code(&rest[4..], ends);
        } else if let Some((mark, length, indent, language)) = scan::fence(rest) {
            self.open = Open::Fence { mark, length, indent };
            self.finish(Leaf::Code { language: language.to_owned() }, true);
        } else if scan::is_heading(rest) || scan::is_rule(rest) {
            let text = Text { source: rest.trim_start().to_owned(), ..Text::default() };
            self.finish(Leaf::Text(text), true);
        } else {
            self.paragraph(rest.trim_start(), None);
        }
    }

    fn code_line(&mut self, rest: &str, ends: bool) {
        let Open::Fence { mark, length, indent } = self.open else { return };
        if ends && scan::closes(rest, mark, length) {
            return self.close_leaf();
        }
        let spaces = scan::indentation(rest).min(indent);
        self.push_code(&rest[spaces..], ends);
    }

    fn push_code(&mut self, text: &str, ends: bool) {
        self.code.push_str(text);
        if ends {
            let line = std::mem::take(&mut self.code);
            let prefix = self.prefix(self.containers.len());
            self.done.push(Block { prefix, gap: None, leaf: Leaf::CodeLine(line) });
        }
    }

    fn paragraph(&mut self, text: &str, continues: Option<bool>) {
        let empty = Text { continues, ..Text::default() };
        self.open = Open::Paragraph { text: empty, lines: 0, head: 0 };
        self.append(text, true);
    }

    /// Adds to the open paragraph, as a new line or after the last.
    fn append(&mut self, added: &str, is_line: bool) {
        let Open::Paragraph { text, lines, head } = &mut self.open else { return };
        if is_line && !text.source.is_empty() {
            text.source.push('\n');
        }
        text.source.push_str(added);
        *lines += usize::from(is_line);
        if *lines == 2 && text.continues.is_none() && scan::is_delimiter_row(added, COLUMNS) {
            text.is_table = true;
            *head = text.source.len();
        }
        while let Open::Paragraph { text, head, .. } = &mut self.open {
            let Some(part) = (match text.is_table {
                true => table_part(text, *head),
                false => paragraph_part(text),
            }) else {
                break;
            };
            let apart = part.is_table;
            self.finish(Leaf::Text(part), apart);
        }
    }

    /// Closes the open block and the containers inside of `depth`.
    fn close(&mut self, depth: usize) {
        self.close_leaf();
        self.close_containers(depth);
    }

    fn close_leaf(&mut self) {
        match std::mem::take(&mut self.open) {
            Open::Paragraph { text, .. } if !text.source.is_empty() => {
                let apart = text.is_table;
                self.finish(Leaf::Text(text), apart);
            }
            // The last part of a paragraph that was given in parts: what is carried over is left.
            Open::Paragraph { text, .. } if text.continues.is_some() => {
                self.finish(Leaf::Text(text), false);
            }
            _ => {
                if !self.code.is_empty() {
                    self.push_code("", true);
                }
            }
        }
    }

    fn close_containers(&mut self, depth: usize) {
        if self.containers.len() <= depth {
            return;
        }
        if let Some(Container::Item { is_shown: false, .. }) = self.containers.last() {
            self.finish(Leaf::Empty, false);
        }
        self.containers.truncate(depth);
        self.shared = self.shared.min(depth);
    }

    /// Adds a finished block; `apart` if a blank line separates it from paragraphs around it.
    fn finish(&mut self, leaf: Leaf, apart: bool) {
        let continues = matches!(&leaf, Leaf::Text(text) if text.continues.is_some());
        let at_top = self.containers.is_empty();
        let stands_apart = |last: bool| self.is_blank || at_top && (last || apart);
        let has_gap = !continues && self.last.is_some_and(stands_apart);
        let gap = has_gap.then(|| self.prefix(self.shared));
        let gap = gap.map(|prefix| prefix.into_iter().map(Prefix::below).collect());
        let prefix = self.prefix(self.containers.len());
        for container in &mut self.containers {
            if let Container::Item { is_shown, .. } = container {
                *is_shown = true;
            }
        }
        self.last = Some(apart);
        self.is_blank = false;
        self.shared = self.containers.len();
        self.done.push(Block { prefix, gap, leaf });
    }

    fn prefix(&self, depth: usize) -> Vec<Prefix> {
        let prefix = |container: &Container| match container {
            Container::Quote => Prefix::Quote,
            Container::Item { number, is_shown: false, .. } => Prefix::Marker(*number),
            Container::Item { number, .. } => Prefix::Below(*number),
        };
        self.containers.iter().take(depth).map(prefix).collect()
    }
}

impl Prefix {
    /// The same before lines after the first.
    pub(super) fn below(self) -> Self {
        match self {
            Self::Marker(number) => Self::Below(number),
            other => other,
        }
    }
}

/// Returns whether a line that continues no container starts a block that ends a paragraph.
fn starts_block(rest: &str) -> bool {
    scan::fence(rest).is_some() || scan::is_heading(rest) || scan::is_rule(rest)
}

/// Takes the beginning of a paragraph over its limit.
fn paragraph_part(text: &mut Text) -> Option<Text> {
    let limit = text.source.floor_char_boundary(PARAGRAPH);
    if limit == text.source.len() {
        return None;
    }
    let space = text.source[..limit].rfind([' ', '\n']).filter(|at| *at >= PARAGRAPH / 2);
    let rest = text.source.split_off(space.map_or(limit, |at| at + 1));
    let next = Text { source: rest, continues: Some(space.is_some()), ..Text::default() };
    Some(Text { is_continued: true, ..std::mem::replace(text, next) })
}

/// Takes the first rows of a table over its limit. The head is repeated above the next rows.
fn table_part(text: &mut Text, head: usize) -> Option<Text> {
    if text.source.len() <= TABLE {
        return None;
    }
    let last = text.source.rfind('\n').filter(|at| *at > head);
    let Some(last) = last else {
        // A single row: the rest of it is not a table.
        let next = Text { continues: Some(false), ..Text::default() };
        return Some(std::mem::replace(text, next));
    };
    let next = text.source[..head].to_owned() + &text.source[last..];
    text.source.truncate(last);
    let next = Text { source: next, is_table: true, ..Text::default() };
    Some(std::mem::replace(text, next))
}
