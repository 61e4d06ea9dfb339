//! Commands on machines without namespaces, whose supervisor changes files and connects for them: what they can do as
//! well as elsewhere, and attempts to make the supervisor do more.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{command, folder, namespaces, profile, read_only, run, sandbox, workspace};
use policy::{Access, RootedPolicy};
use sandbox::{Layer, Sandbox};

const EVERYDAY: &str = include_str!("../everyday.txt");

/// The entries of a folder with their kinds, modes and, of files that say the same each time, lengths.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).unwrap().map(Result::unwrap) {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let is_same = !["repo", "tree", "copy", "app", "home", "cache", "environment"]
                .iter()
                .any(|varies| name.starts_with(varies));
            let length = if meta.is_file() && is_same { meta.len() } else { 0 };
            if meta.is_dir() && is_same {
                pending.push(path);
            }
            found.insert(name, format!("{:o} {length}", meta.mode()));
        }
    }
    found
}

fn new_folder() -> (tempfile::TempDir, PathBuf) {
    let (guard, dir) = folder();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    fs::write(dir.join("file"), "old\n").unwrap();
    fs::write(dir.join("sub/inner"), "inner\n").unwrap();
    fs::write(dir.join("prog.c"), "int main(void) { return 0; }\n").unwrap();
    (guard, dir)
}

async fn bash(sandbox: &Sandbox, script: &str, dir: &Path, policy: RootedPolicy) -> (bool, String) {
    let mut spawn = command(&["bash", "-e", "-c", script], policy);
    spawn.cwd = dir.to_owned();
    for (name, value) in std::env::vars_os() {
        if ["PATH", "HOME", "RUSTUP_HOME"].iter().any(|kept| name == *kept) {
            spawn.env.retain(|(known, _)| *known != name);
            spawn.env.push((name, value));
        }
    }
    let tmp = dir.join("sub");
    spawn.env.extend([("TMPDIR".into(), tmp.into()), ("LC_ALL".into(), "C".into())]);
    let ran = run(sandbox, spawn).await;
    (ran.ok(), format!("{ran:?}"))
}

fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

#[tokio::test]
async fn everyday_commands_work_as_with_namespaces() {
    let (landlock, whole) = (sandbox(Layer::Landlock), sandbox(Layer::Namespaces));
    let mut different = Vec::new();
    let mut ran = 0;
    for row in EVERYDAY.lines().filter(|line| !line.starts_with('#')) {
        let (script, needs) = row.rsplit_once('\t').unwrap_or((row, "sh"));
        if !exists(needs) {
            let _ = writeln!(std::io::stderr(), "not tested without {needs}: {script}");
            continue;
        }
        ran += 1;
        let (_guard, dir) = new_folder();
        let (ok, said) = bash(&landlock, script, &dir, workspace(&dir)).await;
        if !ok {
            different.push(format!("{script}\n{said}"));
        }
        if namespaces() {
            let (_guard, other) = new_folder();
            let (ok, said) = bash(&whole, script, &other, workspace(&other)).await;
            if !ok {
                different.push(format!("with namespaces: {script}\n{said}"));
            }
            let (here, there) = (tree(&dir), tree(&other));
            if here != there {
                different.push(format!("{script}\n{here:#?}\n{there:#?}"));
            }
        }
    }
    assert!(ran >= 50, "{ran} rows");
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

#[tokio::test]
async fn what_the_policy_forbids_stays_forbidden() {
    let sandbox = sandbox(Layer::Landlock);
    let (_outer, outside) = folder();
    fs::write(outside.join("secret"), "plum").unwrap();
    let (_guard, dir) = new_folder();
    fs::create_dir_all(dir.join(".git/hooks")).unwrap();
    fs::write(dir.join(".git/config"), "old").unwrap();
    symlink(&outside, dir.join("out")).unwrap();
    symlink(".git", dir.join("sub/git")).unwrap();
    let before = (fs::metadata(outside.join("secret")).unwrap(), tree(&outside));
    for script in [
        "touch .git/new",
        "mkdir .git/new",
        "ln -s x .git/new",
        "mkfifo .git/new",
        "ln file .git/new",
        "mv file .git/new",
        "mv -T sub .git/hooks",
        "mv .git/config taken",
        "mv .git sub/",
        "ln .git/config taken",
        "rm .git/config",
        "rmdir .git/hooks",
        "chmod 777 .git/config",
        "chmod 777 sub/git/config",
        "touch -d 2001-01-01 .git/config",
        "chown \"$(id -u)\" .git/config",
        "truncate -s 0 .git/config",
        "echo x > sub/../.git/config",
        "echo x > sub/git/../.git/config",
        "echo x >> \"$PWD/.git/config\"",
        "ln -s .git/config way; echo x > way",
        "ln -s .git way2; touch way2/new",
        "mkdir .agent",
        "mkdir .AGENT",
        "mv sub .agent",
        "ln -s sub .agent",
        "touch .agent",
        "echo x > out/secret",
        "touch out/new",
        "chmod 777 out/secret",
        "chmod 777 out",
        "touch -d 2001-01-01 out/secret",
        "ln out/secret taken2",
        "ln -L out/secret taken3",
        "mv out/secret taken4",
        "mv file out/new",
        "rm out/secret",
        "truncate -s 0 out/secret",
        "exec 3< out/secret; chmod 777 /proc/self/fd/3",
        "exec 3< .git/config; python3 -c 'import os; os.fchmod(3, 0o777)'",
        "exec 3< .git/config; python3 -c 'import os; os.utime(3, (1, 2))'",
        "cd out && touch new",
        "cd .git && touch new",
        "python3 -c 'import os; d=os.open(\".git\", os.O_RDONLY); os.open(\"n\", os.O_CREAT|os.O_RDWR, dir_fd=d)'",
        "python3 -c 'import os; os.mknod(\"d\", 0o20666, os.makedev(1, 3))'",
        "mv \"$PWD\" \"$PWD.moved\"",
        "rm -rf \"$PWD\"/.git",
    ] {
        let (ok, said) = bash(&sandbox, script, &dir, workspace(&dir)).await;
        assert!(!ok, "{script}: {said}");
        assert_eq!(fs::read_to_string(dir.join(".git/config")).unwrap(), "old", "{script}");
        let mode = fs::metadata(dir.join(".git/config")).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o022, 0, "{script}");
        assert!(!dir.join(".agent").exists() && !dir.join(".AGENT").exists(), "{script}");
        assert!(!dir.join(".git/new").exists() && dir.join(".git/hooks").is_dir(), "{script}");
        let meta = fs::metadata(outside.join("secret")).unwrap();
        let kept = |meta: &fs::Metadata| (meta.mode(), meta.mtime(), meta.nlink(), meta.len());
        assert_eq!(kept(&meta), kept(&before.0), "{script}");
        assert_eq!(tree(&outside), before.1, "{script}");
    }
}

