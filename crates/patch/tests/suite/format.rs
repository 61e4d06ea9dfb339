//! The patch format: parsing, positions of hunks, and refusals.

use std::path::Path;

use patch::{TurnDiff, embedded, embedded_argv, is_mixed, is_mixed_argv, parse, plan};
use proptest::prelude::*;

use super::{applied, check, files, refused, wrap};

#[test]
fn files_are_added_and_deleted() {
    check(&[], "*** Add File: a/b\n+x\n+", &[("a/b", "x\n\n")]);
    check(&[("a", "x\n")], "*** Delete File: a", &[]);
    check(&[("a", "x\n")], "*** Add File: a\n+y", &[("a", "y\n")]);
    check(&[("a", "x\n")], "*** Update File: a\n*** Move to: b\n@@\n-x\n+y", &[("b", "y\n")]);
    check(&[("a", "x\n")], "*** Update File: a\n*** Move to: b", &[("b", "x\n")]);
    check(&[], "*** Add File: a\n+x\n\n*** Add File: b\n+y\n", &[("a", "x\n"), ("b", "y\n")]);
}

#[test]
fn hunks_are_found_by_their_context() {
    check(
        &[("a", "1\n2\n3\n")],
        "*** Update File: a\n@@\n 1\n-2\n+two\n 3",
        &[("a", "1\ntwo\n3\n")],
    );
    check(&[("a", "1\n2\n")], "*** Update File: a\n-2\n+two", &[("a", "1\ntwo\n")]);
    check(
        &[("a", "fn x\n  y\nfn z\n  y\n")],
        "*** Update File: a\n@@ fn z\n-  y\n+  w",
        &[("a", "fn x\n  y\nfn z\n  w\n")],
    );
    check(
        &[("a", "fn x\n  y\nfn z\n  y\n")],
        "*** Update File: a\n@@ fn z\n fn z\n-  y\n+  w",
        &[("a", "fn x\n  y\nfn z\n  w\n")],
    );
    check(&[("a", "1 \n2\n")], "*** Update File: a\n@@\n 1\n-2\n+3", &[("a", "1 \n3\n")]);
    check(&[("a", "\t1\n2\n")], "*** Update File: a\n@@\n 1\n-2\n+3", &[("a", "\t1\n3\n")]);
    check(
        &[("a", "1\n1\n")],
        "*** Update File: a\n@@\n-1\n+2\n*** End of File",
        &[("a", "1\n2\n")],
    );
    check(&[("a", "1\n")], "*** Update File: a\n@@\n+2", &[("a", "1\n2\n")]);
    check(&[("a", "")], "*** Update File: a\n@@\n+2", &[("a", "2\n")]);
    check(&[("a", "1\n2\n3\n")], "*** Update File: a\n@@ 1\n+x", &[("a", "1\nx\n2\n3\n")]);
    check(
        &[("a", "1\n2\n3\n4\n")],
        "*** Update File: a\n@@\n-1\n+x\n@@\n-4\n+y",
        &[("a", "x\n2\n3\ny\n")],
    );
    check(&[("a", "1\n\n2\n")], "*** Update File: a\n@@\n 1\n\n-2\n+3", &[("a", "1\n\n3\n")]);
    check(&[("a", "1\n2\n")], "*** Update File: a\n@@ -1,2 +1,2 @@\n-1\n+3", &[("a", "3\n2\n")]);
}

#[test]
fn line_endings_are_kept() {
    check(&[("a", "1\r\n2\r\n")], "*** Update File: a\n@@\n-2\n+3", &[("a", "1\r\n3\r\n")]);
    check(&[("a", "1\n2")], "*** Update File: a\n@@\n-2\n+3", &[("a", "1\n3\n")]);
    check(&[("a", "1\n2")], "*** Update File: a\n@@\n-1\n+3", &[("a", "3\n2")]);
}

#[test]
fn text_around_a_patch_is_tolerated() {
    let patch = wrap("*** Add File: a\n+x");
    for text in [
        format!("```\n{patch}\n```"),
        format!("\n\n{patch}\n\n"),
        format!("<<'EOF'\n{patch}\nEOF"),
        patch.replace('\n', "\r\n"),
    ] {
        assert_eq!(applied(&files(&[]), &text).unwrap(), files(&[("a", "x\n")]), "{text:?}");
    }
}

#[test]
fn refusals_name_the_line_and_the_reason() {
    refused(&[], "hello", "line 1: expected `*** Begin Patch`");
    refused(&[], "*** Begin Patch\n*** Add File: a\n+x", "expected `*** End Patch`");
    refused(&[], &wrap(""), "changes nothing");
    refused(&[], &wrap("*** Add File: a\nx"), "line 3: every line");
    refused(&[], &wrap("*** Add File: "), "expected a path");
    refused(&[], &wrap("*** Update File: a\n@@\n-x"), "/w/a: there is no such file");
    refused(&[], &wrap("*** Delete File: a"), "no such file");
    refused(&[("a", "1\n")], &wrap("*** Update File: a"), "`a` has no changes");
    refused(
        &[("a", "1\n")],
        &wrap("*** Update File: a\n@@\n-2\n+3"),
        "hunk 1, line 4 of the patch: these lines were not found:\n2",
    );
    refused(&[("a", "1\n1\n")], &wrap("*** Update File: a\n@@ x\n-1"), "hunk 1");
    refused(
        &[("a", "1\n")],
        &wrap("*** Delete File: a\n*** Delete File: ./a"),
        "named by two operations",
    );
    refused(&[("a", "1\n2\n")], &wrap("*** Update File: a\n@@\n-2\n@@\n-1"), "hunk 2");
}

