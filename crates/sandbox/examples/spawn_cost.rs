//! Prints the median time from asking for `true` to its end, bare and in the sandbox.
//! `cargo run --release -p sandbox --example spawn_cost`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::{
    Config, Layer, Limits, LimitsBy, OutputBuffer, Outputs, Sandbox, Spawn, Stdin, UsageLimits,
};

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
    let limits = Limits {
        command: UsageLimits {
            memory: Some(8 << 30),
            processes: Some(4096),
            cpu_time: None,
            disk_written: Some(64 << 30),
        },
        file_size: Some(16 << 30),
        nice: 5,
        ..Limits::default()
    };
    let variants = [("no limits", Limits::default()), ("limits", limits)];
    let all = cases.iter().flat_map(|case| variants.iter().map(move |variant| (case, variant)));
    for ((name, layer, policy), (limited, limits)) in all {
        let sandbox = Sandbox::new(Config {
            supervisor: sandbox::THIS_PROGRAM.into(),
            layer: *layer,
            descriptors: None,
            kept: Vec::new(),
            limits_by: LimitsBy::Auto,
        });
        let first = run(&sandbox, policy, limits).await;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            times.push(run(&sandbox, policy, limits).await);
        }
        times.sort();
        let median = times[RUNS / 2];
        println!(
            "{name}, {limited}: median {median:.2?}, fastest {:.2?}, first {first:.2?}",
            times[0]
        );
    }
}

async fn run(sandbox: &Sandbox, policy: &RootedPolicy, limits: &Limits) -> Duration {
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
        limits: limits.clone(),
    };
    let start = Instant::now();
    let mut process = sandbox.spawn(spawn).await.unwrap();
    let exit = process.collect(&mut OutputBuffer::default(), &mut OutputBuffer::default()).await;
    assert!(exit.success());
    start.elapsed()
}
