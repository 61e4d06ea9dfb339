//! `worktree/merge`.

use super::*;

pub(super) fn merge(folder: &Path, more: Value) -> Value {
    let mut params = json!({ "path": folder });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

fn log(folder: &Path) -> String {
    git(folder, &["log", "--topo-order", "--format=%s", "-6"])
}

#[tokio::test]
async fn merges_are_commits_squashed_or_forward() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    // What the user is at work on, and what git ignores, stays.
    write(&main, "mine.txt", "mine\n");
    write(&main, "src/b.txt", "in work\n");
    let (_, folder) = start(&mut peer, "one").await;
    write(&folder, "a.txt", "one\ntwo\nthree\nfour\n");
    let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    assert_eq!(refusal(&fault.data), ("uncommitted".to_owned(), vec!["a.txt".to_owned()]));
    let first = merge(&folder, json!({ "commitMessage": "add four" }));
    let merged = peer.call("worktree/merge", first.clone()).await;
    assert_eq!((&merged["into"], &merged["merged"]), (&json!("main"), &json!(1)));
    assert_eq!(merged["commit"], git(&main, &["rev-parse", "HEAD"]));
    assert_eq!(log(&main), "Merge branch 'agentd/one' into main\nadd four\nfirst");
    assert_eq!(text(&main, "a.txt"), "one\ntwo\nthree\nfour\n");
    assert_eq!(git(&main, &["status", "--porcelain"]), "M src/b.txt\n?? mine.txt");
    let again = peer.call("worktree/merge", first).await;
    assert_eq!((&again["merged"], &again["commit"]), (&json!(0), &merged["commit"]));

    let (_, folder) = start(&mut peer, "two").await;
    for line in ["x", "y"] {
        write(&folder, "a.txt", line);
        commit(&folder, line);
    }
    let squash = merge(&folder, json!({ "strategy": "squash", "message": "all of two" }));
    assert_eq!(peer.call("worktree/merge", squash).await["merged"], 2);
    assert!(log(&main).starts_with("all of two\nMerge branch"), "{}", log(&main));
    // Its own commits are in no branch, and nothing is lost all the same.
    assert_eq!(peer.call("worktree/remove", json!({ "path": folder })).await["saved"], Value::Null);
    assert_eq!(git(&main, &["for-each-ref", "refs/agentd"]), "");

    let (_, folder) = start(&mut peer, "three").await;
    write(&folder, "a.txt", "forward\n");
    commit(&folder, "forward");
    let forward = merge(&folder, json!({ "strategy": "fastForward" }));
    assert_eq!(peer.call("worktree/merge", forward.clone()).await["merged"], 1);
    assert_eq!(git(&main, &["rev-parse", "HEAD"]), git(&folder, &["rev-parse", "HEAD"]));
    write(&folder, "a.txt", "diverged\n");
    commit(&folder, "theirs");
    git(&main, &["commit", "-q", "--allow-empty", "-m", "ours"]);
    let fault = peer.refused("worktree/merge", forward).await;
    assert_eq!(refusal(&fault.data).0, "diverged");
}

#[tokio::test]
async fn a_branch_that_is_not_checked_out_is_merged_into() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    git(&main, &["branch", "release"]);
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "a.txt", "released\n");
    commit(&folder, "released");
    let merged = peer.call("worktree/merge", merge(&folder, json!({ "into": "release" }))).await;
    assert_eq!(
        (&merged["into"], &merged["commit"]),
        (&json!("release"), &json!(git(&main, &["rev-parse", "release"])))
    );
    assert_eq!(git(&main, &["show", "release:a.txt"]), "released");
    assert_eq!(
        (log(&main).as_str(), text(&main, "a.txt").as_str()),
        ("first", "one\ntwo\nthree\n")
    );
    // Another checkout of the user's.
    let other = env.root().join("other");
    git(&main, &["worktree", "add", "-q", other.to_str().unwrap(), "-b", "other"]);
    let fault = peer.refused("worktree/merge", merge(&folder, json!({ "into": "other" }))).await;
    assert!(
        fault.message.contains(&format!("is checked out in {}", other.display())),
        "{}",
        fault.message
    );
    let merged = peer.call("worktree/merge", merge(&folder, json!({ "checkout": other }))).await;
    assert_eq!(
        (merged["into"].as_str(), text(&other, "a.txt").as_str()),
        (Some("other"), "released\n")
    );
    for (into, expected) in [
        ("nowhere", "has no branch"),
        ("release~1", "has no branch"),
        ("--force", "has no branch"),
        ("../x", "has no branch"),
        ("agentd/x", "the branch of the worktree itself"),
    ] {
        let fault = peer.refused("worktree/merge", merge(&folder, json!({ "into": into }))).await;
        assert!(fault.message.contains(expected), "{into}: {}", fault.message);
    }
    git(&main, &["checkout", "-q", "--detach"]);
    let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    assert!(fault.message.contains("has no branch checked out; give `into`"), "{}", fault.message);
    let foreign = env.root().join("foreign");
    repository(&foreign);
    let fault =
        peer.refused("worktree/merge", merge(&folder, json!({ "checkout": foreign }))).await;
    assert!(fault.message.contains("another repository"), "{}", fault.message);
}

