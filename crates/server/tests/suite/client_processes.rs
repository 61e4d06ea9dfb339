//! Commands without a thread: `command/exec` inside the sandbox, `process/*` outside
//! (specification: Command execution, Process sessions).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

async fn env() -> TestEnvironment {
    TestEnvironment::with_responses(json!([says("x")])).await
}

fn shell(script: &str) -> Value {
    json!({ "command": ["/bin/bash", "-c", script] })
}

fn with(mut params: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

/// All output that was streamed for `stream`.
fn streamed(peer: &Peer, method: &str, stream: &str) -> String {
    let mut bytes = Vec::new();
    for line in peer.raw_lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if message["method"] == method && message["params"]["stream"] == stream {
            let delta = message["params"]["deltaBase64"].as_str().unwrap();
            bytes.extend(STANDARD.decode(delta).unwrap());
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_command_is_run_and_answered() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let answer = peer.call("command/exec", shell("echo out; echo err >&2; exit 3")).await;
    assert_eq!(answer, json!({ "exitCode": 3, "stdout": "out\n", "stderr": "err\n" }));
    // Confined by the configuration's policy, in the server's working folder.
    let outside = env.root().join("outside");
    let script = format!("pwd; touch inside && ! touch {}", outside.display());
    let params = with(
        shell(&script),
        json!({ "sandboxPolicy": { "type": "workspaceWrite",
        "writableRoots": [], "networkAccess": false } }),
    );
    let answer = peer.call("command/exec", params).await;
    assert_eq!(answer["exitCode"], 0, "{answer}");
    assert_eq!(answer["stdout"], format!("{}\n", env.workspace().display()));
    assert!(env.workspace().join("inside").exists() && !outside.exists());
    let read_only = json!({ "sandboxPolicy": { "type": "readOnly" } });
    let answer = peer.call("command/exec", with(shell("touch x"), read_only)).await;
    assert_ne!(answer["exitCode"], 0);
    let full = json!({ "sandboxPolicy": { "type": "dangerFullAccess" } });
    let script = format!("touch {}", outside.display());
    assert_eq!(peer.call("command/exec", with(shell(&script), full)).await["exitCode"], 0);
    assert!(outside.exists());
    let env = json!({ "env": { "NEW": "one two", "HOME": null } });
    let answer = peer.call("command/exec", with(shell("echo $NEW:${HOME-unset}"), env)).await;
    assert_eq!(answer["stdout"], "one two:unset\n");
}

#[tokio::test]
async fn invalid_parameters_of_processes_are_refused_by_name() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    for (params, expected) in [
        (json!({ "command": [] }), "`command`"),
        (json!({ "command": [""] }), "`command`"),
        (json!({ "command": ["a\u{0}b"] }), "NUL"),
        (with(shell("true"), json!({ "cwd": "/nowhere" })), "`cwd`"),
        (with(shell("true"), json!({ "timeoutMs": -1 })), "`timeoutMs`"),
        (with(shell("true"), json!({ "timeoutMs": 1, "disableTimeout": true })), "exclude"),
        (with(shell("true"), json!({ "outputBytesCap": 1, "disableOutputCap": true })), "exclude"),
        (with(shell("true"), json!({ "tty": true })), "`processId`"),
        (with(shell("true"), json!({ "streamStdin": true })), "`processId`"),
        (with(shell("true"), json!({ "size": { "rows": 1, "cols": 1 } })), "`tty`"),
        (
            with(
                shell("true"),
                json!({ "tty": true, "processId": "a",
            "size": { "rows": 0, "cols": 1 } }),
            ),
            "`size`",
        ),
        (with(shell("true"), json!({ "env": { "A=B": "x" } })), "`env`"),
        (
            with(
                shell("true"),
                json!({ "sandboxPolicy": { "type": "readOnly" },
            "permissionProfile": { "type": "disabled" } }),
            ),
            "exclude",
        ),
    ] {
        let fault = peer.refused("command/exec", params.clone()).await;
        assert_eq!(fault.code, -32602, "{params}: {fault:?}");
        assert!(fault.message.contains(expected), "{params}: {fault:?}");
    }
    for policy in ["dangerFullAccess", "readOnly"] {
        let command = json!(["/bin/echo", "x".repeat(1 << 20)]);
        let params = json!({ "command": command, "sandboxPolicy": { "type": policy } });
        let fault = peer.refused("command/exec", params).await;
        assert_eq!(fault.code, -32602, "{fault:?}");
        assert!(fault.message.contains("at most 128 KiB"), "{fault:?}");
    }
    for (method, params) in [
        ("command/exec/write", json!({ "processId": "x", "deltaBase64": "eA==" })),
        ("command/exec/terminate", json!({ "processId": "x" })),
        ("process/kill", json!({ "processHandle": "x" })),
        ("process/writeStdin", json!({ "processHandle": "x", "deltaBase64": "eA==" })),
        ("process/resizePty", json!({ "processHandle": "x", "size": { "rows": 1, "cols": 1 } })),
    ] {
        let fault = peer.refused(method, params).await;
        assert_eq!(fault.code, -32600, "{method}: {fault:?}");
        assert!(fault.message.contains("no running process is named `x`"), "{method}: {fault:?}");
    }
}

#[tokio::test]
async fn output_and_time_are_bounded() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = with(shell("seq 1 100000"), json!({ "outputBytesCap": 100 }));
    let answer = peer.call("command/exec", params).await;
    let out = answer["stdout"].as_str().unwrap();
    assert!(out.starts_with("1\n2\n") && out.ends_with("100000\n") && out.len() < 200, "{out}");
    let params = with(shell("seq 1 100000"), json!({ "disableOutputCap": true }));
    assert_eq!(peer.call("command/exec", params).await["stdout"].as_str().unwrap().len(), 588_895);
    let params = with(shell("echo begun; sleep 600"), json!({ "timeoutMs": 300 }));
    let answer = peer.call("command/exec", params).await;
    assert_eq!((&answer["exitCode"], &answer["stdout"]), (&json!(124), &json!("begun\n")));
}

