//! Finds the matches of a query among the folders of a tree. This is what a search spends its time on.
//!
//! Most entries are decided by a mask of 32 bits. The letters that a folder's path contains are found
//! once for all of its entries, and a match is scored only when it can be among the best.

use crate::letter::Letter;
use crate::query::{Query, Word, Words};
use crate::score::{Scratch, Text, most};
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
/// entries. Returns how many match, or `None` once it is stopped.
pub(crate) fn scan(
    tree: &Tree,
    from: usize,
    query: &Query,
    top: &mut Top,
    stop: &Stop,
) -> Option<usize> {
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
) -> Option<usize> {
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
            let Some(part) = folders.get(at..) else { return Some(scanner.found) };
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
                    work(&mut top).map(|found| (found, top))
                })
            })
            .collect();
        let mut found = work(top);
        for other in others {
            let Ok(part) = other.join() else { return None };
            found = found.zip(part).map(|(found, (more, part))| {
                top.merge(tree, part);
                found + more
            });
        }
        found
    })
}

/// What is known of a word in the path of a folder.
#[derive(Clone, Copy, Default)]
struct InFolder {
    /// The word's letters that the path contains, in order.
    letters: usize,
    /// Its score there, once it was needed.
    score: Option<(i32, bool)>,
}

struct Scanner<'a, L> {
    tree: &'a Tree,
    words: &'a [Word<L>],
    in_folder: Vec<InFolder>,
    in_name: Vec<bool>,
    text: Text<L>,
    /// The text is that of this folder.
    text_of: Option<usize>,
    scratch: Scratch,
    found: usize,
}

impl<'a, L: Letter> Scanner<'a, L> {
    fn new(tree: &'a Tree, words: &'a [Word<L>]) -> Self {
        Self {
            tree,
            words,
            in_folder: vec![InFolder::default(); words.len()],
            in_name: vec![false; words.len()],
            text: Text::of_folder(b""),
            text_of: None,
            scratch: Scratch::default(),
            found: 0,
        }
    }

    /// Scans a folder; `None` once it is stopped.
    fn folder(&mut self, id: usize, folder: &Folder, top: &mut Top, stop: &Stop) -> Option<()> {
        if stop.is_set() {
            return None;
        }
        let slash: &[u8] = if folder.path.is_empty() { b"" } else { b"/" };
        for (word, known) in self.words.iter().zip(&mut self.in_folder) {
            let letters = word.advance(word.advance(0, &folder.path), slash);
            *known = InFolder { letters, score: None };
        }
        let above = folder.path.len() + slash.len();
        for (count, entry) in folder.entries.iter().enumerate() {
            // A folder may have a million entries.
            if count % 4096 == 4095 && stop.is_set() {
                return None;
            }
            if !self.matches(entry.mask, entry.name) {
                continue;
            }
            self.found += 1;
            let Ok(length) = u32::try_from(above + entry.name.len()) else { continue };
            let mut rank = Rank { score: 0, is_folder: entry.is_folder, length };
            let cost = if entry.is_folder { FOLDER_COST } else { 0 };
            rank.score = self.most(entry.mask, entry.name) - cost;
            if !top.takes(rank) {
                continue;
            }
            rank.score = self.score(id, folder, entry.mask, entry.name) - cost;
            if let Ok(folder) = u32::try_from(id) {
                let place = Place { folder, offset: entry.offset };
                top.add(self.tree, Match { rank, place });
            }
        }
        Some(())
    }

    /// Whether the path of an entry contains all words.
    #[inline]
    fn matches(&self, mask: u32, name: &[u8]) -> bool {
        self.words.iter().zip(&self.in_folder).all(|(word, known)| {
            word.may_be_in(known.letters, mask)
                && (known.letters == word.len() || word.advance(known.letters, name) == word.len())
        })
    }

    /// The most that an entry can score. Notes which words are in its name.
    fn most(&mut self, mask: u32, name: &[u8]) -> i32 {
        let mut sum = 0;
        let known = self.in_folder.iter().zip(&mut self.in_name);
        for (word, (known, in_name)) in self.words.iter().zip(known) {
            *in_name = known.letters == 0
                || word.may_be_in(0, mask) && word.advance(0, name) == word.len();
            sum += most(word, *in_name);
        }
        sum
    }

    fn score(&mut self, id: usize, folder: &Folder, mask: u32, name: &[u8]) -> i32 {
        if self.text_of != Some(id) {
            self.text.set_folder(&folder.path);
            self.text_of = Some(id);
        }
        self.text.set_name(name);
        let mut sum = 0;
        for (at, word) in self.words.iter().enumerate() {
            let (in_name, known) = (self.in_name[at], &mut self.in_folder[at]);
            let ends_above = known.letters == word.len() && !in_name && !word.has_slash();
            if !ends_above {
                sum += self.text.score(word, in_name, &mut self.scratch).0;
                continue;
            }
            let (score, is_run) = *known.score.get_or_insert_with(|| {
                let (score, fit) = self.text.score_in_folders(word, &mut self.scratch);
                (score, matches!(fit, crate::score::Fit::Run(_)))
            });
            sum += match is_run || !word.may_end_in(mask) {
                true => score,
                false => self.text.score(word, false, &mut self.scratch).0,
            };
        }
        sum
    }
}
