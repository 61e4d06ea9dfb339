//! `agentd threads` and `agentd doctor` as a user runs them.

use crate::common;
use crate::common::{Running, TestEnvironment, stderr, stdout};
use serde_json::{Value, json};

/// Creates an environment with one thread of one turn; returns that thread's id too.
fn place_with_thread() -> (TestEnvironment, String) {
    let env = TestEnvironment::new();
    let model = env.script(&json!([
        { "steps": [{ "message": "Said: {{last_user_text}}" }] },
        { "steps": [{ "message": "Again: {{last_user_text}}" }] },
    ]));
    let mut server = Running::server(&env, &[]);
    let thread = server.thread(&model);
    turn(&mut server, &thread, "The word is plum.");
    assert!(server.end().0.success());
    (env, thread)
}

fn turn(server: &mut Running, thread: &str, text: &str) {
    let input = json!([{ "type": "text", "text": text }]);
    server.call(7, "turn/start", json!({ "threadId": thread, "input": input }));
    let ended = server.notification("turn/completed");
    assert_eq!(ended["turn"]["status"], "completed", "{ended}");
}

fn turns(server: &mut Running, thread: &str) -> Value {
    let read = json!({ "threadId": thread, "includeTurns": true });
    server.call(8, "thread/read", read)["result"]["thread"]["turns"].clone()
}

#[test]
fn a_thread_moves_to_another_home() {
    let (env, thread) = place_with_thread();
    let file = env.work().join("thread.jsonl");
    let file = file.to_str().unwrap();
    let written = env.run(&["threads", "export", &thread, "--output", file]);
    assert!(written.status.success(), "{}", stderr(&written));
    let piped = env.run(&["threads", "export", &thread]);
    assert_eq!(stdout(&piped), std::fs::read_to_string(file).unwrap());
    let again = env.run(&["threads", "export", &thread, "--output", file]);
    assert!(stderr(&again).contains("exists"), "{}", stderr(&again));
    let unknown = env.run(&["threads", "export", "unknown"]);
    assert!(!unknown.status.success() && stderr(&unknown).contains("unknown"));

    let other = TestEnvironment::new();
    let imported = other.run(&["threads", "import", file]);
    assert_eq!(stdout(&imported).trim(), thread, "{}", stderr(&imported));
    let twice = other.run(&["threads", "import", file]);
    assert!(stderr(&twice).contains("already stored"), "{}", stderr(&twice));
    let beside = other.pipe(&["threads", "import", "--new-id"], &stdout(&piped));
    let copy = stdout(&beside).trim().to_owned();
    assert_ne!(copy, thread);
    let mut server = Running::server(&other, &[]);
    let (first, second) = (turns(&mut server, &thread), turns(&mut server, &copy));
    assert_eq!(first, second);
    assert_eq!(first[0]["items"][1]["text"], "Said: The word is plum.");
    server.call(9, "thread/resume", json!({ "threadId": copy }));
    turn(&mut server, &copy, "Go on.");
    assert!(server.end().0.success());
    let whole = stdout(&piped);
    let cut = whole.trim_end().rsplit_once('\n').unwrap().0;
    let cut = other.pipe(&["threads", "import", "--new-id"], cut);
    assert!(!cut.status.success() && stdout(&cut).is_empty(), "{}", stdout(&cut));
    assert!(stderr(&cut).contains("a part of the thread is missing"), "{}", stderr(&cut));
    let broken = other.pipe(&["threads", "import"], "rubbish\n");
    assert!(stderr(&broken).contains("line 1"), "{}", stderr(&broken));
}

