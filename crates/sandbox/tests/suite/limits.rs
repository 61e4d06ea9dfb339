//! Limits of single commands: what goes beyond them is ended with a reason, and nothing else is.
//!
//! Every command here ends by itself as well, without exhausting the machine.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::common::{Finished, folder, layers, limited_sandbox, run, shell, workspace};
use policy::RootedPolicy;
use sandbox::{
    ErrorKind, Exceeded, Layer, Limits, LimitsBy, Resource, Sandbox, Scope, Spawn, UsageLimits,
};

/// From the start of a command that goes beyond a limit to its end. On a quiet machine it is below 1 s.
const WITHIN: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

/// A sandbox for each layer and each way to enforce limits.
pub(crate) async fn sandboxes() -> Vec<(String, Sandbox)> {
    let mut all = Vec::new();
    for layer in layers() {
        for limits_by in [LimitsBy::Supervisors, LimitsBy::ControlGroups] {
            let sandbox = limited_sandbox(layer, limits_by);
            let report = sandbox.report().await;
            let groups = report.iter().find(|status| status.layer == "control groups").unwrap();
            if limits_by == LimitsBy::ControlGroups && !groups.usable {
                let _ = writeln!(std::io::stderr(), "without control groups: {}", groups.detail);
                continue;
            }
            let _ = writeln!(std::io::stderr(), "{layer:?}, {limits_by:?}: {}", groups.detail);
            all.push((format!("{layer:?}, {limits_by:?}"), sandbox));
        }
    }
    all
}

fn limited(mut spawn: Spawn, command: UsageLimits) -> Spawn {
    spawn.limits.command = command;
    // As by default: the supervisor goes first.
    spawn.limits.nice = 5;
    spawn
}

/// Runs a command that goes beyond a limit, and checks the reason of its end.
async fn check_end(name: &str, sandbox: &Sandbox, spawn: Spawn, resource: Resource) -> Exceeded {
    let begun = Instant::now();
    let ran = run(sandbox, spawn).await;
    let took = begun.elapsed();
    let exceeded = ran.exit.limit.unwrap_or_else(|| panic!("{name}: no limit ended it: {ran:?}"));
    let _ = writeln!(std::io::stderr(), "{name}: after {took:.2?}: {exceeded}");
    assert_eq!((exceeded.resource, exceeded.scope), (resource, Scope::Command), "{name}");
    assert!(exceeded.reached >= exceeded.limit, "{name}: {exceeded:?}");
    assert!(!ran.exit.success() && took < WITHIN, "{name}: {took:?} {ran:?}");
    exceeded
}

/// Starts 2^11 processes as fast as the shell can, which wait then.
const BOMB: &str =
    "f() { if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & fi; sleep 60; }; f 10";

#[tokio::test]
async fn a_fork_bomb_is_ended() {
    let limits = UsageLimits { processes: Some(300), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        for policy in [RootedPolicy::READ_ONLY, RootedPolicy::FULL_ACCESS] {
            let spawn = limited(shell(BOMB, policy), limits);
            check_end(&name, &sandbox, spawn, Resource::Processes).await;
        }
    }
}

/// Starts 2^13 processes that all keep the processor busy, so that the supervisor gets little of it to count them.
const BUSY_BOMB: &str = "f() { if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & fi; \
                         i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; sleep 60; }; f 12";

#[tokio::test]
async fn a_fork_bomb_of_busy_processes_is_ended() {
    let limits = UsageLimits { processes: Some(400), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        if name.starts_with("Namespaces") {
            let spawn = limited(shell(BUSY_BOMB, RootedPolicy::READ_ONLY), limits);
            let exceeded = check_end(&name, &sandbox, spawn, Resource::Processes).await;
            // The kernel makes a few more of them than the limit (since Linux 6.14).
            assert!(!has_own_process_numbers() || exceeded.reached < 800, "{name}: {exceeded:?}");
        }
    }
}

/// Whether namespaces of processes have a limit of their own.
fn has_own_process_numbers() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= (6, 14))
}

#[tokio::test]
async fn processes_that_replace_each_other_are_ended() {
    // There is always one, which starts the next before it ends.
    let script = "f() { [ $1 -gt 0 ] && (f $(($1 - 1)) &) }; f 20000; sleep 60";
    let limits =
        UsageLimits { cpu_time: Some(Duration::from_millis(300)), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        let spawn = limited(shell(script, RootedPolicy::READ_ONLY), limits);
        check_end(&name, &sandbox, spawn, Resource::CpuTime).await;
    }
}

#[tokio::test]
async fn too_much_memory_ends_a_command() {
    // Keeps 2 GB in memory.
    let script = "head -c 2000000000 /dev/zero | tail -c 2000000000 | sleep 60";
    let limits = UsageLimits { memory: Some(300 * MIB), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        for policy in [RootedPolicy::READ_ONLY, RootedPolicy::FULL_ACCESS] {
            let spawn = limited(shell(script, policy), limits);
            check_end(&name, &sandbox, spawn, Resource::Memory).await;
        }
    }
}

