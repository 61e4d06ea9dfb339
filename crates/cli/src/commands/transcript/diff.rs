//! The changes of a patch, as lines for a person. It reads diffs; it makes none.

use std::path::Path;

use protocol::{FileUpdateChange, PatchChangeKind};

/// The kind of a line in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Removed,
    /// The header of a hunk.
    HunkHeader,
    Context,
}

/// The lines of a change, each with its sign.
pub(crate) fn lines(change: &FileUpdateChange) -> Vec<(Kind, String)> {
    let whole = match change.kind {
        PatchChangeKind::Add if !is_unified(&change.diff) => Some((Kind::Added, '+')),
        PatchChangeKind::Delete if !is_unified(&change.diff) => Some((Kind::Removed, '-')),
        _ => None,
    };
    if let Some((kind, sign)) = whole {
        return change.diff.lines().map(|line| (kind, format!("{sign}{line}"))).collect();
    }
    let mut in_hunk = false;
    let mut lines = Vec::new();
    for line in change.diff.lines() {
        in_hunk |= line.starts_with("@@");
        // What precedes the first hunk names the file, which is shown already.
        if in_hunk {
            lines.push((kind(line), line.to_owned()));
        }
    }
    lines
}

/// Returns the numbers of added and removed lines.
pub(crate) fn counts(change: &FileUpdateChange) -> (usize, usize) {
    let lines = lines(change);
    let count = |wanted| lines.iter().filter(|(kind, _)| *kind == wanted).count();
    (count(Kind::Added), count(Kind::Removed))
}

/// Returns the kind of change and its file, paths below `cwd` in short.
pub(crate) fn title(change: &FileUpdateChange, cwd: &Path) -> String {
    let path = short(&change.path, cwd);
    match &change.kind {
        PatchChangeKind::Add => format!("add {path}"),
        PatchChangeKind::Delete => format!("delete {path}"),
        PatchChangeKind::Update { move_path: None } => format!("edit {path}"),
        PatchChangeKind::Update { move_path: Some(to) } => {
            format!("move {path} to {}", short(to, cwd))
        }
    }
}

fn short<'a>(path: &'a str, cwd: &Path) -> std::borrow::Cow<'a, str> {
    match Path::new(path).strip_prefix(cwd) {
        Ok(below) => below.to_string_lossy(),
        Err(_) => path.into(),
    }
}

fn is_unified(diff: &str) -> bool {
    diff.starts_with("--- ") && diff.lines().any(|line| line.starts_with("@@ "))
}

fn kind(line: &str) -> Kind {
    match line.bytes().next() {
        Some(b'+') => Kind::Added,
        Some(b'-') => Kind::Removed,
        Some(b'@') => Kind::HunkHeader,
        _ => Kind::Context,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(kind: PatchChangeKind, diff: &str) -> FileUpdateChange {
        FileUpdateChange { path: "/w/src/a.rs".into(), kind, diff: diff.into() }
    }

    #[test]
    fn line_changes_are_counted() {
        let check =
            |kind: PatchChangeKind, diff: &str, title_expect: &str, counted, shown: &str| {
                let change = change(kind, diff);
                assert_eq!(title(&change, Path::new("/w")), title_expect);
                assert_eq!(counts(&change), counted);
                let lines: Vec<String> = lines(&change).into_iter().map(|(_, line)| line).collect();
                assert_eq!(lines.join("\n"), shown);
            };
        let update = PatchChangeKind::Update { move_path: None };
        let moved = PatchChangeKind::Update { move_path: Some("/v/b.rs".into()) };
        check(PatchChangeKind::Add, "a\n-b\n", "add src/a.rs", (2, 0), "+a\n+-b");
        check(PatchChangeKind::Delete, "a\n", "delete src/a.rs", (0, 1), "-a");
        check(PatchChangeKind::Add, "", "add src/a.rs", (0, 0), "");
        let hunk = "@@ -1,2 +1,2 @@\n a\n--- x\n+++ y";
        check(update.clone(), hunk, "edit src/a.rs", (1, 1), hunk);
        let named = format!("--- a/src/a.rs\n+++ b/src/a.rs\n{hunk}");
        check(update, &named, "edit src/a.rs", (1, 1), hunk);
        check(moved, "", "move src/a.rs to /v/b.rs", (0, 0), "");
    }

    proptest! {
        #[test]
        fn every_diff_line_is_shown_once_or_names_its_file(diff in "([-+@ ]{0,3}[a-z\n]{0,4}){0,12}") {
            for kind in [PatchChangeKind::Add, PatchChangeKind::Update { move_path: None }] {
                let change = change(kind, &diff);
                let shown = lines(&change);
                prop_assert!(shown.len() <= diff.lines().count());
                let (added, removed) = counts(&change);
                prop_assert!(added + removed <= shown.len());
            }
        }
    }
}
