//! Patches as models write them: tolerated deviations from the grammar, and errors about the rest.

use super::{applied, check, files, refused, updated, wrap};

/// Texts that all add the line `x` to `a`.
#[test]
fn text_around_a_patch() {
    let patch = wrap("*** Add File: a\n+x");
    let body = "*** Add File: a\n+x";
    for text in [
        format!("  *** Begin Patch  \n{body}\n\t*** End Patch "),
        format!("*** begin patch\n{body}\n*** END PATCH"),
        "***Begin Patch\n***  Add file:   a \n+x\n***End Patch".to_owned(),
        format!("*** Begin Patch ***\n{body}\n*** End Patch ***"),
        "***BEGIN PATCH***\n*** Add File: a ***\n+x\n***END PATCH*** \n".to_owned(),
        "***** Begin Patch *****\n*** Add File: a ***\n+x\n*** End of File ***\n*** End Patch *****".to_owned(),
        format!("'*** Begin Patch ***\n{body}\n*** End Patch ***'"),
        format!("\u{feff}{patch}"),
        format!("<<EOF\n{patch}\nEOF"),
        format!("<<\"EOF\"\n{patch}\nEOF\n)"),
        format!("apply_patch <<'EOF'\n{patch}\nEOF\n"),
        format!("$ apply_patch\n{patch}\nPATCH"),
        format!("'{patch}'"),
        format!("\"{patch}\"\n"),
        format!("```diff\n{patch}\n```\n"),
        format!("\n \n{patch}\n \n"),
        format!("    {}", patch.replace('\n', "\n    ")),
        patch.replace("+x", "@@\n+x"),
        patch.replace("+x", "@@ -0,0 +1 @@\n+x\n*** End of File"),
        patch.replace('\n', "\r\n"),
        patch.replace("*** Add", " *** Add"),
    ] {
        assert_eq!(applied(&files(&[]), &text), Ok(files(&[("a", "x\n")])), "{text}");
    }
}

#[test]
fn several_patches_in_one_text() {
    let text = format!("{}\n\n{}", wrap("*** Add File: a\n+x"), wrap("*** Add File: b\n+y"));
    assert_eq!(applied(&files(&[]), &text), Ok(files(&[("a", "x\n"), ("b", "y\n")])));
}

#[test]
fn indented_markers_within_hunks() {
    let before = [("a", "1\n"), ("b", "2\n")];
    for body in [
        "*** Update File: a\n@@\n-1\n+x\n  *** Update File: b\n  @@\n-2\n+y",
        "  *** Update File: a\n@@\n-1\n+x\n *** End of File\n\t*** Update File: b\n-2\n+y\n ",
    ] {
        check(&before, body, &[("a", "x\n"), ("b", "y\n")]);
    }
    // Where the file has such a line it is context.
    check(
        &[("a", "1\n*** End of File\n2\n1\n")],
        "*** Update File: a\n@@\n-1\n+x\n *** End of File\n 2",
        &[("a", "x\n*** End of File\n2\n1\n")],
    );
    let text = "*** Begin Patch\n*** Update File: a\n@@\n-1\n+x\n *** End Patch";
    assert_eq!(applied(&files(&before[..1]), text), Ok(files(&[("a", "x\n")])));
}

#[test]
fn punctuation_that_is_typographic_on_one_side() {
    for (before, hunk, after) in [
        (
            "\u{201c}it\u{2019}s\u{201d}\n1\n",
            " \"it's\"\n-1\n+2",
            "\u{201c}it\u{2019}s\u{201d}\n2\n",
        ),
        ("a \u{2014} b\n1\n", " a - b\n-1\n+2", "a \u{2014} b\n2\n"),
        ("a\u{a0}b\n1\n", "@@ a b\n-1\n+2", "a\u{a0}b\n2\n"),
        ("a - b\n", "-a \u{2013} b\n+c", "c\n"),
        // What is exactly there comes first.
        ("\u{2018}a\u{2019}\n'a'\n", "-'a'\n+b", "\u{2018}a\u{2019}\nb\n"),
    ] {
        assert_eq!(updated(before, hunk).unwrap(), after, "{hunk}");
    }
}

