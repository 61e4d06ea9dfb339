//! Project documents of folders below the working folder: the model gets them when it works there, once,
//! within the bound of all documents.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{calls, patches, runs, says};

fn document(env: &TestEnvironment, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = env.workspace().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn configure(env: &TestEnvironment, line: &str) {
    let old = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{line}\n{old}"));
}

async fn start(peer: &mut Peer) -> String {
    let params = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    peer.start_thread(params).await
}

/// The `instructionSources` of a thread, by `thread/resume`.
async fn sources(peer: &mut Peer, thread: &str) -> Value {
    let params = json!({ "threadId": thread });
    peer.call("thread/resume", params).await["instructionSources"].clone()
}

/// How often each text is in each request to the model.
fn counts(env: &TestEnvironment, texts: &[&str]) -> Vec<Vec<usize>> {
    let count = |request: &String| texts.iter().map(|text| request.matches(text).count()).collect();
    env.model().raw_requests().iter().map(count).collect()
}

fn shown(paths: &[&Path]) -> Value {
    paths.iter().map(|path| json!(path.canonicalize().unwrap())).collect()
}

#[tokio::test]
async fn each_way_of_working_below_the_folder_gives_the_documents_on_the_way() {
    let image = testkit::png(2, 2);
    let patch = "*** Update File: a/b/file.txt\n@@\n-old\n+new";
    let image_call = || calls("view_image", json!({ "path": "a/b/image.png" }));
    let in_folder = || calls("exec_command", json!({ "cmd": "true", "workdir": "a/b" }));
    let ways: [(&str, Value); 7] = [
        ("a working folder", in_folder()),
        ("a file that is read", runs("cat a/b/file.txt")),
        ("a file that is named", runs("wc -l ./a/b/file.txt | sort")),
        ("a change of the folder", runs("cd a && cd b && true")),
        ("a patch", patches(patch)),
        ("a new file", patches("*** Add File: a/b/new.txt\n+new")),
        ("an image", image_call()),
    ];
    for (what, call) in ways {
        let env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
        let outer = document(&env, "a/AGENTS.md", "OUTER RULES");
        let inner = document(&env, "a/b/AGENTS.md", "INNER RULES");
        document(&env, "a/b/file.txt", "old\n");
        document(&env, "a/b/image.png", &image);
        document(&env, "other/AGENTS.md", "OTHER RULES");
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = start(&mut peer).await;
        peer.run_turn(&thread, "Go.").await;
        let found = counts(&env, &["OUTER RULES", "INNER RULES", "OTHER RULES"]);
        assert_eq!(found, [[0, 0, 0], [1, 1, 0]], "{what}");
        let requests = env.model().raw_requests();
        assert!(requests[1].find("OUTER") < requests[1].find("INNER"), "{what}");
        assert_eq!(sources(&mut peer, &thread).await, shown(&[&outer, &inner]), "{what}");
    }
}

#[tokio::test]
async fn the_own_document_and_overriding_ones_are_read_in_any_encoding() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let own = env.home().join("AGENTS.md");
    let utf16: Vec<u8> = "\u{feff}OWN RULES é".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&own, utf16).unwrap();
    document(&env, "AGENTS.md", "SHARED RULES");
    let overriding = document(&env, "AGENTS.override.md", "\u{feff}LOCAL RULES");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(
        counts(&env, &["OWN RULES é", "LOCAL RULES", "SHARED RULES", "\u{feff}"]),
        [[1, 1, 0, 0]]
    );
    let requests = env.model().raw_requests();
    assert!(requests[0].find("OWN") < requests[0].find("LOCAL"), "{}", requests[0]);
    assert_eq!(sources(&mut peer, &thread).await, shown(&[&own, &overriding]));
}