#[test]
fn commands_that_are_patches() {
    let patch = wrap("*** Add File: a\n+x");
    let found = |script: &str| embedded(script).map(|found| (found.patch, found.workdir));
    let body = Some((format!("{patch}\n"), None));
    assert_eq!(found(&format!("apply_patch <<'EOF'\n{patch}\nEOF\n")), body);
    assert_eq!(found(&format!("applypatch <<EOF\n{patch}\nEOF")), body);
    let with_folder = Some((format!("{patch}\n"), Some("sub dir".to_owned())));
    assert_eq!(found(&format!("cd 'sub dir' && apply_patch <<\"EOF\"\n{patch}\nEOF")), with_folder);
    for separator in [";", "\n", " &&\n"] {
        let script = format!("cd 'sub dir'{separator}apply_patch <<\"EOF\"\n{patch}\nEOF");
        assert_eq!(found(&script), with_folder, "{script}");
    }
    assert_eq!(found(&format!("apply_patch '{patch}'")), Some((patch.clone(), None)));
    assert_eq!(found(&format!("bash -lc 'apply_patch <<\"EOF\"\n{patch}\nEOF'")), body);
    assert_eq!(found(&format!("bash -lc 'apply_patch \"{patch}\"' && ls")), None);
    for script in [
        "ls".to_owned(),
        format!("apply_patch <<'EOF'\n{patch}\nEOF\nrm -rf /"),
        format!("apply_patch <<'EOF' && rm x\n{patch}\nEOF"),
        format!("apply_patch <<EOF\n{}\nEOF", wrap("*** Add File: a\n+$(rm x)")),
        format!("apply_patch <<'EOF'\n{patch}"),
        format!("cd $HOME && apply_patch <<'EOF'\n{patch}\nEOF"),
        format!("apply_patch '{patch}'; rm x"),
        "apply_patch --help".to_owned(),
    ] {
        assert_eq!(found(&script), None, "{script}");
    }
    let argv = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert!(embedded_argv(&argv(&["apply_patch", &patch])).is_some());
    let script = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    assert!(embedded_argv(&argv(&["bash", "-lc", &script])).is_some());
    assert!(embedded_argv(&argv(&["/bin/sh", "-l", "-c", &script])).is_some());
    assert!(embedded_argv(&argv(&["python", "-c", &script])).is_none());
}

#[test]
fn commands_that_hold_more_than_a_patch() {
    let patch = wrap("*** Add File: a\n+x");
    for (script, mixed) in [
        (format!("apply_patch <<'EOF'\n{patch}\nEOF\ncargo test"), true),
        (format!("cargo fmt && apply_patch <<'EOF'\n{patch}\nEOF"), true),
        (format!("apply_patch <<EOF\n{}\nEOF", patch.replace('x', "$x")), true),
        (format!("apply_patch <<'EOF'\n{patch}"), true),
        (format!("apply_patch <<'EOF'\n{patch}\nEOF"), false),
        (format!("cat > notes <<'EOF'\napply_patch\n{patch}\nEOF"), false),
        ("apply_patch --help".to_owned(), false),
        ("apply_patch <<< x".to_owned(), false),
    ] {
        assert_eq!(is_mixed(&script), mixed, "{script}");
        let argv = ["bash".to_owned(), "-lc".to_owned(), script.clone()];
        assert_eq!(is_mixed_argv(&argv), mixed, "{script}");
    }
}

#[test]
fn a_turn_has_one_diff() {
    let mut state = files(&[("a", "1\n"), ("b", "1\n")]);
    let mut diff = TurnDiff::new("/w".into());
    let mut step = |body: &str| {
        let parsed = parse(&wrap(body)).unwrap();
        let before = state.clone();
        let changes = plan(&parsed, Path::new("/w"), &mut |path| Ok(before.get(path).cloned()));
        diff.record(&changes.unwrap());
        state = applied(&state, &wrap(body)).unwrap();
        diff.unified()
    };
    let first = step("*** Update File: a\n@@\n-1\n+2");
    assert!(
        first.contains("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"),
        "{first}"
    );
    let moved = step("*** Update File: b\n*** Move to: c");
    assert!(moved.contains("rename from b\nrename to c"), "{moved}");
    let added = step("*** Add File: d\n+x");
    assert!(added.contains("new file mode 100644\n--- /dev/null\n+++ b/d\n"), "{added}");
    assert!(!step("*** Delete File: d").contains("b/d"));
    assert!(!step("*** Update File: a\n@@\n-2\n+1").contains("a/a"));
    assert!(step("*** Delete File: c").contains("deleted file mode"));
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-c]{0,2}", 0..12)
}

proptest! {
    #[test]
    fn reading_never_panics(text in "(?s).{0,200}", body in "[*@+ \\-a-zA-Z:\n]{0,200}") {
        let _ = parse(&text);
        let _ = parse(&wrap(&body));
        let _ = embedded(&text);
        let _ = embedded(&format!("apply_patch <<'EOF'\n{body}"));
    }

    #[test]
    fn a_whole_file_hunk_gives_the_result(before in lines(), after in lines()) {
        let join = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        prop_assume!(!before.is_empty() && !after.is_empty());
        let removed: String = before.iter().map(|line| format!("-{line}\n")).collect();
        let added: String = after.iter().map(|line| format!("+{line}\n")).collect();
        let body = format!("*** Update File: f\n@@\n{removed}{added}");
        let result = applied(&files(&[("f", &join(&before))]), &wrap(body.trim_end_matches('\n'))).unwrap();
        prop_assert_eq!(result, files(&[("f", &join(&after))]));
    }
}