/// A thread that fails is named, and the others are done all the same.
#[test]
fn several_threads_are_changed_one_by_one() {
    let (env, thread) = place_with_thread();
    let archived = |env: &TestEnvironment| {
        let listed = env.run(&["threads", "list", "--archived"]);
        stdout(&listed).lines().count()
    };
    let mixed = env.run(&["threads", "archive", "nope", &thread]);
    assert_eq!(mixed.status.code(), Some(1), "{}", stderr(&mixed));
    let said = stderr(&mixed);
    assert!(said.contains("agentd: nope: ") && said.contains("thread not found"), "{said}");
    assert!(said.contains("1 of 2 threads failed; the others are done"), "{said}");
    assert_eq!(archived(&env), 1);
    let alone = env.run(&["threads", "unarchive", "nope"]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(!stderr(&alone).contains("of 1"), "{}", stderr(&alone));
    let deleted = env.run(&["threads", "delete", "--yes", "nope", &thread, "none"]);
    assert!(stderr(&deleted).contains("2 of 3 threads failed"), "{}", stderr(&deleted));
    assert_eq!(archived(&env), 0);
}

#[test]
fn the_doctor_finds_what_is_wrong_and_changes_nothing() {
    let offline = "model_provider = \"offline\"\n";
    let empty = TestEnvironment::new();
    std::fs::write(empty.home().join("config.toml"), offline).unwrap();
    let well = empty.run(&["doctor"]);
    assert!(well.status.success(), "{}", stdout(&well));
    let (env, _) = place_with_thread();
    std::fs::write(env.home().join("config.toml"), offline).unwrap();
    let before = common::listing(&env.home());
    let well = env.run(&["doctor"]);
    assert!(well.status.success(), "{}", stdout(&well));
    assert!(stdout(&well).contains("1 threads, 1 turns"), "{}", stdout(&well));
    assert_eq!(common::listing(&env.home()), before, "nothing was changed");

    let database = env.home().join("threads.db");
    let mut bad = std::fs::read(&database).unwrap();
    let middle = bad.len() / 2;
    bad[middle..].fill(0xAB);
    for (contents, expected) in [
        (bad, "PROBLEM threads"),
        (b"no database at all, and not a short text either".repeat(200), "PROBLEM threads"),
    ] {
        std::fs::write(&database, &contents).unwrap();
        let ill = env.run(&["doctor"]);
        assert!(!ill.status.success(), "{}", stdout(&ill));
        assert!(stdout(&ill).contains(expected), "{}", stdout(&ill));
        assert_eq!(std::fs::read(&database).unwrap(), contents, "nothing was changed");
    }
    // A server sets it aside; `doctor` reports where it is.
    let server = Running::server(&env, &[]);
    assert!(server.end().0.success());
    let report = env.run(&["doctor"]);
    assert!(stdout(&report).contains("threads.db.damaged-"), "{}", stdout(&report));
    assert!(stdout(&report).contains("threads kept: 0"), "{}", stdout(&report));
    std::fs::write(env.home().join("config.toml"), "sandbox_mode = 5\n").unwrap();
    let report = env.run(&["doctor"]);
    assert!(stdout(&report).contains("PROBLEM configuration"), "{}", stdout(&report));
}

#[test]
fn the_doctor_reports_the_messages_of_a_server() {
    // Each replaces a file of a store that was closed in order.
    let pipe = |path: &std::path::Path| {
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    type Make<'m> = &'m dyn Fn(&std::path::Path);
    let nothing: Make<'_> = &|path| std::fs::write(path, "").unwrap();
    let folder: Make<'_> = &|path| std::fs::create_dir(path).unwrap();
    let device: Make<'_> = &|path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    for (name, make, expected) in [
        ("threads.db", &pipe as Make<'_>, "a pipe, a socket or a device"),
        ("threads.db", folder, "is a folder"),
        ("threads.db", device, "a pipe, a socket or a device"),
        ("threads.db", nothing, "it is empty, but was not before"),
        ("threads.db", &|_| {}, "it is missing"),
        ("threads.lock", folder, "is a folder"),
        ("threads.lock", &pipe, "a pipe, a socket or a device"),
        ("owners", nothing, "not a folder"),
        ("threads.db-wal", &pipe, "a pipe, a socket or a device"),
        ("threads.db-shm", folder, "is a folder"),
    ] {
        let (env, _) = place_with_thread();
        let path = env.home().join(name);
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        make(&path);
        let ill = env.run(&["doctor"]);
        assert!(!ill.status.success(), "{name}: {}", stdout(&ill));
        let page = stdout(&ill);
        let line = page.lines().find(|line| line.starts_with("PROBLEM threads")).unwrap();
        assert!(line.contains(name) && line.contains(expected), "{name}: {line}");
        // Commands that open the store behave the same way.
        let refused = env.run(&["threads", "export", "00000000-0000-7000-8000-000000000000"]);
        let why = line.split_once("threads: ").unwrap().1;
        assert!(stderr(&refused).contains(why), "{name}: {}", stderr(&refused));
    }
}

#[test]
fn the_doctor_lists_what_a_salvage_of_a_log_lost() {
    let (env, _) = place_with_thread();
    std::fs::remove_file(env.home().join("threads.db")).unwrap();
    std::fs::write(env.home().join("threads.db-wal"), "no log").unwrap();
    let mut server = Running::server(&env, &[]);
    let warned = server.thread("echo");
    assert!(!warned.is_empty());
    assert!(server.end().0.success());
    let report = env.run(&["doctor"]);
    assert!(!report.status.success(), "{}", stdout(&report));
    let page = stdout(&report);
    assert!(page.contains("-wal") && page.contains("threads kept: 0"), "{page}");
    let named = page.split([' ', ',', '\n']).filter(|word| word.contains("threads.db.damaged-"));
    for name in named.map(|name| name.trim_end_matches('.')) {
        assert!(std::path::Path::new(name).exists(), "{name} of {page}");
    }
}

#[test]
fn without_a_usable_store_exec_works_when_ephemeral() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.home().join("threads.db")).unwrap();
    let arguments = ["exec", "-c", r#"model_provider="offline""#, "-m", "echo"];
    let refused = env.run(&[&arguments[..], &["hello"]].concat());
    let report = stderr(&refused);
    assert!(!refused.status.success() && report.contains("threads.db is a folder"), "{report}");
    let done = env.run(&[&arguments[..], &["--ephemeral", "hello"]].concat());
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stdout(&done).contains("hello"), "{}", stdout(&done));
}