#[tokio::test]
async fn work_in_the_folder_itself_and_elsewhere_gives_nothing() {
    let env = TestEnvironment::with_responses(json!([
        runs("cat file.txt; ls -la .."),
        calls("exec_command", json!({ "cmd": "cat sub/x", "workdir": "/" })),
        runs("echo sub-text 'sub missing/x'"),
        says("Done."),
    ]))
    .await;
    document(&env, "file.txt", "text");
    document(&env, "sub/AGENTS.md", "SUB RULES");
    std::fs::write(env.root().join("AGENTS.md"), "ABOVE RULES").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let found = counts(&env, &["SUB RULES", "ABOVE RULES"]);
    assert!(found.iter().flatten().all(|count| *count == 0), "{found:?}");
    assert_eq!(sources(&mut peer, &thread).await, json!([]));
}

#[tokio::test]
async fn a_document_is_given_once_also_after_a_restart_and_again_when_it_changed() {
    let read = || runs("cat sub/file.txt");
    let mut env = TestEnvironment::with_responses(json!([
        read(),
        read(),
        says("1"),
        read(),
        says("2"),
        read(),
        says("3"),
    ]))
    .await;
    document(&env, "sub/file.txt", "text");
    let path = document(&env, "sub/AGENTS.md", "FIRST RULES");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    env.crash();
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(sources(&mut peer, &thread).await, shown(&[&path]));
    peer.run_turn(&thread, "Go on.").await;
    let found = counts(&env, &["FIRST RULES"]);
    assert_eq!(found, [[0], [1], [1], [1], [1]]);
    std::fs::write(&path, "SECOND RULES").unwrap();
    peer.run_turn(&thread, "Go on.").await;
    let found = counts(&env, &["FIRST RULES", "SECOND RULES"]);
    assert_eq!(found[5..], [[1, 0], [1, 1]]);
    let requests = env.model().raw_requests();
    let input = |request: &String| {
        let from = request.find("\"input\":[").unwrap();
        request[from..request[from..].find("],\"").unwrap() + from].to_owned()
    };
    for pair in requests.windows(2) {
        assert!(input(&pair[1]).starts_with(&input(&pair[0])), "the beginning has changed");
    }
}

#[tokio::test]
async fn a_compaction_keeps_the_last_version_of_a_document() {
    let read = || runs("cat sub/file.txt");
    let env = TestEnvironment::with_responses(json!([
        read(),
        says("1"),
        says("SUMMARY"),
        read(),
        says("2"),
    ]))
    .await;
    document(&env, "sub/file.txt", "text");
    let path = document(&env, "sub/AGENTS.md", "SUB RULES");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    peer.run_turn(&thread, "Go on.").await;
    assert_eq!(counts(&env, &["SUB RULES"])[3..], [[1], [1]]);
    assert_eq!(sources(&mut peer, &thread).await, shown(&[&path]));
}

