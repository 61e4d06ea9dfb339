//! A search: the matches of one query in some roots, while they are walked and afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::error::Error;
use crate::index::Index;
use crate::letter::Letter;
use crate::query::{Query, Word, Words};
use crate::scan::scan;
use crate::score::Text;
use crate::stop::Stop;
use crate::top::{KEPT, Rank, Top};
use crate::walk::{State, Walk};
use crate::ways::Ways;

/// Most results of a search.
pub const MAX_RESULTS: usize = 100;
/// Maximum wait of a single search for the changes of its roots.
const REFRESH_LIMIT: Duration = Duration::from_millis(20);
/// The same for the changes of small roots, which take as long only where the file system does not answer.
const SMALL_REFRESH_LIMIT: Duration = Duration::from_secs(1);

/// A result: a file or folder whose path contains the query's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which of the search's roots it is in.
    pub root: usize,
    /// Relative to the root; what is not UTF-8 in it is replaced by U+FFFD.
    pub path: String,
    /// True if it is a folder; a link to a folder is not.
    pub is_folder: bool,
    /// The score; more is better. 0 when the query is empty.
    pub score: u32,
    /// The characters of `path` that the words stand for, ascending.
    pub indices: Vec<u32>,
}

/// A search that continues as roots are walked and change.
#[derive(Debug)]
pub struct Search {
    query: Query,
    roots: Vec<RootSearch>,
}

#[derive(Debug)]
struct RootSearch {
    /// Which of the search's roots it is.
    number: usize,
    index: Arc<Index>,
    walk: Arc<Walk>,
    revision: u64,
    /// Folders that were scanned.
    scanned: usize,
    is_complete: bool,
    top: Top,
}

/// A match with its path.
struct Found {
    /// Its place among the roots that are searched.
    root: usize,
    rank: Rank,
    path: Vec<u8>,
    /// The time since its last change: see [`age`].
    age: u8,
}

impl Search {
    /// A search that has not begun. A root that is there twice is searched once.
    #[must_use]
    pub fn new(indexes: &[Arc<Index>], query: Query) -> Self {
        let is_new = |(at, index): &(usize, &Arc<Index>)| {
            !indexes[..*at].iter().any(|known| Arc::ptr_eq(known, index))
        };
        let roots = indexes.iter().enumerate().filter(is_new).map(|(number, index)| RootSearch {
            number,
            walk: index.walk(),
            index: index.clone(),
            revision: 0,
            scanned: 0,
            is_complete: false,
            top: Top::default(),
        });
        Self { roots: roots.collect(), query }
    }

    /// Searches what was found since it was called last. Returns `None` once it is stopped.
    pub fn advance(&mut self, stop: &Stop) -> Option<()> {
        for root in &mut self.roots {
            let walk = root.index.walk();
            let _searching = walk.settings().searches.begin();
            root.advance(walk.clone(), &self.query, stop)?;
        }
        Some(())
    }

    /// Returns whether all roots were walked before the last [`Search::advance`].
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.roots.iter().all(|root| root.is_complete)
    }

    /// Why a root's walk cannot be complete, for the first such root.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.roots.iter().find_map(|root| root.walk.error())
    }

    /// The best matches so far, best first: by score, then the ones changed recently, files, and short
    /// paths. Asks the file system when the best of them changed. `now` is the present time.
    #[must_use]
    pub fn hits(&self, now: SystemTime) -> Vec<Hit> {
        let mut found = Vec::new();
        for (at, root) in self.roots.iter().enumerate() {
            let tree = root.walk.tree();
            // Changed since it was scanned: the next `advance` scans it again.
            if tree.revision() != root.revision {
                continue;
            }
            found.extend(root.top.matches().iter().filter_map(|found| {
                let path = tree.path(found.place)?;
                Some(Found { root: at, rank: found.rank, path, age: 0 })
            }));
        }
        found.sort_by(|a, b| (a.rank, &a.path, a.root).cmp(&(b.rank, &b.path, b.root)));
        found.truncate(KEPT);
        for found in &mut found {
            let path = self.roots[found.root].walk.full_path(&found.path);
            let changed = path.symlink_metadata().and_then(|found| found.modified());
            found.age = age(changed.ok(), now);
        }
        // Stable: what is equal stays by rank and path.
        found.sort_by_key(|found| (std::cmp::Reverse(found.rank.score), found.age));
        found.truncate(MAX_RESULTS);
        let hit = |found: &Found| {
            hit(&self.query, self.roots[found.root].number, found.rank, &found.path)
        };
        found.iter().map(hit).collect()
    }
}

