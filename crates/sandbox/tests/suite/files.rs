//! Changes of files: all or nothing, within the policy.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use policy::{ReadAccess, SandboxPolicy};
use sandbox::ErrorKind;
use sandbox::Resolved;
use sandbox::files::{Action, Change, apply, apply_approved, destinations};

fn write(path: PathBuf, contents: &str) -> Change {
    let action = Action::Write { contents: contents.into(), create_parents: true, mode_of: None };
    Change { path, action }
}

fn remove(path: PathBuf) -> Change {
    Change { path, action: Action::Remove }
}

fn limits(root: &Path) -> Resolved {
    let policy = SandboxPolicy::WorkspaceWrite {
        writable_roots: vec![root.to_owned()],
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: true,
        exclude_tmpdir: true,
    }
    .rooted(Path::new("/"));
    Resolved::new(&policy, None)
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// Every entry below `folder` with its content.
fn tree(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.push((path.clone(), "folder".into()));
            found.extend(tree(&path));
        } else {
            found.push((path.clone(), fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn files_are_created_replaced_moved_and_removed() {
    for limited in [true, false] {
        let (_guard, dir) = folder();
        fs::write(dir.join("replaced"), "old").unwrap();
        fs::write(dir.join("removed"), "old").unwrap();
        fs::write(dir.join("from"), "moved").unwrap();
        fs::set_permissions(dir.join("replaced"), fs::Permissions::from_mode(0o751)).unwrap();
        let changes = [
            remove(dir.join("from")),
            write(dir.join("to/deep/file"), "moved"),
            write(dir.join("replaced"), "new"),
            remove(dir.join("removed")),
        ];
        let limits = limits(&dir);
        apply(&changes, limited.then_some(&limits)).unwrap();
        let expect = [
            ("replaced", "new"),
            ("to", "folder"),
            ("to/deep", "folder"),
            ("to/deep/file", "moved"),
        ];
        assert_eq!(tree(&dir), expect.map(|(path, text)| (dir.join(path), text.to_string())));
        assert_eq!(fs::metadata(dir.join("replaced")).unwrap().permissions().mode() & 0o777, 0o751);
    }
}

#[test]
fn a_file_that_moves_keeps_its_mode_but_not_the_bits_that_change_who_runs_it() {
    let (_guard, dir) = folder();
    let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o7777;
    fs::write(dir.join("from"), "old").unwrap();
    fs::set_permissions(dir.join("from"), fs::Permissions::from_mode(0o4750)).unwrap();
    fs::write(dir.join("replaced"), "old").unwrap();
    for (name, expect) in [("new", 0o750), ("replaced", 0o750)] {
        let mode_of = Some(dir.join("from"));
        let action = Action::Write { contents: b"x".into(), create_parents: false, mode_of };
        apply(&[Change { path: dir.join(name), action }], None).unwrap();
        assert_eq!(mode(name), expect, "{name}");
    }
    let mode_of = Some(dir.join("missing"));
    let action = Action::Write { contents: b"x".into(), create_parents: false, mode_of };
    let failed = apply(&[Change { path: dir.join("other"), action }], None);
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
    assert!(!dir.join("other").exists());
}

#[test]
fn a_failing_change_leaves_everything_as_it_was() {
    let (_guard, dir) = folder();
    fs::write(dir.join("a"), "a").unwrap();
    fs::write(dir.join("b"), "b").unwrap();
    fs::create_dir(dir.join("folder")).unwrap();
    fs::create_dir(dir.join(".git")).unwrap();
    symlink("/etc/hostname", dir.join("link")).unwrap();
    let before = tree(&dir);
    let limits = limits(&dir);
    let check = |failing: Change| {
        let changes = [
            write(dir.join("a"), "new"),
            write(dir.join("new/deep/file"), "new"),
            remove(dir.join("b")),
            failing,
        ];
        let error = apply(&changes, Some(&limits)).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::NotRestored, "{error}");
        assert_eq!(tree(&dir), before, "{error}");
    };
    check(remove(dir.join("missing")));
    check(remove(dir.join("folder")));
    check(write(dir.join("folder"), "x"));
    check(write(dir.join("a/below-a-file"), "x"));
    check(write(dir.join("link"), "x"));
    check(write(dir.join(".git/config"), "x"));
    check(write(dir.join(".GIT/config"), "x"));
    check(write(dir.join("../outside"), "x"));
    check(write(PathBuf::from("relative"), "x"));
    check(write(dir.join("a"), "twice"));
    check(write(dir.join("folder/../a"), "twice"));
    let no_parents = Action::Write { contents: vec![], create_parents: false, mode_of: None };
    check(Change { path: dir.join("none/file"), action: no_parents });
}

/// A commit that fails midway is undone. Here one change creates the folder `x`, so that the file
/// `x` of a later change cannot be put in place. No check before the commit finds this conflict.
#[test]
fn committed_changes_are_undone() {
    let (_guard, dir) = folder();
    fs::write(dir.join("a"), "a").unwrap();
    fs::write(dir.join("b"), "b").unwrap();
    let before = tree(&dir);
    fs::create_dir(dir.join("f")).unwrap();
    let changes = [
        write(dir.join("a"), "new"),
        write(dir.join("x/file"), "1"),
        write(dir.join("x"), "2"),
        remove(dir.join("b")),
    ];
    assert!(apply(&changes, None).is_err());
    fs::remove_dir(dir.join("f")).unwrap();
    assert_eq!(tree(&dir), before);
}

/// The same attacks with commands are in `hostile.txt`.
#[test]
fn targets_of_protected_names_are_not_changed() {
    let check = |setup: &str, target: &str, removes: bool| {
        let change = |dir: &Path| match removes {
            true => remove(dir.join(target)),
            false => write(dir.join(target), "new"),
        };
        let prepared = || {
            let (guard, dir) = folder();
            let mut shell = std::process::Command::new("sh");
            let set_up = shell.args(["-ec", setup]).current_dir(&dir).status().unwrap();
            assert!(set_up.success(), "{setup}");
            (guard, dir)
        };
        let (_guard, dir) = prepared();
        let before = tree(&dir);
        let error = apply(&[change(&dir)], Some(&limits(&dir))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{setup}: {target}: {error}");
        assert_eq!(tree(&dir), before, "{setup}: {target}");
        // Without the links the change is allowed.
        let (_guard, dir) = prepared();
        for name in [".agent", ".git"] {
            let _ = fs::remove_file(dir.join(name)).or_else(|_| fs::remove_dir_all(dir.join(name)));
        }
        apply(&[change(&dir)], Some(&limits(&dir))).unwrap();
    };
    for (setup, target) in [
        ("mkdir decoy; ln -s decoy .agent", "decoy/config.toml"),
        ("mkdir decoy; ln -s decoy .agent", "decoy/rules/x.rules"),
        ("mkdir decoy; ln -s decoy .agent; ln -s decoy way", "way/config.toml"),
        ("ln -s decoy .agent", "decoy/config.toml"),
        ("ln -s a/b .agent", "a/b/config.toml"),
        ("ln -s a/b .agent", "a/other"),
        ("mkdir a decoy; ln -s ../decoy a/one; ln -s a/one .agent", "decoy/config.toml"),
        ("mkdir .agent; echo a > x; ln -s ../x .agent/config.toml", "x"),
        ("mkdir .agent; ln -s ../x .agent/config.toml", "x"),
        ("mkdir -p .agent/skills k; ln -s ../../k .agent/skills/s", "k/SKILL.md"),
        ("mkdir -p .git hooks; ln -s ../hooks .git/hooks", "hooks/pre-commit"),
        ("mkdir store; echo 'gitdir: store' > .git", "store/config"),
        ("mkdir store; echo 'gitdir: store' > p; ln -s p .git", "store/config"),
        ("mkdir store; echo 'gitdir: store' > p; ln -s p .git", "p"),
        ("mkdir wt main; echo ../main > wt/commondir; echo 'gitdir: wt' > .git", "main/config"),
    ] {
        check(setup, target, false);
    }
    check("mkdir a decoy; ln -s ../decoy a/one; ln -s a/one .agent", "a/one", true);
    check("mkdir .agent; echo a > x; ln -s ../x .agent/config.toml", "x", true);
}

/// A command that runs meanwhile can change where a path leads.
#[test]
fn only_the_approved_file_is_changed() {
    let (_guard, dir) = folder();
    for name in ["one", "two"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    symlink("one", dir.join("link")).unwrap();
    let changes = [write(dir.join("link/file"), "new")];
    let approved = destinations(&changes).unwrap();
    assert_eq!(approved, [dir.join("one/file")]);
    fs::remove_file(dir.join("link")).unwrap();
    symlink("two", dir.join("link")).unwrap();
    let error = apply_approved(&changes, &approved, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TargetChanged, "{error}");
    assert!(!dir.join("one/file").exists() && !dir.join("two/file").exists());
    fs::remove_file(dir.join("link")).unwrap();
    symlink("one", dir.join("link")).unwrap();
    apply_approved(&changes, &approved, None).unwrap();
    assert_eq!(fs::read_to_string(dir.join("one/file")).unwrap(), "new");
}

#[test]
fn links_within_the_root_are_followed_for_content_and_removed_as_links() {
    let (_guard, dir) = folder();
    fs::create_dir(dir.join("real")).unwrap();
    fs::write(dir.join("real/file"), "old").unwrap();
    symlink("real/file", dir.join("link")).unwrap();
    symlink("real", dir.join("folder")).unwrap();
    let limits = limits(&dir);
    apply(&[write(dir.join("link"), "new"), write(dir.join("folder/other"), "x")], Some(&limits))
        .unwrap();
    assert_eq!(fs::read_to_string(dir.join("real/file")).unwrap(), "new");
    assert_eq!(fs::read_to_string(dir.join("real/other")).unwrap(), "x");
    apply(&[remove(dir.join("link"))], Some(&limits)).unwrap();
    assert!(!dir.join("link").is_symlink() && dir.join("real/file").exists());
}
