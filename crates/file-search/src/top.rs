//! The best matches, of bounded number.

use std::cmp::Ordering;

use crate::tree::{Place, Tree};

/// Matches that are kept of each root: more than are reported, because recent changes put some of them
/// first in the end.
pub(crate) const KEPT: usize = 256;

/// A match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    pub(crate) rank: Rank,
    pub(crate) place: Place,
}

/// The sort key of matches, before their paths: the best rank is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) score: i32,
    pub(crate) is_folder: bool,
    /// Bytes of the path.
    pub(crate) length: u32,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.score, self.is_folder, self.length).cmp(&(self.score, other.is_folder, other.length))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best matches of a root, best first.
#[derive(Debug, Default)]
pub(crate) struct Top {
    matches: Vec<Match>,
}

impl Top {
    pub(crate) fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// Returns whether a match of this rank may be among the best.
    #[inline]
    pub(crate) fn takes(&self, rank: Rank) -> bool {
        self.matches.len() < KEPT || self.matches.last().is_none_or(|last| rank <= last.rank)
    }

    /// The score that a match needs at least to be among the best, once there are enough.
    pub(crate) fn least_score(&self) -> Option<i32> {
        (self.matches.len() == KEPT).then(|| self.matches.last().map(|last| last.rank.score))?
    }

    /// Adds a match, if it is among the best.
    pub(crate) fn add(&mut self, tree: &Tree, new: Match) {
        if !self.takes(new.rank) {
            return;
        }
        let is_better = |known: &Match| {
            known.rank.cmp(&new.rank).then_with(|| tree.compare(known.place, new.place)).is_lt()
        };
        let at = self.matches.partition_point(is_better);
        if at == KEPT {
            return;
        }
        if self.matches.len() == KEPT {
            self.matches.pop();
        }
        self.matches.insert(at, new);
    }

    /// Adds the matches of another part of the same tree.
    pub(crate) fn merge(&mut self, tree: &Tree, other: Self) {
        for found in other.matches {
            self.add(tree, found);
        }
    }
}
