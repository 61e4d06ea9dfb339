//! Several servers on one home, and homes with problems: damaged, newer, read-only, full.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{runs, says};

fn talkative() -> Value {
    json!({ "responses": [says("Yes: {{last_user_text}}")], "on_exhausted": "repeat_last" })
}

#[tokio::test]
async fn a_thread_leased_by_another_server_is_not_taken() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let (one, two) = (env.start(), env.start());
    let (mut first, mut second) =
        (one.connect().await, two.connect_with(json!({ "experimentalApi": true })).await);
    let thread = first.start_thread(json!({})).await;
    first.run_turn(&thread, "One.").await;
    let own = second.start_thread(json!({})).await;
    second.run_turn(&own, "Side by side.").await;
    // Without it, no request reaches the other server.
    std::fs::remove_dir_all(env.home().join("doors")).unwrap();
    let pid = format!("process {}", std::process::id());
    for (method, more) in [
        ("thread/resume", json!({})),
        ("thread/archive", json!({})),
        ("thread/delete", json!({})),
        ("thread/name/set", json!({ "name": "x" })),
        ("thread/metadata/update", json!({ "gitInfo": { "sha": "x" } })),
    ] {
        let mut params = more;
        params["threadId"] = json!(thread);
        let fault = second.refused(method, params).await;
        assert_eq!(fault.code, -32600, "{method}");
        let names_it = fault.message.contains(&thread) && fault.message.contains(&pid);
        assert!(names_it && fault.message.contains("another server"), "{method}: {fault:?}");
    }
    // Reading and forking do not take the lease.
    let params = json!({ "threadId": thread, "includeTurns": true });
    let read = second.call("thread/read", params).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 1);
    let fork = second.call("thread/fork", json!({ "threadId": thread })).await;
    second.run_turn(fork["thread"]["id"].as_str().unwrap(), "Fork.").await;
    let page = first.call("thread/list", json!({})).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 3, "each sees all of them");

    // The first server continues; after it has ended, the other one can resume the thread.
    first.run_turn(&thread, "Two.").await;
    one.stop().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(second.run_turn(&thread, "Three.").await["status"], "completed");
    let last = env.model().raw_requests().pop().unwrap();
    assert!(last.contains("One.") && last.contains("Two."), "{last}");
}

#[tokio::test]
async fn a_read_closes_the_turn_of_a_dead_server() {
    let mut env = TestEnvironment::with_responses(json!([runs("touch made"), says("On.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "unlessTrusted" })).await;
    peer.start_turn(&thread, "Begin.").await;
    peer.asked("item/commandExecution/requestApproval").await;
    env.crash();
    // This server opens the store before the turn's server is known to be dead.
    let later = env.start();
    let mut late = later.connect().await;
    let turns = late.call("thread/turns/list", json!({ "threadId": thread })).await;
    assert_eq!(turns["data"][0]["status"], "interrupted");
    late.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(late.run_turn(&thread, "Go on.").await["status"], "completed");
}

#[tokio::test]
async fn a_damaged_database_is_set_aside_and_reported() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let rubbish = "this was a database once ".repeat(400);
    std::fs::write(env.home().join("threads.db"), &rubbish).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "One.").await["status"], "completed");
    let mut late = server.connect().await;
    late.notify("initialized", json!({})).await;
    let warning = late.expect("warning").await["message"].as_str().unwrap().to_owned();
    assert!(
        warning.contains("threads.db.damaged-") && warning.contains("agentd doctor"),
        "{warning}"
    );
    let kept = std::fs::read_dir(env.home())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            let path = path.display().to_string();
            path.contains(".damaged-") && !path.ends_with("-lost.txt")
        })
        .unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), rubbish, "nothing of it is lost");
}

