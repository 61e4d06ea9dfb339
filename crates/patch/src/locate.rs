//! Finds the position of a hunk in its file: first by strict rules, then by lenient ones, which
//! apply only if the position is unambiguous.

use std::ops::Range;

use crate::edit::{Edit, HunkPosition};
use crate::mismatch::Failure;
use crate::parse::{Anchor, Hunk, Line, Sign};
use crate::seek::{TooCostly, is_alike};

/// Where to look for a hunk.
struct Start<'h> {
    from: usize,
    /// True if an anchor of the hunk was found after the previous hunk.
    is_ahead: bool,
    missing: Option<&'h Anchor>,
}

/// Lines of the previous hunk that can be repeated as context.
const MAX_KNOWN: usize = 64;

impl Edit<'_> {
    pub(crate) fn locate(&mut self, hunk: &Hunk) -> Result<HunkPosition, Failure> {
        let old = hunk.old_lines();
        let start = self.follow(&hunk.anchors)?;
        if let Some(anchor) = start.missing {
            if old.len() > hunk.blank_end
                && let Some(at) = self.only_place(&old, start.from)?
            {
                return Ok(whole(hunk, at));
            }
            return Err(self.explain_anchor(anchor, hunk, start.from)?.into());
        }
        // Only blank lines without a sign: they determine no position.
        if old.len() <= hunk.blank_end {
            let lines = hunk.lines.len() - hunk.blank_end;
            let is_anchored = !hunk.anchors.is_empty() && !hunk.at_end;
            let start = if is_anchored { start.from } else { usize::MAX };
            return Ok(HunkPosition { start, lines, known: 0 });
        }
        if let Some(position) = self.search(hunk, &old, start.from)? {
            return Ok(position);
        }
        if start.is_ahead {
            // The anchor may itself be a line of the hunk.
            let named = start.from.saturating_sub(1).max(self.next);
            if let Some(position) = self.search(hunk, &old, named)? {
                return Ok(position);
            }
            if names_own_line(hunk)
                && let Some(at) = self.only_place(&old, self.next)?
            {
                return Ok(whole(hunk, at));
            }
            // Or it repeats an anchor of the previous hunk, and an equal line follows later.
            if self.is_behind(&hunk.anchors)?
                && let Some(position) = self.search(hunk, &old, self.next)?
            {
                return Ok(position);
            }
        } else if let Some(position) = self.overlapping(hunk, &old)? {
            return Ok(position);
        }
        Err(self.explain(hunk, start.from)?.into())
    }

    /// Finds the anchors in order, each after the one before. Those of the previous hunk may be
    /// repeated.
    fn follow<'h>(&mut self, anchors: &'h [Anchor]) -> Result<Start<'h>, TooCostly> {
        let mut start = Start { from: self.next, is_ahead: false, missing: None };
        let length = self.file.len();
        for anchor in anchors {
            let (text, from) = (anchor.text.as_str(), start.from);
            if let Some(at) = self.haystack.find(&[text], from..length)? {
                start = Start { from: at + 1, is_ahead: true, missing: None };
            } else if !start.is_ahead && self.haystack.find(&[text], 0..from)?.is_some() {
            } else if let Some(at) = self.haystack.find_start(text, from..length)? {
                start = Start { from: at + 1, is_ahead: true, missing: None };
            } else if start.is_ahead || self.haystack.find_start(text, 0..from)?.is_none() {
                return Ok(Start { missing: Some(anchor), ..start });
            }
        }
        Ok(start)
    }

    fn is_behind(&mut self, anchors: &[Anchor]) -> Result<bool, TooCostly> {
        let Some(anchor) = anchors.first() else { return Ok(false) };
        Ok(self.haystack.find(&[anchor.text.as_str()], 0..self.next)?.is_some())
    }

    /// The position of a hunk at or after line `from`.
    fn search(
        &mut self,
        hunk: &Hunk,
        old: &[&str],
        from: usize,
    ) -> Result<Option<HunkPosition>, TooCostly> {
        if let Some(at) = self.find(hunk, old, from)? {
            return Ok(Some(whole(hunk, at)));
        }
        // Blank lines without a sign separate hunks more often than they match the end of the file.
        let mut with_end = vec![0];
        if hunk.blank_end == 0
            && let Some(at) = self.find_with_end(old, from)?
        {
            return Ok(Some(whole(hunk, at)));
        }
        for blank in blank_ends(hunk) {
            let shorter = &old[..old.len() - blank];
            if !shorter.is_empty()
                && let Some(at) = self.find(hunk, shorter, from)?
            {
                return Ok(Some(HunkPosition {
                    lines: hunk.lines.len() - blank,
                    ..whole(hunk, at)
                }));
            }
            with_end.push(blank);
        }
        for blank in with_end.into_iter().rev() {
            if let Some(at) = self.find_with_end(&old[..old.len() - blank], from)? {
                return Ok(Some(HunkPosition {
                    lines: hunk.lines.len() - blank,
                    ..whole(hunk, at)
                }));
            }
        }
        match hunk.at_end {
            true => Ok(self.only_place(old, from)?.map(|at| whole(hunk, at))),
            false => Ok(None),
        }
    }

    fn find(&mut self, hunk: &Hunk, old: &[&str], from: usize) -> Result<Option<usize>, TooCostly> {
        let range = if hunk.at_end { self.at_end(old, from) } else { from..self.file.len() };
        self.haystack.find(old, range)
    }

    /// The position of `old` if its last line is blank and matches the file's last line end.
    fn find_with_end(&mut self, old: &[&str], from: usize) -> Result<Option<usize>, TooCostly> {
        match old.split_last() {
            Some((last, shorter)) if self.is_ended && last.trim().is_empty() => {
                self.haystack.find(shorter, self.at_end(shorter, from))
            }
            _ => Ok(None),
        }
    }

    /// The range of `lines` at the end of the file; empty if it starts before `from`.
    fn at_end(&self, lines: &[&str], from: usize) -> Range<usize> {
        let length = self.file.len();
        match length.checked_sub(lines.len()) {
            Some(at) if at >= from => at..length,
            _ => length..length,
        }
    }

    /// The position of `old` at or after `from`, if there is exactly one.
    fn only_place(&mut self, old: &[&str], from: usize) -> Result<Option<usize>, TooCostly> {
        let length = self.file.len();
        let Some(at) = self.haystack.find(old, from..length)? else { return Ok(None) };
        let is_only = self.haystack.find(old, at + 1..length)?.is_none();
        Ok(is_only.then_some(at))
    }

    /// The position of a hunk that begins with lines of the previous one: unchanged lines, or new
    /// ones, as if that hunk had already been applied.
    fn overlapping(
        &mut self,
        hunk: &Hunk,
        old: &[&str],
    ) -> Result<Option<HunkPosition>, TooCostly> {
        let end = (self.next + old.len()).saturating_sub(1).min(self.file.len());
        if self.done < self.next
            && let Some(at) = self.haystack.find(old, self.done..end)?
        {
            return Ok(Some(whole(hunk, at)));
        }
        let context = hunk.lines.iter().take_while(|line| line.sign == Sign::Context).count();
        for known in (1..=context.min(self.new.len()).min(MAX_KNOWN)).rev() {
            let (repeated, rest) = old.split_at(known);
            let left = &self.new[self.new.len() - known..];
            if left.iter().zip(repeated).all(|(line, context)| is_alike(line.text, context))
                && self.haystack.is_at(self.done, rest)?
            {
                return Ok(Some(HunkPosition { known, ..whole(hunk, self.done) }));
            }
        }
        Ok(None)
    }
}

fn whole(hunk: &Hunk, start: usize) -> HunkPosition {
    HunkPosition { start, lines: hunk.lines.len(), known: 0 }
}

/// Returns whether the last anchor of `hunk` is one of its own lines.
fn names_own_line(hunk: &Hunk) -> bool {
    let mut old = hunk.lines.iter().filter(|line| line.is_old());
    hunk.anchors.last().is_some_and(|anchor| old.any(|line| is_alike(&line.text, &anchor.text)))
}

/// Numbers of blank context lines at the end of a hunk that can be separators: the last one, those
/// without a sign, and all.
fn blank_ends(hunk: &Hunk) -> Vec<usize> {
    let is_blank = |line: &&Line| line.sign == Sign::Context && line.text.is_empty();
    let all = hunk.lines.iter().rev().take_while(is_blank).count();
    let mut ends = vec![1, hunk.blank_end, all];
    ends.retain(|end| (1..=all).contains(end));
    ends.dedup();
    ends
}
