//! Costs of hostile and large patches, and properties of diffs.

use std::path::PathBuf;

use patch::{Change, ChangeKind, MAX_HELD, TurnDiff, unified_diff};
use proptest::prelude::*;

use super::updated;

#[test]
fn untouched_lines_keep_their_ends() {
    let check = |before: &str, hunks: &str, after: &str| {
        assert_eq!(updated(before, hunks).unwrap(), after, "{before:?} {hunks}");
    };
    check("a\nb\r\nc\n", "-c\n+d", "a\nb\r\nd\n");
    check("a\r\nb\nc\r\n", " b\n-c\n+d", "a\r\nb\nd\r\n");
    check("a\r\nb", "-b\n+c\n+d", "a\r\nc\r\nd\r\n");
    check("a\nb", "@@ b\n+c", "a\nb\nc\n");
    check("a\nb", "-b", "a\n");
    check("a\nb", "-a", "b");
    check("a\n", "-a", "");
    check("", "+a", "a\n");
    check("a\rb\n", "-a\rb\n+c", "c\n");
    check("a\n\n", " a\n \n+b", "a\n\nb\n");
    check("a\nb\n", " a\n-b\n+c\n \n*** End of File", "a\nc\n");
}

#[test]
fn errors_show_a_part_of_long_hunks() {
    let hunk: String = (0..500).map(|line| format!("-{line}\n")).collect();
    let error = updated("x\n", &hunk).unwrap_err();
    assert!(error.len() < 400 && error.contains("\n19\n…"), "{error}");
}

#[test]
fn repetitive_files_are_searched_in_linear_time() {
    let before = "a\n".repeat(200_000);
    let hunk = format!("{}-b\n", "-a\n".repeat(100_000));
    assert!(updated(&before, &hunk).unwrap_err().contains("not found"));
}

#[test]
fn hunks_that_match_loosely_are_found_in_sequence() {
    let before = "a \n".repeat(100_000);
    let hunks = "@@\n-a\n+b\n".repeat(20_000);
    let expected = "b\n".repeat(20_000) + &"a \n".repeat(80_000);
    assert!(updated(&before, &hunks).unwrap() == expected);
}

#[test]
fn a_patch_of_many_lines_takes_linear_time() {
    let lines = 60_000;
    let before: String = (0..lines).map(|line| format!("line {line}\n")).collect();
    let hunks: String = (0..lines / 3)
        .map(|at| format!("@@\n line {}\n-line {}\n+x\n", at * 3, at * 3 + 1))
        .collect();
    assert_eq!(updated(&before, &hunks).unwrap().matches("x\n").count(), lines / 3);
    let blank = "\n".repeat(300_000);
    let text = format!("*** Begin Patch\n*** Add File: a\n+x{blank}\n*** End Patch");
    assert_eq!(patch::parse(&text).unwrap().operations.len(), 1);
    assert_eq!(updated("a\n", &format!("-a{blank}")).unwrap(), "");
}

#[test]
fn large_files_have_small_diffs_when_little_changed() {
    let lines = |from: &str, to: &str| -> String {
        (0..50_000)
            .map(|line| match line {
                100 | 25_000 | 49_000 => format!("line {line} {to}\n"),
                _ => format!("line {line} {from}\n"),
            })
            .collect()
    };
    let diff = unified_diff("f", "f", Some(&lines("x", "x")), Some(&lines("x", "y")));
    assert_eq!(diff.matches("\n@@ ").count(), 3, "{diff}");
    let all = unified_diff("f", "f", Some(&lines("x", "x")), Some(&lines("z", "z")));
    assert_eq!(all.matches("\n@@ ").count(), 1);
}

#[test]
fn names_that_need_quotes() {
    let check = |name: &str, expect: &str| {
        let diff = unified_diff(name, name, None, Some("x\n"));
        assert!(diff.contains(expect), "{diff}");
    };
    check("a b", "--- /dev/null\n+++ b/a b\t\n");
    check("a\nb", "diff --git \"a/a\\nb\" \"b/a\\nb\"\n");
    check("a\"b", "+++ \"b/a\\\"b\"\n");
    check("é", "+++ b/é\n");
}

