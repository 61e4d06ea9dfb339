//! Finds the matches of a query among the folders of a tree. This is what a search spends its time on.
//!
//! Most entries are decided by masks of 32 bits: whether they can match, and the most that they can
//! score. Only those that can be among the best are compared with the query. The letters that a
//! folder's path contains are found once for all of its entries.

use crate::in_folder::InFolder;
use crate::letter::Letter;
use crate::listing::Entry;
use crate::query::{Query, Word, Words};
use crate::score::{Text, most_in_name};
use crate::stop::Stop;
use crate::top::{Match, Rank, Top};
use crate::tree::{Folder, Place, Tree};
use crate::ways::Ways;

/// Folders that one thread scans at a time.
const FOLDERS_AT_ONCE: usize = 512;
/// Entries below which one thread is enough.
const SMALL: usize = 20_000;
/// Most threads of a scan.
const MAX_THREADS: usize = 4;
/// The amount by which a folder scores less than a file.
const FOLDER_COST: i32 = 12;

/// Adds to `top` what matches in the folders from `from` on, of which there are about `entries`
/// entries. Returns `None` once it is stopped.
pub(crate) fn scan(
    tree: &Tree,
    from: usize,
    query: &Query,
    top: &mut Top,
    stop: &Stop,
) -> Option<()> {
    match &query.words {
        Words::Bytes(words) => scan_words(tree, from, words, top, stop),
        Words::Chars(words) => scan_words(tree, from, words, top, stop),
    }
}

fn scan_words<L: Letter>(
    tree: &Tree,
    from: usize,
    words: &[Word<L>],
    top: &mut Top,
    stop: &Stop,
) -> Option<()> {
    let folders = tree.folders().get(from..).unwrap_or_default();
    let threads = match tree.entries() * folders.len() / tree.folders().len().max(1) {
        ..SMALL => 1,
        _ => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
    };
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = |top: &mut Top| {
        let mut scanner = Scanner::new(tree, words);
        loop {
            let at = next.fetch_add(FOLDERS_AT_ONCE, std::sync::atomic::Ordering::Relaxed);
            let Some(part) = folders.get(at..) else { return Some(()) };
            for (index, folder) in part.iter().take(FOLDERS_AT_ONCE).enumerate() {
                scanner.folder(from + at + index, folder, top, stop)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut top = Top::default();
                    work(&mut top).map(|()| top)
                })
            })
            .collect();
        let own = work(top);
        for other in others {
            match other.join() {
                Ok(part) => top.merge(tree, part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        own
    })
}

/// The match of a word in an entry's name.
#[derive(Clone, Copy, Default)]
struct InName {
    /// The name contains the word.
    is_there: bool,
    /// Its name, or otherwise its path, contains it without gaps.
    is_run: bool,
    /// The most that the word can score.
    most: i32,
}

struct Scanner<'a, L> {
    tree: &'a Tree,
    words: &'a [Word<L>],
    in_folder: Vec<InFolder>,
    /// The path of the folder above, whose folders follow each other.
    above: Option<&'a [u8]>,
    in_name: Vec<InName>,
    text: Text<L>,
    /// The text is that of this folder.
    text_of: Option<usize>,
    scratch: Ways,
}

impl<'a, L: Letter> Scanner<'a, L> {
    fn new(tree: &'a Tree, words: &'a [Word<L>]) -> Self {
        Self {
            tree,
            words,
            in_folder: words.iter().map(|_| InFolder::default()).collect(),
            above: None,
            in_name: vec![InName::default(); words.len()],
            text: Text::of_folder(b""),
            text_of: None,
            scratch: Ways::default(),
        }
    }

