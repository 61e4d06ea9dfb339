//! Merges that fail in the middle, or whose program was killed.

use std::process::Command;

use super::merging::merge;
use super::*;

const TOKEN: &str = "agentd t1";

/// The journal of a merge of the worktree `folder` into the checkout `main`, as a killed program leaves it.
fn write_journal(main: &Path, folder: &Path, (from, to): (&str, &str), commit: Value) {
    let journal = json!({
        "version": 1, "token": TOKEN, "repository": main, "common": main.join(".git"),
        "reference": "refs/heads/main", "from": from, "to": to,
        "checkout": { "root": main, "own": main.join(".git") }, "commit": commit, "kept": null,
    });
    write(folder.parent().unwrap(), ".merge", &journal.to_string());
}

/// The state of a checkout: its files, its index and its branches.
fn state(main: &Path) -> (String, String, String) {
    let status = git(main, &["status", "--porcelain=v2", "--branch"]);
    (status, git(main, &["for-each-ref"]), git(main, &["ls-files", "--stage"]))
}

/// A worktree whose commit changes, adds and deletes files and puts a folder in the place of a file; returns the
/// commits of the checkout and of the worktree.
fn commit_changes(main: &Path, folder: &Path) -> (String, String) {
    write(folder, "a.txt", "theirs\n");
    write(folder, "new.txt", "a longer text of theirs\n");
    std::fs::remove_file(folder.join("src/b.txt")).unwrap();
    std::fs::create_dir_all(folder.join("src/b.txt")).unwrap();
    write(folder, "src/b.txt/inner", "inner\n");
    commit(folder, "theirs");
    (git(main, &["rev-parse", "HEAD"]), git(folder, &["rev-parse", "HEAD"]))
}

/// What git leaves when it is killed: files of the merge, one of them in part, and locks.
fn leave_half(main: &Path) {
    write(main, "a.txt", "theirs\n");
    write(main, "new.txt", "a longer");
    std::fs::remove_file(main.join("src/b.txt")).unwrap();
    std::fs::create_dir(main.join("src/b.txt")).unwrap();
    write(main, "src/b.txt/inner", "inner\n");
    write(main, ".git/index.lock", TOKEN);
    write(main, ".git/agentd-index", "half");
    write(main, ".git/agentd-index.lock", "");
}

#[tokio::test]
async fn what_a_killed_merge_changed_is_put_back() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    write(&main, "kept.txt", "kept\n");
    commit(&main, "kept");
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    let commits = commit_changes(&main, &folder);
    // The user's own changes stay.
    write(&main, "kept.txt", "in work\n");
    write(&main, "mine.txt", "mine\n");
    let before = state(&main);
    write_journal(&main, &folder, (&commits.0, &commits.1), Value::Null);
    leave_half(&main);
    assert_eq!(list(&mut peer).await[0].get("problem"), None);
    assert_eq!(state(&main), before);
    assert_eq!(text(&main, "a.txt"), "one\ntwo\nthree\n");
    assert!(!main.join(".git/index.lock").exists() && !main.join(".git/agentd-index").exists());
    assert!(!folder.parent().unwrap().join(".merge").exists());
    // Also before the next merge, which then is an ordinary one.
    write_journal(&main, &folder, (&commits.0, &commits.1), Value::Null);
    leave_half(&main);
    assert_eq!(peer.call("worktree/merge", merge(&folder, json!({}))).await["merged"], 1);
    assert_eq!(text(&main, "new.txt"), "a longer text of theirs\n");
    assert_eq!(git(&main, &["status", "--porcelain"]), "M kept.txt\n?? mine.txt");
}

#[tokio::test]
async fn what_the_user_did_since_is_left_alone() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    let commits = commit_changes(&main, &folder);
    write_journal(&main, &folder, (&commits.0, &commits.1), Value::Null);
    leave_half(&main);
    write(&main, "a.txt", "theirs\nand mine\n");
    write(&main, "new.txt", "mine\n");
    list(&mut peer).await;
    assert_eq!(text(&main, "a.txt"), "theirs\nand mine\n");
    assert_eq!(text(&main, "new.txt"), "mine\n");
    assert_eq!(text(&main, "src/b.txt"), "b\n");
    // Work on another commit is none of its business.
    git(&main, &["checkout", "-q", "-f", "."]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "further"]);
    write_journal(&main, &folder, (&commits.0, &commits.1), Value::Null);
    leave_half(&main);
    list(&mut peer).await;
    assert_eq!(text(&main, "a.txt"), "theirs\n");
    assert!(!main.join(".git/index.lock").exists(), "the lock is this program's");
}