#[test]
fn ends_of_files() {
    for (before, hunk, after) in [
        // The end has changed: it has a line end now.
        ("a\nb", "-b\n+c", "a\nc\n"),
        ("a\nb", "-b", "a\n"),
        ("a\nb", "@@\n+c", "a\nb\nc\n"),
        ("a\r\nb", "-b\n+c", "a\r\nc\r\n"),
        ("a", "-a\n+b\n\\ No newline at end of file", "b\n"),
        // It has not.
        ("a\nb", "-a\n+c", "c\nb"),
        ("a\nb", "-a\n+c\n b", "c\nb"),
        // The blank line after the last line end.
        ("a\n", " a\n \n+b", "a\n\nb\n"),
        ("a\n", "-a\n-\n+b", "b\n"),
        ("", "-\n+b", "b\n"),
        ("", "@@\n+a\n*** End of File", "a\n"),
        ("a\n", "-a", ""),
        // `*** End of File` where the lines are not at the end, but at one place only.
        ("a\nb\n", "-a\n+c\n*** End of File", "c\nb\n"),
    ] {
        assert_eq!(updated(before, hunk).unwrap(), after, "{before:?} {hunk}");
    }
}

#[test]
fn a_byte_order_mark_is_kept() {
    for (before, hunk, after) in [
        ("\u{feff}a\nb\n", "-a\n+c", "\u{feff}c\nb\n"),
        ("\u{feff}a\nb\n", "+0\n a", "\u{feff}0\na\nb\n"),
        ("\u{feff}a\nb\n", "-\u{feff}a\n+\u{feff}c", "\u{feff}c\nb\n"),
        ("\u{feff}a\nb\n", "-\u{feff}a\n+a", "a\nb\n"),
    ] {
        assert_eq!(updated(before, hunk).unwrap(), after, "{hunk:?}");
    }
}

#[test]
fn blank_lines_that_lost_their_sign() {
    for (before, hunk, after) in [
        ("1\n\n2\n", "@@\n 1\n\n-2\n+3", "1\n\n3\n"),
        // Between hunks they are a distance, unless the file has them.
        ("1\n2\n3\n", "@@\n-1\n+x\n\n\n@@\n-3\n+y\n\n", "x\n2\ny\n"),
        ("1\n2\n1\n\n", "@@\n-1\n+x\n\n", "1\n2\nx\n\n"),
        ("1\n", "\n\n@@\n-1\n+x", "x\n"),
        ("1\n2\n", "@@\n\n@@ 1\n-2\n+x", "1\nx\n"),
        ("1\n\n2\n", "@@\n+x\n\n", "1\n\n2\nx\n"),
    ] {
        assert_eq!(updated(before, hunk).unwrap(), after, "{hunk:?}");
    }
    check(
        &[],
        "*** Add File: a\n+1\n\n+2\n\n\n*** Add File: b\n+3",
        &[("a", "1\n\n2\n"), ("b", "3\n")],
    );
}

#[test]
fn headers_of_hunks() {
    let file = "class A:\n  def f(x):\n    1\n  def g(x):\n    1\nclass B(A):\n  def f(x):\n    1\n    2\n";
    let at = |line: usize| -> String {
        let edit = |(number, text)| if number + 1 == line { "    X" } else { text };
        file.lines().enumerate().map(edit).map(|line| format!("{line}\n")).collect()
    };
    for (header, line) in [
        ("@@", 3),
        ("@@ class A:\n@@ def g(x):", 5),
        ("@@ class A:\n@@   def g(x):", 5),
        ("@@class B(A):", 8),
        ("@@ class B(A):\n@@ def f(x):", 8),
        // Without the line's end.
        ("@@ class B\n@@ def f", 8),
        ("@@ def g", 5),
        ("@@ -4,2 +4,2 @@ def g(x):", 5),
    ] {
        let hunk = format!("{header}\n-    1\n+    X");
        assert_eq!(updated(file, &hunk), Ok(at(line)), "{header}");
    }
    // The header is repeated for a second hunk in the same place.
    let hunks = "@@ class B(A):\n-    1\n+    X\n@@ class B(A):\n-    2\n+    Y";
    assert!(updated(file, hunks).unwrap().ends_with("    X\n    Y\n"));
    // The line is not there, but only one place fits.
    let hunk = "@@ class C:\n-    2\n+    X";
    assert_eq!(updated(file, hunk), Ok(at(9)));
    refused(
        &[("f", file)],
        &wrap("*** Update File: f\n@@ class C:\n-    1\n+    X"),
        "hunk 1, line 3 of the patch: `@@` names the line `class C:`, which the file does not have. The lines of the \
         hunk are in the file more than once",
    );
}