/// A thread changes the path while another makes calls with it, and a folder is swapped for a link.
#[tokio::test]
async fn races_win_nothing() {
    const PROGRAM: &str = r#"
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
out, end = sys.argv[1].encode(), time.monotonic() + 2
good, bad = b"a/made", out[:6]
buffer = ctypes.create_string_buffer(256)
os.mkdir("a"); os.symlink(sys.argv[1], "link")
def flip():
    while time.monotonic() < end:
        buffer.value = b"./a/made"
        buffer.value = out + b"/made"
def swap():
    while time.monotonic() < end:
        try:
            os.rename("a", "b"); os.rename("link", "a"); os.rename("a", "link"); os.rename("b", "a")
        except OSError: pass
for target in (flip, swap, swap): threading.Thread(target=target).start()
while time.monotonic() < end:
    for call in (lambda: libc.mkdir(buffer, 0o777), lambda: libc.chmod(buffer, 0o777),
                 lambda: libc.rmdir(buffer), lambda: libc.creat(b"a/made", 0o777),
                 lambda: libc.chmod(b"a/kept", 0o777), lambda: libc.unlink(b"a/kept"),
                 lambda: libc.rename(b"a/kept", b"kept"), lambda: libc.link(b"a/kept", b"more"),
                 lambda: libc.truncate(b"a/kept", 0)): call()
"#;
    let (_outer, outside) = folder();
    fs::write(outside.join("kept"), "kept").unwrap();
    let kept = fs::metadata(outside.join("kept")).unwrap();
    let (_guard, dir) = new_folder();
    let mut spawn =
        command(&["python3", "-c", PROGRAM, outside.to_str().unwrap()], workspace(&dir));
    spawn.cwd = dir.clone();
    let ran = run(&sandbox(Layer::Landlock), spawn).await;
    assert!(ran.ok(), "{ran:?}");
    let after = fs::metadata(outside.join("kept")).unwrap();
    let facts = |meta: &fs::Metadata| (meta.mode(), meta.nlink(), meta.len(), meta.ino());
    assert_eq!(facts(&after), facts(&kept));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{:?}", tree(&outside));
}

#[tokio::test]
async fn profiles_hold_without_namespaces() {
    let (_guard, dir) = new_folder();
    fs::create_dir_all(dir.join("secret/open")).unwrap();
    fs::write(dir.join("secret/key"), "plum").unwrap();
    fs::write(dir.join("secret/open/said"), "said").unwrap();
    fs::create_dir(dir.join("fixed")).unwrap();
    symlink("secret", dir.join("way")).unwrap();
    let policy = profile(
        vec![
            ("/".into(), Access::Read),
            (dir.clone(), Access::Write),
            (dir.join("fixed"), Access::Read),
            (dir.join("secret"), Access::None),
            (dir.join("secret/open"), Access::Read),
        ],
        true,
    );
    let sandbox = sandbox(Layer::Landlock);
    for (script, expect) in [
        ("cat file sub/inner && ls > /dev/null", true),
        ("echo x > new && cat new && mkdir made && echo y > made/y && cat made/y", true),
        ("ls -la . > listing && cat listing", true),
        ("cat secret/open/said", true),
        ("cat secret/key", false),
        ("cat way/key", false),
        ("cat sub/../secret/key", false),
        ("ls secret", false),
        ("exec 3< secret/key", false),
        ("mv secret taken", false),
        ("ln secret/key taken", false),
        ("cp secret/key taken", false),
        ("echo x > fixed/new", false),
        ("echo x > secret/new", false),
        ("mv fixed loose", false),
        ("python3 -c 'import os; os.open(\"secret/key\", os.O_RDONLY)'", false),
    ] {
        let (ok, said) = bash(&sandbox, script, &dir, policy.clone()).await;
        assert_eq!(ok, expect, "{script}: {said}");
        assert!(!said.contains("plum"), "{script}: {said}");
    }
}

/// Its supervisor ends with it, and so do the calls that wait.
#[tokio::test]
async fn a_call_that_waits_ends_with_the_command() {
    let (_guard, dir) = new_folder();
    let sandbox = sandbox(Layer::Landlock);
    let script = "mkfifo pipe; for i in 1 2 3; do (echo x > pipe) & done; exit 3";
    let mut spawn = command(&["bash", "-c", script], workspace(&dir));
    spawn.cwd = dir.clone();
    let ran = run(&sandbox, spawn).await;
    assert_eq!(ran.exit.code, Some(3), "{ran:?}");
    let ran = run(&sandbox, command(&["true"], read_only())).await;
    assert!(ran.ok(), "{ran:?}");
}