#[tokio::test]
async fn a_lock_of_the_users_and_a_merge_under_way_are_respected() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    let commits = commit_changes(&main, &folder);
    write_journal(&main, &folder, (&commits.0, &commits.1), Value::Null);
    leave_half(&main);
    // Another program has the repository's worktrees.
    let lock = std::fs::File::create(folder.parent().unwrap().join(".lock")).unwrap();
    lock.lock().unwrap();
    list(&mut peer).await;
    assert_eq!(text(&main, "a.txt"), "theirs\n");
    lock.unlock().unwrap();
    write(&main, ".git/index.lock", "DIRC");
    let problem = list(&mut peer).await[0]["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("index.lock exists"), "{problem}");
    assert_eq!(
        (text(&main, "a.txt"), text(&main, ".git/index.lock")),
        ("theirs\n".into(), "DIRC".into())
    );
    let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    assert_eq!(refusal(&fault.data).0, "unfinished");
    std::fs::remove_file(main.join(".git/index.lock")).unwrap();
    list(&mut peer).await;
    assert_eq!(text(&main, "a.txt"), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_merge_that_was_done_but_not_finished_is_finished() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    // The commit of what is uncommitted exists, and the checkout has it; its index and the worktree do not.
    write(&folder, "a.txt", "theirs\n");
    let from = git(&main, &["rev-parse", "HEAD"]);
    let index = main.join(".git/agentd-index");
    std::fs::copy(main.join(".git/index"), &index).unwrap();
    let run = |folder: &Path, arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(folder).env("GIT_INDEX_FILE", &index);
        let done = git.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    run(&folder, &["add", "--all"]);
    let tree = run(&folder, &["write-tree"]);
    let to = git(&main, &["commit-tree", &tree, "-p", &from, "-m", "theirs"]);
    std::fs::copy(main.join(".git/index"), &index).unwrap();
    run(&main, &["merge", "-q", "--ff-only", &to]);
    write(&main, ".git/index.lock", TOKEN);
    let own = main.join(".git/worktrees/x");
    let commit = json!({ "folder": { "root": folder, "own": own }, "from": from, "to": to });
    write_journal(&main, &folder, (&from, &to), commit);
    let found = list(&mut peer).await;
    assert_eq!(found[0]["uncommitted"], json!([]));
    assert_eq!(git(&folder, &["rev-parse", "agentd/x"]), to);
    for folder in [&main, &folder] {
        assert_eq!(git(folder, &["status", "--porcelain"]), "");
        assert_eq!(text(folder, "a.txt"), "theirs\n");
    }
    assert!(!main.join(".git/index.lock").exists() && !own.join("index.lock").exists());
}

#[tokio::test]
async fn files_of_a_merge_that_git_could_not_do_are_put_back() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    // A filter that fails at one file, after others were written.
    let smudge = "x=$(cat); case \"$x\" in *bad*) exit 1;; esac; echo \"$x\"";
    git(&main, &["config", "filter.picky.smudge", smudge]);
    git(&main, &["config", "filter.picky.clean", "cat"]);
    git(&main, &["config", "filter.picky.required", "true"]);
    write(&main, ".gitattributes", "z.txt filter=picky\n");
    write(&main, "z.txt", "good\n");
    commit(&main, "attributes");
    env.write_config(&format!(
        "{}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        text(env.home(), "config.toml"),
        main.display()
    ));
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "a.txt", "theirs\n");
    write(&folder, "new.txt", "new\n");
    write(&folder, "z.txt", "bad\n");
    std::fs::remove_file(folder.join("src/b.txt")).unwrap();
    write(&main, "mine.txt", "mine\n");
    let (before, worktree) = (state(&main), state(&folder));
    let params = merge(&folder, json!({ "commitMessage": "theirs" }));
    let fault = peer.refused("worktree/merge", params).await;
    assert_eq!(refusal(&fault.data).0, "git");
    assert!(fault.message.contains("put back"), "{}", fault.message);
    assert_eq!((state(&main), state(&folder)), (before, worktree));
    assert_eq!(text(&main, "a.txt"), "one\ntwo\nthree\n");
    for rest in [main.join(".git/index.lock"), folder.parent().unwrap().join(".merge")] {
        assert!(!rest.exists(), "{}", rest.display());
    }
    // Nothing stands in the way of another attempt.
    write(&folder, "z.txt", "better\n");
    let params = merge(&folder, json!({ "commitMessage": "theirs" }));
    assert_eq!(peer.call("worktree/merge", params).await["merged"], 1);
    assert_eq!(text(&main, "z.txt"), "better\n");
}