#[tokio::test]
async fn forks_and_rollbacks_have_the_documents_of_their_history() {
    let read = || runs("cat sub/file.txt");
    let env =
        TestEnvironment::with_responses(json!([says("0"), read(), says("1"), read(), says("2"),]))
            .await;
    document(&env, "sub/file.txt", "text");
    let path = document(&env, "sub/AGENTS.md", "SUB RULES");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Hi.").await;
    peer.run_turn(&thread, "Go.").await;
    let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
    assert_eq!(fork["instructionSources"], shown(&[&path]));
    let fork = fork["thread"]["id"].as_str().unwrap().to_owned();
    peer.run_turn(&fork, "Go.").await;
    assert_eq!(counts(&env, &["SUB RULES"])[3..], [[1]]);
    peer.call("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(counts(&env, &["SUB RULES"])[4..], [[0], [1]]);
    assert_eq!(sources(&mut peer, &thread).await, shown(&[&path]));
}

// Effect of `project_doc_max_bytes` and `project_doc_fallback_filenames` below the working folder.
#[tokio::test]
async fn all_documents_share_one_bound() {
    let read = || runs("cat a/x b/x c/x");
    for (line, given, cut) in [
        ("project_doc_max_bytes = 30", &["ROOT", "AAAA", "BBBB"][..], true),
        ("project_doc_max_bytes = 0", &[], false),
        (
            "project_doc_fallback_filenames = [\"NOTES.md\"]",
            &["ROOT", "AAAA", "BBBB", "NOTES"],
            false,
        ),
    ] {
        let env = TestEnvironment::with_responses(json!([read(), says("1")])).await;
        configure(&env, line);
        document(&env, "AGENTS.md", "ROOT");
        document(&env, "a/AGENTS.md", "AAAA");
        document(&env, "b/AGENTS.md", "B".repeat(100));
        document(&env, "c/NOTES.md", "NOTES");
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = start(&mut peer).await;
        peer.run_turn(&thread, "Go.").await;
        let request = &env.model().raw_requests()[1];
        for text in ["ROOT", "AAAA", "BBBB", "NOTES"] {
            let is_given = request.contains(&format!("\\n{text}"));
            assert_eq!(is_given, given.contains(&text), "{line}: {text}");
        }
        assert_eq!(request.contains("The rest is left out"), cut, "{line}");
        assert!(!cut || !request.contains(&"B".repeat(31)));
    }
}

#[tokio::test]
async fn documents_without_room_are_named_to_the_client_and_the_model() {
    let responses = json!([runs("cat a/x b/x"), says("1"), runs("cat b/x"), says("2")]);
    let env = TestEnvironment::with_responses(responses).await;
    configure(&env, "project_doc_max_bytes = 20");
    let first = document(&env, "a/AGENTS.md", "A".repeat(100));
    document(&env, "b/AGENTS.md", "BBBB");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    peer.run_turn(&thread, "Again.").await;
    let request = env.model().requests().pop().unwrap().to_string();
    assert!(!request.contains("BBBB"), "{request}");
    assert_eq!(request.matches("and is left out, because project documents").count(), 1);
    for path in ["a/AGENTS.md", "b/AGENTS.md"] {
        let warns = |line: &&String| line.contains("\"warning\"") && line.contains(path);
        assert_eq!(peer.raw_lines().iter().filter(warns).count(), 1, "{path}");
    }
    assert_eq!(sources(&mut peer, &thread).await, shown(&[&first]));
}

#[tokio::test]
async fn documents_of_the_folder_itself_without_room_give_a_warning() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    configure(&env, "project_doc_max_bytes = 20");
    document(&env, "AGENTS.md", "A".repeat(100));
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let request = &env.model().raw_requests()[0];
    assert!(request.contains(&"A".repeat(20)) && !request.contains(&"A".repeat(21)));
    let lines = peer.raw_lines().join("\n");
    assert!(lines.contains("AGENTS.md does not fit, and is cut off"), "{lines}");
}

#[tokio::test]
async fn a_document_that_is_gone_no_longer_holds_and_a_dangling_link_gives_a_warning() {
    let read = || runs("cat sub/file.txt");
    let env = TestEnvironment::with_responses(json!([
        read(),
        says("1"),
        read(),
        read(),
        says("2"),
        read(),
        says("3"),
    ]))
    .await;
    document(&env, "sub/file.txt", "text");
    let path = document(&env, "sub/AGENTS.md", "SUB RULES");
    let real = path.canonicalize().unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(sources(&mut peer, &thread).await, json!([real]));
    std::fs::remove_file(&path).unwrap();
    peer.run_turn(&thread, "Go on.").await;
    assert_eq!(counts(&env, &["This file is gone or empty"])[2..], [[0], [1], [1]]);
    assert_eq!(sources(&mut peer, &thread).await, json!([]));
    std::os::unix::fs::symlink("missing.md", &path).unwrap();
    peer.run_turn(&thread, "Go on.").await;
    let lines = peer.raw_lines();
    let warns = |line: &&String| line.contains("is left out") && line.contains("sub/AGENTS.md");
    assert_eq!(lines.iter().filter(warns).count(), 1, "{lines:?}");
}