#[tokio::test]
async fn memory_in_files_of_the_sandbox_counts() {
    let script = "head -c 1500000000 /dev/zero > /dev/shm/large; sleep 60";
    let limits = UsageLimits { memory: Some(300 * MIB), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        // Without namespaces, the folder is the machine's, and cannot be written.
        if name.starts_with("Namespaces") {
            let spawn = limited(shell(script, RootedPolicy::READ_ONLY), limits);
            check_end(&name, &sandbox, spawn, Resource::Memory).await;
        }
    }
}

#[tokio::test]
async fn too_much_written_ends_a_command() {
    let (_guard, dir) = folder();
    let one = "dd if=/dev/zero of=f bs=1M count=2000; sleep 60";
    // In many files, by processes whose parents have ended.
    let many = "i=0; while [ $i -lt 100 ]; do (dd if=/dev/zero of=f$((i % 20)) bs=1M count=20 &); \
                i=$((i + 1)); done; sleep 60";
    let limits = UsageLimits { disk_written: Some(60 * MIB), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        for script in [one, many] {
            let mut spawn = limited(shell(script, workspace(&dir)), limits);
            spawn.cwd = dir.clone();
            // Without namespaces, nothing new is made at the top of a root.
            (0..20).for_each(|at| drop(std::fs::write(dir.join(format!("f{at}")), "")));
            std::fs::write(dir.join("f"), "").unwrap();
            check_end(&name, &sandbox, spawn, Resource::DiskWritten).await;
        }
    }
}

#[tokio::test]
async fn too_much_processor_time_ends_a_command() {
    let alone = "while :; do :; done";
    let by_children =
        "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'; done";
    let limits =
        UsageLimits { cpu_time: Some(Duration::from_millis(300)), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        for script in [alone, by_children] {
            let spawn = limited(shell(script, RootedPolicy::READ_ONLY), limits);
            let exceeded = check_end(&name, &sandbox, spawn, Resource::CpuTime).await;
            assert_eq!(exceeded.limit, 300);
        }
    }
}

#[tokio::test]
async fn no_file_grows_beyond_its_limit() {
    let (_guard, dir) = folder();
    for (name, sandbox) in sandboxes().await {
        std::fs::write(dir.join("f"), "").unwrap();
        let mut spawn = shell("exec head -c 100000000 /dev/zero > f", workspace(&dir));
        spawn.limits.file_size = Some(5 * MIB);
        spawn.cwd = dir.clone();
        check_end(&name, &sandbox, spawn, Resource::FileSize).await;
        assert_eq!(std::fs::metadata(dir.join("f")).unwrap().len(), 5 * MIB, "{name}");
    }
}

#[tokio::test]
async fn endless_output_ends_a_command() {
    for (name, sandbox) in sandboxes().await {
        let mut spawn = shell("yes", RootedPolicy::READ_ONLY);
        spawn.limits.output = Some(3 * MIB);
        let exceeded = check_end(&name, &sandbox, spawn, Resource::Output).await;
        assert!(exceeded.reached < 4 * MIB, "{exceeded:?}");
    }
}

fn every_limit() -> Limits {
    Limits {
        command: UsageLimits {
            memory: Some(700 * MIB),
            processes: Some(100),
            cpu_time: Some(Duration::from_secs(60)),
            disk_written: Some(100 * MIB),
        },
        file_size: Some(20 * MIB),
        output: Some(MIB),
        ..Limits::default()
    }
}

fn check_untouched(name: &str, ran: &Finished) {
    assert_eq!(ran.exit.limit, None, "{name}: {ran:?}");
    assert!(ran.ok() && ran.stdout.ends_with("done\n"), "{name}: {ran:?}");
}

#[tokio::test]
async fn a_command_below_its_limits_is_not_touched() {
    let (_guard, dir) = folder();
    // Subshells share the memory of the shell: 100 MB, counted once, and 4 GB if counted for each.
    let script = "x=$(head -c 50000000 /dev/zero | tr '\\0' x); i=0; \
                  while [ $i -lt 40 ]; do (sleep 1; :) & i=$((i + 1)); done; \
                  head -c 15000000 /dev/zero > f; head -c 15000000 /dev/zero > g; wait; echo done";
    for (name, sandbox) in sandboxes().await {
        for at in ["f", "g"] {
            std::fs::write(dir.join(at), "").unwrap();
        }
        let mut spawn = shell(script, workspace(&dir));
        spawn.cwd = dir.clone();
        spawn.limits = every_limit();
        check_untouched(&name, &run(&sandbox, spawn).await);
    }
}