#[tokio::test]
async fn a_merge_that_cannot_be_done_changes_nothing() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "a.txt", "theirs\n");
    write(&folder, "new.txt", "theirs\n");
    commit(&folder, "theirs");
    let state = || {
        let status = git(&main, &["status", "--porcelain=v2", "--branch"]);
        (status, git(&main, &["for-each-ref"]), text(&main, "a.txt"))
    };
    // The user's changes, also of files that git does not know.
    write(&main, "a.txt", "in work\n");
    write(&main, "new.txt", "mine\n");
    let before = state();
    for strategy in ["mergeCommit", "squash", "fastForward"] {
        let params = merge(&folder, json!({ "strategy": strategy }));
        let fault = peer.refused("worktree/merge", params).await;
        let files = vec!["a.txt".to_owned(), "new.txt".to_owned()];
        assert_eq!(refusal(&fault.data), ("overwrites".to_owned(), files));
        assert!(fault.message.contains("commit or stash them first"), "{}", fault.message);
    }
    assert_eq!(state(), before);
    // A file that git ignores is the user's, too.
    git(&main, &["checkout", "-q", "a.txt"]);
    write(&main, ".git/info/exclude", "new.txt\n");
    let before = state();
    peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    assert_eq!((state(), text(&main, "new.txt").as_str()), (before, "mine\n"));
    std::fs::remove_file(main.join("new.txt")).unwrap();

    write(&main, "a.txt", "ours\n");
    commit(&main, "ours");
    let before = state();
    let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    assert_eq!(refusal(&fault.data), ("conflict".to_owned(), vec!["a.txt".to_owned()]));
    assert_eq!(state(), before);
    assert_eq!(git(&folder, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn what_configures_the_agent_is_not_merged_unseen() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    std::fs::create_dir(folder.join(".agent")).unwrap();
    write(&folder, ".agent/config.toml", "notify = [\"evil\"]\n");
    commit(&folder, "theirs");
    let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    let files = vec![".agent/config.toml".to_owned()];
    assert_eq!(refusal(&fault.data), ("protected".to_owned(), files));
    assert!(!main.join(".agent").exists());
    assert_eq!(log(&main), "first");
}

#[tokio::test]
async fn an_unfinished_merge_in_the_worktree_is_not_committed() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "a.txt", "theirs\n");
    commit(&folder, "theirs");
    write(&main, "a.txt", "ours\n");
    commit(&main, "ours");
    let merged = std::process::Command::new("git")
        .args(["merge", "-q", "main"])
        .current_dir(&folder)
        .output();
    assert!(!merged.unwrap().status.success());
    let params = merge(&folder, json!({ "commitMessage": "x" }));
    let fault = peer.refused("worktree/merge", params).await;
    assert!(fault.message.contains("is not finished (MERGE_HEAD)"), "{}", fault.message);
    assert_eq!(log(&folder), "theirs\nfirst");
}

#[tokio::test]
async fn messages_have_bounds() {
    let env = with_repository(json!([])).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    for (member, value) in [
        ("commitMessage", " ".to_owned()),
        ("message", "x".repeat(10_001)),
        ("message", "\0".into()),
    ] {
        let fault = peer.refused("worktree/merge", merge(&folder, json!({ member: value }))).await;
        assert!(fault.message.contains(&format!("`{member}` must be a text")), "{}", fault.message);
    }
}
