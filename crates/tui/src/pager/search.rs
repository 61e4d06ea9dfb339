//! The search of a pager: letters are looked for while they are typed, and again with `n` and `N`.

use crate::context::Context;
use crate::history::find;
use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style};

use super::{Outcome, Pager, Place};

/// The search of a pager.
#[derive(Debug, Default)]
pub(super) struct Search {
    text: String,
    /// Where the search began, while it is typed.
    begun: Option<Place>,
    /// The last match, unless the reader has scrolled since.
    found: Option<Place>,
    /// The search has reached the first block, and wants to go on before it.
    wants_earlier: bool,
}

impl Search {
    pub(super) fn begin(&mut self, at: Place) {
        *self = Self { begun: Some(at), ..Self::default() };
    }

    pub(super) fn is_typed(&self) -> bool {
        self.begun.is_some()
    }

    pub(super) fn wants_earlier(&self) -> bool {
        self.wants_earlier
    }

    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Blocks were added before the first one.
    pub(super) fn shift(&mut self, blocks: usize) {
        for place in [&mut self.begun, &mut self.found].into_iter().flatten() {
            place.block += blocks;
        }
    }

    /// The reader has scrolled: the next search begins there.
    pub(super) fn leave(&mut self) {
        (self.found, self.wants_earlier) = (None, false);
    }

    #[cfg(test)]
    pub(super) fn found_row(&self) -> Option<usize> {
        self.found.map(|place| place.row)
    }

    pub(super) fn line(&self) -> Option<Line> {
        self.begun.map(|_| Line::new("/", Palette::ACCENT).with(self.text.clone(), Style::PLAIN))
    }

    fn is_in(&self, line: &Line) -> bool {
        find(&line.text(), &self.text).is_some()
    }

    /// The line with what was found in it.
    pub(super) fn marked(&self, line: &Line) -> Line {
        if self.text.is_empty() {
            return line.clone();
        }
        let text = line.text();
        let (mut found, mut from) = (Vec::new(), 0);
        while let Some(at) = find(&text[from..], &self.text).filter(|at| !at.is_empty()) {
            found.push(from + at.start..from + at.end);
            from += at.end;
        }
        if found.is_empty() {
            return line.clone();
        }
        let (mut marked, mut start) = (Line::default(), 0);
        for span in &line.spans {
            let end = start + span.text().len();
            let mut at = start;
            for part in &found {
                let part = part.start.clamp(at, end)..part.end.clamp(at, end);
                if part.is_empty() {
                    continue;
                }
                marked.spans.push(span.part(at - start..part.start - start));
                let style = Style { reversed: true, ..span.style() };
                let found = part.start - start..part.end - start;
                marked.spans.push(span.part(found).styled(style));
                at = part.end;
            }
            marked.spans.push(span.part(at - start..end - start));
            start = end;
        }
        marked.spans.retain(|span| !span.text().is_empty());
        marked
    }
}

impl Pager {
    pub(super) fn search_key(&mut self, key: Key, context: &Context) -> Outcome {
        match key.code {
            Code::Esc => self.stop_search(),
            Code::Char('c') if key.ctrl => self.stop_search(),
            Code::Enter => self.search.begun = None,
            Code::Backspace if self.search.text.is_empty() => self.stop_search(),
            Code::Backspace => {
                self.search.text.pop();
                self.find_from_begin(context);
            }
            Code::Char('u') if key.ctrl => {
                self.search.text.clear();
                self.find_from_begin(context);
            }
            _ => match key.typed() {
                Some(c) => {
                    self.search.text.push(c);
                    self.find_from_begin(context);
                }
                None => return Outcome::Ignored,
            },
        }
        Outcome::Changed
    }

    /// Goes back to where the search began.
    fn stop_search(&mut self) {
        if let Some(begun) = self.search.begun {
            self.top = begun;
        }
        self.search = Search::default();
    }

    /// The first row from where the search began on that has the letters; else the last one before.
    pub(super) fn find_from_begin(&mut self, context: &Context) {
        let Some(begun) = self.search.begun else { return };
        (self.top, self.notice) = (begun, None);
        if self.search.text.is_empty() {
            return;
        }
        let found = self.find(begun, true, context).or_else(|| self.find(begun, false, context));
        self.go_to(found);
    }

    pub(super) fn find_next(&mut self, is_forward: bool, context: &Context) {
        if self.search.text.is_empty() {
            self.notice = Some("Type / and a search text.".to_owned());
            return;
        }
        self.settle(context);
        let at = self.search.found.unwrap_or(self.top);
        let from = match is_forward {
            true => self.after(at, context),
            false => self.before(at, context),
        };
        let found = from.and_then(|from| self.find(from, is_forward, context));
        match (found, is_forward) {
            (None, true) => {
                self.notice = Some(format!("“{}” does not occur again.", self.search.text));
            }
            _ => self.go_to(found),
        }
    }

    /// Goes on with a search that wanted what comes earlier, after it was provided.
    pub fn go_on_searching(&mut self, context: &Context) {
        if !std::mem::take(&mut self.search.wants_earlier) {
            return;
        }
        self.notice = None;
        let at = self.search.begun.or(self.search.found).unwrap_or(self.top);
        let found = self.before(at, context).and_then(|from| self.find(from, false, context));
        self.go_to(found);
    }

    fn go_to(&mut self, found: Option<Place>) {
        match found {
            Some(place) => {
                (self.top, self.follows) = (place, false);
                (self.search.found, self.search.wants_earlier) = (found, false);
            }
            None => {
                self.search.wants_earlier = self.has_earlier;
                let more = if self.has_earlier { "; earlier turns are being read" } else { "" };
                self.notice = Some(format!("“{}” was not found{more}.", self.search.text));
            }
        }
    }

    /// The first row from `from` on, in one direction, that has the letters.
    fn find(&self, from: Place, is_forward: bool, context: &Context) -> Option<Place> {
        let mut place = Some(from).filter(|_| !self.blocks.is_empty());
        while let Some(at) = place {
            let is_in =
                |lines: &[Line]| lines.get(at.row).is_some_and(|line| self.search.is_in(line));
            if self.with(at.block, context, is_in) {
                return Some(at);
            }
            place = if is_forward { self.after(at, context) } else { self.before(at, context) };
        }
        None
    }
}