#[tokio::test]
async fn a_client_process_streams_takes_input_and_ends_before_its_response() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let wishes = json!({ "processId": "cat", "streamStdin": true, "streamStdoutStderr": true });
    let id = peer.send("command/exec", with(json!({ "command": ["cat"] }), wishes)).await;
    // No need to wait: the process is registered as soon as its request is being handled.
    let write = |text: &str, close: bool| json!({ "processId": "cat", "deltaBase64": STANDARD.encode(text), "closeStdin": close });
    peer.call("command/exec/write", write("one ", false)).await;
    peer.call("command/exec/write", write("two", true)).await;
    let answer = peer.response(id).await.unwrap();
    assert_eq!(answer, json!({ "exitCode": 0, "stdout": "", "stderr": "" }));
    assert_eq!(streamed(&peer, "command/exec/outputDelta", "stdout"), "one two");
    let lines = peer.raw_lines();
    let last = lines.iter().rposition(|line| line.contains("outputDelta")).unwrap();
    let answered = lines.iter().position(|line| line.contains("exitCode")).unwrap();
    assert!(last < answered, "the answer comes after all deltas");
    // The id is free again, and invalid base64 is reported.
    let wishes = json!({ "processId": "cat", "streamStdin": true });
    let id = peer.send("command/exec", with(json!({ "command": ["cat"] }), wishes.clone())).await;
    let bad = json!({ "processId": "cat", "deltaBase64": "!!" });
    assert!(peer.refused("command/exec/write", bad).await.message.contains("deltaBase64"));
    let twice = with(json!({ "command": ["cat"] }), wishes);
    assert!(peer.refused("command/exec", twice).await.message.contains("already"));
    let size = json!({ "processId": "cat", "size": { "rows": 2, "cols": 2 } });
    assert!(peer.refused("command/exec/resize", size).await.message.contains("no terminal"));
    peer.call("command/exec/terminate", json!({ "processId": "cat" })).await;
    assert_eq!(peer.response(id).await.unwrap()["exitCode"], -1);
}

#[tokio::test]
async fn reaching_the_cap_of_a_stream_is_reported() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let wishes = json!({ "processId": "s", "streamStdoutStderr": true, "outputBytesCap": 10 });
    let params = with(shell("seq 1 1000"), wishes);
    assert_eq!(peer.call("command/exec", params).await["exitCode"], 0);
    assert_eq!(streamed(&peer, "command/exec/outputDelta", "stdout"), "1\n2\n3\n4\n5\n");
    let capped = peer.raw_lines().iter().filter(|line| line.contains("\"capReached\":true"));
    assert_eq!(capped.count(), 1);
}

