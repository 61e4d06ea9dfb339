//! Termination of commands and of the processes that they started.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{
    command, folder, gone, layers, namespaces, read_only, run, sandbox, shell, workspace,
};
use policy::RootedPolicy;
use sandbox::{Chunk, ErrorKind, Layer, Process};

fn policies() -> [RootedPolicy; 2] {
    [RootedPolicy::FULL_ACCESS, read_only()]
}

/// Reads lines of output until `take` accepts one.
async fn line<T>(process: &mut Process, take: impl Fn(&str) -> Option<T>) -> T {
    let mut text = String::new();
    while let Some(Chunk { bytes, .. }) = process.output.recv().await {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        if let Some(found) = complete.lines().find_map(&take) {
            return found;
        }
    }
    panic!("output ended: {text:?}");
}

async fn number(process: &mut Process) -> i32 {
    line(process, |line| line.trim().parse().ok()).await
}

#[tokio::test]
async fn exit_codes_and_signals() {
    let check = async |script: &str, policy: RootedPolicy, expect: i32| {
        for layer in layers() {
            let ran = run(&sandbox(layer), shell(script, policy.clone())).await;
            assert_eq!(ran.exit.shell_code(), expect, "{layer:?} {script}: {ran:?}");
        }
    };
    for policy in policies() {
        check("exit 0", policy.clone(), 0).await;
        check("exit 7", policy.clone(), 7).await;
        check("kill -9 $$", policy.clone(), 137).await;
        check("kill -15 $$", policy.clone(), 143).await;
    }
    let ran = run(&sandbox(Layer::Auto), shell("kill -11 $$", RootedPolicy::FULL_ACCESS)).await;
    assert_eq!((ran.exit.code, ran.exit.signal), (None, Some(11)));
}

#[tokio::test]
async fn commands_that_cannot_start_state_the_reason() {
    let (_guard, dir) = folder();
    fs::write(dir.join("file"), "no program").unwrap();
    let sandbox = sandbox(Layer::Auto);
    for policy in policies() {
        let start = async |argv: &[&str], cwd: PathBuf| {
            let mut spawn = command(argv, policy.clone());
            spawn.cwd = cwd;
            sandbox.spawn(spawn).await.map(|_| ()).unwrap_err()
        };
        let error = start(&["no-such-program"], "/".into()).await;
        assert_eq!(error.kind(), ErrorKind::ProgramNotFound, "{error}");
        assert!(error.to_string().contains("PATH"), "{error}");
        let error = start(&["./no-such-program"], "/".into()).await;
        assert_eq!(error.kind(), ErrorKind::ProgramNotFound, "{error}");
        assert!(!error.to_string().contains("PATH"), "{error}");
        let error = start(&["true"], dir.join("missing")).await;
        assert!(error.to_string().contains("does not exist"), "{error}");
        let error = start(&["true"], dir.join("file")).await;
        assert!(error.to_string().contains("not a folder"), "{error}");
        let error = start(&["true"], "relative".into()).await;
        assert_eq!(error.kind(), ErrorKind::InvalidCommand, "{error}");
        assert!(error.to_string().contains("working folder"), "{error}");
        let error = start(&["true", "a\0b"], "/".into()).await;
        assert_eq!(error.kind(), ErrorKind::InvalidCommand, "{error}");
        assert!(error.to_string().contains("NUL byte"), "{error}");
        let error = start(&[], "/".into()).await;
        assert_eq!(error.kind(), ErrorKind::InvalidCommand, "{error}");
        assert!(error.to_string().contains("is empty"), "{error}");
        let error = start(&["./file"], dir.clone()).await;
        assert_eq!(error.kind(), ErrorKind::NotExecutable, "{error}");
        let error = start(&["./"], dir.clone()).await;
        assert_eq!(error.kind(), ErrorKind::NotExecutable, "{error}");
        let error = start(&["true", &"x".repeat(1 << 20)], "/".into()).await;
        assert_eq!(error.kind(), ErrorKind::InvalidCommand, "{error}");
        assert!(error.to_string().contains("at most 128 KiB"), "{error}");
        let many = vec!["true-to-its-word-for-word"; 100_000];
        let error = start(&[&["true"], &many[..]].concat(), "/".into()).await;
        assert_eq!(error.kind(), ErrorKind::InvalidCommand, "{error}");
        assert!(error.to_string().contains("at most 128 KiB"), "{error}");
    }
}

