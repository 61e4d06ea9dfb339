//! `features.prevent_idle_sleep`: the machine is kept awake by a program that runs as long as turns do.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::TestEnvironment;
use tokio::task::spawn_blocking;

/// An environment in which `systemd-inhibit` is this script. The script has a FIFO, which is returned.
async fn environment(responses: Value, script: &str) -> (TestEnvironment, PathBuf) {
    let mut env = TestEnvironment::with_responses(responses).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}\n[features]\nprevent_idle_sleep = true\n"));
    let programs = env.root().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let fifo = env.root().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let program = programs.join("systemd-inhibit");
    let script = format!("#!/bin/sh\n{}", script.replace("FIFO", &fifo.display().to_string()));
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, value) in &mut env.variables {
        if name == "PATH" {
            let mut path = programs.clone().into_os_string();
            path.push(":");
            path.push(&*value);
            *value = path;
        }
    }
    (env, fifo)
}

/// Writes its arguments to the FIFO, and keeps it open while it runs.
const HOLDS: &str = "exec 3>FIFO\necho \"$@\" >&3\nexec sleep 1000\n";

// Effect of `features.prevent_idle_sleep`.
#[tokio::test]
async fn the_machine_is_kept_awake_while_a_turn_runs() {
    let idle = json!({ "steps": ["idle"] });
    let (env, fifo) = environment(json!([idle, idle]), HOLDS).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for _ in 0..2 {
        let turn = peer.start_turn(&thread, "Go.").await;
        let (fifo, (begun, has_begun)) = (fifo.clone(), tokio::sync::oneshot::channel());
        let held = spawn_blocking(move || {
            let mut fifo = std::fs::File::open(fifo).unwrap();
            let mut arguments = [0; 4096];
            let bytes = fifo.read(&mut arguments).unwrap();
            begun.send(()).unwrap();
            // The end of the program is that of the file.
            assert_eq!(fifo.read(&mut [0; 1]).unwrap(), 0);
            String::from_utf8(arguments[..bytes].to_vec()).unwrap()
        });
        has_begun.await.unwrap();
        assert!(!held.is_finished(), "the program ended before the turn did");
        peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
        peer.expect("turn/completed").await;
        let arguments = held.await.unwrap();
        let expected =
            "--what=idle --mode=block --who=agentd --why=an agent is working sleep infinity\n";
        assert_eq!(arguments, expected);
    }
}

#[tokio::test]
async fn a_lock_that_cannot_be_had_is_reported_and_stops_nothing() {
    let responses = json!([{ "steps": ["idle"] }]);
    let refused = "echo 'Failed to inhibit: no bus' >&2\nexit 1\n";
    let (env, _) = environment(responses, refused).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let warning = peer.expect("warning").await;
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains("`features.prevent_idle_sleep` is on"), "{message}");
    assert!(message.ends_with("exit code 1: Failed to inhibit: no bus"), "{message}");
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.expect("turn/completed").await;
}
