//! The resolver and the reading of repositories over real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::rules::{GitUse, PathResolver, Resolver as _};

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn file(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn machine() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for path in ["bin/cat", "bin/multi", "work/cat", "work/bin/cat", "other/tool"] {
        program(&root.join(path));
    }
    symlink("multi", root.join("bin/ls")).unwrap();
    symlink("multi", root.join("bin/rm")).unwrap();
    symlink("../work/cat", root.join("bin/evil")).unwrap();
    symlink("bin", root.join("alias")).unwrap();
    file(&root.join("bin/plain"), "");
    program(&root.join("bin/open"));
    fs::set_permissions(root.join("bin/open"), fs::Permissions::from_mode(0o777)).unwrap();
    (dir, root)
}

#[test]
fn programs() {
    let (_dir, root) = machine();
    let work = root.join("work");
    let check = |path: &[&str], word: &str, expect: Option<&str>| {
        let search = std::env::join_paths(path.iter().map(|entry| match *entry {
            "" | "." => PathBuf::from(entry),
            entry => root.join(entry),
        }));
        let resolver = PathResolver::new(&search.unwrap(), std::slice::from_ref(&work));
        let word = word.replace("ROOT", root.to_str().unwrap());
        let expect = expect.map(|path| root.join(path));
        assert_eq!(resolver.resolve(&word, &work), expect, "{path:?} {word}");
    };
    check(&["bin"], "cat", Some("bin/cat"));
    check(&["alias"], "cat", Some("bin/cat"));
    check(&["none", "bin"], "cat", Some("bin/cat"));
    check(&["bin", "work/bin"], "cat", Some("bin/cat"));
    check(&["work/bin", "bin"], "cat", None);
    check(&["work/bin", "bin"], "ls", Some("bin/ls"));
    check(&["", "bin"], "cat", None);
    check(&[".", "bin"], "cat", None);
    check(&["bin", "."], "cat", Some("bin/cat"));
    check(&["bin", "."], "none", None);
    // One file behind several names stays several programs.
    check(&["bin"], "rm", Some("bin/rm"));
    check(&["bin"], "evil", None);
    check(&["bin"], "plain", None);
    check(&["bin"], "open", None);
    check(&["bin"], "none", None);
    check(&["bin"], "", None);
    check(&["bin"], "a\0b", None);
    check(&["bin"], "./cat", None);
    check(&["bin"], "../bin/cat", Some("bin/cat"));
    check(&["bin"], "../alias/cat", Some("bin/cat"));
    check(&["bin"], "ROOT/other/tool", Some("other/tool"));
    check(&["bin"], "ROOT/work/bin/cat", None);
}

#[test]
fn writable_roots_behind_links() {
    let (_dir, root) = machine();
    symlink("other", root.join("link")).unwrap();
    let resolver = PathResolver::new(root.join("other").as_os_str(), &[root.join("link")]);
    assert_eq!(resolver.resolve("tool", &root), None);
}

