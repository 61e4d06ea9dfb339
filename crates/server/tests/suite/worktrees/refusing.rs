//! What is refused, so that nothing is lost: merges, removals, and folders.

use super::merging::merge;
use super::*;
use crate::background::until;

#[tokio::test]
async fn a_refused_merge_commits_nothing() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    let refused = async |peer: &mut Peer, strategy: &str, reason: &str| {
        let state = || {
            let status = git(&folder, &["status", "--porcelain=v2", "--branch"]);
            (status, git(&main, &["for-each-ref"]), git(&main, &["status", "--porcelain"]))
        };
        let before = state();
        let params = merge(&folder, json!({ "commitMessage": "x", "strategy": strategy }));
        let fault = peer.refused("worktree/merge", params).await;
        assert_eq!(refusal(&fault.data).0, reason, "{}", fault.message);
        assert_eq!(state(), before);
        assert!(!main.join(".git/worktrees/x/index.lock").exists());
    };
    write(&folder, "a.txt", "theirs\n");
    write(&main, "a.txt", "in work\n");
    refused(&mut peer, "squash", "overwrites").await;
    commit(&main, "ours");
    refused(&mut peer, "mergeCommit", "conflict").await;
    refused(&mut peer, "fastForward", "diverged").await;
    git(&folder, &["checkout", "-q", "a.txt"]);
    std::fs::create_dir(folder.join(".agent")).unwrap();
    write(&folder, ".agent/config.toml", "");
    refused(&mut peer, "mergeCommit", "protected").await;
}

#[tokio::test]
async fn what_links_lead_to_is_protected_too() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    for inner in ["conf", "deep"] {
        std::fs::create_dir(main.join(inner)).unwrap();
        write(&main, &format!("{inner}/f"), "");
    }
    std::os::unix::fs::symlink("conf", main.join(".agent")).unwrap();
    commit(&main, "links");
    env.write_config(&format!(
        "{}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        text(env.home(), "config.toml"),
        main.join("deep").display()
    ));
    let server = env.start();
    let mut peer = connect(&server).await;
    for (at, file) in ["conf/config.toml", "deep/.agent/config.toml"].iter().enumerate() {
        let (_, folder) = start(&mut peer, &format!("x{at}")).await;
        std::fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        write(&folder, file, "model = \"evil\"\n");
        write(&folder, "a.txt", "theirs\n");
        let params = merge(&folder, json!({ "commitMessage": "x" }));
        let fault = peer.refused("worktree/merge", params).await;
        assert_eq!(refusal(&fault.data), ("protected".to_owned(), vec![(*file).to_owned()]));
        assert_eq!(text(&main, "a.txt"), "one\ntwo\nthree\n");
    }
}

#[tokio::test]
async fn what_is_in_the_way_of_a_merge_has_a_reason() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "new", "theirs\n");
    std::fs::create_dir(folder.join("dir")).unwrap();
    write(&folder, "dir/file", "theirs\n");
    write(&folder, "a.txt", "theirs\n");
    commit(&folder, "theirs");
    let refused = async |peer: &mut Peer, reason: &str, files: &[&str]| {
        let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(refusal(&fault.data), (reason.to_owned(), files), "{}", fault.message);
        assert!(fault.code == -32600 || fault.code == -32603, "{}", fault.code);
    };
    // A folder in the place of a file, a file in that of a folder; ignored ones count, empty folders do not.
    std::fs::create_dir(main.join("new")).unwrap();
    write(&main, ".git/info/exclude", "dir\nnew\n");
    write(&main, "dir", "mine\n");
    refused(&mut peer, "overwrites", &["dir"]).await;
    write(&main, "new/mine", "mine\n");
    refused(&mut peer, "overwrites", &["dir", "new/mine"]).await;
    std::fs::remove_file(main.join("dir")).unwrap();
    std::fs::remove_dir_all(main.join("new")).unwrap();
    // An edit that git leaves out on request.
    git(&main, &["update-index", "--assume-unchanged", "a.txt"]);
    write(&main, "a.txt", "mine\n");
    refused(&mut peer, "overwrites", &["a.txt"]).await;
    git(&main, &["update-index", "--no-assume-unchanged", "a.txt"]);
    git(&main, &["checkout", "-q", "a.txt"]);

    write(&main, ".git/index.lock", "");
    refused(&mut peer, "unfinished", &[]).await;
    std::fs::remove_file(main.join(".git/index.lock")).unwrap();
    write(&main, ".git/MERGE_HEAD", &git(&main, &["rev-parse", "HEAD"]));
    refused(&mut peer, "unfinished", &[]).await;
    std::fs::remove_file(main.join(".git/MERGE_HEAD")).unwrap();
    git(&main, &["branch", "other"]);
    write(&main, "src/b.txt", "ours\n");
    git(&main, &["stash", "-q"]);
    write(&main, "src/b.txt", "other\n");
    commit(&main, "ours");
    let popped =
        std::process::Command::new("git").args(["stash", "pop", "-q"]).current_dir(&main).output();
    assert!(!popped.unwrap().status.success());
    refused(&mut peer, "unfinished", &["src/b.txt"]).await;
    git(&main, &["reset", "-q", "--hard"]);
    peer.call("worktree/merge", merge(&folder, json!({}))).await;
}

