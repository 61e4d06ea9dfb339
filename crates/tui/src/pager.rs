//! A view of long text on the whole screen, with a search: a transcript, a diff.
//!
//! The text comes in blocks, which are rendered when they are displayed: a thread of thousands of items costs
//! no more than its items. A place is a row of a block, so that nothing has to be counted from the beginning,
//! and blocks can be added at both ends.

mod search;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use protocol::ThreadItem;

use crate::cells::{self, Delta};
use crate::context::Context;
use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::Line;
use crate::view::View;

use search::Search;

/// Rendered blocks that are kept.
const KEPT: usize = 64;

/// A part of the text.
#[derive(Clone, Debug)]
pub enum Block {
    /// An item of a thread, with an empty line after it.
    Item(Box<ThreadItem>),
    /// Lines, which are wrapped.
    Lines(Vec<Line>),
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pager took it: draw it again, and see whether it needs what comes earlier.
    Changed,
    /// The reader has finished.
    Closed,
    /// The pager has no use for it.
    Ignored,
}

/// A row: a block, by its number from the first one, and a row of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    block: usize,
    row: usize,
}

/// A view of long text on the whole screen.
#[derive(Debug)]
pub struct Pager {
    title: String,
    blocks: VecDeque<Block>,
    /// The first row on the screen.
    top: Place,
    /// True if the end stays on the screen when something is added.
    follows: bool,
    /// True if there is more before the first block, which was not provided yet.
    has_earlier: bool,
    is_loading: bool,
    /// True if the first row is wanted as soon as everything is there.
    wants_first: bool,
    search: Search,
    notice: Option<String>,
    rendered: RefCell<Rendered>,
    /// Rows of text that were drawn last.
    height: usize,
}

/// Blocks as they are displayed in a context.
#[derive(Debug, Default)]
struct Rendered {
    key: Option<(usize, Palette, bool, Option<String>)>,
    blocks: BTreeMap<usize, Vec<Line>>,
}

