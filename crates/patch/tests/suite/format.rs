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
fn commands_that_are_nothing_but_a_patch() {
    let patch = wrap("*** Add File: a\n+it's");
    let stars = patch.replace("Begin Patch", "begin patch ***");
    let quoted = format!("'{}'", patch.replace('\'', r"'\''"));
    for script in [
        patch.clone(),
        stars.clone(),
        format!("\n  {patch}\n\n"),
        format!("```\n{patch}\n```"),
        format!("apply_patch\n{patch}"),
        format!("apply_patch {patch}"),
        format!("apply_patch <<'EOF'\n{stars}\nEOF"),
        format!("apply_patch <<\\EOF\n{patch}\nEOF"),
        format!("apply_patch {quoted}"),
        quoted.clone(),
        format!("\"{patch}\""),
        format!("bash -lc \"{patch}\""),
        format!("/bin/bash -l -c \"{patch}\""),
        format!("sh -ec {quoted}"),
        format!("\u{feff}{patch}"),
        format!("<<'EOF'\n{patch}\nEOF"),
        patch.replace("*** Begin Patch\n", ""),
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n".to_owned(),
        "apply_patch <<'EOF'\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\nEOF".to_owned(),
    ] {
        let found = embedded(&script).unwrap_or_else(|| panic!("{script}"));
        assert!(parse(&found.patch).is_ok(), "{script}: {found:?}");
        assert_eq!(found.workdir, None, "{script}");
        assert!(!is_mixed(&script), "{script}");
    }
    let found = embedded(&format!("cd src && {patch}")).unwrap();
    assert_eq!(found.workdir.as_deref(), Some("src"));
    // Its error is that of the tool.
    let found = embedded("*** Begin Patch\n*** Add File: a\n+x\nls").unwrap();
    assert!(parse(&found.patch).is_err());
    for argv in [
        vec![patch.as_str()],
        vec!["apply_patch", &patch],
        vec!["bash", "-lc", &patch],
        vec!["bash", "-lc", &stars],
        vec!["/bin/sh", "-l", "-c", &patch],
        vec!["zsh", "-e", "-u", "-c", &quoted],
    ] {
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        assert!(embedded_argv(&argv).is_some_and(|it| parse(&it.patch).is_ok()), "{argv:?}");
        assert!(!is_mixed_argv(&argv), "{argv:?}");
    }
}

#[test]
fn commands_that_would_run_a_patch() {
    let patch = wrap("*** Add File: a\n+x");
    for (script, mixed) in [
        (format!("ls\n{patch}"), true),
        (format!("{patch}\nls"), true),
        (format!("cd $HOME\n{patch}"), true),
        (format!("set -e; {patch}"), true),
        (format!("cat <<'EOF' | apply_patch\n{patch}\nEOF"), true),
        (format!("echo '{patch}' | apply_patch"), true),
        (format!("apply_patch \"$(cat <<'EOF'\n{patch}\nEOF\n)\""), true),
        (format!("cat > p <<'EOF'\n{patch}\nEOF\napply_patch < p"), true),
        (format!("if true; then apply_patch <<'EOF'\n{patch}\nEOF\nfi"), true),
        (format!("FOO=1 apply_patch <<'EOF'\n{patch}\nEOF"), true),
        (format!("bash <<'EOF'\n{patch}\nEOF"), true),
        (format!("bash 2>&1 <<'EOF'\n{patch}\nEOF"), true),
        (format!("cat <<-EOF | sudo bash -s\n\t{}\n\tEOF", patch.replace('\n', "\n\t")), true),
        (format!("bash -lc '{patch}' && ls"), true),
        (format!("bash -c \"{}\"", patch.replace('x', "$x")), true),
        (format!("bash -c \"$(cat <<'EOF'\n{patch}\nEOF\n)\""), true),
        (format!("bash -c 'sh -c \"ls; {patch}\"'"), true),
        (format!("bash -lc apply_patch \"{patch}\""), true),
        (format!("eval '{patch}'"), true),
        ("ls\n*** Update File: a\n@@\n-x\n+y\n*** End Patch".to_owned(), true),
        ("ls\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n".to_owned(), true),
        // Texts of other commands.
        ("git apply <<'EOF'\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\nEOF".to_owned(), false),
        ("patch -p1 <<'EOF'\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\nEOF".to_owned(), false),
        ("diff --git a/x b/x | head".to_owned(), false),
        (format!("cat > p <<'EOF'\n{patch}\nEOF"), false),
        (format!("cat > p <<'EOF' && bash test.sh\n{patch}\nEOF"), false),
        (format!("cat > p <<'A' && cat > q <<'B'\n{patch}\nA\n{patch}\nB\nls"), false),
        (format!("bash <<'EOF'\ncat > p <<'P'\n{patch}\nP\nEOF"), false),
        (format!("bash -c \"cat > p <<'EOF'\n{patch}\nEOF\""), false),
        (format!("git commit -m '{patch}' # apply_patch"), false),
        (format!("printf '%s' \"{patch}\" > p || bash x"), false),
        ("grep -rn '*** Begin Patch' src | head".to_owned(), false),
        ("rg \"apply_patch|[*]{3} Begin Patch\"".to_owned(), false),
        ("echo *** Begin Patch".to_owned(), false),
    ] {
        assert_eq!(is_mixed(&script), mixed, "{script}");
        let argv = ["bash", "-lc", &script].map(str::to_owned);
        assert_eq!(is_mixed_argv(&argv), mixed, "{script}");
        assert_eq!((embedded(&script), embedded_argv(&argv)), (None, None), "{script}");
    }
    for argv in [
        vec!["bash", "-lc", "apply_patch", &patch],
        vec!["apply_patch", "-p1", &patch],
        vec!["env", "A=b", "bash", "-c", &patch],
        vec![patch.as_str(), "x"],
    ] {
        let argv: Vec<String> = argv.into_iter().map(str::to_owned).collect();
        assert!(is_mixed_argv(&argv), "{argv:?}");
    }
    let argv = ["git", "commit", "-m", &patch].map(str::to_owned);
    assert!(!is_mixed_argv(&argv));
    // Scripts in scripts are followed to a bound.
    let deep = (0..12).fold(patch, |it, n| format!("bash <<'E{n}'\nls\n{it}\nE{n}"));
    assert!(is_mixed(&deep));
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
        let _ = is_mixed(&format!("{text}\n*** Begin Patch\n{body}"));
        let _ = is_mixed(&format!("bash <<E {text}\n*** Begin Patch\n{body}"));
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