#[tokio::test]
async fn files_that_are_no_documents_are_left_out_with_a_warning() {
    let env = TestEnvironment::with_responses(json!([
        runs("cat fifo/x outside/x inside/x bytes/x z-big/x folder/x"),
        says("1"),
        runs("cat fifo/x"),
        says("2"),
    ]))
    .await;
    let work = env.workspace();
    std::fs::write(env.root().join("secret.md"), "SECRET").unwrap();
    for folder in ["fifo", "outside", "inside", "folder/AGENTS.md"] {
        std::fs::create_dir_all(work.join(folder)).unwrap();
    }
    let fifo = work.join("fifo/AGENTS.md");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    document(&env, "shared.md", "SHARED RULES");
    std::os::unix::fs::symlink("../shared.md", work.join("inside/AGENTS.md")).unwrap();
    std::os::unix::fs::symlink(env.root().join("secret.md"), work.join("outside/AGENTS.md"))
        .unwrap();
    document(&env, "bytes/AGENTS.md", b"BYTES \xff\xfe RULES");
    let big = document(&env, "z-big/AGENTS.md", "BIG RULES ");
    std::fs::File::options().write(true).open(big).unwrap().set_len(10 << 30).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    peer.run_turn(&thread, "Again.").await;
    let request = env.model().raw_requests().pop().unwrap();
    for text in ["SHARED RULES", "BYTES \u{fffd}\u{fffd} RULES", "BIG RULES"] {
        assert!(request.contains(text), "{text}");
    }
    assert!(!request.contains("SECRET"));
    let lines = peer.raw_lines().join("\n");
    for path in ["fifo/AGENTS.md", "outside/AGENTS.md", "folder/AGENTS.md"] {
        let of_path = |line: &&String| line.contains("is left out") && line.contains(path);
        assert_eq!(peer.raw_lines().iter().filter(of_path).count(), 1, "{path} in {lines}");
    }
    assert!(lines.contains("outside of the project"), "{lines}");
}

#[tokio::test]
async fn a_reviewer_gets_the_documents_too() {
    let env =
        TestEnvironment::with_responses(json!([runs("cat sub/file.txt"), says("No findings."),]))
            .await;
    document(&env, "sub/file.txt", "text");
    document(&env, "sub/AGENTS.md", "SUB RULES");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = start(&mut peer).await;
    let target = json!({ "type": "custom", "instructions": "Look." });
    peer.call("review/start", json!({ "threadId": thread, "target": target })).await;
    peer.expect("turn/completed").await;
    assert_eq!(counts(&env, &["SUB RULES"]), [[0], [1]]);
}

#[tokio::test]
async fn a_link_reaches_only_documents_of_the_project_that_the_thread_may_read() {
    let hides = |path: &Path| {
        format!(
            "default_permissions = \"hiding\"\n[permissions.hiding.filesystem]\n\":root\" = \"read\"\n\
             {path:?} = \"none\"\n"
        )
    };
    for (target, is_hidden, is_read) in [
        ("docs/rules.md", false, true),
        ("docs/rules.md", true, false),
        ("../secret.md", false, false),
    ] {
        let env = TestEnvironment::with_responses(json!([says("1")])).await;
        let rules = document(&env, "docs/rules.md", "LINKED RULES");
        document(&env, ".git/HEAD", "");
        std::fs::write(env.root().join("secret.md"), "LINKED RULES").unwrap();
        std::os::unix::fs::symlink(target, env.workspace().join("AGENTS.md")).unwrap();
        if is_hidden {
            let old = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
            let (first, tables) = old.split_once("\n[").unwrap_or((&old, ""));
            let hiding = hides(rules.parent().unwrap());
            env.write_config(&format!("{first}\n{hiding}\n[{tables}"));
        }
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
        peer.run_turn(&thread, "Go.").await;
        let what = format!("{target}, hidden: {is_hidden}");
        assert_eq!(env.model().raw_requests()[0].contains("LINKED RULES"), is_read, "{what}");
        let warns = |line: &String| line.contains("project document is left out");
        assert_eq!(peer.raw_lines().iter().any(warns), !is_read, "{what}");
    }
}
