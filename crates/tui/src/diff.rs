//! Changes of files: lines with their numbers and signs, the words that changed, and how many lines.

use std::path::Path;

use protocol::{FileUpdateChange, PatchChangeKind};
use similar::{ChangeTag, TextDiff};

use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Line, Span, Style};

/// Lines of a file that are displayed.
const MOST: usize = 2000;
/// Bytes of a line in which changed words are looked for.
const WORDS: usize = 500;
/// Lines in a row in which changed words are looked for.
const RUN: usize = 40;

/// A line of a unified diff.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Row<'d> {
    /// A line before the hunks of a file.
    Header(&'d str),
    /// The start of a hunk.
    Hunk,
    /// A line with its sign and its number, if that is known.
    Text { sign: u8, number: Option<u64>, text: &'d str },
    /// A remark, such as of a missing line break at the end.
    Note(&'d str),
}

/// The beginning of a change, as far as it was given room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Lines that fit on the screen.
    pub lines: Vec<Line>,
    /// Lines of the change of which nothing, or not all, is in `lines`.
    pub hidden: usize,
}

/// The change of a file in at most `most` lines after its title, each of which fits on the screen.
#[must_use]
pub fn file(change: &FileUpdateChange, context: &Context, most: usize) -> Shown {
    let rows = rows_of_change(change);
    let mut shown = Shown { lines: title(change, &rows, context), hidden: 0 };
    let rows: Vec<_> = rows.into_iter().filter(|row| !matches!(row, Row::Header(_))).collect();
    let body = body(&rows, context, most);
    shown.lines.extend(body.lines);
    shown.hidden = body.hidden;
    shown
}

/// The changes of files in at most `most` lines together. Each file has its title as long as there is room for all of
/// them; what is left goes to the files in their order.
#[must_use]
pub fn within(changes: &[FileUpdateChange], context: &Context, most: usize) -> Shown {
    let mut shown = Shown::default();
    let mut free = most.saturating_sub(changes.len());
    for (at, change) in changes.iter().enumerate() {
        let rows = rows_of_change(change);
        let titles = title(change, &rows, context);
        let is_title_only = titles.len() > most.saturating_sub(shown.lines.len());
        if is_title_only {
            let left = changes[at..].iter().map(|change| {
                let rows = rows_of_change(change);
                // Its title is a line, too.
                1 + rows.iter().filter(|row| !matches!(row, Row::Header(_))).count()
            });
            shown.hidden += left.sum::<usize>();
            break;
        }
        free = free.saturating_sub(titles.len() - 1);
        shown.lines.extend(titles);
        let rows: Vec<_> = rows.into_iter().filter(|row| !matches!(row, Row::Header(_))).collect();
        let body = body(&rows, context, free);
        free -= body.lines.len().min(free);
        shown.lines.extend(body.lines);
        shown.hidden += body.hidden;
    }
    shown
}

/// The kind of the change, the file and the numbers of lines.
fn title(change: &FileUpdateChange, rows: &[Row<'_>], context: &Context) -> Vec<Line> {
    let path = context.short(&change.path);
    let title = match &change.kind {
        PatchChangeKind::Add => format!("add {path}"),
        PatchChangeKind::Delete => format!("delete {path}"),
        PatchChangeKind::Update { move_path: None } => format!("edit {path}"),
        PatchChangeKind::Update { move_path: Some(to) } => {
            format!("move {path} to {}", context.short(to))
        }
    };
    titled(&title, counts(rows)).wrapped(context.width(), &Line::plain("  "))
}

/// Returns the numbers of lines that a change adds and removes.
#[must_use]
pub fn summary(changes: &[FileUpdateChange]) -> (usize, usize) {
    let each = changes.iter().map(|change| counts(&rows_of_change(change)));
    each.fold((0, 0), |sum, (added, removed)| (sum.0 + added, sum.1 + removed))
}

/// `+12 -3`.
#[must_use]
pub fn summary_spans((added, removed): (usize, usize)) -> [Span; 3] {
    [
        Span::new(format!("+{added}"), Palette::ADDED),
        Span::new(" ", Style::PLAIN),
        Span::new(format!("-{removed}"), Palette::REMOVED),
    ]
}

/// The changes of files, one after the other. Of each at most 2,000 lines are displayed, and how many are
/// left out.
#[must_use]
pub fn changes(changes: &[FileUpdateChange], context: &Context) -> Vec<Line> {
    changes.iter().flat_map(|change| with_rest(file(change, context, MOST))).collect()
}

/// A unified diff of any number of files (`turn/diff/updated`), with the same limit.
#[must_use]
pub fn unified(diff: &str, context: &Context) -> Vec<Line> {
    let mut lines = Vec::new();
    let rows = parse(diff);
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let headers = rest.iter().take_while(|row| matches!(row, Row::Header(_))).count();
        let (header, after) = rest.split_at(headers);
        let size = after.iter().take_while(|row| !matches!(row, Row::Header(_))).count();
        let (file, after) = after.split_at(size);
        rest = after;
        lines.push(titled(&title_of_headers(header, context), counts(file)));
        lines.extend(with_rest(body(file, context, MOST)));
    }
    lines
}

fn title_of_headers(headers: &[Row<'_>], context: &Context) -> String {
    let header = |start: &str| {
        let found = headers.iter().find_map(|row| match row {
            Row::Header(line) => line.strip_prefix(start),
            _ => None,
        });
        found.map(|name| name.split('\t').next().unwrap_or(name))
    };
    let without = |name: &str, side: &str| {
        let name = name.strip_prefix(side).unwrap_or(name);
        // Diffs of undo have absolute paths, of which this format leaves out the first slash.
        let absolute = Path::new("/").join(name);
        match absolute.strip_prefix(&context.cwd) {
            Ok(inner) if context.cwd.is_absolute() => inner.display().to_string(),
            _ => name.to_owned(),
        }
    };
    match (header("--- "), header("+++ ")) {
        (Some("/dev/null"), Some(new)) => format!("add {}", without(new, "b/")),
        (Some(old), Some("/dev/null")) => format!("delete {}", without(old, "a/")),
        (Some(old), Some(new)) if without(old, "a/") == without(new, "b/") => {
            format!("edit {}", without(new, "b/"))
        }
        (Some(old), Some(new)) => format!("move {} to {}", without(old, "a/"), without(new, "b/")),
        _ => match headers.first() {
            // A change without lines, as of a binary file or of permissions.
            Some(Row::Header(line)) => (*line).to_owned(),
            _ => "edit".to_owned(),
        },
    }
}

fn titled(title: &str, counts: (usize, usize)) -> Line {
    let mut line = Line::new(title.to_owned(), Palette::STRONG).with(" ", Style::PLAIN);
    line.spans.extend(summary_spans(counts));
    line
}

/// The lines, and below them how many are left out.
fn with_rest(shown: Shown) -> Vec<Line> {
    let mut lines = shown.lines;
    if shown.hidden > 0 {
        lines.push(Line::new(format!("… {} more lines", shown.hidden), Palette::QUIET));
    }
    lines
}

fn rows_of_change(change: &FileUpdateChange) -> Vec<Row<'_>> {
    let is_unified =
        change.diff.starts_with("--- ") && change.diff.lines().any(|line| line.starts_with("@@ "));
    let whole = match change.kind {
        PatchChangeKind::Add if !is_unified => b'+',
        PatchChangeKind::Delete if !is_unified && !change.diff.starts_with("@@ ") => b'-',
        _ => return parse(&change.diff),
    };
    let numbered = change.diff.lines().zip(1..);
    numbered.map(|(text, number)| Row::Text { sign: whole, number: Some(number), text }).collect()
}

fn counts(rows: &[Row<'_>]) -> (usize, usize) {
    let count = |wanted| {
        let is_it = |row: &&Row<'_>| matches!(row, Row::Text { sign, .. } if *sign == wanted);
        rows.iter().filter(is_it).count()
    };
    (count(b'+'), count(b'-'))
}

/// The rows of a diff. The header of a hunk says how many lines it has, so that no line of a file is taken
/// for a header.
fn parse(diff: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    // Whether the hunk does not say which lines it has, as in a patch that a model writes.
    let mut is_unnumbered = false;
    let (mut old, mut new): ((u64, u64), (u64, u64)) = Default::default();
    for line in diff.lines() {
        let is_inside = old.1 > 0 || new.1 > 0 || is_unnumbered && !line.starts_with("@@");
        let sign = line.bytes().next().unwrap_or(b' ');
        if is_inside && matches!(sign, b' ' | b'+' | b'-') {
            let text = line.get(1..).unwrap_or_default();
            let number = if sign == b'-' { old.0 } else { new.0 };
            rows.push(Row::Text { sign, number: (!is_unnumbered).then_some(number), text });
            for (side, skipped) in [(&mut old, b'+'), (&mut new, b'-')] {
                if sign != skipped {
                    *side = (side.0.saturating_add(1), side.1.saturating_sub(1));
                }
            }
        } else if sign == b'\\' {
            rows.push(Row::Note(line));
        } else if line.starts_with("@@") {
            let hunk = hunk(line);
            is_unnumbered = hunk.is_none();
            (old, new) = hunk.unwrap_or_default();
            rows.push(Row::Hunk);
        } else {
            (old.1, new.1, is_unnumbered) = (0, 0, false);
            rows.push(Row::Header(line));
        }
    }
    rows
}

/// First line and number of lines, before and after, as in `@@ -1,2 +3 @@`.
fn hunk(line: &str) -> Option<((u64, u64), (u64, u64))> {
    let mut words = line.split(' ').skip(1);
    let mut side = |sign| {
        let range = words.next()?.strip_prefix(sign)?;
        let (first, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    Some((side('-')?, side('+')?))
}

/// The rows in at most `most` lines.
fn body(rows: &[Row<'_>], context: &Context, most: usize) -> Shown {
    let last = rows.iter().filter_map(|row| match row {
        Row::Text { number, .. } => *number,
        _ => None,
    });
    let digits = last.max().map_or(0, |number| number.to_string().len());
    let mut lines = Vec::new();
    let mut at = 0;
    // Returns whether the row was displayed as a whole.
    let mut show = |row: &Row<'_>, words: Option<&[(String, bool)]>| {
        let free = most - lines.len();
        let of_row = row_lines(row, words, digits, context);
        let fits = of_row.len() <= free;
        lines.extend(of_row.into_iter().take(free));
        fits
    };
    'rows: while at < rows.len() {
        if let Some((removed, added)) = changed_run(&rows[at..]) {
            let (before, after) = rows[at..at + removed + added].split_at(removed);
            let words: Vec<_> = before.iter().zip(after).map(changed_words).collect();
            let old = before.iter().zip(&words).map(|(row, words)| (row, words, true));
            let new = after.iter().zip(&words).map(|(row, words)| (row, words, false));
            for (row, words, is_old) in old.chain(new) {
                let of_side = |(old, new): &(Words, Words)| {
                    if is_old { old.clone() } else { new.clone() }
                };
                if !show(row, words.as_ref().map(of_side).as_deref()) {
                    break 'rows;
                }
                at += 1;
            }
            continue;
        }
        if (rows[at] != Row::Hunk || at > 0) && !show(&rows[at], None) {
            break;
        }
        at += 1;
    }
    // A gap between two places is no line of the file.
    let hidden = rows[at..].iter().filter(|row| **row != Row::Hunk).count();
    Shown { lines, hidden }
}

/// Removed lines and as many added ones after them, if the rows start with these.
fn changed_run(rows: &[Row<'_>]) -> Option<(usize, usize)> {
    let count = |rows: &[Row<'_>], wanted| {
        let is_it = |row: &&Row<'_>| matches!(row, Row::Text { sign, .. } if *sign == wanted);
        rows.iter().take(RUN + 1).take_while(is_it).count()
    };
    let removed = count(rows, b'-');
    let added = count(&rows[removed..], b'+');
    (removed > 0 && removed == added && removed <= RUN).then_some((removed, added))
}

type Words = Vec<(String, bool)>;

/// The parts of two lines, and which of them differ; none if they have little in common.
fn changed_words((before, after): (&Row<'_>, &Row<'_>)) -> Option<(Words, Words)> {
    let (Row::Text { text: before, .. }, Row::Text { text: after, .. }) = (before, after) else {
        return None;
    };
    if before.len().max(after.len()) > WORDS {
        return None;
    }
    let diff = TextDiff::from_words(*before, *after);
    if diff.ratio() < 0.5 {
        return None;
    }
    let (mut old, mut new) = (Words::new(), Words::new());
    for change in diff.iter_all_changes() {
        let text = || change.value().to_owned();
        match change.tag() {
            ChangeTag::Equal => {
                old.push((text(), false));
                new.push((text(), false));
            }
            ChangeTag::Delete => old.push((text(), true)),
            ChangeTag::Insert => new.push((text(), true)),
        }
    }
    Some((old, new))
}

fn row_lines(
    row: &Row<'_>,
    words: Option<&[(String, bool)]>,
    digits: usize,
    context: &Context,
) -> Vec<Line> {
    let Row::Text { sign, number, text } = row else {
        let text = match row {
            Row::Header(text) | Row::Note(text) => *text,
            _ => "⋮",
        };
        let line =
            Line::new(" ".repeat(digits), Palette::QUIET).with(text.to_owned(), Palette::QUIET);
        return line.wrapped(context.width(), &Line::default());
    };
    let (style, changed) = match sign {
        b'+' => (Palette::ADDED, context.palette.added_words()),
        b'-' => (Palette::REMOVED, context.palette.removed_words()),
        _ => (Style::PLAIN, Style::PLAIN),
    };
    let number = number.map_or_else(String::new, |number| number.to_string());
    let mut line = Line::new(format!("{number:>digits$} "), Palette::QUIET);
    line.push(char::from(*sign).to_string(), style);
    match words {
        Some(words) => {
            for (text, is_changed) in words {
                line.push(text.clone(), if *is_changed { changed } else { style });
            }
        }
        None => {
            line.push((*text).to_owned(), style);
        }
    }
    let indent = Line::plain(" ".repeat(digits + 2));
    line.wrapped(context.width(), &indent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: PatchChangeKind, diff: &str) -> FileUpdateChange {
        FileUpdateChange { path: "/w/src/a.rs".to_owned(), kind, diff: diff.to_owned() }
    }

    fn shown(lines: &[Line]) -> String {
        lines.iter().map(|line| line.text() + "\n").collect()
    }

    fn check(kind: PatchChangeKind, diff: &str, expect: &str) {
        let context = Context { cwd: "/w".into(), columns: 30, ..Context::default() };
        let found = with_rest(file(&change(kind, diff), &context, 5));
        assert_eq!(shown(&found).trim_end(), expect, "{diff}");
    }

    #[test]
    fn changes_of_files() {
        check(PatchChangeKind::Add, "a\n-b\u{1b}\n", "add src/a.rs +2 -0\n1 +a\n2 +-b\\u{1b}");
        check(PatchChangeKind::Delete, "@@ -1 +0,0 @@\n-a\n", "delete src/a.rs +0 -1\n1 -a");
        check(
            PatchChangeKind::Update { move_path: Some("/w/b.rs".to_owned()) },
            "@@ -9,3 +9,3 @@ fn\n a\n--- b\n+c\n d\n@@ -20 +20 @@\n-x\n\\ No newline at end of file\n+y",
            "move src/a.rs to b.rs +2 -2\n 9  a\n10 --- b\n10 +c\n11  d\n  ⋮\n… 3 more lines",
        );
        check(
            PatchChangeKind::Update { move_path: None },
            "@@ fn x\n-a\n+b",
            "edit src/a.rs +1 -1\n -a\n +b",
        );
        check(PatchChangeKind::Update { move_path: None }, "", "edit src/a.rs +0 -0");
    }

    #[test]
    fn words_that_changed_are_marked() {
        let update = change(
            PatchChangeKind::Update { move_path: None },
            "@@ -1 +1 @@\n-let a = one;\n+let a = two;",
        );
        let lines = file(&update, &Context::default(), 10).lines;
        let marked: Vec<_> = lines
            .iter()
            .flat_map(|line| &line.spans)
            .filter(|span| span.style().underline)
            .collect();
        assert_eq!(marked.iter().map(|span| span.text()).collect::<Vec<_>>(), ["one;", "two;"]);
    }

    #[test]
    fn the_diff_of_a_turn() {
        let diff = "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1 @@\n a\n--- b\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+++ c\n";
        let shown = shown(&unified(diff, &Context::default()));
        assert_eq!(shown, "edit x.rs +0 -1\n1  a\n2 --- b\nadd n +1 -0\n1 +++ c\n");
    }

    #[test]
    fn absolute_paths_are_shown_from_the_folder() {
        let context = Context { cwd: "/work".into(), ..Context::default() };
        let title = |path: &str| {
            let diff = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n");
            unified(&diff, &context)[0].text()
        };
        assert_eq!(title("work/src/a.rs"), "edit src/a.rs +1 -1");
        assert_eq!(title("etc/hosts"), "edit etc/hosts +1 -1");
    }

    #[test]
    fn broken_diffs_are_shown_as_they_are() {
        for diff in [
            "@@ -x +1 @@\n a",
            "@@\n\n+é",
            "garbage\n+a",
            "@@ -1,99999999999999999999 +1 @@",
            "\u{1b}",
        ] {
            let lines = unified(diff, &Context { columns: 2, ..Context::default() });
            assert!(!lines.is_empty(), "{diff:?}");
        }
    }
}