#[test]
fn doctor_does_not_refer_to_itself() {
    let env = TestEnvironment::new();
    std::fs::write(env.home().join("threads.db"), [7; 4096]).unwrap();
    let output = env.run(&["doctor"]);
    let page = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("end every server of this home and start one: it copies"), "{page}");
    assert!(!page.contains("agentd doctor"), "{page}");
}

/// The backup of docs/data.md, made while a server writes.
#[test]
fn a_backup_of_the_threads_is_restored() {
    let (env, thread) = place_with_thread();
    let database = env.home().join("threads.db");
    let copy = env.work().join("threads-backup.db");
    let mut server = Running::server(&env, &[]);
    server.call(9, "thread/resume", json!({ "threadId": thread }));
    let backup = format!(".backup '{}'", copy.display());
    let made = std::process::Command::new("sqlite3").arg(&database).arg(&backup).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    turn(&mut server, &thread, "This is lost.");
    assert!(server.end().0.success());

    for name in ["threads.db", "threads.db-wal", "threads.db-shm"] {
        // Without a server, SQLite may have removed the last two.
        let _ = std::fs::remove_file(env.home().join(name));
    }
    std::fs::copy(&copy, &database).unwrap();
    let checked = env.run(&["doctor"]);
    assert!(!stdout(&checked).contains("PROBLEM threads"), "{}", stdout(&checked));
    let mut server = Running::server(&env, &[]);
    let turns = turns(&mut server, &thread);
    assert_eq!(turns.as_array().map(Vec::len), Some(1), "{turns}");
    server.call(9, "thread/resume", json!({ "threadId": thread }));
    turn(&mut server, &thread, "Go on.");
}
