//! `agentd demo` from outside: it shows what it announces, and leaves no files behind.

use std::time::{Duration, Instant};

use crate::common::{Running, TestEnvironment, listing, stderr, stdout};

/// What a person is to see, in this order.
const PROMISED: [&str; 19] = [
    "no key, no network",
    "scratch copy of ",
    "initialize: ",
    "thread/start: thread ",
    "model demo (offline), sandbox workspace-write",
    "turn/start: ",
    "agent I will look around",
    "plan Three small steps.",
    "▸ Look at the folder",
    "$ ls -la",
    "exit 0",
    "add AGENTD_DEMO.md  +4 -0",
    "+# Hello from the demo",
    "item/fileChange/requestApproval",
    "the demo answers: accept",
    "applied",
    "tokens ",
    "threads.db",
    "agentd exec",
];

#[test]
fn the_demo_shows_every_element_and_leaves_the_folder_unchanged() {
    for files in [&[][..], &[("a.txt", "a"), ("src/b.rs", "fn b() {}"), (".git/HEAD", "ref: x")]] {
        let env = TestEnvironment::new();
        for (name, text) in files {
            let path = env.work().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let before = listing(&env.work());
        let begun = Instant::now();
        let output = env.run(&["demo"]);
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let shown = stdout(&output);
        let mut rest = shown.as_str();
        for part in PROMISED {
            let (_, after) = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} in {shown}"));
            rest = after;
        }
        assert!(!shown.contains('\x1b'), "colours in a pipe: {shown:?}");
        assert_eq!(listing(&env.work()), before);
        assert_eq!(listing(&env.tmp()), [], "the scratch copy is removed");
    }
}

#[test]
fn printed_commands_work_when_pasted() {
    let env = TestEnvironment::new();
    let shown = stdout(&env.run(&["demo"]));
    let mut server = Running::start(&mut env.agentd(&["app-server"]));
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), 4, "{shown}");
    for line in lines {
        server.send(line);
    }
    let item = server.message(|message| {
        message["method"] == "item/completed" && message["params"]["item"]["type"] == "agentMessage"
    });
    assert_eq!(item["params"]["item"]["text"], "Hello!");
    assert_eq!(server.notification("turn/completed")["turn"]["status"], "completed");
    assert!(server.end().0.success());
}

/// The sandbox needs no program: only what the demo's commands run.
#[test]
fn the_demo_needs_no_other_package() {
    let env = TestEnvironment::new();
    let programs = env.home().join("bin");
    std::fs::create_dir(&programs).unwrap();
    for program in ["ls", "sh"] {
        let file = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(program))
            .find(|file| file.is_file())
            .unwrap();
        std::os::unix::fs::symlink(file, programs.join(program)).unwrap();
    }
    let output = env.agentd(&["demo"]).env("PATH", &programs).output().unwrap();
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", stderr(&output));
    assert!(!shown.contains("the sandbox is not available"), "{shown}");
    assert!(shown.contains("exit 0 in"), "{shown}");
    assert!(shown.contains("applied"), "{shown}");
}

#[test]
fn an_interrupted_demo_leaves_no_files() {
    let env = TestEnvironment::new();
    std::fs::write(env.work().join("a.txt"), "a").unwrap();
    let running = Running::start(&mut env.agentd(&["demo"]));
    running.line_with("turn/start: ");
    running.signal("INT");
    running.line_with("interrupted");
    assert_eq!(running.end().0.code(), Some(130));
    assert_eq!(listing(&env.tmp()), []);
}

#[test]
fn interactive_approvals_need_a_terminal() {
    let env = TestEnvironment::new();
    let shown = stdout(&env.run(&["demo", "--ask"]));
    assert!(shown.contains("standard input is not a terminal: the demo answers"), "{shown}");
    assert!(shown.contains("the demo answers: accept"), "{shown}");
}
