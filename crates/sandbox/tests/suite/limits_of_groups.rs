//! Limits that commands share.

use crate::common::{run, shell};
use crate::limits::sandboxes;
use policy::RootedPolicy;
use sandbox::{Chunk, Group, GroupLimits, Process, Resource, Sandbox, Scope, Spawn, UsageLimits};
use std::sync::Arc;

/// A command of a group that starts so many processes, prints a line, and waits.
fn member(group: &Arc<Group>, together: UsageLimits, processes: usize) -> Spawn {
    let script = format!(
        "i=0; while [ $i -lt {processes} ]; do sleep 60 & i=$((i + 1)); done; echo ready; sleep 60"
    );
    let mut spawn = shell(&script, RootedPolicy::READ_ONLY);
    spawn.limits.group = Some(GroupLimits { group: Arc::clone(group), together });
    spawn
}

async fn ready(sandbox: &Sandbox, spawn: Spawn) -> Process {
    let mut process = sandbox.spawn(spawn).await.unwrap();
    let Chunk { bytes, .. } = process.output.recv().await.unwrap();
    assert_eq!(&bytes[..], b"ready\n");
    process
}

#[tokio::test]
async fn of_two_commands_the_one_that_uses_more_is_ended() {
    let together = UsageLimits { processes: Some(100), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        let group = Group::new();
        let small = ready(&sandbox, member(&group, together, 30)).await;
        let large = run(&sandbox, member(&group, together, 80)).await;
        let exceeded = large.exit.limit.unwrap_or_else(|| panic!("{name}: {large:?}"));
        assert_eq!(
            (exceeded.resource, exceeded.scope),
            (Resource::Processes, Scope::Group),
            "{name}"
        );
        assert!(exceeded.reached > 100, "{name}: {exceeded:?}");
        // The other one still runs, and so do further ones.
        let further = ready(&sandbox, member(&group, together, 30)).await;
        for process in [small, further] {
            process.kill();
            assert_eq!(process.wait().await.limit, None, "{name}");
        }
    }
}

#[tokio::test]
async fn commands_of_other_groups_do_not_count() {
    let together = UsageLimits { processes: Some(60), ..UsageLimits::default() };
    for (name, sandbox) in sandboxes().await {
        let script = "i=0; while [ $i -lt 40 ]; do sleep 1 & i=$((i + 1)); done; wait; echo done";
        let spawn = || {
            let mut spawn = shell(script, RootedPolicy::READ_ONLY);
            spawn.limits.group = Some(GroupLimits { group: Group::new(), together });
            spawn
        };
        let (one, other) = tokio::join!(run(&sandbox, spawn()), run(&sandbox, spawn()));
        for ran in [one, other] {
            assert!(ran.ok() && ran.exit.limit.is_none(), "{name}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn memory_counts_together() {
    let together = UsageLimits { memory: Some(400 << 20), ..UsageLimits::default() };
    // Holds so many bytes in memory.
    let holding =
        |bytes: u64| format!("head -c {bytes} /dev/zero | tail -c {bytes} | (sleep 60; cat)");
    for (name, sandbox) in sandboxes().await {
        let group = Group::new();
        let spawn = |bytes: u64| {
            let mut spawn = shell(&holding(bytes), RootedPolicy::READ_ONLY);
            spawn.limits.group = Some(GroupLimits { group: Arc::clone(&group), together });
            spawn
        };
        let small = sandbox.spawn(spawn(150_000_000)).await.unwrap();
        let large = run(&sandbox, spawn(350_000_000)).await;
        let exceeded = large.exit.limit.unwrap_or_else(|| panic!("{name}: {large:?}"));
        assert_eq!((exceeded.resource, exceeded.scope), (Resource::Memory, Scope::Group), "{name}");
        small.kill();
        assert_eq!(small.wait().await.limit, None, "{name}");
    }
}
