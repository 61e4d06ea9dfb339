//! Unified diffs as pairs of an old and a new text, and in version 2 of the protocol as patches. The server
//! reports changes as hunks, so a pair is the text of a hunk, and the line where it begins is the location of
//! the change.

use std::path::Path;

use protocol::{FileUpdateChange, PatchChangeKind};

use crate::schema::Version;
use crate::schema::tool_call::{FileChange, Patch, ToolCallContent, ToolCallLocation};

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
    version: Version,
) -> (Vec<ToolCallContent>, Vec<ToolCallLocation>) {
    let (pairs, locations) = pairs(change, cwd);
    match version {
        Version::First => (pairs, locations),
        Version::Second => (vec![patch(change, cwd)], locations),
    }
}

/// A change as a patch in the format of git.
fn patch(change: &FileUpdateChange, cwd: &str) -> ToolCallContent {
    let path = absolute(&change.path, cwd);
    let (old, new) = (name('a', &path, cwd), name('b', &path, cwd));
    let (operation, head, hunks) = match &change.kind {
        PatchChangeKind::Add => {
            let head = format!("diff --git {old} {new}\nnew file mode 100644\n");
            (FileChange::Add { path }, head, with_sides("/dev/null", &new, &added(&change.diff)))
        }
        PatchChangeKind::Delete => {
            let head = format!("diff --git {old} {new}\ndeleted file mode 100644\n");
            (FileChange::Delete { path }, head, with_sides(&old, "/dev/null", &change.diff))
        }
        PatchChangeKind::Update { move_path: None } => {
            let head = format!("diff --git {old} {new}\n");
            (FileChange::Modify { path }, head, with_sides(&old, &new, &change.diff))
        }
        PatchChangeKind::Update { move_path: Some(to) } => {
            let to = absolute(to, cwd);
            let new = name('b', &to, cwd);
            let head = format!(
                "diff --git {old} {new}\nrename from {}\nrename to {}\n",
                quoted(&below(&path, cwd)),
                quoted(&below(&to, cwd))
            );
            let operation = FileChange::Move { old_path: path, path: to };
            (operation, head, with_sides(&old, &new, &change.diff))
        }
    };
    let patch = Patch { format: "git_patch", text: head + &hunks };
    ToolCallContent::Changes { changes: vec![operation], patch: Some(patch) }
}

/// Hunks below the names of their sides; nothing without hunks.
fn with_sides(old: &str, new: &str, hunks: &str) -> String {
    if hunks.is_empty() {
        return String::new();
    }
    let end = if hunks.ends_with('\n') { "" } else { "\n" };
    format!("--- {old}\n+++ {new}\n{hunks}{end}")
}

/// The hunk of a file that is new.
fn added(text: &str) -> String {
    let lines = text.lines().count();
    if lines == 0 {
        return String::new();
    }
    let mut hunk = format!("@@ -0,0 +1,{lines} @@\n");
    for line in text.split_inclusive('\n') {
        hunk.push('+');
        hunk.push_str(line);
    }
    if !text.ends_with('\n') {
        hunk.push_str("\n\\ No newline at end of file\n");
    }
    hunk
}

/// A path with its side, as git writes it.
fn name(side: char, path: &str, cwd: &str) -> String {
    quoted(&format!("{side}/{}", below(path, cwd)))
}

/// The path from `cwd` on, where it is below; without the slash at its begin elsewhere.
fn below(path: &str, cwd: &str) -> String {
    let below = Path::new(path).strip_prefix(cwd).ok().filter(|path| !path.as_os_str().is_empty());
    let below = below.map(|path| path.to_string_lossy().into_owned());
    below.unwrap_or_else(|| path.trim_start_matches('/').to_owned())
}

/// In quotes, as in C, where a reader of patches could not tell where the name ends.
fn quoted(name: &str) -> String {
    if !name.contains(|c: char| c.is_control() || c == '"' || c == '\\') {
        return name.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    quoted.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn pairs(change: &FileUpdateChange, cwd: &str) -> (Vec<ToolCallContent>, Vec<ToolCallLocation>) {
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
            let (contents, locations) = of_change(&change, "/w", Version::First);
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
        assert_eq!(
            of_change(&add, "/w", Version::First),
            (vec![content], vec![location("/w/a.rs", Some(1))])
        );
        let moved = FileUpdateChange {
            path: "a.rs".to_owned(),
            kind: PatchChangeKind::Update { move_path: Some("b/c.rs".to_owned()) },
            diff: String::new(),
        };
        assert_eq!(
            of_change(&moved, "/w", Version::First),
            (Vec::new(), vec![location("/w/b/c.rs", None)])
        );
    }

    #[test]
    fn patches_are_those_of_git() {
        let check = |path: &str, kind: PatchChangeKind, diff: &str, expect: &str| {
            let change = FileUpdateChange { path: path.to_owned(), kind, diff: diff.to_owned() };
            let (contents, _) = of_change(&change, "/w", Version::Second);
            let [ToolCallContent::Changes { changes, patch: Some(patch) }] = &contents[..] else {
                panic!("{contents:?}")
            };
            let operation = serde_json::to_string(&changes[0]).unwrap();
            assert_eq!(format!("{operation}\n{}", patch.text), expect);
        };
        let moved = |to: &str| PatchChangeKind::Update { move_path: Some(to.to_owned()) };
        check(
            "a.rs",
            PatchChangeKind::Update { move_path: None },
            "@@ -1 +1 @@\n-b\n+c\n",
            "{\"operation\":\"modify\",\"path\":\"/w/a.rs\"}\ndiff --git a/a.rs b/a.rs\n--- a/a.rs\n\
             +++ b/a.rs\n@@ -1 +1 @@\n-b\n+c\n",
        );
        check(
            "/w/new",
            PatchChangeKind::Add,
            "one\ntwo",
            "{\"operation\":\"add\",\"path\":\"/w/new\"}\ndiff --git a/new b/new\nnew file mode 100644\n\
             --- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n",
        );
        check(
            "/else/old",
            PatchChangeKind::Delete,
            "@@ -1 +0,0 @@\n-a\n",
            "{\"operation\":\"delete\",\"path\":\"/else/old\"}\ndiff --git a/else/old b/else/old\n\
             deleted file mode 100644\n--- a/else/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        );
        check(
            "a b",
            moved("c\n\u{1}d"),
            "",
            "{\"operation\":\"move\",\"oldPath\":\"/w/a b\",\"path\":\"/w/c\\n\\u0001d\"}\n\
             diff --git a/a b \"b/c\\n\\001d\"\nrename from a b\nrename to \"c\\n\\001d\"\n",
        );
        check(
            "empty",
            PatchChangeKind::Add,
            "",
            "{\"operation\":\"add\",\"path\":\"/w/empty\"}\ndiff --git a/empty b/empty\nnew file mode 100644\n",
        );
    }
}
