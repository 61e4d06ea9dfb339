//! The facts about a word in the path of a folder: they are determined once for all of its entries,
//! and only as far as one of them needs them.

use crate::letter::Letter;
use crate::listing::Entry;
use crate::query::Word;
use crate::score::{Text, most_in_path};
use crate::tree::Folder;
use crate::ways::Ways;

#[derive(Default)]
pub(crate) struct InFolder {
    /// The word's letters that the path, with the slash after it, contains, in order.
    letters: usize,
    /// The same of the folder above.
    above: usize,
    /// The pairs of the path: see [`crate::letter::pairs`].
    pairs: u64,
    /// Where it stands without gaps, once that was needed.
    runs: Option<Runs>,
    /// True if the next two are known, once they were needed; not where that takes too long.
    has_ways: Option<bool>,
    /// The ways to find it in the path with gaps.
    ways: Ways,
    /// See [`Text::most_below`], for these ways.
    most: Vec<i32>,
}

#[derive(Clone, Copy)]
struct Runs {
    /// The word's score in the path.
    in_path: Option<i32>,
    /// Where it would begin if it went on in an entry's name, as only one with a slash can.
    into_name: Option<usize>,
}

/// The position of a word without gaps in the path of an entry whose name does not contain it.
#[derive(Clone, Copy)]
enum Run {
    /// In the folder's path, with this score.
    InPath(i32),
    /// From this letter on, into the name.
    IntoName(usize),
}

impl InFolder {
    /// Begins with folders below another one, at the path `above`.
    pub(crate) fn begin_above<L: Letter>(&mut self, word: &Word<L>, above: &[u8]) {
        self.above = match above {
            [] => 0,
            path => word.advance(word.advance(0, path), b"/"),
        };
    }

    /// Begins with the folder of this name in the one above; without a name, with the root.
    pub(crate) fn begin<L: Letter>(&mut self, word: &Word<L>, folder: &Folder, name: &[u8]) {
        self.letters = match name {
            [] => 0,
            name => word.advance(word.advance(self.above, name), b"/"),
        };
        self.pairs = folder.pairs;
        (self.runs, self.has_ways) = (None, None);
    }

    /// Number of the word's letters that the path contains, in order.
    #[inline]
    pub(crate) fn letters(&self) -> usize {
        self.letters
    }

    /// Returns whether [`InFolder::find_runs`] is needed to find the word in the path of an entry.
    #[inline]
    pub(crate) fn needs_runs<L: Letter>(&self, word: &Word<L>, entry: &Entry<'_>) -> bool {
        self.runs.is_none()
            && match word.has_slash() {
                true => word.may_be_run_in(self.pairs | entry.pairs),
                false => self.letters == word.len() && word.may_be_run_in(self.pairs),
            }
    }

    /// Finds where the word stands without gaps in the folder of `text`.
    pub(crate) fn find_runs<L: Letter>(&mut self, word: &Word<L>, text: &Text<L>) {
        let is_there = self.letters == word.len();
        self.runs = Some(Runs {
            in_path: is_there.then(|| text.run_in_folders(word)).flatten(),
            into_name: word.has_slash().then(|| text.run_into_name(word)).flatten(),
        });
    }

    #[inline]
    fn run<L: Letter>(&self, word: &Word<L>, name: &[u8]) -> Option<Run> {
        let runs = self.runs?;
        match runs.into_name {
            Some(start) if word.begins_last_part(name) => Some(Run::IntoName(start)),
            _ => runs.in_path.map(Run::InPath),
        }
    }

    /// Returns whether the path of an entry, whose name does not contain the word, contains it
    /// without gaps.
    pub(crate) fn is_run<L: Letter>(&self, word: &Word<L>, name: &[u8]) -> bool {
        self.run(word, name).is_some()
    }

    /// The most that the word can score in the path of an entry whose name does not contain it.
    #[inline]
    pub(crate) fn most<L: Letter>(&self, word: &Word<L>, entry: &Entry<'_>) -> i32 {
        if self.needs_runs(word, entry) {
            return most_in_path(word, false);
        }
        match self.run(word, entry.name) {
            Some(Run::InPath(score)) => return score,
            Some(Run::IntoName(_)) => return most_in_path(word, false),
            None if self.has_ways != Some(true) => return most_in_path(word, true),
            None => {}
        }
        // The letters after the last one that is in a folder have to be in the name.
        let last = (0..word.len()).rev().take_while(|last| word.may_be_in(last + 1, entry.mask));
        last.map(|last| self.most[last]).max().unwrap_or(i32::MIN)
    }

    /// The score of the word in the path of an entry, `text`, whose name does not contain it; `None` when
    /// it is less than `needed`, as far as that is known early.
    pub(crate) fn score<L: Letter>(
        &mut self,
        word: &Word<L>,
        (entry, text): (&Entry<'_>, &Text<L>),
        needed: i32,
        scratch: &mut Ways,
    ) -> Option<i32> {
        match self.run(word, entry.name) {
            Some(Run::InPath(score)) => return Some(score),
            Some(Run::IntoName(start)) => {
                let in_path = self.runs.and_then(|runs| runs.in_path);
                return Some(text.run_at(word, start)).max(in_path);
            }
            None if most_in_path(word, true) < needed => return None,
            None => {}
        }
        let has_ways = *self.has_ways.get_or_insert_with(|| {
            let has_ways = text.ways_in_folders(word, &mut self.ways);
            if has_ways {
                text.most_below(word, &self.ways, &mut self.most);
            }
            has_ways
        });
        match has_ways {
            false => Some(text.gapped_score(word, false, scratch)),
            true if self.most(word, entry) < needed => None,
            true if !word.may_end_in(entry.mask) => Some(self.ways.best()),
            true => Some(text.gapped_score_from(word, &self.ways, scratch)),
        }
    }
}
