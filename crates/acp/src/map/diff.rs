//! Unified diffs as pairs of an old and a new text. The server reports changes as hunks, so a pair is the
//! text of a hunk, and the line where it begins is the location of the change.

use std::path::Path;

use protocol::{FileUpdateChange, PatchChangeKind};

use crate::schema::tool_call::{ToolCallContent, ToolCallLocation};

/// One hunk.
#[derive(Debug, PartialEq, Eq)]
struct Hunk {
    /// Line of the new file, from 1.
    line: u32,
    old: String,
    new: String,
}

/// The diffs of a change, and the places that it affects. Relative paths are below `cwd`.
pub(crate) fn of_change(
    change: &FileUpdateChange,
    cwd: &str,
) -> (Vec<ToolCallContent>, Vec<ToolCallLocation>) {
    let old_path = absolute(&change.path, cwd);
    let path = match &change.kind {
        PatchChangeKind::Update { move_path: Some(to) } => absolute(to, cwd),
        _ => old_path,
    };
    if change.kind == PatchChangeKind::Add {
        let content = ToolCallContent::Diff {
            path: path.clone(),
            old_text: None,
            new_text: change.diff.clone(),
        };
        return (vec![content], vec![ToolCallLocation { path, line: Some(1) }]);
    }
    let hunks = hunks(&change.diff);
    if hunks.is_empty() {
        // A file that is moved, or an empty one that is deleted.
        return (Vec::new(), vec![ToolCallLocation { path, line: None }]);
    }
    let locations = hunks
        .iter()
        .map(|hunk| ToolCallLocation { path: path.clone(), line: Some(hunk.line) })
        .collect();
    let contents = hunks
        .into_iter()
        .map(|hunk| ToolCallContent::Diff {
            path: path.clone(),
            old_text: Some(hunk.old),
            new_text: hunk.new,
        })
        .collect();
    (contents, locations)
}

/// The path, below `cwd` if it is relative.
pub(crate) fn absolute(path: &str, cwd: &str) -> String {
    Path::new(cwd).join(path).to_string_lossy().into_owned()
}

fn hunks(diff: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    // The sides that the last line belongs to.
    let mut last = (false, false);
    for line in diff.split_inclusive('\n') {
        if let Some(head) = line.strip_prefix("@@ ") {
            let line = start_of_new(head).unwrap_or(1).max(1);
            hunks.push(Hunk { line, old: String::new(), new: String::new() });
            last = (false, false);
            continue;
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        let mut chars = line.chars();
        let sides = match chars.next() {
            Some(' ') => (true, true),
            Some('-') => (true, false),
            Some('+') => (false, true),
            // "\ No newline at end of file": the line above has none.
            Some('\\') => {
                for (text, is_side) in [(&mut hunk.old, last.0), (&mut hunk.new, last.1)] {
                    if is_side && text.ends_with('\n') {
                        text.pop();
                    }
                }
                continue;
            }
            // An empty line of context whose blank was stripped.
            _ => {
                hunk.old.push_str(line);
                hunk.new.push_str(line);
                continue;
            }
        };
        let text = chars.as_str();
        if sides.0 {
            hunk.old.push_str(text);
        }
        if sides.1 {
            hunk.new.push_str(text);
        }
        last = sides;
    }
    hunks
}

/// The first line of the new side in `-1,3 +1,4 @@`.
fn start_of_new(head: &str) -> Option<u32> {
    let new = head.split_whitespace().find_map(|word| word.strip_prefix('+'))?;
    new.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> ToolCallContent {
        ToolCallContent::Diff {
            path: "/w/a.rs".to_owned(),
            old_text: Some(old.to_owned()),
            new_text: new.to_owned(),
        }
    }

    #[test]
    fn a_change_is_a_pair_of_texts_for_each_hunk() {
        let check = |text: &str, expect: &[(&str, &str, u32)]| {
            let change = FileUpdateChange {
                path: "a.rs".to_owned(),
                kind: PatchChangeKind::Update { move_path: None },
                diff: text.to_owned(),
            };
            let (contents, locations) = of_change(&change, "/w");
            let pairs: Vec<_> = expect.iter().map(|(old, new, _)| diff(old, new)).collect();
            assert_eq!(contents, pairs, "{text}");
            let lines: Vec<_> = locations.iter().map(|location| location.line).collect();
            assert_eq!(lines, expect.iter().map(|(.., line)| Some(*line)).collect::<Vec<_>>());
        };
        check("@@ -1,2 +1,2 @@\n a\n-b\n+c\n", &[("a\nb\n", "a\nc\n", 1)]);
        check("@@ -1 +1 @@\n-b\n+c\n@@ -9,0 +10 @@\n+d\n", &[("b\n", "c\n", 1), ("", "d\n", 10)]);
        check(
            "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
            &[("b", "c", 1)],
        );
        check("@@ -1,2 +0,0 @@\n-a\n-b\n", &[("a\nb\n", "", 1)]);
        check("@@ -1,2 +1,3 @@\n a\n\n+b\n", &[("a\n\n", "a\n\nb\n", 1)]);
    }

    #[test]
    fn added_and_moved_files() {
        let add = FileUpdateChange {
            path: "/w/a.rs".to_owned(),
            kind: PatchChangeKind::Add,
            diff: "@@ text\n".to_owned(),
        };
        let content = ToolCallContent::Diff {
            path: "/w/a.rs".to_owned(),
            old_text: None,
            new_text: "@@ text\n".to_owned(),
        };
        let location = |path: &str, line| ToolCallLocation { path: path.to_owned(), line };
        assert_eq!(of_change(&add, "/w"), (vec![content], vec![location("/w/a.rs", Some(1))]));
        let moved = FileUpdateChange {
            path: "a.rs".to_owned(),
            kind: PatchChangeKind::Update { move_path: Some("b/c.rs".to_owned()) },
            diff: String::new(),
        };
        assert_eq!(of_change(&moved, "/w"), (Vec::new(), vec![location("/w/b/c.rs", None)]));
    }
}
