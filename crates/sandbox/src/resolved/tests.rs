use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn workspace(writable_roots: Vec<PathBuf>) -> Resolved {
    let policy = SandboxPolicy::WorkspaceWrite {
        writable_roots,
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: true,
        exclude_tmpdir: true,
    };
    Resolved::new(&policy.rooted(Path::new("/")), None)
}

fn may_write(policy: &Resolved, path: &Path) -> bool {
    policy.check_write(path).is_ok()
}

#[test]
fn writes_are_decided_by_the_real_path() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let root = base.join("root");
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::create_dir(base.join("other")).unwrap();
    symlink(base.join("other"), root.join("out")).unwrap();
    symlink(root.join(".git"), root.join("alias")).unwrap();
    symlink(base.join("nowhere"), root.join("dangling")).unwrap();
    let policy = workspace(vec![root.clone()]);
    let check = |path: &str, expect: bool| {
        assert_eq!(may_write(&policy, &base.join(path)), expect, "{path}");
    };
    check("root/new", true);
    check("root/sub/deep/new", true);
    check("root/.gitignore", true);
    check("root/sub/../new", true);
    check("root/.git/config", false);
    check("root/.git", false);
    check("root/.GIT/config", false);
    check("root/.Agent/config.toml", false);
    check("root/alias/hooks/pre-commit", false);
    check("root/out/file", false);
    check("root/dangling", false);
    check("root/missing/../../other/x", false);
    check("root/../other/x", false);
    check("other/x", false);
    check("rootless", false);
    assert!(!may_write(&policy, Path::new("root/new")));
    let full_access = Resolved::new(&RootedPolicy::FULL_ACCESS, None);
    assert!(may_write(&full_access, &root.join(".git/config")));
    let read_only = Resolved::new(&RootedPolicy::READ_ONLY, None);
    assert!(!may_write(&read_only, &root.join("new")));
}

#[test]
fn a_protected_name_of_any_root_takes_precedence() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("sub")).unwrap();
    let config = base.join("sub/.git/config");
    assert!(!may_write(&workspace(vec![base.clone(), base.join("sub")]), &config));
    assert!(may_write(&workspace(vec![base]), &config));
}

#[test]
fn restricted_reads() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir(base.join("in")).unwrap();
    fs::create_dir(base.join("out")).unwrap();
    let read = ReadAccess::Restricted { platform_defaults: true, roots: vec![base.join("in")] };
    let policy = SandboxPolicy::ReadOnly { read, network: false };
    let resolved = Resolved::new(&policy.rooted(Path::new("/")), None);
    assert!(resolved.check_read(&base.join("in/x")).is_ok());
    assert!(resolved.check_read(Path::new("/usr/bin")).is_ok());
    assert!(resolved.check_read(&base.join("out/x")).is_err());
}

#[test]
fn a_root_behind_a_link_made_by_a_command_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    for name in ["outer", "elsewhere", "outer/real"] {
        fs::create_dir(base.join(name)).unwrap();
    }
    symlink(base.join("elsewhere"), base.join("outer/link")).unwrap();
    symlink(base.join("elsewhere"), base.join("given")).unwrap();
    let roots = |names: &[&str]| {
        let found =
            workspace(names.iter().map(|name| base.join(name)).collect()).writable_folders();
        let names = found.iter().map(|path| path.strip_prefix(&base).unwrap().to_owned());
        names.map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(roots(&["outer", "outer/real"]), ["outer", "outer/real"]);
    assert_eq!(roots(&["outer", "outer/link"]), ["outer"]);
    // A link that no command can have made is followed.
    assert_eq!(roots(&["given", "outer"]), ["elsewhere", "outer"]);
    assert_eq!(roots(&["outer/../given"]), ["elsewhere"]);
    assert_eq!(roots(&["outer/link"]), ["elsewhere"]);
}
