//! Diffs for display, in git's format. Deterministic and in bounded time without a clock: lines
//! that differ too much to be compared one by one are shown as replaced.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, DiffTag};

use crate::plan::{Change, ChangeKind};

/// Context lines around a change.
const CONTEXT: usize = 3;
/// Bound on the compared pairs of lines per diff.
const MAX_PAIRS: usize = 200_000_000;

/// The diff that git shows for a file that changed from `before`, named `old_name`, to `after`,
/// named `new_name` (`None`: no file). Names are relative, with `/`. Empty if nothing changed.
pub fn unified_diff(
    old_name: &str,
    new_name: &str,
    before: Option<&str>,
    after: Option<&str>,
) -> String {
    let renamed = old_name != new_name && before.is_some() && after.is_some();
    if before == after && !renamed {
        return String::new();
    }
    let (old, new) = (quoted("a/", old_name), quoted("b/", new_name));
    let mut diff = format!("diff --git {old} {new}\n");
    match (before, after) {
        (None, _) => diff.push_str("new file mode 100644\n"),
        (_, None) => diff.push_str("deleted file mode 100644\n"),
        _ if renamed => {
            let (from, to) = (quoted("", old_name), quoted("", new_name));
            // Writing to a string cannot fail.
            let _ = write!(diff, "rename from {from}\nrename to {to}\n");
        }
        _ => {}
    }
    let hunks = hunks(before.unwrap_or_default(), after.unwrap_or_default());
    if !hunks.is_empty() {
        let old = before.map_or_else(|| "/dev/null".to_owned(), |_| terminated(old));
        let new = after.map_or_else(|| "/dev/null".to_owned(), |_| terminated(new));
        let _ = write!(diff, "--- {old}\n+++ {new}\n{hunks}");
    }
    diff
}

/// The `diff` of a `fileChange` item: the content of a new file, else the hunks.
pub fn item_diff(change: &Change) -> String {
    let after = change.after.as_deref().unwrap_or_default();
    match change.kind {
        ChangeKind::Add => after.to_owned(),
        _ => hunks(change.before.as_deref().unwrap_or_default(), after),
    }
}

/// A name in a header; quoted as by git if it has control characters, quotes or backslashes.
fn quoted(prefix: &str, name: &str) -> String {
    if !name.contains(|c: char| c.is_control() || c == '"' || c == '\\') {
        return format!("{prefix}{name}");
    }
    let mut text = format!("\"{prefix}");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\{byte:03o}");
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Appends a tab to a name with a blank, which marks the end of the name.
fn terminated(mut name: String) -> String {
    if name.contains(' ') && !name.starts_with('"') {
        name.push('\t');
    }
    name
}

fn hunks(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let mut text = String::new();
    for group in similar::group_diff_ops(operations(&old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let _ = writeln!(text, "@@ -{} +{} @@", position(&old_range), position(&new_range));
        for operation in &group {
            if operation.tag() == DiffTag::Equal {
                push(&mut text, ' ', &old[operation.old_range()]);
            } else {
                push(&mut text, '-', &old[operation.old_range()]);
                push(&mut text, '+', &new[operation.new_range()]);
            }
        }
    }
    text
}

fn position(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        length => format!("{},{length}", range.start + 1),
    }
}

fn push(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The operations that turn `old` into `new`. Skips the common beginning and end; a large rest is
/// divided at lines that occur once on each side.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - start;
    let ends = old.iter().rev().zip(new.iter().rev());
    let end = ends.take(rest).take_while(|(a, b)| a == b).count();
    let mut comparison = Comparison { old, new, pairs: MAX_PAIRS, done: Vec::new() };
    comparison.equal(0, 0, start);
    comparison.part(start..old.len() - end, start..new.len() - end);
    comparison.equal(old.len() - end, new.len() - end, end);
    comparison.done
}

struct Comparison<'t> {
    old: &'t [&'t str],
    new: &'t [&'t str],
    /// Pairs of lines that may still be compared.
    pairs: usize,
    done: Vec<DiffOp>,
}