#[tokio::test]
async fn only_damaged_records_are_lost() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut threads = Vec::new();
    for number in 0..30 {
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, &format!("Number {number}. {}", "x ".repeat(300))).await;
        threads.push(thread);
    }
    server.stop().await;
    // A hole in the middle of the table of threads.
    let path = env.home().join("threads.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let has =
        |page: &[u8], text: &str| page.windows(text.len()).any(|window| window == text.as_bytes());
    let is_threads = |page: &[u8]| has(page, &threads[15]) && has(page, "\"sandbox\"");
    let hole = bytes.chunks_mut(4096).find(|page| is_threads(page)).unwrap();
    hole.fill(0);
    std::fs::write(&path, &bytes).unwrap();

    let (server, _guard) = env.start_logged();
    let mut peer = server.connect().await;
    let fresh = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&fresh, "New.").await["status"], "completed");
    let mut late = server.connect().await;
    late.notify("initialized", json!({})).await;
    let summary = late.expect_where("warning", |notice| notice["threadId"].is_null()).await;
    let summary = summary["message"].as_str().unwrap().to_owned();
    assert!(summary.contains("threads.db.damaged-"), "{summary}");
    let notice = late.expect_where("warning", |notice| notice["threadId"].is_string()).await;
    let hurt = notice["threadId"].as_str().unwrap().to_owned();
    assert!(notice["message"].as_str().unwrap().contains(&hurt), "{notice}");
    assert!(threads.contains(&hurt), "{hurt}");
    let page = peer.call("thread/list", json!({ "limit": 100 })).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 31, "those that lost something too");
    // A thread that lost its settings can continue too.
    for thread in [&threads[0], &threads[29], &hurt] {
        let read = json!({ "threadId": thread, "includeTurns": true });
        let read = peer.call("thread/read", read).await;
        assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 1, "{read}");
        peer.call("thread/resume", json!({ "threadId": thread })).await;
        assert_eq!(peer.run_turn(thread, "Go on.").await["status"], "completed");
        let sent = env.model().raw_requests().pop().unwrap();
        assert!(sent.contains("Number "), "the model still sees what was said: {sent}");
    }
    let log = std::fs::read_to_string(env.home().join("log/agentd.log")).unwrap();
    assert!(log.contains(&hurt) && log.contains("threads.db.damaged-"), "{log}");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let page = peer.call("thread/list", json!({ "limit": 100 })).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 31);
}

#[tokio::test]
async fn a_lost_page_of_turns_hides_no_conversation() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let mut threads = Vec::new();
    for number in 0..20 {
        let thread = peer.start_thread(json!({})).await;
        let turn = peer.run_turn(&thread, &format!("Number {number}.")).await;
        threads.push((thread, turn["id"].as_str().unwrap().to_owned()));
    }
    server.stop().await;
    // A leaf page of a table (type 13) that holds the ids of many turns.
    let path = env.home().join("threads.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let has =
        |page: &[u8], text: &str| page.windows(text.len()).any(|window| window == text.as_bytes());
    let ids = |page: &[u8]| threads.iter().filter(|(_, turn)| has(page, turn)).count();
    bytes.chunks_mut(4096).find(|page| page[0] == 13 && ids(page) > 4).unwrap().fill(0);
    std::fs::write(&path, &bytes).unwrap();

    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let page = peer.call("thread/list", json!({ "limit": 100 })).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 20);
    let mut lost = 0;
    for (number, (thread, turn)) in threads.iter().enumerate() {
        let read = json!({ "threadId": thread, "includeTurns": true });
        let read = peer.call("thread/read", read).await;
        let shown = &read["thread"]["turns"][0];
        assert_eq!(shown["id"], *turn, "{read}");
        assert!(shown["items"].to_string().contains(&format!("Yes: Number {number}.")), "{read}");
        if shown["status"] == "failed" {
            let said = shown["error"]["message"].as_str().unwrap();
            assert!(said.contains("record of this turn was lost"), "{said}");
            lost += 1;
        }
    }
    assert!(lost > 0);
    let mut late = server.connect().await;
    late.notify("initialized", json!({})).await;
    let notice = late.expect_where("warning", |notice| notice["threadId"].is_string()).await;
    assert!(notice["message"].as_str().unwrap().contains("turns' own records"), "{notice}");
    let thread = notice["threadId"].as_str().unwrap();
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(thread, "Go on.").await["status"], "completed");
    assert!(env.model().raw_requests().pop().unwrap().contains("Number "));
}

#[tokio::test]
async fn nothing_is_reported_as_complete_after_the_database_is_removed() {
    type Harm = fn(&std::path::Path);
    let harms: [(&str, Harm); 3] = [
        ("was deleted", |path| std::fs::remove_file(path).unwrap()),
        ("was truncated", |path| std::fs::write(path, "").unwrap()),
        ("was replaced", |path| {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }),
    ];
    for (expected, harm) in harms {
        let env = TestEnvironment::with_script(&talkative()).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "One.").await;
        let path = env.home().join("threads.db");
        harm(&path);
        for params in [json!({}), json!({ "threadId": thread, "input": [] })] {
            let turn = params["threadId"].is_string();
            let (method, mut params) = match turn {
                true => ("turn/start", params),
                false => ("thread/start", params),
            };
            if turn {
                params["input"] = json!([{ "type": "text", "text": "Two." }]);
            }
            let fault = peer.refused(method, params).await;
            let clear = fault.message.contains(expected) && fault.message.contains("threads.db");
            assert!(clear, "{method}: {fault:?}");
        }
        let other = peer.start_thread(json!({ "ephemeral": true })).await;
        assert_eq!(peer.run_turn(&other, "One.").await["status"], "completed");
        server.stop().await;
        if path.is_dir() {
            std::fs::remove_dir(&path).unwrap();
        }
        let server = env.start();
        let mut peer = server.connect().await;
        let fresh = peer.start_thread(json!({})).await;
        assert_eq!(peer.run_turn(&fresh, "New.").await["status"], "completed");
        let mut late = server.connect().await;
        late.notify("initialized", json!({})).await;
        let notice = late.expect_where("warning", |notice| notice["threadId"].is_null()).await;
        let said = notice["message"].as_str().unwrap();
        assert!(said.contains("more may be missing"), "{expected}: {said}");
        server.stop().await;
    }
}