#[tokio::test]
async fn a_terminal_has_a_size_that_changes() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let wishes = json!({ "processId": "t", "tty": true, "streamStdoutStderr": true,
        "size": { "rows": 10, "cols": 20 } });
    let script = "stty size; read line; stty size; echo got $line";
    let id = peer.send("command/exec", with(shell(script), wishes)).await;
    peer.expect("command/exec/outputDelta").await;
    let size = json!({ "processId": "t", "size": { "rows": 30, "cols": 40 } });
    peer.call("command/exec/resize", size).await;
    let line = json!({ "processId": "t", "deltaBase64": STANDARD.encode("word\n") });
    peer.call("command/exec/write", line).await;
    assert_eq!(peer.response(id).await.unwrap()["exitCode"], 0);
    let said = streamed(&peer, "command/exec/outputDelta", "stdout");
    for part in ["10 20", "30 40", "got word"] {
        assert!(said.contains(part), "{part} in {said:?}");
    }
}

#[tokio::test]
async fn processes_belong_to_their_connection_and_end_with_it() {
    let env = env().await;
    let server = env.start();
    let mut one = server.connect_with(experimental()).await;
    let mut two = server.connect_with(experimental()).await;
    let marker = env.workspace().join("alive");
    let script = format!("while true; do touch {}; sleep 0.05; done", marker.display());
    let wishes = json!({ "processId": "s", "streamStdoutStderr": true, "disableTimeout": true });
    one.send("command/exec", with(shell(&script), wishes)).await;
    let work = env.workspace().display().to_string();
    let spawn = json!({ "command": ["/bin/bash", "-c", format!("echo $$; {script}")],
        "processHandle": "p", "cwd": work });
    assert_eq!(one.call("process/spawn", spawn).await, json!({}));
    let delta = one.expect("process/outputDelta").await;
    let pid = STANDARD.decode(delta["deltaBase64"].as_str().unwrap()).unwrap();
    let pid: i32 = String::from_utf8(pid).unwrap().trim().parse().unwrap();
    let fault = two.refused("command/exec/terminate", json!({ "processId": "s" })).await;
    assert!(fault.message.contains("no running process"), "{fault:?}");
    two.refused("process/kill", json!({ "processHandle": "p" })).await;
    drop(one);
    let gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !gone() {
        assert!(std::time::Instant::now() < deadline, "the process outlives its connection");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_exit_status_of_a_process_is_reported() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let work = env.workspace().display().to_string();
    let spawn = |handle: &str, script: &str, more: Value| {
        let params = json!({ "command": ["/bin/bash", "-c", script], "processHandle": handle,
            "cwd": work });
        with(params, more)
    };
    peer.call("process/spawn", spawn("a", "echo out; exit 4", json!({}))).await;
    let ended = peer.expect("process/exited").await;
    assert_eq!((&ended["processHandle"], &ended["exitCode"]), (&json!("a"), &json!(4)));
    assert_eq!(streamed(&peer, "process/outputDelta", "stdout"), "out\n");
    let quiet = json!({ "streamStdoutStderr": false, "outputBytesCap": 4 });
    peer.call("process/spawn", spawn("b", "echo 123456789; echo e >&2", quiet)).await;
    let ended = peer.expect("process/exited").await;
    assert_eq!((&ended["stdoutCapReached"], &ended["stderr"]), (&json!(true), &json!("e\n")));
    let input = json!({ "streamStdin": true });
    peer.call("process/spawn", spawn("c", "cat", input)).await;
    let write = json!({ "processHandle": "c", "deltaBase64": STANDARD.encode("hi"),
        "closeStdin": true });
    peer.call("process/writeStdin", write).await;
    assert_eq!(peer.expect("process/exited").await["exitCode"], 0);
    assert!(streamed(&peer, "process/outputDelta", "stdout").ends_with("hi"));
    peer.call("process/spawn", spawn("d", "sleep 600", json!({}))).await;
    peer.call("process/kill", json!({ "processHandle": "d" })).await;
    assert_eq!(peer.expect("process/exited").await["exitCode"], -1);
    peer.call("process/spawn", spawn("e", "sleep 600", json!({ "timeoutMs": 100 }))).await;
    assert_eq!(peer.expect("process/exited").await["exitCode"], 124);
}

/// Programs that cannot be started, each with a part of the reported reason.
fn not_startable(env: &TestEnvironment) -> Vec<(&'static str, &'static str)> {
    use std::os::unix::fs::PermissionsExt as _;
    let write = |name: &str, text: &[u8], mode: u32| {
        let path = env.workspace().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("text", b"no program", 0o644);
    write("orphan", b"#!/no/such/interpreter\n", 0o755);
    write("garbage", b"\x7fELF is no program", 0o755);
    write("binary", b"echo text\n\0 and more", 0o755);
    write("script", b"echo a script", 0o755);
    vec![
        ("/no/such/program", "was not found"),
        ("no-such-program", "was not found in the command's PATH"),
        ("./text", "it is not an executable file"),
        ("./", "it is a folder"),
        ("./orphan", "the interpreter that its first line names"),
        ("./garbage", "neither a program for this machine nor a script"),
        ("./binary", "neither a program for this machine nor a script"),
    ]
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_error_of_the_request() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let work = env.workspace().display().to_string();
    for (command, why) in not_startable(&env) {
        for policy in ["dangerFullAccess", "readOnly", "workspaceWrite"] {
            for tty in [false, true] {
                let params = json!({ "command": [command], "processId": "a", "tty": tty,
                    "sandboxPolicy": { "type": policy } });
                let fault = peer.refused("command/exec", params).await;
                assert_eq!(fault.code, -32603, "{command} {policy} {fault:?}");
                assert!(fault.message.contains(why), "{command} {policy} {fault:?}");
            }
        }
        for tty in [false, true] {
            let params = json!({ "command": [command], "processHandle": "a", "cwd": work,
                "tty": tty });
            let fault = peer.refused("process/spawn", params).await;
            assert_eq!(fault.code, -32603, "{command} {fault:?}");
            assert!(fault.message.contains(why), "{command} {fault:?}");
        }
    }
    // A program that is hidden by the sandbox.
    let params = json!({ "command": [env.workspace().join("orphan")], "cwd": "/usr",
        "sandboxPolicy": { "type": "readOnly", "access": { "type": "restricted",
            "includePlatformDefaults": true, "readableRoots": ["/usr"] } } });
    let fault = peer.refused("command/exec", params).await;
    assert!(fault.message.contains("cannot be executed"), "{fault:?}");
    assert!(!peer.settled().await.contains(&"process/exited".to_owned()));
    // A script without an interpreter line.
    for policy in ["dangerFullAccess", "readOnly", "workspaceWrite"] {
        let script = json!({ "command": ["./script"], "sandboxPolicy": { "type": policy } });
        assert_eq!(peer.call("command/exec", script).await["stdout"], "a script\n");
    }
    // The ids are free again, and exit code 127 of a program is passed on.
    for policy in ["dangerFullAccess", "readOnly"] {
        let params = json!({ "command": ["sh", "-c", "echo out; exit 127"], "processId": "a",
            "sandboxPolicy": { "type": policy } });
        let answer = peer.call("command/exec", params).await;
        assert_eq!(answer, json!({ "exitCode": 127, "stdout": "out\n", "stderr": "" }));
    }
    let params = json!({ "command": ["sh", "-c", "exit 127"], "processHandle": "a", "cwd": work });
    peer.call("process/spawn", params).await;
    assert_eq!(peer.expect("process/exited").await["exitCode"], 127);
    let params = json!({ "command": ["true"], "processHandle": "a", "cwd": "/no/such/folder" });
    let fault = peer.refused("process/spawn", params).await;
    assert!(fault.code == -32602 && fault.message.contains("`cwd`"), "{fault:?}");
}

#[tokio::test]
async fn a_terminal_is_seen_and_typed_into_without_asking_for_it() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let script = "echo ready; read line; echo got $line";
    let id = peer
        .send("command/exec", with(shell(script), json!({ "processId": "t", "tty": true })))
        .await;
    peer.expect("command/exec/outputDelta").await;
    let typed = json!({ "processId": "t", "deltaBase64": STANDARD.encode("word\n") });
    peer.call("command/exec/write", typed).await;
    let answer = peer.response(id).await.unwrap();
    assert_eq!(answer, json!({ "exitCode": 0, "stdout": "", "stderr": "" }));
    assert!(streamed(&peer, "command/exec/outputDelta", "stdout").contains("got word"));
    let work = env.workspace().display().to_string();
    let wishes = json!({ "processHandle": "t", "cwd": work, "tty": true,
        "streamStdoutStderr": false });
    peer.call("process/spawn", with(shell(script), wishes)).await;
    peer.expect("process/outputDelta").await;
    let typed = json!({ "processHandle": "t", "deltaBase64": STANDARD.encode("word\n") });
    peer.call("process/writeStdin", typed).await;
    assert_eq!(peer.expect("process/exited").await["exitCode"], 0);
    assert!(streamed(&peer, "process/outputDelta", "stdout").contains("got word"));
}

#[tokio::test]
async fn the_terminal_of_a_spawned_process_is_resized() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let script = "stty size; read line; stty size";
    let wishes = json!({ "processHandle": "t", "cwd": env.workspace(), "tty": true,
        "size": { "rows": 10, "cols": 20 } });
    peer.call("process/spawn", with(shell(script), wishes)).await;
    peer.expect("process/outputDelta").await;
    let size = |rows: u16| json!({ "processHandle": "t", "size": { "rows": rows, "cols": 40 } });
    let fault = peer.refused("process/resizePty", size(0)).await;
    assert_eq!(fault.code, -32602, "{fault:?}");
    assert!(fault.message.contains("`size`: rows and columns must be at least 1"), "{fault:?}");
    assert_eq!(peer.call("process/resizePty", size(30)).await, json!({}));
    let typed = json!({ "processHandle": "t", "deltaBase64": STANDARD.encode("\n") });
    peer.call("process/writeStdin", typed).await;
    assert_eq!(peer.expect("process/exited").await["exitCode"], 0);
    let said = streamed(&peer, "process/outputDelta", "stdout");
    assert!(said.contains("10 20") && said.contains("30 40"), "{said:?}");
    // Without a terminal there is nothing to resize.
    let plain = json!({ "processHandle": "p", "cwd": env.workspace(), "streamStdin": true });
    peer.call("process/spawn", with(json!({ "command": ["cat"] }), plain)).await;
    let params = json!({ "processHandle": "p", "size": { "rows": 1, "cols": 1 } });
    let fault = peer.refused("process/resizePty", params).await;
    assert!(fault.message.contains("no terminal"), "{fault:?}");
    peer.call("process/kill", json!({ "processHandle": "p" })).await;
    peer.expect("process/exited").await;
}

