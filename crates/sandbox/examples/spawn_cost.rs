//! Prints the median time from asking for `true` to its end, bare and in the sandbox.
//! `cargo run --release -p sandbox --example spawn_cost`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::{Config, Layer, OutputBuffer, Outputs, Sandbox, Spawn, Stdin};

const RUNS: usize = 300;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let read_only = RootedPolicy::READ_ONLY;
    let workspace = SandboxPolicy::WorkspaceWrite {
        writable_roots: vec!["/var/tmp".into()],
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: false,
        exclude_tmpdir: false,
    }
    .rooted(Path::new("/"));
    let cases = [
        ("full access", Layer::Auto, RootedPolicy::FULL_ACCESS),
        ("namespaces, read-only", Layer::Namespaces, read_only.clone()),
        ("namespaces, workspace", Layer::Namespaces, workspace),
        ("landlock, read-only", Layer::Landlock, read_only),
    ];
    for (name, layer, policy) in cases {
        let sandbox = Sandbox::new(Config {
            supervisor: sandbox::THIS_PROGRAM.into(),
            layer,
            descriptors: None,
            kept: Vec::new(),
        });
        let first = run(&sandbox, &policy).await;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            times.push(run(&sandbox, &policy).await);
        }
        times.sort();
        let median = times[RUNS / 2];
        println!("{name}: median {median:.2?}, fastest {:.2?}, first {first:.2?}", times[0]);
    }
}

async fn run(sandbox: &Sandbox, policy: &RootedPolicy) -> Duration {
    let spawn = Spawn {
        argv: vec!["true".into()],
        cwd: PathBuf::from("/"),
        cwd_is_real: false,
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        policy: policy.clone(),
        guarded: Vec::new(),
        granted: Vec::new(),
        tty: None,
        stdin: Stdin::Null,
        outputs: Outputs::Separate,
        egress: None,
    };
    let start = Instant::now();
    let mut process = sandbox.spawn(spawn).await.unwrap();
    let exit = process.collect(&mut OutputBuffer::default(), &mut OutputBuffer::default()).await;
    assert!(exit.success());
    start.elapsed()
}