#[tokio::test]
async fn commands_do_not_count_for_each_other() {
    let script = "i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i + 1)); done; wait; echo done";
    for (name, sandbox) in sandboxes().await {
        let spawn = || {
            let mut spawn = shell(script, RootedPolicy::READ_ONLY);
            spawn.limits = every_limit();
            spawn
        };
        let all =
            tokio::join!(run(&sandbox, spawn()), run(&sandbox, spawn()), run(&sandbox, spawn()));
        [all.0, all.1, all.2].iter().for_each(|ran| check_untouched(&name, ran));
    }
}

#[tokio::test]
async fn an_ended_command_leaves_no_process() {
    let limits = UsageLimits { processes: Some(100), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        // The argument marks the processes of this test.
        let mark = format!("60.{}", std::process::id());
        let script = BOMB.replace("sleep 60", &format!("sleep {mark}"));
        let spawn = limited(shell(&script, RootedPolicy::READ_ONLY), limits);
        check_end(&name, &sandbox, spawn, Resource::Processes).await;
        let begun = Instant::now();
        while is_running(&mark) {
            assert!(begun.elapsed() < WITHIN, "{name}: some processes are left");
            // tidy: sleep because the end of a process that is not ours has no event to wait for.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn is_running(mark: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.windows(mark.len()).any(|part| part == mark.as_bytes())
    })
}

#[tokio::test]
async fn commands_have_a_lower_priority() {
    let own = rustix_nice();
    for (name, sandbox) in sandboxes().await {
        for (nice, expect) in [(0, own), (5, (own + 5).min(19))] {
            let mut spawn = shell("nice", RootedPolicy::READ_ONLY);
            spawn.limits.nice = nice;
            let ran = run(&sandbox, spawn).await;
            assert_eq!(ran.stdout.trim(), expect.to_string(), "{name}: {ran:?}");
        }
    }
}

/// The niceness of this process.
fn rustix_nice() -> i32 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
}

#[tokio::test]
async fn groups_of_ended_commands_and_servers_are_removed() {
    let sandbox = limited_sandbox(Layer::Auto, LimitsBy::ControlGroups);
    let report = sandbox.report().await;
    let groups = report.into_iter().find(|status| status.layer == "control groups").unwrap();
    if !groups.usable {
        eprintln!("skipped: {}", groups.detail);
        return;
    }
    let path = groups.detail.split_whitespace().find(|word| word.starts_with('/')).unwrap();
    let folder = std::path::PathBuf::from(path);
    let inside = |folder: &std::path::Path| {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        entries.filter(|entry| entry.file_type().unwrap().is_dir()).count()
    };
    let mut spawn = shell("cat /proc/self/cgroup; echo done; sleep 60", RootedPolicy::READ_ONLY);
    spawn.limits = every_limit();
    let mut process = sandbox.spawn(spawn).await.unwrap();
    let chunk = process.output.recv().await.unwrap();
    let text = String::from_utf8(chunk.bytes.to_vec()).unwrap();
    assert!(text.contains("/command-"), "{text}");
    assert_eq!(inside(&folder), 1, "that of the command's group");
    process.kill();
    process.wait().await;
    let begun = Instant::now();
    while inside(&folder) > 0 {
        assert!(begun.elapsed() < WITHIN, "the group of an ended command is left");
        // tidy: sleep because supervisors end without an event.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // As a server leaves it that was killed together with everything it started: its start is another one.
    let name = folder.file_name().unwrap().to_str().unwrap();
    let place = name.split('-').nth(1).unwrap();
    let left = folder.with_file_name(format!("agentd-{place}-{}-1-1", std::process::id()));
    std::fs::create_dir_all(left.join("group-1/command-7")).unwrap();
    let next = limited_sandbox(Layer::Auto, LimitsBy::ControlGroups);
    next.prepare().await;
    assert!(!left.exists(), "a folder of a server that was killed is left");
    drop((process, sandbox));
    assert!(!folder.exists(), "the folder of a server that has ended is left");
}

#[tokio::test]
async fn a_used_up_limit_of_a_group_is_an_error() {
    use sandbox::{Group, GroupLimits};
    let sandbox = limited_sandbox(Layer::Auto, LimitsBy::Supervisors);
    let together =
        UsageLimits { cpu_time: Some(Duration::from_millis(200)), ..UsageLimits::default() };
    let group = Group::new();
    let spawn = |script: &str| {
        let mut spawn = shell(script, RootedPolicy::READ_ONLY);
        spawn.limits.group = Some(GroupLimits { group: group.clone(), together });
        spawn
    };
    let ran = run(&sandbox, spawn("i=0; while [ $i -lt 5000000 ]; do i=$((i + 1)); done")).await;
    let exceeded = ran.exit.limit.unwrap();
    assert_eq!((exceeded.resource, exceeded.scope), (Resource::CpuTime, Scope::Group), "{ran:?}");
    let refused = sandbox.spawn(spawn("true")).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::LimitReached(_)), "{refused}");
    assert!(refused.to_string().contains("of this thread together used"), "{refused}");
}