/// Lines, on both sides together, up to which a part is not divided.
const MAX_UNDIVIDED: usize = 2000;

impl Comparison<'_> {
    fn part(&mut self, old: Range<usize>, new: Range<usize>) {
        if old.len() + new.len() <= MAX_UNDIVIDED {
            return self.compare(old, new);
        }
        let (mut old_start, mut new_start) = (old.start, new.start);
        for (in_old, in_new) in anchors(&self.old[old.clone()], &self.new[new.clone()]) {
            let (in_old, in_new) = (old.start + in_old, new.start + in_new);
            self.compare(old_start..in_old, new_start..in_new);
            self.equal(in_old, in_new, 1);
            (old_start, new_start) = (in_old + 1, in_new + 1);
        }
        self.compare(old_start..old.end, new_start..new.end);
    }

    fn compare(&mut self, old: Range<usize>, new: Range<usize>) {
        let lines = old.len() + new.len();
        let pairs = lines.saturating_mul(lines);
        let both = !old.is_empty() && !new.is_empty();
        if both && pairs > self.pairs {
            return self.replace(&old, &new);
        }
        if both {
            self.pairs -= pairs;
        }
        let (before, after) = (&self.old[old.clone()], &self.new[new.clone()]);
        for operation in similar::capture_diff_slices(Algorithm::Myers, before, after) {
            let (mut left, mut right) = (operation.old_range(), operation.new_range());
            left = old.start + left.start..old.start + left.end;
            right = new.start + right.start..new.start + right.end;
            match operation.tag() {
                DiffTag::Equal => self.equal(left.start, right.start, left.len()),
                _ => self.replace(&left, &right),
            }
        }
    }

    fn equal(&mut self, old_index: usize, new_index: usize, length: usize) {
        if length == 0 {
            return;
        }
        if let Some(DiffOp::Equal { len, .. }) = self.done.last_mut() {
            *len += length;
            return;
        }
        self.done.push(DiffOp::Equal { old_index, new_index, len: length });
    }

    fn replace(&mut self, old: &Range<usize>, new: &Range<usize>) {
        if let Some(DiffOp::Replace { old_len, new_len, .. }) = self.done.last_mut() {
            *old_len += old.len();
            *new_len += new.len();
            return;
        }
        self.done.push(DiffOp::Replace {
            old_index: old.start,
            old_len: old.len(),
            new_index: new.start,
            new_len: new.len(),
        });
    }
}

/// The positions in both sides of lines that occur once in `old` and once in `new`: the longest
/// sequence that has the same order on both sides.
fn anchors(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let in_old = unique(old);
    let in_new = unique(new);
    let mut shared: Vec<(usize, usize)> =
        in_old.iter().filter_map(|(line, at)| Some(((*at)?, (*in_new.get(line)?)?))).collect();
    shared.sort_unstable();
    longest_increasing(&shared)
}

fn unique<'t>(lines: &[&'t str]) -> HashMap<&'t str, Option<usize>> {
    let mut found = HashMap::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        found.entry(*line).and_modify(|place| *place = None).or_insert(Some(at));
    }
    found
}

/// The longest subsequence with increasing second parts; the first parts are sorted (patience
/// diff).
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, value)) in pairs.iter().enumerate() {
        let place = tails.partition_point(|&tail| pairs[tail].1 < *value);
        before.push(place.checked_sub(1).map(|previous| tails[previous]));
        match tails.get_mut(place) {
            Some(tail) => *tail = index,
            None => tails.push(index),
        }
    }
    let mut run = Vec::with_capacity(tails.len());
    let mut next = tails.last().copied();
    while let Some(index) = next {
        run.push(pairs[index]);
        next = before[index];
    }
    run.reverse();
    run
}