/// Returns a match at `path` in the form that clients get.
pub(crate) fn hit(query: &Query, root: usize, rank: Rank, path: &[u8]) -> Hit {
    let indices = match &query.words {
        Words::Bytes(words) => characters(path, &positions(words, path)),
        Words::Chars(words) => positions(words, path),
    };
    Hit {
        root,
        path: String::from_utf8_lossy(path).into_owned(),
        is_folder: rank.is_folder,
        score: u32::try_from(rank.score).unwrap_or(0),
        indices: indices.into_iter().filter_map(|at| u32::try_from(at).ok()).collect(),
    }
}

impl RootSearch {
    fn advance(&mut self, walk: Arc<Walk>, query: &Query, stop: &Stop) -> Option<()> {
        if !Arc::ptr_eq(&walk, &self.walk) {
            (self.walk, self.scanned, self.top) = (walk, 0, Top::default());
        }
        // Asked before the tree: what is found later is scanned next time.
        let is_complete = self.walk.state() != State::Walking;
        let tree = self.walk.tree();
        if tree.revision() != self.revision {
            (self.revision, self.scanned, self.top) = (tree.revision(), 0, Top::default());
        }
        let total = tree.folders().len();
        if self.scanned < total {
            scan(&tree, self.scanned, query, &mut self.top, stop)?;
            self.scanned = total;
        }
        self.is_complete = is_complete;
        Some(())
    }
}

/// Searches once: waits for the walks of the roots, and for changes to be found, but not for long.
///
/// # Errors
/// [`Error::StillWalking`] when the walks take longer than `limit`; [`Error::Cancelled`]; the error of a
/// walk.
pub fn search_once(
    indexes: &[Arc<Index>],
    query: Query,
    (now, limit): (SystemTime, Duration),
    stop: &Stop,
) -> Result<Vec<Hit>, Error> {
    let deadline = Instant::now() + limit;
    for index in indexes {
        let walk = index.walk();
        if walk.state() == State::Walking {
            walk.wait(deadline, stop)?;
        } else {
            index.refresh(if index.is_small() { SMALL_REFRESH_LIMIT } else { REFRESH_LIMIT });
        }
    }
    let mut search = Search::new(indexes, query);
    // A root that was replaced meanwhile is walked again.
    loop {
        for root in &search.roots {
            root.index.walk().wait(deadline, stop)?;
        }
        search.advance(stop).ok_or(Error::Cancelled)?;
        if search.is_complete() {
            return search.error().map_or_else(|| Ok(search.hits(now)), Err);
        }
    }
}

/// Returns the coarse time since a file changed: files that a clone wrote together are equal.
fn age(changed: Option<SystemTime>, now: SystemTime) -> u8 {
    const HOUR: u64 = 3600;
    let Some(changed) = changed else { return u8::MAX };
    let passed = now.duration_since(changed).unwrap_or_default().as_secs();
    // An hour, eight hours, a day, a week.
    let bounds = [HOUR, 8 * HOUR, 24 * HOUR, 7 * 24 * HOUR];
    u8::try_from(bounds.partition_point(|bound| *bound <= passed)).unwrap_or(u8::MAX)
}

/// The letters of `path` that the words stand for, ascending.
fn positions<L: Letter>(words: &[Word<L>], path: &[u8]) -> Vec<usize> {
    let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[][..], path),
    };
    let mut text = Text::of_folder(folder);
    text.set_name(name);
    let mut ways = Ways::default();
    let mut all = Vec::new();
    for word in words {
        let in_name = word.advance(0, name) == word.len();
        let (_, fit) = text.score(word, in_name, &mut ways);
        all.extend(text.positions(word, fit));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The characters of `path`, as clients get it, at these bytes, ascending and all ASCII.
fn characters(path: &[u8], bytes: &[usize]) -> Vec<usize> {
    if path.is_ascii() {
        return bytes.to_vec();
    }
    let mut found = Vec::with_capacity(bytes.len());
    let (mut at, mut character) = (0, 0);
    for &byte in bytes {
        character += char::letters(&path[at..byte]).count();
        at = byte;
        found.push(character);
    }
    found
}

impl Hit {
    /// The last part of the path.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}