#[tokio::test]
async fn a_repository_inside_is_not_lost() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    repository(&env.root().join("library"));
    let library = env.root().join("library").display().to_string();
    let add = ["-c", "protocol.file.allow=always", "submodule", "-q", "add", &library, "lib"];
    git(&main, &add);
    commit(&main, "with a submodule");
    let server = env.start();
    let mut peer = connect(&server).await;
    // Without files, a submodule is nothing to lose.
    let (_, folder) = start(&mut peer, "bare").await;
    peer.call("worktree/remove", json!({ "path": folder })).await;
    assert!(!folder.exists());

    let (_, folder) = start(&mut peer, "x").await;
    repository(&folder.join("nest"));
    let refused = async |peer: &mut Peer, method: &str, more: Value, files: Vec<String>| {
        let fault = peer.refused(method, merge(&folder, more)).await;
        assert_eq!(
            refusal(&fault.data),
            ("nestedRepository".to_owned(), files),
            "{}",
            fault.message
        );
    };
    let nest = || vec!["nest".to_owned()];
    refused(&mut peer, "worktree/merge", json!({ "commitMessage": "x" }), nest()).await;
    for force in [false, true] {
        refused(&mut peer, "worktree/remove", json!({ "force": force }), nest()).await;
    }
    std::fs::remove_dir_all(folder.join("nest")).unwrap();
    // One without a commit.
    std::fs::create_dir(folder.join("nest")).unwrap();
    git(&folder.join("nest"), &["init", "-q"]);
    refused(&mut peer, "worktree/remove", json!({ "force": true }), nest()).await;
    std::fs::remove_dir_all(folder.join("nest")).unwrap();
    let update = ["-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init"];
    git(&folder, &update);
    refused(&mut peer, "worktree/remove", json!({ "force": true }), vec!["lib".to_owned()]).await;
    assert!(folder.join("lib/a.txt").exists());
    // Its commits are in the git folder, even when its files are gone.
    git(&folder, &["submodule", "-q", "deinit", "--force", "lib"]);
    let modules = main.join(".git/worktrees/x/modules/lib");
    let files = vec![modules.display().to_string()];
    refused(&mut peer, "worktree/remove", json!({ "force": true }), files).await;
    std::fs::remove_dir_all(&modules).unwrap();
    peer.call("worktree/remove", json!({ "path": folder })).await;
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_turn_in_another_server_makes_a_worktree_busy() {
    let env = with_repository(json!([runs("touch started; sleep 60"), says("x")])).await;
    let (one, other) = (env.start(), env.start());
    let (mut worker, mut peer) = (connect(&one).await, connect(&other).await);
    let (thread, folder) = start(&mut worker, "x").await;
    // One that is only open there does not hinder.
    peer.call("worktree/merge", merge(&folder, json!({}))).await;
    let turn = worker.start_turn(&thread, "Go.").await;
    until(|| folder.join("started").exists()).await;
    for (method, more) in
        [("worktree/merge", json!({})), ("worktree/remove", json!({ "force": true }))]
    {
        let fault = peer.refused(method, merge(&folder, more)).await;
        assert_eq!(refusal(&fault.data).0, "busy");
        assert!(fault.message.contains("in another server (process "), "{}", fault.message);
    }
    worker.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    worker.turn_end(&turn).await;
    peer.call("worktree/remove", json!({ "path": folder, "force": true })).await;
    assert!(!folder.exists());
}

#[tokio::test]
async fn edits_that_git_does_not_look_for_are_kept() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    git(&folder, &["update-index", "--skip-worktree", "a.txt"]);
    git(&folder, &["update-index", "--assume-unchanged", "src/b.txt"]);
    assert_eq!(list(&mut peer).await[0]["uncommitted"], json!([]));
    write(&folder, "a.txt", "skipped\n");
    write(&folder, "src/b.txt", "assumed\n");
    assert_eq!(list(&mut peer).await[0]["uncommitted"], json!(["a.txt", "src/b.txt"]));
    let fault = peer.refused("worktree/remove", json!({ "path": folder })).await;
    assert_eq!(refusal(&fault.data).0, "uncommitted");
    // What is staged is kept besides, where the file has something else.
    write(&folder, "c.txt", "staged\n");
    git(&folder, &["add", "c.txt"]);
    write(&folder, "c.txt", "working\n");
    peer.call("worktree/remove", json!({ "path": folder, "force": true })).await;
    let show = |name: &str| git(&main, &["show", &format!("refs/agentd/removed/x{name}")]);
    assert_eq!((show(":a.txt"), show(":src/b.txt")), ("skipped".into(), "assumed".into()));
    assert_eq!((show(":c.txt"), show("^2:c.txt")), ("working".into(), "staged".into()));
}

