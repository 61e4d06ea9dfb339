//! `worktree/remove`.

use super::*;

#[tokio::test]
async fn what_would_be_lost_is_kept() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, clean) = start(&mut peer, "clean").await;
    let removed = peer.call("worktree/remove", json!({ "path": clean })).await;
    assert_eq!((&removed["saved"], clean.exists()), (&Value::Null, false));
    assert_eq!(git(&main, &["branch", "--list", "agentd/*"]), "");

    let (_, folder) = start(&mut peer, "work").await;
    write(&folder, "done.txt", "done\n");
    commit(&folder, "done");
    let remove = json!({ "path": folder });
    let fault = peer.refused("worktree/remove", remove.clone()).await;
    assert_eq!(refusal(&fault.data), ("unmerged".to_owned(), vec!["done.txt".to_owned()]));
    assert!(fault.message.contains("has a commit that no other branch has"), "{}", fault.message);
    write(&folder, "a.txt", "changed\n");
    write(&folder, "new.txt", "new\n");
    git(&folder, &["add", "new.txt"]);
    std::fs::remove_file(folder.join("src/b.txt")).unwrap();
    let fault = peer.refused("worktree/remove", remove).await;
    let files = ["a.txt", "new.txt", "src/b.txt"].map(str::to_owned).to_vec();
    assert_eq!(refusal(&fault.data), ("uncommitted".to_owned(), files));
    assert!(folder.join("new.txt").exists());

    let removed = peer.call("worktree/remove", json!({ "path": folder, "force": true })).await;
    let saved = &removed["saved"];
    assert_eq!(saved["ref"], "refs/agentd/removed/work");
    assert_eq!(
        git(&main, &["rev-parse", "refs/agentd/removed/work"]),
        *saved["commit"].as_str().unwrap()
    );
    assert!(!folder.exists());
    assert_eq!(git(&main, &["branch", "--list", "agentd/*"]), "");
    let kept = git(&main, &["ls-tree", "-r", "--name-only", "refs/agentd/removed/work"]);
    assert_eq!(kept, "a.txt\ndone.txt\nnew.txt");
    assert_eq!(git(&main, &["show", "refs/agentd/removed/work:a.txt"]), "changed");
    assert_eq!(list(&mut peer).await, Vec::<Value>::new());
    // A later one of the same name is kept besides.
    let (_, folder) = start(&mut peer, "work").await;
    write(&folder, "a.txt", "other\n");
    let removed = peer.call("worktree/remove", json!({ "path": folder, "force": true })).await;
    assert_eq!(removed["saved"]["ref"], "refs/agentd/removed/work-2");
    assert_eq!(git(&main, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_worktree_in_use_or_locked_stays() {
    let env = with_repository(json!([runs("touch started; sleep 60"), says("x")])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (thread, folder) = start(&mut peer, "x").await;
    let turn = peer.start_turn(&thread, "Go.").await;
    peer.expect_where("item/started", |params| params["item"]["type"] == "commandExecution").await;
    let remove = json!({ "path": folder, "force": true });
    for method in ["worktree/remove", "worktree/merge"] {
        let params =
            if method == "worktree/merge" { json!({ "path": folder }) } else { remove.clone() };
        let fault = peer.refused(method, params).await;
        assert_eq!(refusal(&fault.data).0, "busy");
    }
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.turn_end(&turn).await;
    git(&main, &["worktree", "lock", folder.to_str().unwrap()]);
    assert_eq!(list(&mut peer).await[0]["locked"], true);
    let fault = peer.refused("worktree/remove", json!({ "path": folder })).await;
    assert_eq!(refusal(&fault.data).0, "locked");
    peer.call("worktree/remove", remove).await;
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_branch_that_the_user_works_on_is_kept() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    git(&folder, &["checkout", "-q", "--detach"]);
    git(&main, &["checkout", "-q", "agentd/x"]);
    peer.call("worktree/remove", json!({ "path": folder })).await;
    assert_eq!(git(&main, &["branch", "--show-current"]), "agentd/x");
    assert_eq!(git(&main, &["status", "--porcelain"]), "");
    // One that the worktree has checked out in its place is the user's, too.
    let (_, folder) = start(&mut peer, "y").await;
    git(&folder, &["checkout", "-q", "-b", "mine"]);
    write(&folder, "a.txt", "mine\n");
    commit(&folder, "mine");
    assert_eq!(peer.call("worktree/remove", json!({ "path": folder })).await["saved"], Value::Null);
    assert_eq!(git(&main, &["show", "mine:a.txt"]), "mine");
    assert_eq!(git(&main, &["branch", "--list", "agentd/y"]), "");
}

#[tokio::test]
async fn nothing_but_worktrees_of_threads_is_removed() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    let parent = folder.parent().unwrap();
    let own = env.root().join("own");
    git(&main, &["worktree", "add", "-q", own.to_str().unwrap(), "-b", "own"]);
    // A repository in the folder of the worktrees, and a link to one.
    repository(&parent.join("nested"));
    std::os::unix::fs::symlink(&main, parent.join("link")).unwrap();
    let paths = [
        own.clone(),
        main.clone(),
        parent.join("nested"),
        parent.join("link"),
        parent.to_owned(),
        parent.parent().unwrap().to_owned(),
        folder.join("src"),
        parent.join("../x"),
        folder.join(".."),
        "/".into(),
    ];
    for path in paths {
        let fault = peer.refused("worktree/remove", json!({ "path": path, "force": true })).await;
        assert_eq!(refusal(&fault.data).0, "unknownWorktree", "{}", path.display());
    }
    let fault = peer.refused("worktree/remove", json!({ "path": "x" })).await;
    assert!(fault.message.contains("must be an absolute path"), "{}", fault.message);
    assert_eq!(list(&mut peer).await.len(), 1);
    // One that was put in the place of a worktree is no worktree of the repository.
    std::fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(&main, &folder).unwrap();
    assert_eq!(list(&mut peer).await[0]["state"], "broken");
    peer.refused("worktree/remove", json!({ "path": folder, "force": true })).await;
    std::fs::remove_file(&folder).unwrap();
    repository(&folder);
    assert_eq!(list(&mut peer).await[0]["state"], "broken");
    peer.refused("worktree/remove", json!({ "path": folder, "force": true })).await;
    assert!(folder.join("a.txt").exists() && main.join("a.txt").exists());
}
