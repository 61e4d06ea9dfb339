//! What ignore rules leave out: compared with the walker of the crate `ignore`, which `fd` and `rg` use.

use std::path::Path;
use std::process::Command;

use file_search::{Index, Indexes};
use ignore::WalkBuilder;
use proptest::prelude::*;

use crate::support::{LIMIT, add, folder, found, search};

/// What the walker finds below `root`.
fn expected(root: &Path) -> usize {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false).git_global(false).filter_entry(|entry| entry.file_name() != ".git");
    walk.build().filter_map(Result::ok).filter(|entry| entry.depth() > 0).count()
}

fn entries(root: &Path) -> usize {
    let index = Indexes::new(None).open(root).unwrap();
    assert!(index.walked(LIMIT));
    Index::entries(&index)
}

fn rule() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]",
        "/[ab]",
        "!?[ab]/",
        "!?[ab]\\*",
        "!?[ab]/[abc]",
        "!?\\*\\*/[abc]",
        "#[ab]",
        "\\[",
        "[ab]/\\*\\*",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn an_index_has_what_the_walker_of_fd_finds(
        files in proptest::collection::vec("[abc](/[abc]){0,3}", 1..12),
        rules in proptest::collection::vec(
            ("(|a/|b/|a/b/)", "(\\.gitignore|\\.ignore)", proptest::collection::vec(rule(), 1..4)), 0..4,
        ),
        repositories in proptest::collection::vec("(|a/|b/|a/b/|r/|r/a/)", 0..3),
        exclude in proptest::option::of(rule()),
    ) {
        let top = folder(["r/"]);
        // The root has rules above it.
        let root = top.path().join("r");
        for file in &files {
            let path = root.join(file);
            let _ = std::fs::create_dir_all(path.parent().unwrap());
            let _ = std::fs::write(path, "");
        }
        for (at, (place, name, lines)) in rules.iter().enumerate() {
            let place = if at == 0 { top.path().join(place) } else { root.join(place) };
            let _ = std::fs::write(place.join(name), lines.join("\n"));
        }
        for place in repositories {
            let git = top.path().join(place).join(".git");
            if git.parent().unwrap().is_dir() {
                let _ = std::fs::create_dir_all(git.join("info"));
                if let Some(exclude) = &exclude {
                    let _ = std::fs::write(git.join("info/exclude"), exclude);
                }
            }
        }
        prop_assert_eq!(entries(&root), expected(&root));
    }
}

#[test]
fn an_index_has_what_fd_lists() {
    let tree = folder([
        ".git/config",
        ".hidden/x",
        "src/main.rs",
        "target/debug/out",
        "sub/.git/HEAD",
        "sub/keep.log",
        "logs/a.log",
    ]);
    std::fs::write(tree.path().join(".gitignore"), "target\n*.log\n!sub/keep.log\n").unwrap();
    let program = ["fdfind", "fd"].into_iter().find_map(|name| {
        Command::new(name)
            .args(["--hidden", "--exclude", ".git", "."])
            .current_dir(tree.path())
            .output()
            .ok()
    });
    let mut found = found(tree.path(), "");
    found.sort();
    let files =
        [".gitignore", ".hidden", ".hidden/x", "logs", "src", "src/main.rs", "sub", "sub/keep.log"];
    assert_eq!(found, files);
    if let Some(output) = program {
        let listed = String::from_utf8(output.stdout).unwrap();
        let mut listed: Vec<_> = listed
            .lines()
            .map(|line| line.trim_start_matches("./").trim_end_matches('/').to_owned())
            .collect();
        listed.sort();
        assert_eq!(found, listed);
    }
}

#[test]
fn the_users_own_rules_apply_in_repositories() {
    let tree = folder(["plain/a.bak", "repo/.git/HEAD", "repo/a.bak", "repo/b"]);
    let global = tree.path().join("global");
    std::fs::write(&global, "*.bak\n").unwrap();
    let indexes = Indexes::new(Some(global));
    for (root, expected) in [("plain", 1), ("repo", 1)] {
        let index = indexes.open(&tree.path().join(root)).unwrap();
        assert_eq!(search(&index, "").unwrap().len(), expected, "{root}");
    }
}

#[test]
fn worktrees_have_the_rules_of_their_repository() {
    let tree = folder(["repo/.git/info/", "repo/.git/worktrees/w/", "w/a.tmp", "w/b"]);
    let at = |path: &str| tree.path().join(path);
    std::fs::write(at("repo/.git/info/exclude"), "*.tmp").unwrap();
    std::fs::write(at("repo/.git/worktrees/w/commondir"), "../..\n").unwrap();
    let pointer = format!("gitdir: {}\n", at("repo/.git/worktrees/w").display());
    std::fs::write(at("w/.git"), pointer).unwrap();
    assert_eq!(found(&at("w"), ""), ["b"]);
}

#[test]
fn rules_that_cannot_be_read_do_not_stop_a_walk() {
    let tree = folder([".git/info/", "a"]);
    let path = std::ffi::CString::new(tree.path().join(".gitignore").to_str().unwrap()).unwrap();
    // Opening it for reading would wait for a writer.
    let made = Command::new("mkfifo").arg(path.to_str().unwrap()).status().unwrap();
    assert!(made.success());
    add(tree.path(), Path::new(".ignore/"));
    std::fs::write(tree.path().join(".git/info/exclude"), vec![b'a'; (1 << 20) + 1]).unwrap();
    let mut found = found(tree.path(), "");
    found.sort();
    assert_eq!(found, [".gitignore", ".ignore", "a"]);
}
