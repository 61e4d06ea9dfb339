//! The incremental search in earlier messages.

use std::ops::Range;

use crate::composer::Draft;
use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style};
use crate::view::View;

use super::History;

/// A search, from the newest message back.
#[derive(Clone, Debug)]
pub struct Search {
    query: String,
    /// The message found and where the text stands in it; without one, none of the messages has it.
    found: Option<(usize, Range<usize>)>,
    /// The earlier text.
    kept: Draft,
}

/// The effect of a key on a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchOutcome {
    /// It goes on: draw it again.
    Changed,
    /// It is over. The draft belongs into the composer: the message found, or what was written before.
    Ended(Draft),
    /// It is over as with `Ended`, and the composer gets the key that ended it.
    EndedBy(Draft),
}

impl Search {
    /// Starts with nothing to search for. `current` is what the composer holds.
    #[must_use]
    pub fn new(current: Draft) -> Self {
        Self { query: String::new(), found: None, kept: current }
    }

    /// Takes a key: text narrows the search, Ctrl+R goes on to older messages and Ctrl+S to newer ones,
    /// Enter takes the message, Esc, Ctrl+C and Ctrl+G give up.
    pub fn key(&mut self, history: &History, key: Key) -> SearchOutcome {
        match key.code {
            Code::Char('r') if key.ctrl => self.step(history, true),
            Code::Up => self.step(history, true),
            Code::Char('s') if key.ctrl => self.step(history, false),
            Code::Down => self.step(history, false),
            Code::Esc => return SearchOutcome::Ended(self.kept.clone()),
            Code::Char('c' | 'g') if key.ctrl => return SearchOutcome::Ended(self.kept.clone()),
            Code::Enter | Code::Tab => return SearchOutcome::Ended(self.result(history)),
            Code::Backspace => {
                self.query.pop();
                self.restart(history);
            }
            Code::Char('u') if key.ctrl => {
                self.query.clear();
                self.restart(history);
            }
            _ => match key.typed() {
                Some(c) => {
                    self.query.push(c);
                    self.narrow(history);
                }
                None => return SearchOutcome::EndedBy(self.result(history)),
            },
        }
        SearchOutcome::Changed
    }

    /// The query, and the message with the text highlighted, in at most `max_rows` rows.
    #[must_use]
    pub fn view(&self, history: &History, columns: usize, max_rows: usize) -> View {
        let mut view = View::default();
        if max_rows == 0 {
            return view;
        }
        let label = match (&self.found, self.query.is_empty()) {
            (None, false) => "no message contains: ",
            _ => "search: ",
        };
        let line = Line::new(label, Palette::QUIET).with(self.query.clone(), Style::PLAIN);
        view.cursor = Some((0, line.width().min(columns.saturating_sub(1))));
        view.lines.push(line.truncated(columns));
        let Some((index, range)) = &self.found else { return view };
        let text = &history.entries[*index].text;
        // The line with the text comes first, and as much after it as there is room for.
        let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let mut at = start;
        for part in text[start..].split('\n').take(max_rows - 1) {
            let cut = |byte: usize| byte.clamp(at, at + part.len()) - at;
            let (from, to) = (cut(range.start), cut(range.end));
            let line = Line::plain(part[..from].to_owned())
                .with(part[from..to].to_owned(), Palette::SELECTED)
                .with(part[to..].to_owned(), Style::PLAIN);
            let free = (max_rows).saturating_sub(view.lines.len());
            view.lines.extend(line.wrapped(columns, &Line::default()).into_iter().take(free));
            at += part.len() + 1;
        }
        view.lines.iter_mut().for_each(|line| *line = line.truncated(columns));
        view
    }

    fn result(&self, history: &History) -> Draft {
        match &self.found {
            Some((index, _)) => history.entries[*index].clone(),
            None => self.kept.clone(),
        }
    }

    /// The newest message that has the text.
    fn restart(&mut self, history: &History) {
        self.found = self.older(history, history.entries.len());
    }