#[tokio::test]
async fn a_script_without_interpreter_line_runs_in_the_shell() {
    let (_guard, dir) = folder();
    fs::write(dir.join("script"), "echo \"$0 $1\"").unwrap();
    fs::set_permissions(dir.join("script"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    for layer in layers() {
        for policy in policies() {
            let mut spawn = command(&["./script", "argument"], policy);
            spawn.cwd = dir.clone();
            let ran = run(&sandbox(layer), spawn).await;
            assert!(ran.stdout.ends_with("script argument\n"), "{layer:?} {ran:?}");
        }
    }
}

/// Prints the id of a process that has left the session and ignores gentle signals.
const ESCAPEE: &str = "setsid sh -c 'trap \"\" TERM HUP INT; echo $$; exec sleep 1000' & wait";

#[tokio::test]
async fn a_kill_ends_every_process_even_in_other_sessions() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        let mut process = sandbox.spawn(shell(ESCAPEE, RootedPolicy::FULL_ACCESS)).await.unwrap();
        let escapee = number(&mut process).await;
        process.kill();
        process.output.close();
        assert_eq!(process.wait().await.signal, Some(9));
        gone(escapee).await;
    }
}

#[tokio::test]
async fn dropping_the_process_ends_every_process() {
    let sandbox = sandbox(Layer::Auto);
    let mut process = sandbox.spawn(shell(ESCAPEE, RootedPolicy::FULL_ACCESS)).await.unwrap();
    let escapee = number(&mut process).await;
    let main = process.pid();
    drop(process);
    gone(escapee).await;
    gone(main).await;
}

/// The parent has ended and the session is different: only the subreaper still finds the process.
#[tokio::test]
async fn a_daemon_is_ended_with_its_command() {
    let sandbox = sandbox(Layer::Auto);
    let script = "setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 1000\" &)' & sleep 1000";
    let mut process = sandbox.spawn(shell(script, RootedPolicy::FULL_ACCESS)).await.unwrap();
    let daemon = number(&mut process).await;
    process.terminate(Duration::from_secs(5)).await;
    gone(daemon).await;
}

/// A process that a command with full access left running continues until the command's handle is
/// dropped.
#[tokio::test]
async fn remaining_processes_end_with_the_handle() {
    let sandbox = sandbox(Layer::Auto);
    let script = "setsid sleep 1000 > /dev/null 2>&1 & echo $!";
    let mut process = sandbox.spawn(shell(script, RootedPolicy::FULL_ACCESS)).await.unwrap();
    let left = number(&mut process).await;
    assert!(process.wait().await.success());
    assert!(PathBuf::from(format!("/proc/{left}")).exists());
    drop(process);
    gone(left).await;
}

/// In a sandbox no process outlives the command, and a process that is left does not delay its exit
/// status.
#[tokio::test]
async fn the_end_of_a_confined_command_ends_its_children() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        let ran = run(&sandbox, shell("setsid sleep 1000 & echo started", read_only())).await;
        assert_eq!((ran.ok(), ran.stdout.as_str()), (true, "started\n"), "{layer:?} {ran:?}");
    }
}

#[tokio::test]
async fn terminate_sends_a_term_signal_first() {
    let script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    for layer in layers() {
        for policy in policies() {
            let mut process = sandbox(layer).spawn(shell(script, policy)).await.unwrap();
            line(&mut process, |line| (line == "ready").then_some(())).await;
            process.terminate(Duration::from_secs(20)).await;
            assert_eq!(process.wait().await.shell_code(), 5, "{layer:?}");
            line(&mut process, |line| (line == "asked").then_some(())).await;
        }
    }
}

#[tokio::test]
async fn terminate_kills_processes_that_ignore_the_signal() {
    let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
    for layer in layers() {
        for policy in policies() {
            let mut process = sandbox(layer).spawn(shell(script, policy)).await.unwrap();
            line(&mut process, |line| (line == "ready").then_some(())).await;
            process.terminate(Duration::from_millis(1)).await;
            process.output.close();
            assert_eq!(process.wait().await.shell_code(), 137, "{layer:?}");
        }
    }
}