#[tokio::test]
async fn folders_and_branches_in_the_way_are_named() {
    let env = with_repository(json!([])).await;
    let (main, root) = (env.workspace(), env.root().to_owned());
    let server = env.start();
    let mut peer = connect(&server).await;
    git(&main, &["branch", "agentd/z/deep"]);
    let (_, folder) = start(&mut peer, "z").await;
    assert_eq!(folder.file_name().unwrap(), "z-2");

    // The git folder of `git clone --separate-git-dir` does not name its working folder.
    let separate = root.join("separate");
    repository(&separate);
    std::fs::rename(separate.join(".git"), root.join("separate.git")).unwrap();
    write(&separate, ".git", &format!("gitdir: {}\n", root.join("separate.git").display()));
    let params = json!({ "cwd": separate, "worktree": { "name": "x" } });
    let fault = peer.refused("thread/start", params.clone()).await;
    let next = format!("git -C {0} config core.worktree {0}", separate.display());
    assert!(fault.message.contains(&next), "{}", fault.message);
    git(&separate, &["config", "core.worktree", separate.to_str().unwrap()]);
    let started = peer.call("thread/start", params).await;
    let made = PathBuf::from(started["thread"]["worktree"]["path"].as_str().unwrap());
    assert!(made.join("a.txt").exists());

    // Git can make nothing next to a link in its folder.
    let linked = root.join("linked");
    repository(&linked);
    std::fs::remove_dir_all(linked.join(".git/hooks")).unwrap();
    std::fs::create_dir(linked.join("hooks")).unwrap();
    std::os::unix::fs::symlink("../hooks", linked.join(".git/hooks")).unwrap();
    let fault = peer.refused("thread/start", json!({ "cwd": linked, "worktree": {} })).await;
    assert_eq!(refusal(&fault.data).0, "protected");
    assert!(fault.message.contains("core.hooksPath"), "{}", fault.message);
    server.stop().await;

    // A folder that threads could write, and one that is a link.
    let configured = text(env.home(), "config.toml");
    for inside in ["trees", ".git/trees"] {
        let folder = main.join(inside);
        env.write_config(&format!("worktrees_dir = \"{}\"\n{configured}", folder.display()));
        let server = env.start();
        let mut peer = connect(&server).await;
        let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
        assert!(fault.message.contains("lies in the repository"), "{}", fault.message);
        assert!(!folder.exists());
        server.stop().await;
    }
    let real = folder.parent().unwrap().parent().unwrap();
    let link = root.join("link");
    std::os::unix::fs::symlink(real, &link).unwrap();
    env.write_config(&format!("worktrees_dir = \"{}\"\n{configured}", link.display()));
    let server = env.start();
    let mut peer = connect(&server).await;
    let fault = peer.refused("worktree/list", json!({})).await;
    let next = format!("the folder that it leads to: {}", real.display());
    assert!(fault.message.contains(&next), "{}", fault.message);
}

#[tokio::test]
async fn a_merge_of_what_is_gone_or_merged_says_so() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "a.txt", "theirs\n");
    let squash = merge(&folder, json!({ "strategy": "squash", "commitMessage": "theirs" }));
    assert_eq!(peer.call("worktree/merge", squash.clone()).await["merged"], 1);
    let head = git(&main, &["rev-parse", "HEAD"]);
    assert_eq!(list(&mut peer).await[0]["ahead"], 0, "squashed commits are merged");
    let again = peer.call("worktree/merge", squash).await;
    assert_eq!((&again["merged"], &again["commit"]), (&json!(0), &json!(head)));
    assert_eq!(git(&main, &["rev-parse", "HEAD"]), head, "no empty commit");
    for base in ["^main", "HEAD^{tree}"] {
        let fault = peer.refused("thread/start", json!({ "worktree": { "baseRef": base } })).await;
        assert!(
            fault.code == -32602 && fault.message.contains("has no commit"),
            "{}",
            fault.message
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let fault = peer.refused("worktree/merge", merge(&folder, json!({}))).await;
    assert_eq!(refusal(&fault.data).0, "missing");
    assert!(fault.message.contains("git worktree add"), "{}", fault.message);
}