impl Pager {
    /// A pager without text, at the end of what comes.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: VecDeque::new(),
            top: Place::default(),
            follows: true,
            has_earlier: false,
            is_loading: false,
            wants_first: false,
            search: Search::default(),
            notice: None,
            rendered: RefCell::default(),
            height: 1,
        }
    }

    /// A pager of these lines, at the first of them.
    #[must_use]
    pub fn of_lines(title: impl Into<String>, lines: Vec<Line>) -> Self {
        let mut pager = Self::new(title);
        pager.blocks.push_back(Block::Lines(lines));
        pager.follows = false;
        pager
    }

    /// Adds a block at the end.
    pub fn push(&mut self, block: Block) {
        self.blocks.push_back(block);
    }

    /// Adds blocks before the first one, in their order; `has_earlier` says whether there are more. What is on
    /// the screen stays.
    pub fn prepend(&mut self, blocks: Vec<Block>, has_earlier: bool) {
        let count = blocks.len();
        for block in blocks.into_iter().rev() {
            self.blocks.push_front(block);
        }
        self.top.block += count;
        self.search.shift(count);
        (self.has_earlier, self.is_loading) = (has_earlier, false);
        self.forget();
        if self.wants_first {
            self.top = Place::default();
            self.wants_first = has_earlier;
        }
    }

    /// Says that there is more before the first block.
    pub fn set_has_earlier(&mut self) {
        self.has_earlier = true;
    }

    /// Returns whether earlier blocks should be provided now, with [`Pager::prepend`]; requested
    /// once each.
    pub fn needs_earlier(&mut self) -> bool {
        let is_near = self.top.block < 2 || self.wants_first || self.search.wants_earlier();
        let needs = self.has_earlier && !self.is_loading && is_near;
        self.is_loading |= needs;
        needs
    }

    /// Reports that something could not be provided.
    pub fn set_failure(&mut self, why: impl Into<String>) {
        self.notice = Some(why.into());
        (self.is_loading, self.has_earlier, self.wants_first) = (false, false, false);
    }

    /// Returns whether the item is among the blocks.
    #[must_use]
    pub fn has_item(&self, id: &str) -> bool {
        self.position(id).is_some()
    }

    /// Puts an item in the place of the one with its id, or at the end.
    pub fn set_item(&mut self, item: &ThreadItem) {
        let block = Block::Item(Box::new(item.clone()));
        match self.position(item.id()) {
            Some(at) => {
                self.blocks[at] = block;
                self.rendered.get_mut().blocks.remove(&at);
            }
            None => self.push(block),
        }
    }

    /// Takes what is added to an item; returns whether that is displayed.
    pub fn delta(&mut self, delta: &Delta) -> bool {
        let Some(at) = self.position(delta.item_id()) else { return false };
        let Block::Item(item) = &mut self.blocks[at] else { return false };
        delta.add_to(item);
        self.rendered.get_mut().blocks.remove(&at);
        true
    }

    /// The latest items are looked through: only they change.
    fn position(&self, id: &str) -> Option<usize> {
        let is_it = |block: &Block| matches!(block, Block::Item(item) if item.id() == id);
        self.blocks.iter().rposition(is_it)
    }

    /// Takes a key, as `less` does.
    pub fn key(&mut self, key: Key, context: &Context) -> Outcome {
        if self.search.is_typed() {
            return self.search_key(key, context);
        }
        self.notice = None;
        let page = self.height.saturating_sub(1).max(1);
        match (key.code, key.ctrl) {
            (Code::Esc | Code::Char('q'), false) | (Code::Char('c' | 't'), true) => {
                return Outcome::Closed;
            }
            (Code::Up | Code::Char('k'), false) | (Code::Char('p'), true) => self.back(1, context),
            (Code::Down | Code::Char('j') | Code::Enter, false) | (Code::Char('n'), true) => {
                self.forward(1, context);
            }
            (Code::PageUp, _) | (Code::Char('b'), _) => self.back(page, context),
            (Code::PageDown | Code::Char(' '), _) | (Code::Char('f'), _) => {
                self.forward(page, context);
            }
            (Code::Char('u'), _) => self.back(page.div_ceil(2), context),
            (Code::Char('d'), _) => self.forward(page.div_ceil(2), context),
            (Code::Home, _) | (Code::Char('g'), false) => self.first(),
            (Code::End, _) | (Code::Char('G'), false) => self.last(),
            (Code::Char('/'), false) => self.search.begin(self.top),
            (Code::Char('n'), false) => self.find_next(true, context),
            (Code::Char('N'), false) => self.find_next(false, context),
            _ => return Outcome::Ignored,
        }
        Outcome::Changed
    }

    /// Takes pasted text into the search.
    pub fn paste(&mut self, text: &str, context: &Context) {
        if self.search.is_typed() {
            self.search.push(&text.replace('\n', " "));
            self.find_from_begin(context);
        }
    }

    fn first(&mut self) {
        self.search.leave();
        self.follows = false;
        self.top = Place::default();
        self.wants_first = self.has_earlier;
    }

    fn last(&mut self) {
        self.search.leave();
        self.follows = true;
    }

    fn back(&mut self, rows: usize, context: &Context) {
        self.search.leave();
        self.settle(context);
        self.follows = false;
        for _ in 0..rows {
            let Some(before) = self.before(self.top, context) else { return };
            self.top = before;
        }
    }

    fn forward(&mut self, rows: usize, context: &Context) {
        self.search.leave();
        self.settle(context);
        let last = self.last_top(context);
        for _ in 0..rows {
            if self.top >= last {
                break;
            }
            let Some(after) = self.after(self.top, context) else { break };
            self.top = after;
        }
        self.follows = self.top >= last;
    }

    /// Corrects the first row after the text, the size or the wish to follow has changed.
    fn settle(&mut self, context: &Context) {
        let last = self.last_top(context);
        if self.follows || self.top > last {
            self.top = last;
        }
        let rows = self.rows(self.top.block, context);
        self.top.row = self.top.row.min(rows.saturating_sub(1));
    }

    /// The first row when the last one is at the end of the screen.
    fn last_top(&self, context: &Context) -> Place {
        let mut free = self.height.max(1);
        for block in (0..self.blocks.len()).rev() {
            let rows = self.rows(block, context);
            if rows >= free {
                return Place { block, row: rows - free };
            }
            free -= rows;
        }
        Place::default()
    }

    fn before(&self, place: Place, context: &Context) -> Option<Place> {
        if let Some(row) = place.row.checked_sub(1) {
            return Some(Place { row, ..place });
        }
        let mut block = place.block;
        while let Some(before) = block.checked_sub(1) {
            let rows = self.rows(before, context);
            if rows > 0 {
                return Some(Place { block: before, row: rows - 1 });
            }
            block = before;
        }
        None
    }

    fn after(&self, place: Place, context: &Context) -> Option<Place> {
        if place.row + 1 < self.rows(place.block, context) {
            return Some(Place { row: place.row + 1, ..place });
        }
        let mut others = place.block + 1..self.blocks.len();
        let block = others.find(|block| self.rows(*block, context) > 0)?;
        Some(Place { block, row: 0 })
    }

    fn rows(&self, block: usize, context: &Context) -> usize {
        self.with(block, context, <[Line]>::len)
    }

    /// Gives the lines of a block, which are rendered once while they are needed.
    fn with<T>(&self, block: usize, context: &Context, read: impl FnOnce(&[Line]) -> T) -> T {
        let mut rendered = self.rendered.borrow_mut();
        let key = (context.width(), context.palette, context.raw, context.theme.clone());
        if rendered.key.as_ref() != Some(&key) {
            *rendered = Rendered { key: Some(key), blocks: BTreeMap::new() };
        }
        if !rendered.blocks.contains_key(&block) {
            if rendered.blocks.len() >= KEPT {
                rendered.blocks.clear();
            }
            let lines = self.blocks.get(block).map(|it| it.lines(context)).unwrap_or_default();
            rendered.blocks.insert(block, lines);
        }
        read(rendered.blocks.get(&block).map(Vec::as_slice).unwrap_or_default())
    }

    fn forget(&mut self) {
        self.rendered.get_mut().blocks.clear();
    }

    /// The text in `rows` rows.
    pub fn view(&mut self, context: &Context, rows: usize) -> View {
        let columns = context.width();
        let framed = usize::from(rows >= 3);
        let footed = usize::from(rows >= 2);
        self.height = rows.saturating_sub(framed + footed).max(1);
        self.settle(context);
        let mut view = View::default();
        if framed == 1 {
            view.lines.push(Line::new(self.title.clone(), Palette::HEADING).truncated(columns));
        }
        let end = view.lines.len() + self.height;
        let mut place = Some(self.top).filter(|_| !self.blocks.is_empty());
        while let Some(at) = place.filter(|_| view.lines.len() < end) {
            let line = self.with(at.block, context, |lines| lines.get(at.row).cloned());
            if let Some(line) = line {
                view.lines.push(self.search.marked(&line).truncated(columns));
            }
            place = self.after(at, context);
        }
        if self.blocks.is_empty() {
            let text = if self.is_loading { "loading …" } else { "nothing to show" };
            view.lines.push(Line::new(text, Palette::QUIET).truncated(columns));
        }
        view.lines.resize(end, Line::default());
        if footed == 1 {
            let footer = self.footer();
            if self.search.is_typed() {
                view.cursor = Some((end, footer.width().min(columns.saturating_sub(1))));
            }
            view.lines.push(footer.truncated(columns));
        }
        view
    }

    fn footer(&self) -> Line {
        if let Some(line) = self.search.line() {
            return line;
        }
        if let Some(notice) = &self.notice {
            return Line::new(notice.clone(), Palette::WARNING);
        }
        let place = match (self.follows, self.top == Place::default(), self.is_loading) {
            (_, true, true) => "loading …",
            (true, ..) => "end",
            (_, true, _) if !self.has_earlier => "beginning",
            _ => "",
        };
        let keys = "↑↓ Space b scroll, g G ends, / searches, q closes";
        let gap = if place.is_empty() { "" } else { "  " };
        Line::new(place, Palette::ACCENT).with(format!("{gap}{keys}"), Palette::QUIET)
    }
}

impl Block {
    fn lines(&self, context: &Context) -> Vec<Line> {
        match self {
            Self::Item(item) => {
                let mut lines = cells::whole(item, context);
                if !lines.is_empty() {
                    lines.push(Line::default());
                }
                lines
                    .iter()
                    .flat_map(|line| line.wrapped(context.width(), &Line::default()))
                    .collect()
            }
            Self::Lines(lines) => {
                let indent = Line::default();
                lines.iter().flat_map(|line| line.wrapped(context.width(), &indent)).collect()
            }
        }
    }
}
