//! Permission profiles whose rules differ from folder to folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{folder, namespaces, run, sandbox, shell};
use policy::{Access, RootedPolicy};
use proptest::prelude::*;
use sandbox::{Layer, Resolved};

fn profile(rules: &[(&Path, Access)]) -> RootedPolicy {
    let rules = rules.iter().map(|(path, access)| (path.to_path_buf(), *access));
    common::profile(rules.collect(), true)
}

fn tree(dir: &Path) {
    for path in ["w/sub", "w/ro/deep/again", "w/secret/open", "w/.git/hooks", "out", "r"] {
        fs::create_dir_all(dir.join(path)).unwrap();
    }
    for path in [
        "w/file",
        "w/key",
        "w/ro/file",
        "w/secret/file",
        "w/secret/open/file",
        "out/file",
        "r/file",
    ] {
        fs::write(dir.join(path), "text").unwrap();
    }
    symlink(dir.join("out"), dir.join("w/link")).unwrap();
    symlink(dir.join("w/secret"), dir.join("r/link")).unwrap();
}

fn rules(dir: &Path) -> Vec<(PathBuf, Access)> {
    [
        ("w", Access::Write),
        ("w/ro", Access::Read),
        ("w/ro/deep/again", Access::Write),
        ("w/secret", Access::None),
        ("w/secret/open", Access::Read),
        ("w/key", Access::None),
        ("w/unborn", Access::None),
        ("r", Access::Read),
    ]
    .map(|(path, access)| (dir.join(path), access))
    .to_vec()
}

#[tokio::test]
async fn the_deepest_rule_decides() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    tree(&dir);
    let rules = rules(&dir);
    let rules: Vec<(&Path, Access)> = rules.iter().map(|(p, a)| (p.as_path(), *a)).collect();
    let policy = profile(&rules);
    let sandbox = sandbox(Layer::Namespaces);
    let check = async |script: &str, expect: bool| {
        let mut spawn = shell(script, policy.clone());
        spawn.cwd = dir.join("w");
        let ran = run(&sandbox, spawn).await;
        assert_eq!(ran.ok(), expect, "{script}: {ran:?}");
    };
    for (script, expect) in [
        ("echo new > file && grep -q new file", true),
        ("echo new > sub/new", true),
        ("grep -q text ro/file", true),
        ("echo new > ro/file", false),
        ("echo new > ro/new", false),
        ("echo new > ro/deep/new", false),
        ("echo new > ro/deep/again/new", true),
        ("mv ro moved", false),
        ("mv ro/deep moved", false),
        ("rm -r ro/deep/again", false),
        ("cat secret/file", false),
        ("ls secret/file", false),
        ("echo new > secret/new", false),
        ("grep -q text secret/open/file", true),
        ("echo new > secret/open/file", false),
        ("mv secret moved", false),
        ("grep -q text key", false),
        ("echo new > key", false),
        ("rm key", false),
        ("mv key moved", false),
        ("echo new > unborn", false),
        ("mkdir -p unborn/inside", false),
        ("echo new > .git/config", false),
        ("mv .git moved", false),
        ("cat link/file", false),
        ("echo new > link/new", false),
        ("cat ../r/file", true),
        ("echo new > ../r/file", false),
        ("cat ../r/link/file", false),
        ("cat ../out/file", false),
        ("ls ..  | grep -q out", false),
        ("ls /usr/bin/env", true),
    ] {
        check(script, expect).await;
    }
    assert_eq!(fs::read_to_string(dir.join("w/key")).unwrap(), "text");
    assert_eq!(fs::read_to_string(dir.join("w/secret/file")).unwrap(), "text");
    assert!(!dir.join("w/unborn").exists());
}

#[tokio::test]
async fn a_rule_that_names_a_protected_path_grants_it() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    tree(&dir);
    let git = dir.join("w/.git");
    let work = dir.join("w");
    let policy = profile(&[(&work, Access::Write), (&git, Access::Write)]);
    let mut spawn = shell("echo x > .git/config && ! mkdir .agent/x", policy.clone());
    spawn.cwd = work.clone();
    let ran = run(&sandbox(Layer::Namespaces), spawn).await;
    assert!(ran.ok(), "{ran:?}");
    let resolved = Resolved::new(&policy, None);
    assert!(resolved.check_write(&work.join(".git/config")).is_ok());
    assert!(resolved.check_write(&work.join(".agent/config.toml")).is_err());
}

#[tokio::test]
async fn everything_readable_but_one_folder() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    tree(&dir);
    let secret = dir.join("w/secret");
    let policy = profile(&[(Path::new("/"), Access::Read), (&secret, Access::None)]);
    let sandbox = sandbox(Layer::Namespaces);
    for (script, expect) in
        [("cat DIR/w/file", true), ("cat DIR/w/secret/file", false), ("echo x > DIR/w/file", false)]
    {
        let script = script.replace("DIR", dir.to_str().unwrap());
        let ran = run(&sandbox, shell(&script, policy.clone())).await;
        assert_eq!(ran.ok(), expect, "{script}: {ran:?}");
    }
}

#[test]
fn the_servers_own_file_access_follows_the_profile() {
    let (_guard, dir) = folder();
    tree(&dir);
    let resolved = Resolved::new(&common::profile(rules(&dir), false), None);
    for (path, read, write) in [
        ("w/file", true, true),
        ("w/new/deep", true, true),
        ("w/ro/file", true, false),
        ("w/ro/deep/again/x", true, true),
        ("w/secret/file", false, false),
        ("w/secret/open/file", true, false),
        ("w/key", false, false),
        ("w/unborn/x", false, false),
        ("w/.git/config", true, false),
        ("w/link/file", false, false),
        ("r/link/file", false, false),
        ("out/file", false, false),
    ] {
        let path = dir.join(path);
        assert_eq!(resolved.check_read(&path).is_ok(), read, "read {}", path.display());
        assert_eq!(resolved.check_write(&path).is_ok(), write, "write {}", path.display());
    }
}

proptest! {
    /// Compares with a naive implementation: of the rules whose path is a prefix the longest
    /// applies; of several at one path, the strictest.
    #[test]
    fn decisions_equal_a_naive_implementation(
        rules in proptest::collection::vec(("[ab](/[ab]){0,3}", 0..3usize), 0..8),
        asked in "[ab](/[ab]){0,4}",
    ) {
        const ACCESS: [Access; 3] = [Access::None, Access::Read, Access::Write];
        let base = Path::new("/nowhere-at-all");
        let rules: Vec<(PathBuf, Access)> =
            rules.iter().map(|(path, access)| (base.join(path), ACCESS[*access])).collect();
        let asked = base.join(asked);
        let covering = rules.iter().filter(|(path, _)| asked.starts_with(path));
        let deepest = covering.clone().map(|(path, _)| path.components().count()).max();
        let expect = covering
            .filter(|(path, _)| Some(path.components().count()) == deepest)
            .map(|(_, access)| *access)
            .min()
            .unwrap_or(Access::None);
        let resolved = Resolved::new(&common::profile(rules, false), None);
        prop_assert_eq!(resolved.check_read(&asked).is_ok(), expect != Access::None);
    }
}