#[tokio::test]
async fn without_a_usable_store_ephemeral_threads_work() {
    let make_folder = |path: &std::path::Path| std::fs::create_dir(path).unwrap();
    let make_socket =
        |path: &std::path::Path| drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let link = |to: &'static str| {
        move |path: &std::path::Path| std::os::unix::fs::symlink(to, path).unwrap()
    };
    let pipe = |path: &std::path::Path| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
    };
    type Make = Box<dyn Fn(&std::path::Path)>;
    // The last one is a file whose every read fails with an input/output error.
    let kinds: [(&str, &str, Make); 10] = [
        ("threads.db", "is a folder", Box::new(make_folder)),
        ("threads.db", "a pipe, a socket or a device", Box::new(pipe)),
        ("threads.db", "a pipe, a socket or a device", Box::new(make_socket)),
        ("threads.db", "a pipe, a socket or a device", Box::new(link("/dev/zero"))),
        ("threads.lock", "is a folder", Box::new(make_folder)),
        ("threads.db-wal", "a pipe, a socket or a device", Box::new(pipe)),
        ("threads.db-shm", "is a folder", Box::new(make_folder)),
        ("owners", "not a folder", Box::new(|path| std::fs::write(path, "x").unwrap())),
        ("threads.lock", "a pipe, a socket or a device", Box::new(pipe)),
        ("threads.db", "threads.db", Box::new(link("/proc/self/mem"))),
    ];
    for (name, expected, make) in kinds {
        let env = TestEnvironment::with_script(&talkative()).await;
        make(&env.home().join(name));
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        for (method, params) in [
            ("thread/start", json!({})),
            ("thread/list", json!({})),
            ("thread/read", json!({ "threadId": "x" })),
            ("thread/resume", json!({ "threadId": "x" })),
            ("thread/fork", json!({ "threadId": "x" })),
            ("thread/archive", json!({ "threadId": "x" })),
            ("thread/unarchive", json!({ "threadId": "x" })),
            ("thread/delete", json!({ "threadId": "x" })),
            ("thread/turns/list", json!({ "threadId": "x" })),
            ("thread/name/set", json!({ "threadId": "x", "name": "y" })),
        ] {
            let fault = peer.refused(method, params).await;
            let clear = fault.message.contains(name) && fault.message.contains(expected);
            assert!(fault.code == -32603 && clear, "{name}, {expected}, {method}: {fault:?}");
        }
        let thread = peer.start_thread(json!({ "ephemeral": true })).await;
        assert_eq!(peer.run_turn(&thread, "One.").await["status"], "completed", "{name}");
        assert_eq!(peer.run_turn(&thread, "Two.").await["status"], "completed", "{name}");
        let read = peer.call("thread/read", json!({ "threadId": thread })).await;
        assert_eq!(read["thread"]["ephemeral"], true);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_alone() {
    let env = TestEnvironment::with_script(&talkative()).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "One.").await;
    server.stop().await;
    let path = env.home().join("threads.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The version is in bytes 60 to 64 of the file.
    bytes[60..64].copy_from_slice(&4711_u32.to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    for (method, params) in [
        ("thread/start", json!({})),
        ("thread/list", json!({})),
        ("thread/resume", json!({ "threadId": thread })),
    ] {
        let fault = peer.refused(method, params).await;
        let notice = fault.message.contains("4711") && fault.message.contains("newer program");
        assert!(fault.code == -32603 && notice, "{method}: {fault:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing is overwritten");
}

#[tokio::test]
async fn an_unwritable_home_is_reported() {
    if rustix_is_root() {
        // Root can write everywhere.
        return;
    }
    let env = TestEnvironment::with_script(&talkative()).await;
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/start", json!({})).await;
    assert!(fault.message.contains(&env.home().display().to_string()), "{fault:?}");
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
}

fn rustix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