#[test]
fn ends_of_files_in_diffs() {
    let check = |before: Option<&str>, after: Option<&str>, expect: &str| {
        let diff = unified_diff("f", "f", before, after);
        let body = diff.strip_prefix("diff --git a/f b/f\n").unwrap_or(&diff);
        assert_eq!(body, expect);
    };
    let none = "\\ No newline at end of file\n";
    check(Some("a\n"), Some("a\n"), "");
    check(None, Some(""), "new file mode 100644\n");
    check(Some(""), None, "deleted file mode 100644\n");
    check(
        None,
        Some("a"),
        &format!("new file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n{none}"),
    );
    check(
        Some("a\nb\n"),
        None,
        "deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
    );
    check(Some("a"), Some("a\n"), &format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n{none}+a\n"));
    check(Some("a\r\n"), Some("b\r\n"), "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+b\r\n");
}

fn change(path: &str, kind: ChangeKind, before: Option<&str>, after: Option<&str>) -> Change {
    let path = PathBuf::from(path);
    let (before, after) = (before.map(str::to_owned), after.map(str::to_owned));
    Change { path, kind, before, after, replaced: None }
}

fn moved(target: &str) -> ChangeKind {
    ChangeKind::Update { move_to: Some(target.into()) }
}

#[test]
fn turns_with_moves() {
    let check = |changes: &[Change], expect: &[&str]| {
        let mut turn = TurnDiff::new("/w".into());
        turn.record(changes);
        let diff = turn.unified();
        let heads: Vec<&str> =
            diff.lines().filter(|line| !line.starts_with(['@', '+', '-', ' ', '\\'])).collect();
        assert_eq!(heads, expect);
        assert_eq!(turn.unified(), diff);
    };
    let to = |name: &str| moved(&format!("/w/{name}"));
    check(
        &[
            change("/w/a", to("b"), Some("1\n"), Some("1\n")),
            change("/w/b", to("a"), Some("1\n"), Some("1\n")),
        ],
        &[],
    );
    check(
        &[
            change("/w/a", to("b"), Some("1\n"), Some("1\n")),
            change("/w/b", to("c"), Some("1\n"), Some("2\n")),
        ],
        &["diff --git a/a b/c", "rename from a", "rename to c"],
    );
    // Onto a file that was deleted before: that one changed, the other is gone.
    check(
        &[
            change("/w/b", ChangeKind::Delete, Some("0\n"), None),
            change("/w/a", to("b"), Some("1\n"), Some("1\n")),
        ],
        &["diff --git a/a b/a", "deleted file mode 100644", "diff --git a/b b/b"],
    );
    // A new file under the name of one that was moved away.
    check(
        &[
            change("/w/a", to("b"), Some("1\n"), Some("1\n")),
            change("/w/a", ChangeKind::Add, None, Some("2\n")),
        ],
        &[
            "diff --git a/a b/a",
            "new file mode 100644",
            "diff --git a/a b/b",
            "rename from a",
            "rename to b",
        ],
    );
    check(
        &[
            change("/w/a", ChangeKind::Add, None, Some("2\n")),
            change("/w/a", to("b"), Some("2\n"), Some("2\n")),
        ],
        &["diff --git a/b b/b", "new file mode 100644"],
    );
    check(
        &[change("/x/a", ChangeKind::Add, None, Some("2\n"))],
        &["diff --git a/x/a b/x/a", "new file mode 100644"],
    );
}

#[test]
fn the_contents_kept_for_a_turn_are_bounded() {
    let large = "x".repeat(MAX_HELD / 2 + 1);
    let mut turn = TurnDiff::new("/w".into());
    turn.record(&[change("/w/a", ChangeKind::Add, None, Some(&large))]);
    turn.record(&[change("/w/b", ChangeKind::Add, None, Some(&large))]);
    turn.record(&[change("/w/c", ChangeKind::Add, None, Some("1\n"))]);
    let diff = turn.unified();
    assert!(diff.contains("diff --git a/b b/b\nContents are too large to be shown\n"));
    assert!(diff.contains("+++ b/c\n"));
    turn.record(&[change("/w/a", ChangeKind::Delete, Some(&large), None)]);
    turn.record(&[change("/w/d", ChangeKind::Add, None, Some(&large))]);
    assert!(turn.unified().contains("+++ b/d\n"));
}

fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec!["a", "b", "c", "", " a", "a ", "+", "-a", "@@", "*** x"]);
    let lines = prop::collection::vec((line, prop::bool::ANY), 0..14);
    (lines, prop::bool::ANY).prop_map(|(lines, ended)| {
        let mut text: String = lines
            .iter()
            .map(|(line, crlf)| format!("{line}{}", if *crlf { "\r\n" } else { "\n" }))
            .collect();
        if !ended {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

proptest! {
    /// The hunks of a diff turn its old text into its new one.
    #[test]
    fn a_patch_of_edits_gives_the_result(before in text(), keep in prop::collection::vec(0u8..4, 14)) {
        let lines: Vec<&str> = before.lines().collect();
        prop_assume!(!lines.is_empty());
        let mut hunk = String::new();
        let mut expect = Vec::new();
        for (line, edit) in lines.iter().zip(&keep) {
            match edit {
                0 => hunk.push_str(&format!("-{line}\n")),
                1 => { hunk.push_str(&format!("-{line}\n+new\n")); expect.push("new"); }
                2 => { hunk.push_str(&format!("+new\n {line}\n")); expect.extend(["new", line]); }
                _ => { hunk.push_str(&format!(" {line}\n")); expect.push(line); }
            }
        }
        let hunk = format!("@@\n{hunk}*** End of File");
        let after = updated(&before, &hunk).unwrap();
        prop_assert_eq!(after.lines().collect::<Vec<_>>(), expect);
    }

    /// A diff contains both texts.
    #[test]
    fn diffs_contain_both_texts(before in text(), after in text()) {
        let diff = unified_diff("f", "f", Some(&before), Some(&after));
        prop_assert_eq!(diff.is_empty(), before == after);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for line in diff.split_inclusive('\n').skip(3) {
            match line.as_bytes()[0] {
                b'-' => old.push(&line[1..]),
                b'+' => new.push(&line[1..]),
                b' ' => { old.push(&line[1..]); new.push(&line[1..]); }
                _ => {}
            }
        }
        // Less than 7 lines around each change, so that all lines are in the diff.
        if !diff.is_empty() && before.lines().count() <= 4 {
            prop_assert!(old.concat().trim_end() == before.trim_end(), "{}", diff);
            prop_assert!(new.concat().trim_end() == after.trim_end(), "{}", diff);
        }
    }
}