#[test]
fn marker_after_the_last_hunk() {
    let before = [("a", "1\n2\n"), ("b", "3\n")];
    for body in [
        "*** Update File: a\n@@\n 1\n-2\n+x\n@@",
        "*** Update File: a\n@@\n 1\n-2\n+x\n@@ @@\n\n",
        "*** Update File: a\n@@ 1 @@\n-2\n+x\n@@\n*** End of File",
        "*** Update File: a\n@@\n 1\n-2\n+x\n@@\n@@\n",
        "*** Update File: a\n@@ -1,2 +1,2 @@\n 1\n-2\n+x\n@@ -3,0 +3,0 @@",
    ] {
        check(&before[..1], body, &[("a", "1\nx\n")]);
        let two = format!("{body}\n*** Update File: b\n@@\n-3\n+y\n@@");
        check(&before, &two, &[("a", "1\nx\n"), ("b", "y\n")]);
    }
    // One with a line after it says where something changes, and nothing does.
    for body in ["*** Update File: a\n@@", "*** Update File: a\n@@\n-2\n+x\n@@ 2"] {
        refused(&before[..1], &wrap(body), "a hunk without lines");
    }
}

#[test]
fn hunks_that_overlap() {
    for (before, hunks, after) in [
        // Unchanged lines of the hunk before.
        ("a\nb\nc\nd\n", "@@\n a\n-b\n+B\n c\n@@\n c\n-d\n+D", "a\nB\nc\nD\n"),
        ("a\nb\nc\nd\ne\n", "@@\n-a\n+A\n b\n c\n@@\n c\n d\n-e\n+E", "A\nb\nc\nd\nE\n"),
        // New ones, as if that one had been applied.
        ("a\nb\nc\n", "@@\n-b\n+B\n@@\n a\n B\n-c\n+C", "a\nB\nC\n"),
        ("a\nb\nc\n", "@@\n-b\n+B\n@@\n B\n+x\n c", "a\nB\nx\nc\n"),
    ] {
        assert_eq!(updated(before, hunks).unwrap(), after, "{hunks}");
    }
    let twice = "@@\n-a\n+b\n@@\n-a\n+b";
    assert_eq!(updated("a\nx\na\n", twice).unwrap(), "b\nx\nb\n");
    let error = updated("a\nx\n", twice).unwrap_err();
    assert!(
        error.contains("hunk 2, line 7 of the patch") && error.contains("at line 1"),
        "{error}"
    );
}

#[test]
fn several_operations_on_one_file() {
    let before = [("a", "1\n2\n")];
    check(
        &before,
        "*** Update File: a\n@@\n-2\n+3\n*** Update File: ./a\n@@\n-1\n+0",
        &[("a", "0\n3\n")],
    );
    check(&before, "*** Delete File: a\n*** Add File: a\n+x", &[("a", "x\n")]);
    check(&[], "*** Add File: a\n+x\n*** Update File: a\n@@\n-x\n+y", &[("a", "y\n")]);
    for body in [
        "*** Delete File: a\n*** Update File: a\n@@\n-1\n+x",
        "*** Update File: a\n@@\n-1\n+x\n*** Delete File: a",
        "*** Update File: a\n*** Move to: b\n*** Update File: b\n@@\n-1\n+x",
        "*** Update File: a\n*** Move to: b\n*** Add File: a\n+x",
    ] {
        refused(&before, &wrap(body), "named by two operations");
    }
}

#[test]
fn paths() {
    let before = [("a b", "1\n"), ("c/d", "1\n")];
    for (path, name) in [
        ("  a b  ", "a b"),
        ("./a b", "a b"),
        ("/w/a b", "a b"),
        ("c/../a b", "a b"),
        ("../w/c/./d", "c/d"),
        ("/../w/c//d", "c/d"),
    ] {
        let after: Vec<(&str, &str)> =
            before.map(|(at, text)| (at, if at == name { "2\n" } else { text })).to_vec();
        check(&before, &format!("*** Update File: {path}\n@@\n-1\n+2"), &after);
    }
}