#[tokio::test]
async fn an_administrator_can_forbid_commands_outside_the_sandbox() {
    let env = env().await;
    std::fs::create_dir_all(env.system_dir()).unwrap();
    let allowed = "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    std::fs::write(env.system_dir().join("requirements.toml"), allowed).unwrap();
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let work = env.workspace().display().to_string();
    let spawn = json!({ "command": ["true"], "processHandle": "a", "cwd": work });
    let fault = peer.refused("process/spawn", spawn).await;
    assert!(fault.message.contains("not allowed"), "{fault:?}");
    let outside = env.root().join("outside");
    let full = json!({ "sandboxPolicy": { "type": "dangerFullAccess" } });
    let script = format!("touch {}", outside.display());
    let answer = peer.call("command/exec", with(shell(&script), full)).await;
    assert_ne!(answer["exitCode"], 0, "the nearest that is allowed confines it");
    assert!(!outside.exists());
}

#[tokio::test]
async fn accepted_requests_are_answered_at_shutdown() {
    for (method, ends_in_time) in [("drain", true), ("drain", false), ("end of input", false)] {
        let env = env().await;
        let server = env.start();
        let mut peer = server.connect_with(experimental()).await;
        let work = env.workspace().display().to_string();
        let go = env.workspace().join("go");
        let script = match ends_in_time {
            true => format!("echo begun; until test -e {}; do sleep 0.02; done", go.display()),
            false => "echo begun; sleep 600".to_owned(),
        };
        let params = with(
            shell(&script),
            json!({ "processId": "a", "streamStdoutStderr": true, "disableTimeout": true }),
        );
        let exec = peer.send("command/exec", params).await;
        peer.expect("command/exec/outputDelta").await;
        let spawn = json!({ "command": ["sleep", "600"], "processHandle": "b", "cwd": work });
        peer.call("process/spawn", spawn).await;
        let ending = server.server().clone();
        let end = tokio::spawn(async move {
            if method == "drain" {
                let grace = if ends_in_time { 600 } else { 0 };
                ending.drain(std::time::Duration::from_secs(grace)).await;
            }
            ending.shutdown().await;
        });
        if ends_in_time {
            let refused = loop {
                let exec = with(shell("true"), json!({}));
                match peer.try_call("command/exec", exec).await {
                    Ok(_) => {}
                    Err(fault) => break fault,
                }
            };
            assert_eq!(refused.code, -32001, "{refused:?}");
            std::fs::write(&go, "").unwrap();
        }
        let answer = peer.response(exec).await;
        match answer {
            Ok(result) => assert!(ends_in_time && result["exitCode"] == 0, "{result}"),
            Err(fault) => {
                assert!(!ends_in_time && fault.code == -32603, "{fault:?}");
                assert!(fault.message.contains("the server is shutting down"), "{fault:?}");
            }
        }
        assert_eq!(peer.expect("process/exited").await["exitCode"], -1);
        end.await.unwrap();
    }
}