    /// Scans a folder; `None` once it is stopped.
    fn folder(&mut self, id: usize, folder: &'a Folder, top: &mut Top, stop: &Stop) -> Option<()> {
        if stop.is_set() {
            return None;
        }
        let (above, name) = match folder.path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&folder.path[..at], &folder.path[at + 1..]),
            None => (&[][..], &*folder.path),
        };
        let is_new = self.above != Some(above);
        self.above = Some(above);
        // What the masks of entries need that can match: all of their names' letters that the folder lacks.
        let mut needed = 0;
        for (word, known) in self.words.iter().zip(&mut self.in_folder) {
            if is_new {
                known.begin_above(word, above);
            }
            known.begin(word, folder, name);
            needed |= word.mask_from(known.letters());
        }
        let above = folder.path.len() + usize::from(!folder.path.is_empty());
        for (count, entry) in folder.entries.iter().enumerate() {
            // A folder may have a million entries.
            if count % 4096 == 4095 && stop.is_set() {
                return None;
            }
            if needed & !entry.mask != 0 {
                continue;
            }
            let Ok(length) = u32::try_from(above + entry.name.len()) else { continue };
            let cost = if entry.is_folder { FOLDER_COST } else { 0 };
            let score = self.most_by_masks(&entry) - cost;
            let mut rank = Rank { score, is_folder: entry.is_folder, length };
            if !top.takes(rank) || !self.matches(&entry) {
                continue;
            }
            rank.score = self.most(id, folder, &entry) - cost;
            if !top.takes(rank) {
                continue;
            }
            let needed = top.least_score().map_or(i32::MIN, |least| least + cost);
            let Some(score) = self.score(id, folder, &entry, needed) else { continue };
            rank.score = score - cost;
            if let Ok(folder) = u32::try_from(id) {
                let place = Place { folder, offset: entry.offset };
                top.add(self.tree, Match { rank, place });
            }
        }
        Some(())
    }

    /// Returns whether the path of an entry, which may contain all words, does.
    #[inline]
    fn matches(&self, entry: &Entry<'_>) -> bool {
        self.words.iter().zip(&self.in_folder).all(|(word, known)| {
            known.letters() == word.len()
                || word.rest_is_in(known.letters(), entry.name, entry.mask)
        })
    }

    /// The most that an entry can score if it matches, as far as its masks and first letter say.
    #[inline]
    fn most_by_masks(&self, entry: &Entry<'_>) -> i32 {
        let words = self.words.iter().zip(&self.in_folder);
        let most = words.map(|(word, known)| {
            let in_name = || {
                let may_be_run = word.may_be_run_in(entry.pairs);
                most_in_name(word, entry.name, entry.starts, may_be_run)
            };
            let in_path = || known.most(word, entry);
            match (known.letters(), word.may_be_in(0, entry.mask)) {
                (0, _) => in_name(),
                (_, true) => in_name().max(in_path()),
                (_, false) => in_path(),
            }
        });
        most.sum()
    }

    /// The most that an entry can score. Notes which words are in its name.
    fn most(&mut self, id: usize, folder: &Folder, entry: &Entry<'_>) -> i32 {
        let mut sum = 0;
        for (at, word) in self.words.iter().enumerate() {
            let known = &self.in_folder[at];
            let is_there = known.letters() == 0
                || word.may_be_in(0, entry.mask) && word.rest_is_in(0, entry.name, entry.mask);
            let (is_run, most) = if is_there {
                let is_run = word.len() == 1
                    || word.may_be_run_in(entry.pairs) && word.is_run_in(entry.name);
                (is_run, most_in_name(word, entry.name, entry.starts, is_run))
            } else {
                if known.needs_runs(word, entry) {
                    self.set_folder(id, folder);
                    self.in_folder[at].find_runs(word, &self.text);
                }
                let known = &self.in_folder[at];
                (known.is_run(word, entry.name), known.most(word, entry))
            };
            self.in_name[at] = InName { is_there, is_run, most };
            sum += most;
        }
        sum
    }

    fn set_folder(&mut self, id: usize, folder: &Folder) {
        if self.text_of != Some(id) {
            self.text.set_folder(&folder.path);
            self.text_of = Some(id);
        }
    }

    /// The score of an entry; `None` when it is less than `needed`, as far as that is known early.
    fn score(&mut self, id: usize, folder: &Folder, entry: &Entry<'_>, needed: i32) -> Option<i32> {
        self.set_folder(id, folder);
        self.text.set_name(entry.name);
        // The words' scores, as far as they are known, and otherwise the most that they can be.
        let mut sum: i32 = self.in_name.iter().map(|in_name| in_name.most).sum();
        let words = self.words.iter().zip(self.in_folder.iter_mut().zip(&self.in_name));
        for (word, (known, in_name)) in words {
            sum -= in_name.most;
            let (text, scratch) = (&self.text, &mut self.scratch);
            sum += match (in_name.is_there, in_name.is_run) {
                (true, true) => text.run_score(word, true)?.0,
                (true, false) => text.gapped_score(word, true, scratch),
                (false, _) => {
                    known.score(word, (entry, text), needed.saturating_sub(sum), scratch)?
                }
            };
            if sum < needed {
                return None;
            }
        }
        Some(sum)
    }
}
