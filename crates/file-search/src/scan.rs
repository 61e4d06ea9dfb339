//! Finds the matches of a query among the folders of a tree. This is what a search spends its time on.
//!
//! Most entries are decided by masks of 32 bits: whether they can match, and the most that they can
//! score. Only those that can be among the best are compared with the query. The letters that a
//! folder's path contains are found once for all of its entries.

use crate::letter::Letter;
use crate::listing::Entry;
use crate::query::{Query, Word, Words};
use crate::score::{Scratch, Text, most_in_name, most_in_path};
use crate::stop::Stop;
use crate::top::{Match, Rank, Top};
use crate::tree::{Folder, Place, Tree};

/// Folders that one thread scans at a time.
const FOLDERS_AT_ONCE: usize = 512;
/// Entries below which one thread is enough.
const SMALL: usize = 20_000;
/// Most threads of a scan.
const MAX_THREADS: usize = 4;
/// What a folder scores less than a file.
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

/// What is known of a word in the path of a folder.
#[derive(Clone, Copy, Default)]
struct InFolder {
    /// The word's letters that the path contains, in order.
    letters: usize,
    /// Whether the path contains the word without gaps, once it was needed.
    is_run: Option<bool>,
    /// Its score there, once it was needed.
    score: Option<i32>,
}

/// What is known of a word in an entry's name.
#[derive(Clone, Copy, Default)]
struct InName {
    /// The name contains the word.
    is_there: bool,
    /// The path contains it without gaps, as far as that is known.
    is_run: bool,
    /// The most that the word can score.
    most: i32,
}

struct Scanner<'a, L> {
    tree: &'a Tree,
    words: &'a [Word<L>],
    in_folder: Vec<InFolder>,
    in_name: Vec<InName>,
    text: Text<L>,
    /// The text is that of this folder.
    text_of: Option<usize>,
    scratch: Scratch,
}

impl<'a, L: Letter> Scanner<'a, L> {
    fn new(tree: &'a Tree, words: &'a [Word<L>]) -> Self {
        Self {
            tree,
            words,
            in_folder: vec![InFolder::default(); words.len()],
            in_name: vec![InName::default(); words.len()],
            text: Text::of_folder(b""),
            text_of: None,
            scratch: Scratch::default(),
        }
    }

    /// Scans a folder; `None` once it is stopped.
    fn folder(&mut self, id: usize, folder: &Folder, top: &mut Top, stop: &Stop) -> Option<()> {
        if stop.is_set() {
            return None;
        }
        let slash: &[u8] = if folder.path.is_empty() { b"" } else { b"/" };
        for (word, known) in self.words.iter().zip(&mut self.in_folder) {
            let letters = match word.may_begin_in(folder.mask) {
                true => word.advance(word.advance(0, &folder.path), slash),
                false => 0,
            };
            *known = InFolder { letters, ..InFolder::default() };
        }
        let above = folder.path.len() + slash.len();
        for (count, entry) in folder.entries.iter().enumerate() {
            // A folder may have a million entries.
            if count % 4096 == 4095 && stop.is_set() {
                return None;
            }
            if !self.may_match(entry.mask) {
                continue;
            }
            let Ok(length) = u32::try_from(above + entry.name.len()) else { continue };
            let cost = if entry.is_folder { FOLDER_COST } else { 0 };
            let score = self.most_by_masks(&entry) - cost;
            let mut rank = Rank { score, is_folder: entry.is_folder, length };
            if !top.takes(rank) || !self.matches(&entry) {
                continue;
            }
            rank.score = self.most(folder, &entry) - cost;
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

    /// Whether the path of an entry with this mask may contain all words.
    #[inline]
    fn may_match(&self, mask: u32) -> bool {
        let mut words = self.words.iter().zip(&self.in_folder);
        words.all(|(word, known)| word.may_be_in(known.letters, mask))
    }

    /// Whether the path of an entry, which may contain all words, does.
    #[inline]
    fn matches(&self, entry: &Entry<'_>) -> bool {
        self.words.iter().zip(&self.in_folder).all(|(word, known)| {
            known.letters == word.len() || word.rest_is_in(known.letters, entry.name, entry.mask)
        })
    }

    /// The most that an entry can score if it matches, as far as its masks and first letter say.
    #[inline]
    fn most_by_masks(&self, entry: &Entry<'_>) -> i32 {
        let words = self.words.iter().zip(&self.in_folder);
        let most = words.map(|(word, known)| {
            let in_name = || most_in_name(word, entry.name, entry.starts, true);
            let in_path = || most_in_path(word, false);
            match (known.letters, word.may_be_in(0, entry.mask)) {
                (0, _) => in_name(),
                (_, true) => in_name().max(in_path()),
                (_, false) => in_path(),
            }
        });
        most.sum()
    }

    /// The most that an entry can score. Notes which words are in its name.
    fn most(&mut self, folder: &Folder, entry: &Entry<'_>) -> i32 {
        let mut sum = 0;
        let known = self.in_folder.iter_mut().zip(&mut self.in_name);
        for (word, (known, in_name)) in self.words.iter().zip(known) {
            let is_there = known.letters == 0
                || word.may_be_in(0, entry.mask) && word.rest_is_in(0, entry.name, entry.mask);
            let is_run = match is_there {
                true => word.len() == 1 || word.is_run_in(entry.name),
                // Only a word with a slash can be in both without a gap.
                false if word.has_slash() => true,
                false if known.letters < word.len() => false,
                false => *known.is_run.get_or_insert_with(|| word.is_run_in(&folder.path)),
            };
            let most = match is_there {
                true => most_in_name(word, entry.name, entry.starts, is_run),
                false => most_in_path(word, !is_run),
            };
            *in_name = InName { is_there, is_run, most };
            sum += most;
        }
        sum
    }

    /// The score of an entry; `None` when it is less than `needed`, as far as that is known early.
    fn score(&mut self, id: usize, folder: &Folder, entry: &Entry<'_>, needed: i32) -> Option<i32> {
        if self.text_of != Some(id) {
            self.text.set_folder(&folder.path);
            self.text_of = Some(id);
        }
        self.text.set_name(entry.name);
        // The words' scores, as far as they are known, and otherwise the most that they can be.
        let mut sum: i32 = self.in_name.iter().map(|in_name| in_name.most).sum();
        for (at, word) in self.words.iter().enumerate() {
            let (in_name, known) = (self.in_name[at], &mut self.in_folder[at]);
            sum -= in_name.most;
            let is_above = known.letters == word.len() && !in_name.is_there && !word.has_slash();
            if is_above && (in_name.is_run || !word.may_end_in(entry.mask)) {
                sum += *known
                    .score
                    .get_or_insert_with(|| self.text.score_in_folders(word, &mut self.scratch).0);
                continue;
            }
            let run = match in_name.is_run {
                true => self.text.run_score(word, in_name.is_there),
                false => None,
            };
            sum += match run {
                Some((score, _)) => score,
                None if !in_name.is_there && sum + most_in_path(word, true) < needed => {
                    return None;
                }
                None => self.text.gapped_score(word, in_name.is_there, &mut self.scratch),
            };
        }
        Some(sum)
    }
}