#[test]
fn a_move_replaces_a_file() {
    let before = [("a", "1\n"), ("b", "old\n")];
    check(&before, "*** Update File: a\n*** Move to: b\n@@\n-1\n+2", &[("b", "2\n")]);
    check(&before, "*** Update File: a\n  *** Move to:   b", &[("b", "1\n")]);
    check(&before[..1], "*** Update File: a\n*** Move to: ./a\n@@\n-1\n+2", &[("a", "2\n")]);
}

/// Errors have the number and the text of the line, and a correction.
#[test]
fn errors_name_the_line_and_a_correction() {
    let file = [("f", "one\ntwo\nthree\ntwo\n")];
    for (text, expected) in [
        (
            "*** Begin Patch\n*** Add File: a\n+x\nEOF",
            "line 4: every line of an added file begins with `+`, found `EOF`",
        ),
        ("Sure:\n*** Begin", "line 1: expected `*** Begin Patch`, found `Sure:`"),
        ("Sure:\n*** Begin Patch", "line 3: the patch ends here; expected `*** End Patch`"),
        (
            &format!("{}\n*** Add File: b\n+y", wrap("*** Add File: a\n+x")),
            "line 5: nothing may follow `*** End Patch`, found `*** Add File: b`; put all changes before it",
        ),
        ("", "the patch is empty; expected `*** Begin Patch`"),
        ("\n```\n", "the patch is empty; expected `*** Begin Patch`"),
        (&wrap(""), "the patch changes nothing; expected"),
        (&wrap("*** Rename File: a"), "line 2: expected `*** Add File: …`"),
        (
            &wrap("*** Move to: a"),
            "line 2: found `*** Move to: a`; `*** Move to: …` belongs on the line after `*** Update File: …`",
        ),
        (
            &wrap("*** Update File: f\n@@\nno sign"),
            "line 4: a line of a hunk begins with ` ` (kept), `-` (removed) or `+` (added), found `no sign`",
        ),
        (&wrap("*** Update File: f\n@@ one"), "line 4: a hunk without lines"),
        (
            &wrap("*** Update File: f\n@@\n one\n-too\n+2\n three"),
            "/w/f: hunk 1, line 5 of the patch: these lines were not found:\none\ntoo\nthree\n\
             Line 5 of the patch, `-too`, should be line 2 of the file: `two`.",
        ),
        (
            &wrap("*** Update File: f\n@@ three\n-four\n+4"),
            "hunk 1, line 4 of the patch: these lines were not found after line 3:\nfour\n\
             Line 4 of the patch, `-four`, is not in the file after line 3: read the file again.",
        ),
        (
            &wrap("*** Update File: f\n@@\n three\n two\n-four"),
            "Line 6 of the patch, `-four`, is beyond the end of the file, which has 4 lines.",
        ),
        (
            &wrap("*** Update File: f\n@@ three\n-one\n+1"),
            "They are at line 1, which is too early: write hunks in the order of the file",
        ),
    ] {
        refused(&file, text, expected);
    }
    refused(
        &[("f", "a\nb\na\nb\nc\n")],
        &wrap("*** Update File: f\n@@\n-a\n+x\n*** End of File"),
        "They are not at the end of the file, but at line 1 and again later",
    );
}

/// The text around a patch, and a first line that is missing, have one meaning.
#[test]
fn a_patch_is_found_in_what_models_write_around_it() {
    let body = "*** Update File: f\n@@\n-a\n+b";
    for text in [
        format!("{body}\n*** End Patch"),
        format!("```\n{body}\n*** End Patch\n```"),
        format!("Here is the patch:\n\n{}", wrap(body)),
        format!("I change `f`.\n```diff\n{}\n```\nThis makes it b.", wrap(body)),
        format!("\u{feff}{}", wrap(body)),
        format!("*** Begin Patch:\n{body}\n*** End Patch:"),
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n".to_owned(),
        "```diff\n--- f\n+++ f\n@@ -7,9 +7,9 @@ fn main() {\n-a\n+b\n```\n".to_owned(),
    ] {
        let after = applied(&files(&[("f", "a\n")]), &text);
        assert_eq!(after, Ok(files(&[("f", "b\n")])), "{text}");
    }
    // What would belong to it has another meaning.
    refused(&[], &format!("{}\n@@\n+c", wrap("*** Add File: a\n+x")), "nothing may follow");
}
