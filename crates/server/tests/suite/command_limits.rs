//! Limits of commands, as the model and clients see them.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{runs, says, tool_outputs};

/// Runs a command in a turn with these settings. Returns what the model gets and the item that clients get.
async fn run(script: &str, overrides: &[String]) -> (String, Value) {
    let call = crate::calls("exec_command", json!({ "cmd": script, "yield_time_ms": 30_000 }));
    let mut env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
    env.config_overrides
        .extend(["sandbox_mode=workspace-write", "approval_policy=never"].map(str::to_owned));
    env.config_overrides.extend(overrides.iter().cloned());
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let lines = peer.raw_lines().iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let completed = lines.filter(|line| line["method"] == "item/completed");
    let mut items = completed.map(|line| line["params"]["item"].clone());
    let command = items.find(|item| item["type"] == "commandExecution").unwrap();
    (tool_outputs(&env).remove(0), command)
}

const MEMORY: &str = "head -c 600000000 /dev/zero | tail -c 600000000 | sleep 3";
const PROCESSES: &str = "i=0; while [ $i -lt 90 ]; do sleep 3 & i=$((i + 1)); done; wait";
/// By its own clock: on a busy machine it takes longer, but not more.
const TIME: &str = "perl -e '1 while (times)[0] + (times)[1] < 1.4'";
const DISK: &str = "dd if=/dev/zero of=$DIR/large bs=1M count=300; sleep 3";

/// Checks that a command is ended if `key` is `value`, and not otherwise.
async fn check(key: &str, value: u64, script: &str) {
    // On a file system that is stored.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().display().to_string();
    let root = format!("sandbox_workspace_write.writable_roots=[\"{path}\"]");
    let script = script.replace("$DIR", &path);
    let (output, item) = run(&script, &[root.clone(), format!("{key}={value}")]).await;
    let named = format!("(`{key}` in config.toml or requirements.toml)");
    assert!(output.contains("Process was ended at a limit (exit code 1"), "{key}: {output}");
    assert!(output.contains(&named), "{key}: {output}");
    assert_eq!(item["status"], "failed", "{key}: {item}");
    let shown = item["aggregatedOutput"].as_str().unwrap_or_default();
    assert!(shown.contains("[ended at a limit: ") && shown.contains(&named), "{key}: {item}");
    let (output, _) = run(&script, &[root]).await;
    assert!(!output.contains("ended at a limit"), "without {key}: {output}");
}

// Effect of `command_limits.memory_mib`, `thread_limits.memory_mib`.
#[tokio::test]
async fn memory() {
    check("command_limits.memory_mib", 200, MEMORY).await;
    check("thread_limits.memory_mib", 200, MEMORY).await;
}

// Effect of `command_limits.processes`, `thread_limits.processes`.
#[tokio::test]
async fn processes() {
    check("command_limits.processes", 50, PROCESSES).await;
    check("thread_limits.processes", 50, PROCESSES).await;
}

// Effect of `command_limits.cpu_seconds`, `thread_limits.cpu_seconds`.
#[tokio::test]
async fn processor_time() {
    check("command_limits.cpu_seconds", 1, TIME).await;
    check("thread_limits.cpu_seconds", 1, TIME).await;
}

// Effect of `command_limits.disk_written_mib`, `thread_limits.disk_written_mib`.
#[tokio::test]
async fn disk() {
    check("command_limits.disk_written_mib", 20, DISK).await;
    check("thread_limits.disk_written_mib", 20, DISK).await;
}

// Effect of `command_limits.file_mib`, `command_limits.output_mib`.
#[tokio::test]
async fn files_and_output() {
    check("command_limits.file_mib", 1, "exec head -c 3000000 /dev/zero > $DIR/large").await;
    check("command_limits.output_mib", 1, "head -c 3000000 /dev/zero | tr '\\0' x").await;
}

// Effect of `command_limits.nice`.
#[tokio::test]
async fn priority() {
    let nice = async |overrides: &[String]| {
        let (output, _) = run("nice", overrides).await;
        output.lines().last().and_then(|line| line.trim().parse::<i64>().ok()).unwrap()
    };
    let (off, default) = (nice(&["command_limits.nice=0".into()]).await, nice(&[]).await);
    assert_eq!(default, (off + 5).min(19));
    assert_eq!(nice(&["command_limits.nice=9".into()]).await, (off + 9).min(19));
}

#[tokio::test]
async fn two_commands_of_a_thread_share_a_limit() {
    let one = "for i in 1 2 3 4 5 6; do sleep 8 & done; wait";
    let first = crate::calls("exec_command", json!({ "cmd": one, "yield_time_ms": 300 }));
    let second = runs(&one.replace("6; do", "6 7 8 9; do"));
    let mut env = TestEnvironment::with_responses(json!([first, second, says("Done.")])).await;
    let limits = ["approval_policy=never", "thread_limits.processes=15"];
    env.config_overrides.extend(limits.map(str::to_owned));
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    assert!(!outputs[0].contains("ended at a limit"), "{outputs:?}");
    assert!(outputs[1].contains("the commands of this thread together had"), "{outputs:?}");
    assert!(outputs[1].contains("`thread_limits.processes`"), "{outputs:?}");
}

#[tokio::test]
async fn a_client_gets_the_reason_on_standard_error() {
    let mut env = TestEnvironment::with_responses(json!([{ "steps": [] }])).await;
    env.config_overrides.push("command_limits.processes=50".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let script = json!({ "command": ["sh", "-c", PROCESSES] });
    let answer = peer.call("command/exec", script).await;
    assert_eq!(answer["exitCode"], 137, "{answer}");
    let errors = answer["stderr"].as_str().unwrap_or_default();
    assert!(errors.contains("`command_limits.processes` in config.toml"), "{answer}");
}

#[tokio::test]
async fn a_requirement_is_above_the_limits() {
    let mut env = TestEnvironment::with_responses(json!([{ "steps": [] }])).await;
    let requirements = "[command_limits]\nprocesses = 50\n";
    std::fs::create_dir_all(env.system_dir()).unwrap();
    std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
    env.config_overrides.push("command_limits.processes=0".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let script = json!({ "command": ["sh", "-c", PROCESSES] });
    assert_eq!(peer.call("command/exec", script).await["exitCode"], 137);
}