    /// More text: the message found stays if it has that, too.
    fn narrow(&mut self, history: &History) {
        let from = self.found.as_ref().map_or(history.entries.len(), |(index, _)| index + 1);
        if self.found.is_some() || self.query.chars().count() == 1 {
            self.found = self.older(history, from);
        }
    }

    /// The next match in one direction; at the end the last one stays.
    fn step(&mut self, history: &History, older: bool) {
        let Some((at, _)) = self.found else { return };
        let shown = &history.entries[at].text;
        let mut matches = |index: usize| {
            let text = &history.entries[index].text;
            let range = find(text, &self.query).filter(|_| text != shown)?;
            Some((index, range))
        };
        let next = match older {
            true => (0..at).rev().find_map(&mut matches),
            false => (at + 1..history.entries.len()).find_map(&mut matches),
        };
        self.found = next.or_else(|| self.found.take());
    }

    fn older(&self, history: &History, before: usize) -> Option<(usize, Range<usize>)> {
        if self.query.is_empty() {
            return None;
        }
        let mut indices = (0..before.min(history.entries.len())).rev();
        indices.find_map(|index| Some((index, find(&history.entries[index].text, &self.query)?)))
    }
}

/// Where `query` stands in `text`, without regard to case unless it has a capital letter.
pub(crate) fn find(text: &str, query: &str) -> Option<Range<usize>> {
    if query.chars().any(char::is_uppercase) {
        let start = text.find(query)?;
        return Some(start..start + query.len());
    }
    let mut starts = text.char_indices();
    starts.find_map(|(start, _)| {
        let mut rest = text[start..].chars();
        let matches = query.chars().all(|wanted| {
            rest.next().is_some_and(|c| c == wanted || c.to_lowercase().eq([wanted]))
        });
        matches.then(|| start..text.len() - rest.as_str().len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(search: &mut Search, history: &History, text: &str) {
        for c in text.chars() {
            let key = if c == '^' { Key::ctrl('r') } else { Key::plain(Code::Char(c)) };
            assert_eq!(search.key(history, key), SearchOutcome::Changed);
        }
    }

    #[test]
    fn the_newest_match_comes_first_and_older_ones_on_demand() {
        let texts = ["fix the Parser", "run tests", "parse\nthe file", "run tests"];
        let history = History::new(texts.map(str::to_owned).to_vec());
        let mut search = Search::new(Draft::plain("draft"));
        press(&mut search, &history, "pars");
        let view = search.view(&history, 40, 12);
        assert_eq!(view.text(), "search: pars\nparse\nthe file\n");
        assert_eq!(view.lines[1].spans[1].style(), Palette::SELECTED);
        assert_eq!(view.cursor, Some((0, 12)));
        press(&mut search, &history, "^");
        assert_eq!(search.view(&history, 80, 24).text(), "search: pars\nfix the Parser\n");
        assert_eq!(search.view(&history, 10, 3).text(), "search: p…\nfix the\nParser\n");
        press(&mut search, &history, "^");
        let outcome = search.clone().key(&history, Key::plain(Code::Enter));
        assert_eq!(outcome, SearchOutcome::Ended(Draft::plain("fix the Parser")));
        press(&mut search, &history, "x");
        assert_eq!(search.view(&history, 120, 40).text(), "no message contains: parsx\n");
        let outcome = search.clone().key(&history, Key::plain(Code::Left));
        assert_eq!(outcome, SearchOutcome::EndedBy(Draft::plain("draft")));
        search.key(&history, Key::plain(Code::Backspace));
        assert_eq!(search.view(&history, 40, 2).text(), "search: pars\nparse\n");
        let outcome = search.key(&history, Key::plain(Code::Esc));
        assert_eq!(outcome, SearchOutcome::Ended(Draft::plain("draft")));
    }

    #[test]
    fn matches_are_found_without_regard_to_case() {
        for (text, query, expect) in [
            ("A Äb", "äb", Some(2..5)),
            ("abc ABC", "ABC", Some(4..7)),
            ("İx", "x", Some(2..3)),
            ("abc", "abcd", None),
        ] {
            assert_eq!(find(text, query), expect, "{text} {query}");
        }
    }
}
