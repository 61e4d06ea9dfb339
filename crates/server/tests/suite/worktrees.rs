//! Worktrees of threads: `thread/start` with `worktree`, and `worktree/*`.

mod hostile;
mod interrupted;
mod merging;
mod refusing;
mod removing;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::reviews::git;
use crate::{runs, says, tool_outputs};

/// An environment whose working folder is a repository with two files on the branch `main`.
async fn with_repository(responses: Value) -> TestEnvironment {
    let responses = match responses.as_array().is_some_and(Vec::is_empty) {
        true => json!([{ "steps": [] }]),
        false => responses,
    };
    let env = TestEnvironment::with_responses(responses).await;
    repository(&env.workspace());
    env
}

fn repository(folder: &Path) {
    std::fs::create_dir_all(folder.join("src")).unwrap();
    git(folder, &["init", "-q", "-b", "main"]);
    git(folder, &["config", "user.name", "U"]);
    git(folder, &["config", "user.email", "u@example.com"]);
    std::fs::write(folder.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(folder.join("src/b.txt"), "b\n").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-qm", "first"]);
}

async fn connect(server: &TestServer) -> Peer {
    server.connect_with(json!({ "experimentalApi": true })).await
}

/// Starts a thread in a worktree of this name; returns its id and the worktree's folder.
async fn start(peer: &mut Peer, name: &str) -> (String, PathBuf) {
    let params = json!({ "worktree": { "name": name }, "sandbox": "workspace-write", "approvalPolicy": "never" });
    let started = peer.call("thread/start", params).await;
    let thread = &started["thread"];
    let folder = thread["worktree"]["path"].as_str().unwrap().into();
    (thread["id"].as_str().unwrap().to_owned(), folder)
}

async fn list(peer: &mut Peer) -> Vec<Value> {
    peer.call("worktree/list", json!({})).await["data"].as_array().unwrap().clone()
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn commit(folder: &Path, message: &str) {
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", message]);
}

/// The reason and the files of a refusal.
fn refusal(data: &Value) -> (String, Vec<String>) {
    let files =
        data["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().to_owned());
    (data["reason"].as_str().unwrap().to_owned(), files.collect())
}

#[tokio::test]
async fn a_thread_works_in_a_worktree_of_its_own() {
    let script = "echo changed >> a.txt; echo new > new.txt; echo x > $OLD/a.txt; git status --short; \
                  git commit -qam x; git log --oneline | wc -l";
    let env = with_repository(json!([runs(script), says("Done.")])).await;
    let main = env.workspace();
    let script_env = format!("OLD=\"{}\"", main.display());
    env.write_config(&format!(
        "{}\n[shell_environment_policy]\nset = {{ {script_env} }}\n",
        text(env.home(), "config.toml")
    ));
    let server = env.start();
    let mut peer = connect(&server).await;
    let (thread, folder) = start(&mut peer, "Fix the login!").await;
    let base = env.root().join("user/.local/share/agentd/worktrees");
    assert!(folder.starts_with(&base), "{}", folder.display());
    assert_eq!(folder.file_name().unwrap(), "Fix-the-login");
    let read = peer.call("thread/read", json!({ "threadId": thread })).await["thread"].clone();
    assert_eq!(read["cwd"], json!(folder));
    assert_eq!(read["gitInfo"]["branch"], "agentd/Fix-the-login");
    let head = git(&main, &["rev-parse", "HEAD"]);
    let worktree = json!({
        "path": folder, "branch": "agentd/Fix-the-login", "repository": main, "base": head,
    });
    assert_eq!(read["worktree"], worktree);

    peer.run_turn(&thread, "Change it.").await;
    assert_eq!(text(&folder, "a.txt"), "one\ntwo\nthree\nchanged\n");
    assert_eq!(text(&main, "a.txt"), "one\ntwo\nthree\n", "the checkout is not writable");
    let output = tool_outputs(&env).remove(0);
    assert!(output.contains(" M a.txt") && output.contains("?? new.txt"), "{output}");
    assert!(output.contains("Read-only file system"), "git cannot commit there: {output}");
    assert_eq!(git(&folder, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&main, &["status", "--short"]), "");
    assert_eq!(git(&main, &["branch", "--show-current"]), "main");

    write(&main, "c.txt", "c\n");
    commit(&main, "second");
    write(&folder, "d.txt", "d\n");
    git(&folder, &["add", "d.txt"]);
    git(&folder, &["commit", "-qm", "mine"]);
    let found = list(&mut peer).await;
    let expected = json!([{
        "path": folder, "branch": "agentd/Fix-the-login", "repository": main, "base": head,
        "createdAt": found[0]["createdAt"], "state": "ready", "threadIds": [thread], "locked": false,
        "ahead": 1, "behind": 1, "uncommitted": ["a.txt", "new.txt"],
    }]);
    assert_eq!(json!(found), expected);
    let here = peer.call("worktree/list", json!({ "cwd": main.join("src") })).await;
    assert_eq!(here["data"], expected);
    assert_eq!(here["folder"], json!(base));

    // After a restart, too.
    server.stop().await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let listed = peer.call("thread/list", json!({})).await["data"][0].clone();
    assert_eq!(listed["worktree"], worktree);
    assert_eq!(list(&mut peer).await[0]["threadIds"], json!([thread]));
    let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(resumed["cwd"], json!(folder));
    // It is a thread of another folder now, and has no worktree there.
    let params = json!({ "threadId": thread, "cwd": main });
    let forked = peer.call("thread/fork", params).await;
    assert_eq!(forked["thread"].get("worktree"), None);
    let forked = peer.call("thread/fork", json!({ "threadId": thread })).await;
    assert_eq!(forked["thread"]["worktree"], worktree);
}

// Effect of `worktrees_dir`.
#[tokio::test]
async fn the_folder_of_worktrees_is_configured() {
    let env = with_repository(json!([])).await;
    let folder = env.root().join("trees");
    let configured = text(env.home(), "config.toml");
    env.write_config(&format!("worktrees_dir = \"{}\"\n{configured}", folder.display()));
    let server = env.start();
    let mut peer = connect(&server).await;
    let (_, worktree) = start(&mut peer, "x").await;
    assert!(worktree.starts_with(&folder), "{}", worktree.display());
    let mode = std::os::unix::fs::PermissionsExt::mode(&folder.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700, "others cannot read what is in it");
    server.stop().await;
    env.write_config(&format!("worktrees_dir = \"{}/trees\"\n{configured}", env.home().display()));
    let server = env.start();
    let mut peer = connect(&server).await;
    let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
    assert!(fault.message.contains("lies in the agent's home"), "{}", fault.message);
}

#[tokio::test]
async fn only_experimental_clients_start_threads_in_worktrees() {
    let env = with_repository(json!([])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/start", json!({ "worktree": {} })).await;
    assert!(
        fault.message.contains("thread/start.worktree requires experimentalApi"),
        "{}",
        fault.message
    );
    let fault = peer.refused("worktree/list", json!({})).await;
    assert!(fault.message.contains("requires experimentalApi"), "{}", fault.message);
}

#[tokio::test]
async fn a_thread_in_a_subfolder_works_in_the_same_one() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    std::fs::create_dir_all(main.join("untracked/deep")).unwrap();
    let server = env.start();
    let mut peer = connect(&server).await;
    for inside in ["src", "untracked/deep"] {
        let params = json!({ "cwd": main.join(inside), "worktree": {} });
        let started = peer.call("thread/start", params).await;
        let path = PathBuf::from(started["thread"]["worktree"]["path"].as_str().unwrap());
        assert_eq!(started["cwd"], json!(path.join(inside)));
        assert!(path.join(inside).is_dir());
        assert_eq!(started["thread"]["worktree"]["repository"], json!(main));
    }
    // Without a name, each has a short id as its name.
    let found = list(&mut peer).await;
    assert_eq!(found.len(), 2);
    let branches = found.iter().map(|one| one["branch"].as_str().unwrap());
    assert!(branches.clone().all(|branch| branch.len() > "agentd/".len()), "{found:?}");
}

#[tokio::test]
async fn the_base_is_chosen_and_uncommitted_changes_are_carried() {
    let env = with_repository(json!([])).await;
    let main = env.workspace();
    let first = git(&main, &["rev-parse", "HEAD"]);
    write(&main, "a.txt", "second\n");
    commit(&main, "second");
    write(&main, "a.txt", "uncommitted\n");
    write(&main, "new.txt", "untracked\n");
    std::fs::remove_file(main.join("src/b.txt")).unwrap();
    git(&main, &["add", "a.txt"]);
    let server = env.start();
    let mut peer = connect(&server).await;
    let mut made = async |worktree: Value| {
        let started = peer.call("thread/start", json!({ "worktree": worktree })).await;
        let worktree = &started["thread"]["worktree"];
        (PathBuf::from(worktree["path"].as_str().unwrap()), worktree["base"].clone())
    };
    let (folder, base) = made(json!({ "baseRef": "main~1" })).await;
    assert_eq!((text(&folder, "a.txt").as_str(), base), ("one\ntwo\nthree\n", json!(first)));
    let (folder, _) = made(json!({})).await;
    assert_eq!(text(&folder, "a.txt"), "second\n", "the changes stay where they are");
    let before = git(&main, &["status", "--porcelain"]);
    let index = std::fs::read(main.join(".git/index")).unwrap();
    let (folder, _) = made(json!({ "carryChanges": true })).await;
    assert_eq!(text(&folder, "a.txt"), "uncommitted\n");
    assert_eq!(text(&folder, "new.txt"), "untracked\n");
    assert_eq!(git(&folder, &["status", "--porcelain"]), "M a.txt\n D src/b.txt\n?? new.txt");
    assert_eq!(git(&main, &["status", "--porcelain"]), before);
    assert_eq!(std::fs::read(main.join(".git/index")).unwrap(), index, "the index is the user's");
    assert_eq!(git(&main, &["stash", "list"]), "");
    let both = json!({ "worktree": { "carryChanges": true, "baseRef": "main" } });
    let fault = peer.refused("thread/start", both).await;
    assert!(fault.message.contains("exclude each other"), "{}", fault.message);
    for base in ["nowhere", "--upload-pack=x", "..", "HEAD:a.txt"] {
        let fault = peer.refused("thread/start", json!({ "worktree": { "baseRef": base } })).await;
        assert!(fault.message.contains("has no commit"), "{base}: {}", fault.message);
    }
    assert_eq!(list(&mut peer).await.len(), 3, "nothing is left of those that failed");
}

#[tokio::test]
async fn two_starts_at_once_get_two_worktrees() {
    let env = with_repository(json!([])).await;
    let server = env.start();
    let (mut one, mut other) = (connect(&server).await, connect(&server).await);
    let params = json!({ "worktree": { "name": "same" } });
    let first = one.send("thread/start", params.clone()).await;
    let second = other.send("thread/start", params).await;
    let mut branches = Vec::new();
    for started in [one.response(first).await.unwrap(), other.response(second).await.unwrap()] {
        branches.push(started["thread"]["worktree"]["branch"].as_str().unwrap().to_owned());
    }
    branches.sort();
    assert_eq!(branches, ["agentd/same", "agentd/same-2"]);
    // A branch of the user's counts, too.
    git(&env.workspace(), &["branch", "agentd/same-3"]);
    let (_, folder) = start(&mut one, "same").await;
    assert_eq!(folder.file_name().unwrap(), "same-4");
}

#[tokio::test]
async fn a_thread_whose_worktree_is_gone_says_how_to_go_on() {
    let env = with_repository(json!([says("Yes.")])).await;
    let main = env.workspace();
    let server = env.start();
    let mut peer = connect(&server).await;
    let (thread, folder) = start(&mut peer, "gone").await;
    peer.run_turn(&thread, "Hello.").await;
    server.stop().await;
    std::fs::remove_dir_all(&folder).unwrap();
    let server = env.start();
    let mut peer = connect(&server).await;
    for method in ["thread/resume", "thread/fork"] {
        let fault = peer.refused(method, json!({ "threadId": thread })).await;
        assert_eq!(refusal(&fault.data).0, "missing");
        let next =
            format!("give `cwd`, such as {}, or restore it with `git worktree add", main.display());
        assert!(fault.message.contains(&next), "{}", fault.message);
    }
    let found = list(&mut peer).await;
    assert_eq!((&found[0]["state"], &found[0]["threadIds"]), (&json!("missing"), &json!([thread])));
    assert_eq!((&found[0]["ahead"], &found[0]["uncommitted"]), (&json!(0), &json!([])));
    let params = json!({ "threadId": thread, "cwd": main });
    let resumed = peer.call("thread/resume", params).await;
    assert_eq!(resumed["cwd"], json!(main));
    assert_eq!(peer.call("worktree/remove", json!({ "path": folder })).await["saved"], Value::Null);
    assert_eq!(list(&mut peer).await, Vec::<Value>::new());
    assert_eq!(git(&main, &["branch", "--list", "agentd/*"]), "");
}

#[tokio::test]
async fn a_worktree_outlives_its_thread() {
    let env = with_repository(json!([says("Yes.")])).await;
    let server = env.start();
    let mut peer = connect(&server).await;
    let (thread, folder) = start(&mut peer, "kept").await;
    peer.run_turn(&thread, "Hello.").await;
    peer.call("thread/archive", json!({ "threadId": thread })).await;
    assert_eq!(list(&mut peer).await[0]["threadIds"], json!([thread]));
    peer.call("thread/delete", json!({ "threadId": thread })).await;
    let found = list(&mut peer).await;
    assert_eq!((&found[0]["threadIds"], &found[0]["state"]), (&json!([]), &json!("ready")));
    assert!(folder.join("a.txt").exists());
}
