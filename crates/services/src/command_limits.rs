//! The limits of commands by the configuration, and the reason of a command's end for people and the model.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use config::Config;
use sandbox::{
    Exceeded, Exit, Group, GroupLimits, Limits, Resource, Scope, UsageLimits, machine_memory,
};

const MIB: u64 = 1 << 20;

/// Read once: it is asked for with each command.
static MACHINE_MEMORY: LazyLock<Option<u64>> = LazyLock::new(machine_memory);

/// The limits of a command: of one of a thread's with its `group`.
pub fn command_limits(config: &Config, group: Option<&Arc<Group>>) -> Limits {
    let (command, thread) = (&config.command_limits, &config.thread_limits);
    let memory = |table: &str, written: Option<u64>| {
        let by_machine = MACHINE_MEMORY.map(|bytes| bytes / 4 * 3 / MIB);
        let wanted = written.or(by_machine).filter(|limit| *limit > 0);
        let ceiling = config.requirements.ceiling(&format!("{table}.memory_mib"));
        mebibytes([wanted, ceiling].into_iter().flatten().min().unwrap_or(0))
    };
    Limits {
        command: UsageLimits {
            memory: memory("command_limits", command.memory_mib.map(|limit| *limit)),
            processes: limit(*command.processes),
            cpu_time: limit(*command.cpu_seconds).map(Duration::from_secs),
            disk_written: mebibytes(*command.disk_written_mib),
        },
        file_size: mebibytes(*command.file_mib),
        output: mebibytes(*command.output_mib),
        nice: u8::try_from(*command.nice).unwrap_or(0),
        group: group.map(|group| GroupLimits {
            group: Arc::clone(group),
            together: UsageLimits {
                memory: memory("thread_limits", thread.memory_mib.map(|limit| *limit)),
                processes: limit(*thread.processes),
                cpu_time: limit(*thread.cpu_seconds).map(Duration::from_secs),
                disk_written: mebibytes(*thread.disk_written_mib),
            },
        }),
    }
}

/// Zero is no limit.
fn limit(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn mebibytes(number: u64) -> Option<u64> {
    limit(number).map(|number| number.saturating_mul(MIB))
}

/// Why a limit ended a command, and the key that raises it. `None`: no limit did.
pub fn reason(exit: &Exit) -> Option<String> {
    exit.limit.map(|exceeded| explain(&exceeded))
}

/// An exceeded limit in words, with the key that raises it.
pub fn explain(exceeded: &Exceeded) -> String {
    let table = match exceeded.scope {
        Scope::Command => "command_limits",
        Scope::Group => "thread_limits",
    };
    let key = match exceeded.resource {
        Resource::Memory => "memory_mib",
        Resource::Processes => "processes",
        Resource::CpuTime => "cpu_seconds",
        Resource::DiskWritten => "disk_written_mib",
        Resource::FileSize => "file_mib",
        Resource::Output => "output_mib",
    };
    format!("{exceeded} (`{table}.{key}` in config.toml or requirements.toml)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_the_key() {
        let check = |resource, scope, expect: &str| {
            let exceeded = Exceeded { resource, scope, limit: 1 << 30, reached: 2 << 30 };
            let text = explain(&exceeded);
            assert!(text.ends_with(expect), "{text}");
        };
        check(
            Resource::Memory,
            Scope::Command,
            "(`command_limits.memory_mib` in config.toml or requirements.toml)",
        );
        check(
            Resource::Processes,
            Scope::Group,
            "(`thread_limits.processes` in config.toml or requirements.toml)",
        );
        check(
            Resource::CpuTime,
            Scope::Group,
            "(`thread_limits.cpu_seconds` in config.toml or requirements.toml)",
        );
        check(
            Resource::DiskWritten,
            Scope::Command,
            "(`command_limits.disk_written_mib` in config.toml or requirements.toml)",
        );
        check(
            Resource::FileSize,
            Scope::Command,
            "(`command_limits.file_mib` in config.toml or requirements.toml)",
        );
        check(
            Resource::Output,
            Scope::Command,
            "(`command_limits.output_mib` in config.toml or requirements.toml)",
        );
    }
}
