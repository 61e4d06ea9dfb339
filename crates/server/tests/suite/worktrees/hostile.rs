//! Repositories and folders that others prepared, and programs that end in the middle.

use super::*;
use crate::background::until;

#[tokio::test]
async fn folders_without_a_usable_repository_are_refused() {
    let env = with_repository(json!([])).await;
    let (main, root) = (env.workspace(), env.root().to_owned());
    let folder = |name: &str| {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    };
    let (plain, bare, empty) = (folder("plain"), folder("bare"), folder("empty"));
    git(&bare, &["init", "-q", "--bare"]);
    git(&empty, &["init", "-q"]);
    // They lead to a repository that does not lead back.
    let (file, link, dangling) = (folder("file"), folder("link"), folder("dangling"));
    write(&file, ".git", &format!("gitdir: {}\n", main.join(".git").display()));
    std::os::unix::fs::symlink(main.join(".git"), link.join(".git")).unwrap();
    write(&dangling, ".git", "gitdir: /nowhere\n");
    let pipe = folder("pipe");
    repository(&pipe);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        pipe.join(".gitattributes"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let before = git(&main, &["for-each-ref"]);
    let server = env.start();
    let mut peer = connect(&server).await;
    for (cwd, expected) in [
        (plain, "is in no git repository"),
        (bare, "is in no git repository"),
        (empty, "has no commit yet"),
        (main.join(".git"), "git's own"),
        (main.join(".git/refs"), "git's own"),
        (file, "does not lead back"),
        (link, "does not lead back"),
        (dangling, "nowhere"),
        (pipe, "it could block"),
    ] {
        let params = json!({ "cwd": cwd, "worktree": {} });
        let fault = peer.refused("thread/start", params).await;
        assert!(fault.message.contains(expected), "{}: {}", cwd.display(), fault.message);
        assert_eq!(refusal(&fault.data).0, "noRepository");
    }
    assert_eq!(git(&main, &["for-each-ref"]), before);
    assert_eq!(list(&mut peer).await, Vec::<Value>::new());
    assert_eq!(peer.call("thread/loaded/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn a_detached_head_a_linked_worktree_and_a_submodule_are_repositories() {
    let env = with_repository(json!([])).await;
    let (main, root) = (env.workspace(), env.root().to_owned());
    repository(&root.join("library"));
    let library = root.join("library").display().to_string();
    git(&main, &["-c", "protocol.file.allow=always", "submodule", "-q", "add", &library, "lib"]);
    commit(&main, "with a submodule");
    let linked = root.join("linked");
    git(&main, &["worktree", "add", "-q", linked.to_str().unwrap(), "-b", "linked"]);
    git(&main, &["checkout", "-q", "--detach"]);
    let server = env.start();
    let mut peer = connect(&server).await;
    for (cwd, file) in [(main.clone(), "a.txt"), (linked, "a.txt"), (main.join("lib"), "src/b.txt")]
    {
        let params = json!({ "cwd": cwd, "worktree": { "name": "x" } });
        let started = peer.call("thread/start", params).await;
        let path = PathBuf::from(started["thread"]["worktree"]["path"].as_str().unwrap());
        assert!(path.join(file).is_file(), "{}", cwd.display());
        assert_eq!(started["thread"]["worktree"]["repository"], json!(cwd));
    }
    let found = list(&mut peer).await;
    assert!(found.iter().all(|one| one["state"] == "ready" && one["ahead"] == 0), "{found:?}");
    // One made from a worktree of a thread is one of the same repository.
    let inside = found.iter().find(|one| one["repository"] == json!(main)).unwrap()["path"].clone();
    let started =
        peer.call("thread/start", json!({ "cwd": inside, "worktree": { "name": "y" } })).await;
    let path = started["thread"]["worktree"]["path"].as_str().unwrap();
    assert_eq!(Path::new(path).parent(), Path::new(inside.as_str().unwrap()).parent());
}

#[tokio::test]
async fn the_folder_of_worktrees_is_no_link_pipe_or_file() {
    let env = with_repository(json!([])).await;
    let data = env.root().join("user/.local/share/agentd");
    std::fs::create_dir_all(&data).unwrap();
    let folder = data.join("worktrees");
    let server = env.start();
    let mut peer = connect(&server).await;
    let refused = async |peer: &mut Peer, expected: &str| {
        let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
        assert!(fault.message.contains(expected), "{}", fault.message);
        std::fs::remove_file(&folder).unwrap();
    };
    let elsewhere = env.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
    refused(&mut peer, "is a link").await;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &folder,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    refused(&mut peer, "is no folder").await;
    write(&data, "worktrees", "");
    refused(&mut peer, "is no folder").await;
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    // The same one level below.
    let (_, worktree) = start(&mut peer, "x").await;
    let parent = worktree.parent().unwrap();
    std::fs::rename(parent, env.root().join("moved")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, parent).unwrap();
    let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
    assert!(fault.message.contains("is a link"), "{}", fault.message);
}

#[tokio::test]
async fn a_repository_runs_no_program_of_its_own() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let ran = env.root().join("ran");
    let program = format!("touch {}; cat", ran.display());
    for hook in
        ["post-checkout", "post-merge", "pre-commit", "reference-transaction", "post-commit"]
    {
        let file = main.join(".git/hooks").join(hook);
        std::fs::write(&file, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    write(&main, ".gitattributes", "*.txt filter=evil merge=evil\n");
    for (key, value) in [
        ("filter.evil.smudge", program.as_str()),
        ("filter.evil.clean", &program),
        ("filter.evil.required", "true"),
        ("merge.evil.driver", &program),
        ("core.fsmonitor", &program),
        ("core.editor", &program),
        ("commit.gpgSign", "true"),
        ("gpg.program", &program),
    ] {
        git(&main, &["config", key, value]);
    }
    let quiet = [
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "commit.gpgSign=false",
    ];
    let quietly =
        |folder: &Path, arguments: &[&str]| git(folder, &[&quiet[..], arguments].concat());
    quietly(&main, &["add", ".gitattributes"]);
    quietly(&main, &["commit", "-qm", "attributes"]);
    let clear = || drop(std::fs::remove_file(&ran));
    clear();
    // They write below the repository, which the sandbox lets git do.
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    write(&folder, "a.txt", "changed\n");
    list(&mut peer).await;
    let merge = json!({ "path": folder, "commitMessage": "changed" });
    peer.call("worktree/merge", merge).await;
    write(&folder, "a.txt", "again\n");
    peer.call("worktree/remove", json!({ "path": folder, "force": true })).await;
    assert!(!ran.exists(), "a program of the repository ran");
    assert_eq!(text(&main, "a.txt"), "changed\n");
}

#[tokio::test]
async fn filters_of_a_trusted_repository_run() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    write(&main, ".gitattributes", "*.txt filter=upper\n");
    git(&main, &["config", "filter.upper.smudge", "tr a-z A-Z"]);
    commit(&main, "attributes");
    env.write_config(&format!(
        "{}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        text(env.home(), "config.toml"),
        main.display()
    ));
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, folder) = start(&mut peer, "x").await;
    assert_eq!(text(&folder, "a.txt"), "ONE\nTWO\nTHREE\n");
}

#[tokio::test]
async fn names_are_no_options_and_no_paths() {
    let env = with_repository(json!([])).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    for (name, expected) in [
        ("--upload-pack=touch x", "upload-pack-touch-x"),
        ("../../escape", "escape"),
        ("-b", "b"),
        ("a.lock", "a"),
        ("x\0y\n;$(z)", "x-y-z"),
    ] {
        let (_, folder) = start(&mut peer, name).await;
        assert_eq!(folder.file_name().unwrap(), expected);
        assert_eq!(git(&folder, &["branch", "--show-current"]), format!("agentd/{expected}"));
    }
    // A branch with the name of the folder of branches.
    let other = env.root().join("other");
    repository(&other);
    git(&other, &["branch", "agentd"]);
    let params = json!({ "cwd": other, "worktree": { "name": "x" } });
    let fault = peer.refused("thread/start", params).await;
    assert_eq!(refusal(&fault.data).0, "git");
    assert!(fault.message.contains("a branch is called `agentd`"), "{}", fault.message);
    assert!(fault.message.contains("git branch -m agentd"), "{}", fault.message);
    let listed = peer.call("worktree/list", json!({ "cwd": other })).await;
    assert_eq!(listed["data"], json!([]));
}

#[tokio::test]
async fn a_start_that_was_cut_off_is_found_again() {
    let mut env = with_repository(json!([])).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let main = env.workspace();
    // As after `kill -9`: the thread was not stored, or git was killed and left its own lock.
    let (_, ready) = start(&mut peer, "ready").await;
    let (_, locked) = start(&mut peer, "locked").await;
    let (_, empty) = start(&mut peer, "empty").await;
    server.stop().await;
    std::fs::remove_file(env.home().join("state.sqlite")).ok();
    env.crash();
    let admin = main.join(".git/worktrees");
    write(&admin.join("locked"), "locked", "initializing");
    std::fs::remove_file(admin.join("locked/index")).unwrap();
    std::fs::remove_dir_all(&empty).unwrap();
    std::fs::create_dir(&empty).unwrap();
    std::fs::remove_dir_all(admin.join("empty")).unwrap();
    // A record that was not written to its end.
    write(ready.parent().unwrap(), "half.json", "{");
    let server = env.start();
    let mut peer = connect(&server).await;
    let mut found = list(&mut peer).await;
    found.sort_by_key(|one| one["path"].to_string());
    let states: Vec<_> = found.iter().map(|one| (&one["state"], &one["locked"])).collect();
    let (broken, is_ready, no) = (json!("broken"), json!("ready"), json!(false));
    assert_eq!(states, [(&broken, &no), (&is_ready, &no), (&is_ready, &no)]);
    for (path, force) in [(empty, false), (ready, false), (locked, true)] {
        peer.call("worktree/remove", json!({ "path": path, "force": force })).await;
        assert!(!path.exists());
    }
    assert_eq!(list(&mut peer).await, Vec::<Value>::new());
    assert_eq!(git(&main, &["branch", "--list", "agentd/*"]), "");
    assert_eq!(git(&main, &["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn a_start_ends_with_its_client() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let pipe = env.root().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    write(&main, ".gitattributes", "a.txt filter=slow\n");
    git(&main, &["config", "filter.slow.smudge", &format!("cat {}", pipe.display())]);
    commit(&main, "attributes");
    env.write_config(&format!(
        "{}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        text(env.home(), "config.toml"),
        main.display()
    ));
    let server = env.start();
    let (mut peer, leave) = server.connect_and_leave(json!({ "experimentalApi": true })).await;
    peer.send("thread/start", json!({ "worktree": { "name": "slow" } })).await;
    // Not asked of git, which fails while another one makes a worktree.
    let branch = main.join(".git/refs/heads/agentd/slow");
    until(|| branch.exists()).await;
    leave();
    until(|| !branch.exists()).await;
    let mut peer = connect(&server).await;
    // Its record is what goes last.
    while !list(&mut peer).await.is_empty() {}
    assert_eq!(git(&main, &["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn a_start_that_fails_later_leaves_nothing() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let params = json!({ "worktree": { "name": "x" }, "modelProvider": "nowhere" });
    peer.refused("thread/start", params).await;
    assert_eq!(list(&mut peer).await, Vec::<Value>::new());
    assert_eq!(git(&main, &["branch", "--list", "agentd/*"]), "");
    assert_eq!(git(&main, &["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn without_git_or_permission_there_is_no_worktree() {
    let mut env = with_repository(json!([])).await;
    let paths = env.variables.clone();
    let empty = env.root().join("no-programs");
    std::fs::create_dir(&empty).unwrap();
    env.variables[0].1 = empty.into();
    let server = env.start();
    let mut peer = connect(&server).await;
    let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
    assert_eq!(refusal(&fault.data).0, "git");
    assert!(fault.message.contains("git"), "{}", fault.message);
    assert_eq!(list(&mut peer).await, Vec::<Value>::new());
    server.stop().await;
    env.variables = paths;
    std::fs::create_dir_all(env.system_dir()).unwrap();
    write(&env.system_dir(), "requirements.toml", "allowed_sandbox_modes = [\"read-only\"]\n");
    let server = env.start();
    let mut peer = connect(&server).await;
    let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
    assert!(fault.message.contains("is not allowed by"), "{}", fault.message);
    assert_eq!(git(&env.workspace(), &["branch", "--list", "agentd/*"]), "");
}
