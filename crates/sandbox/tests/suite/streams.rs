//! Input and output of commands: pipes, terminals, bounds.

use crate::common::{command, layers, read_only, run, sandbox, shell};
use policy::RootedPolicy;
use sandbox::{Layer, OutputBuffer, Process, Size, Stdin, Stream};

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn until(process: &mut Process, part: &str) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let chunk = process.output.recv().await.unwrap_or_else(|| panic!("ended: {text:?}"));
        text.push_str(&String::from_utf8_lossy(&chunk.bytes));
    }
    text
}

#[tokio::test]
async fn streams_are_separate() {
    for layer in layers() {
        for policy in [RootedPolicy::FULL_ACCESS, read_only()] {
            let ran = run(&sandbox(layer), shell("echo out; echo err >&2; cat", policy)).await;
            assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"), "{layer:?}");
        }
    }
}

#[tokio::test]
async fn input_is_written_and_closed() {
    for layer in layers() {
        for policy in [RootedPolicy::FULL_ACCESS, read_only()] {
            let mut spawn = command(&["sort"], policy);
            spawn.stdin = Stdin::Pipe;
            let mut process = sandbox(layer).spawn(spawn).await.unwrap();
            process.write_stdin(b"b\na\n").await.unwrap();
            process.close_stdin().await.unwrap();
            process.close_stdin().await.unwrap();
            assert!(process.write_stdin(b"x").await.is_err());
            let (mut out, mut err) = (OutputBuffer::default(), OutputBuffer::default());
            assert!(process.collect(&mut out, &mut err).await.success());
            assert_eq!(out.text(), "a\nb\n");
        }
    }
}

#[tokio::test]
async fn more_input_than_a_pipe_holds() {
    let mut spawn = command(&["wc", "-c"], RootedPolicy::FULL_ACCESS);
    spawn.stdin = Stdin::Pipe;
    let mut process = sandbox(Layer::Auto).spawn(spawn).await.unwrap();
    let control = process.control();
    let writer = tokio::spawn(async move {
        control.write_stdin(&vec![b'x'; 3_000_000]).await.unwrap();
        control.close_stdin().await.unwrap();
    });
    assert_eq!(until(&mut process, "\n").await, "3000000\n");
    writer.await.unwrap();
}

#[tokio::test]
async fn input_to_a_command_that_ended_is_an_error() {
    let mut spawn = command(&["true"], RootedPolicy::FULL_ACCESS);
    spawn.stdin = Stdin::Pipe;
    let process = sandbox(Layer::Auto).spawn(spawn).await.unwrap();
    process.wait().await;
    assert!(process.write_stdin(b"x").await.is_err());
}

#[tokio::test]
async fn a_terminal_echoes_and_can_be_resized() {
    for layer in layers() {
        for policy in [RootedPolicy::FULL_ACCESS, read_only()] {
            let script = "test -t 0 && test -t 1 && test -t 2 && stty size && read line \
                          && echo \"got $line\" && stty size && echo > /dev/tty";
            let mut spawn = shell(script, policy);
            spawn.tty = Some(Size { rows: 30, cols: 100 });
            let mut process = sandbox(layer).spawn(spawn).await.unwrap();
            until(&mut process, "30 100\r\n").await;
            process.resize(Size { rows: 40, cols: 90 }).unwrap();
            process.write_stdin(b"hello\n").await.unwrap();
            let text = until(&mut process, "40 90\r\n").await;
            assert!(text.starts_with("hello\r\ngot hello\r\n"), "{layer:?} {text:?}");
            while process.output.recv().await.is_some() {}
            assert_eq!(process.wait().await.code, Some(0), "{layer:?}");
        }
    }
}

#[tokio::test]
async fn a_terminal_passes_interrupts_and_the_end_of_input() {
    let mut spawn = shell(
        "cat; trap 'echo stopped; exit 3' INT; echo ready; while :; do sleep 0.01; done",
        read_only(),
    );
    spawn.tty = Some(Size::default());
    let mut process = sandbox(Layer::Auto).spawn(spawn).await.unwrap();
    process.close_stdin().await.unwrap();
    until(&mut process, "ready").await;
    process.write_stdin(b"\x03").await.unwrap();
    until(&mut process, "stopped").await;
    assert_eq!(process.wait().await.code, Some(3));
}

#[tokio::test]
async fn a_pipe_has_no_size() {
    let process = sandbox(Layer::Auto).spawn(command(&["true"], read_only())).await.unwrap();
    assert!(process.resize(Size::default()).is_err());
}

#[tokio::test]
async fn two_hundred_megabytes_pass_in_little_memory() {
    let before = resident_kib();
    let spawn = command(&["head", "-c", "200000000", "/dev/zero"], RootedPolicy::FULL_ACCESS);
    let mut process = sandbox(Layer::Auto).spawn(spawn).await.unwrap();
    let (mut out, mut err) = (OutputBuffer::default(), OutputBuffer::default());
    assert!(process.collect(&mut out, &mut err).await.success());
    assert_eq!(out.omitted(), 200_000_000 - 1024 * 1024);
    let grown = resident_kib() - before;
    assert!(grown < 32 * 1024, "{grown} KiB");
}

/// A reader that does not read blocks the command; memory stays bounded.
#[tokio::test]
async fn output_waits_for_its_reader() {
    let before = resident_kib();
    let mut process = sandbox(Layer::Auto).spawn(command(&["yes"], read_only())).await.unwrap();
    let first = process.output.recv().await.unwrap();
    assert_eq!(first.stream, Stream::Stdout);
    process.kill();
    process.output.close();
    while process.output.recv().await.is_some() {}
    process.wait().await;
    assert!(resident_kib() - before < 32 * 1024);
}

#[tokio::test]
async fn dropped_output_does_not_block_the_command() {
    let spawn = command(&["head", "-c", "5000000", "/dev/zero"], RootedPolicy::FULL_ACCESS);
    let mut process = sandbox(Layer::Auto).spawn(spawn).await.unwrap();
    process.output.close();
    while process.output.recv().await.is_some() {}
    assert!(process.wait().await.success());
}

/// All output before the exit arrives, however long the pipe stays open.
#[tokio::test]
async fn output_that_stays_open_does_not_delay_the_exit() {
    let sandbox = sandbox(Layer::Auto);
    let script = "sleep 1000 & head -c 60000 /dev/zero; exit 4";
    let mut process = sandbox.spawn(shell(script, RootedPolicy::FULL_ACCESS)).await.unwrap();
    let (mut out, mut err) = (OutputBuffer::default(), OutputBuffer::default());
    let exit = process.collect(&mut out, &mut err).await;
    assert_eq!((exit.code, out.bytes().len()), (Some(4), 60000));
    let mut process =
        sandbox.spawn(shell("yes & exit 4", RootedPolicy::FULL_ACCESS)).await.unwrap();
    let exit = process.collect(&mut OutputBuffer::default(), &mut err).await;
    assert_eq!(exit.code, Some(4));
}

#[tokio::test]
async fn a_long_command_line_and_environment() {
    for policy in [RootedPolicy::FULL_ACCESS, read_only()] {
        let long = "x".repeat(100_000);
        let mut spawn = command(&["sh", "-c", "echo ${#1} ${#LONG}", "sh", &long], policy);
        spawn.env.push(("LONG".into(), long.clone().into()));
        let ran = run(&sandbox(Layer::Auto), spawn).await;
        assert_eq!(ran.stdout, "100000 100000\n", "{}", ran.stderr);
    }
}