#[test]
fn repositories() {
    let check = |config: &str, objects: bool| {
        let dir = tempfile::tempdir().unwrap();
        file(&dir.path().join(".git/config"), config);
        let resolver = PathResolver::new("".as_ref(), &[]);
        let deep = dir.path().join("a/b");
        assert_eq!(resolver.git_is_inert(&deep, GitUse::Objects), objects, "{config:?}");
        assert_eq!(resolver.git_is_inert(&deep, GitUse::WorkTree), objects, "{config:?}");
    };
    check("", true);
    check(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
         [remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
        true,
    );
    check("# c\n; c\n[user] name = x ; c\n", true);
    check("[core]\n\tbare\n", true);
    check("[branch \"a]b\"]\nremote = x", true);
    check("[core]\nfsmonitor = ./x", false);
    check("[core]\r\nfsmonitor = ./x", false);
    check("[CORE] FSMonitor=./x", false);
    check("[core] bare = false \\\n[core] fsmonitor = x", false);
    check("\u{feff}[core]\nfsmonitor = ./x", false);
    check("[core]\nhooksPath = x", false);
    check("[core]\npager = x", false);
    check("[core]\nworktree = /", false);
    check("[diff]\nexternal = x", false);
    check("[diff \"x\"]\ncommand = x", false);
    check("[diff \"x\"]\ntextconv = x", false);
    check("[filter \"x\"]\nclean = x", false);
    check("[include]\npath = x", false);
    check("[includeIf \"gitdir:/\"]\npath = x", false);
    check("[gpg]\nprogram = x", false);
    check("[log]\nshowSignature = true", false);
    check("[alias]\nx = !sh", false);
    check("[remote \"x\"]\nuploadpack = x", false);
    check("[remote \"x\"]\npromisor = true", false);
    check("[extensions]\npartialClone = x", false);
    check("fsmonitor = x", false);
    check("[core\nbare = x", false);
    check("[core]\n= x", false);
    check("[core.x]\nfsmonitor = x", false);
}

#[test]
fn layouts_of_repositories() {
    let resolver = PathResolver::new("".as_ref(), &[]);
    let check = |files: &[(&str, &str)], at: &str, expect: bool| {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            file(&dir.path().join(path), content);
        }
        let found = resolver.git_is_inert(&dir.path().join(at), GitUse::WorkTree);
        assert_eq!(found, expect, "{files:?}");
    };
    const BAD: &str = "[core]\nfsmonitor = x";
    check(&[("x", "")], "", true);
    check(&[(".git", "gitdir: real"), ("real/config", "")], "", true);
    check(&[(".git", "gitdir: real"), ("real/config", BAD)], "", false);
    check(&[(".git", "nonsense")], "", false);
    check(&[("a/.git/config", ""), (".git/config", BAD)], "a/b", true);
    check(&[("a/.git/config", BAD), (".git/config", "")], "a/b", false);
    check(&[("HEAD", ""), ("objects/x", ""), ("config", BAD)], "", false);
    check(&[(".git/config", BAD)], ".git", false);
    check(&[(".git/config", ""), (".git/config.worktree", BAD)], "", false);
    let linked = [(".git", "gitdir: main/worktrees/x"), ("main/worktrees/x/commondir", "../..\n")];
    check(&[linked[0], linked[1], ("main/config", "")], "", true);
    check(&[linked[0], linked[1], ("main/config", BAD)], "", false);
    check(
        &[linked[0], linked[1], ("main/config", ""), ("main/worktrees/x/config.worktree", BAD)],
        "",
        false,
    );
    check(&[(".git/config", ""), (".git/hooks/post-index-change", "")], "", false);
    check(&[(".git/config", ""), (".git/hooks/post-index-change.sample", "")], "", true);
    check(&[(".git/config", ""), (".git/index", "DIRC\0\0\0\x02")], "", true);
    check(&[(".git/config", ""), (".git/sharedindex.1", "")], "", true);
    check(&[(".git/config", ""), (".git/index", "DIRC"), (".git/sharedindex.1", "")], "", false);
}

#[test]
fn submodules_in_the_index() {
    let resolver = PathResolver::new("".as_ref(), &[]);
    let check = |version: u8, at: usize, expect: bool| {
        let dir = tempfile::tempdir().unwrap();
        file(&dir.path().join(".git/config"), "");
        let mut index = b"DIRC\0\0\0\0\0\0\0\x01".to_vec();
        index[7] = version;
        index.resize(at, 1);
        index.extend([0, 0, 0xe0, 0, 1, 1, 1, 1]);
        fs::write(dir.path().join(".git/index"), index).unwrap();
        let found = resolver.git_is_inert(dir.path(), GitUse::WorkTree);
        assert_eq!(found, expect, "version {version} at {at}");
        assert!(resolver.git_is_inert(dir.path(), GitUse::Objects));
    };
    check(2, 36, false);
    check(3, 44, false);
    // A file's size that happens to have the same bytes.
    check(2, 48, true);
    check(4, 48, false);
}