/// Run by the next test in a separate process: starts a command and is killed.
#[tokio::test]
async fn helper_server() {
    let Some(file) = std::env::var_os("TEST_PID_FILE") else { return };
    let sandbox = sandbox(Layer::Auto);
    let mut first = sandbox.spawn(shell(ESCAPEE, RootedPolicy::FULL_ACCESS)).await.unwrap();
    let work = workspace(&PathBuf::from(&file).with_file_name("work"));
    let mut second = sandbox.spawn(shell("echo 1; sleep 1000", work)).await.unwrap();
    let escapee = number(&mut first).await;
    number(&mut second).await;
    let pids = format!("{escapee} {} {}", first.pid(), second.pid());
    fs::write(PathBuf::from(&file).with_extension("part"), pids).unwrap();
    fs::rename(PathBuf::from(&file).with_extension("part"), file).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_server_ends_every_process() {
    let (_guard, dir) = folder();
    let file = dir.join("pids");
    let work = dir.join("work");
    fs::create_dir(&work).unwrap();
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::helper_server"])
        .env("TEST_PID_FILE", &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !file.exists() {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        // tidy: sleep because a file that another process creates has no event to wait for.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(work.join(".git").exists(), namespaces(), "what stands for a protected name");
    server.kill().unwrap();
    server.wait().unwrap();
    for pid in fs::read_to_string(&file).unwrap().split(' ') {
        gone(pid.parse().unwrap()).await;
    }
    let mut tries = 0;
    while work.join(".git").exists() || work.join(".agent").exists() {
        tries += 1;
        assert!(tries < 2000, "a placeholder is left behind");
        // tidy: sleep because a folder that another process removes has no event to wait for.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_killed_launcher_is_replaced() {
    let sandbox = sandbox(Layer::Auto);
    let script = "ps -o ppid= -p $PPID";
    let ran = run(&sandbox, shell(script, RootedPolicy::FULL_ACCESS)).await;
    let launcher: i32 = ran.stdout.trim().parse().unwrap();
    let status = std::process::Command::new("kill").args(["-9", &launcher.to_string()]).status();
    assert!(status.unwrap().success());
    gone(launcher).await;
    assert!(run(&sandbox, shell("true", RootedPolicy::FULL_ACCESS)).await.ok());
}

#[tokio::test]
async fn signals_are_as_a_fresh_program_expects() {
    let script = "grep -E 'SigBlk|SigIgn' /proc/self/status";
    for layer in layers() {
        for policy in policies() {
            let ran = run(&sandbox(layer), shell(script, policy)).await;
            let expect = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
            assert_eq!(ran.stdout, expect, "{layer:?}");
        }
    }
}

/// Every command leads its own session.
#[tokio::test]
async fn sessions_are_separate() {
    for layer in layers() {
        let ran = run(
            &sandbox(layer),
            shell("ps -o sid= -p $$; ps -o tty= -p $$", RootedPolicy::FULL_ACCESS),
        )
        .await;
        let session: u32 = ran.stdout.lines().next().unwrap().trim().parse().unwrap();
        assert_ne!(session, 0);
        assert!(ran.stdout.ends_with("?\n"), "{ran:?}");
    }
}

#[tokio::test]
async fn many_commands_leak_nothing() {
    let count = || fs::read_dir("/proc/self/fd").unwrap().count();
    let sandbox = sandbox(Layer::Auto);
    run(&sandbox, command(&["true"], RootedPolicy::FULL_ACCESS)).await;
    let before = count();
    for _ in 0..125 {
        let runs = (0..4).map(|_| run(&sandbox, command(&["true"], RootedPolicy::FULL_ACCESS)));
        let mut set = Vec::new();
        for run in runs {
            set.push(Box::pin(run));
        }
        for run in set {
            assert!(run.await.ok());
        }
    }
    assert!(count() <= before + 2, "{before} before, {} after", count());
    let children = fs::read_to_string("/proc/self/task/self/children").unwrap_or_default();
    assert!(children.split_whitespace().count() <= 1, "{children}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_at_once() {
    let sandbox = std::sync::Arc::new(sandbox(Layer::Auto));
    let tasks: Vec<_> = (0..60)
        .map(|n| {
            let sandbox = std::sync::Arc::clone(&sandbox);
            tokio::spawn(async move {
                run(&sandbox, shell(&format!("echo {n}"), RootedPolicy::FULL_ACCESS)).await.stdout
            })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), format!("{n}\n"));
    }
}
