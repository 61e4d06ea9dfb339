//! Limits of what commands use, and the report of the one that ended a command. Does not enforce them.

#[cfg(target_os = "linux")]
mod group;
#[cfg(target_os = "linux")]
mod memory;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(target_os = "linux")]
pub use group::Group;
#[cfg(target_os = "linux")]
pub(crate) use group::{Member, Sheet, Spent};
#[cfg(target_os = "linux")]
pub use memory::machine_memory;

/// The way in which the limits of commands are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitsBy {
    /// Control groups of version 2 where the server may make some that limit memory and processes, else the
    /// supervisors of the commands alone.
    #[default]
    Auto,
    /// The supervisors alone.
    Supervisors,
    /// Control groups wherever the server may make some, even if they limit nothing.
    ControlGroups,
}

/// The commands that share a limit.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, Default)]
pub struct Group;

#[cfg(not(target_os = "linux"))]
impl Group {
    /// A group without commands.
    pub fn new() -> Arc<Self> {
        Arc::new(Self)
    }
}

/// The memory that commands can use in total, in bytes. `None`: unknown.
#[cfg(not(target_os = "linux"))]
pub fn machine_memory() -> Option<u64> {
    None
}

/// The limits of a command. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Of all processes of the command together.
    pub command: UsageLimits,
    /// Largest size of a file that the command writes, in bytes.
    pub file_size: Option<u64>,
    /// Bytes that the command may print.
    pub output: Option<u64>,
    /// Added to the niceness of the command: 0 to 19.
    pub nice: u8,
    /// Of all commands of a group together.
    pub group: Option<GroupLimits>,
}

impl Limits {
    /// Returns whether something is limited that has to be watched.
    pub(crate) fn are_watched(&self) -> bool {
        let together = self.group.as_ref().map(|group| group.together);
        self.command != UsageLimits::default()
            || together.is_some_and(|limits| limits != UsageLimits::default())
    }
}

/// Limits of what is used over time. `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageLimits {
    /// Memory and swap that processes have for themselves, in bytes. Where cgroups enforce it, also cached files.
    pub memory: Option<u64>,
    /// Processes and their threads.
    pub processes: Option<u64>,
    /// Time on processors.
    pub cpu_time: Option<Duration>,
    /// Bytes written to file systems that are stored.
    pub disk_written: Option<u64>,
}

/// The limits of a group.
#[derive(Clone, Debug)]
pub struct GroupLimits {
    /// The commands that share them.
    pub group: Arc<Group>,
    /// Memory and processes count for the commands that run, time and bytes also for those that have ended.
    pub together: UsageLimits,
}

/// A resource whose use is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// In bytes.
    Memory,
    /// Processes and threads.
    Processes,
    /// In milliseconds.
    CpuTime,
    /// In bytes.
    DiskWritten,
    /// In bytes, of one file.
    FileSize,
    /// In bytes.
    Output,
}

impl Resource {
    pub(crate) const ALL: [Self; 6] = [
        Self::Memory,
        Self::Processes,
        Self::CpuTime,
        Self::DiskWritten,
        Self::FileSize,
        Self::Output,
    ];
    /// Those of [`UsageLimits`], in the order of [`Amounts`].
    pub(crate) const USED: [Self; 4] =
        [Self::Memory, Self::Processes, Self::CpuTime, Self::DiskWritten];
}

/// The commands to which a limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The command alone.
    Command,
    /// All commands of its group.
    Group,
}

/// The limit that ended a command. Of a group's commands, the one that used the most is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Of which more was used than allowed.
    pub resource: Resource,
    /// The commands that used it.
    pub scope: Scope,
    /// The limit, in the unit of the resource.
    pub limit: u64,
    /// The amount that was used when this was noticed, at least.
    pub reached: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, scope, limit, reached } = *self;
        let by = match scope {
            Scope::Command => "the command",
            Scope::Group => "the commands of this thread together",
        };
        let seconds =
            |milliseconds: u64| format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100);
        match resource {
            Resource::Memory => {
                write!(
                    f,
                    "{by} used {} of memory, and the limit is {}",
                    bytes(reached),
                    bytes(limit)
                )
            }
            Resource::Processes => {
                write!(f, "{by} had {reached} processes and threads, and the limit is {limit}")
            }
            Resource::CpuTime => write!(
                f,
                "{by} used {} of processor time, and the limit is {}",
                seconds(reached),
                seconds(limit)
            ),
            Resource::DiskWritten => {
                write!(
                    f,
                    "{by} wrote {} to disk, and the limit is {}",
                    bytes(reached),
                    bytes(limit)
                )
            }
            Resource::FileSize => {
                write!(f, "{by} wrote to a file beyond the limit of {}", bytes(limit))
            }
            Resource::Output => {
                write!(f, "{by} printed {}, and the limit is {}", bytes(reached), bytes(limit))
            }
        }
    }
}

/// A number of bytes for people.
fn bytes(count: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let tenths = |unit: u64| format!("{}.{}", count / unit, count % unit * 10 / unit);
    match count {
        0..KIB => format!("{count} bytes"),
        KIB..MIB => format!("{} KiB", count / KIB),
        MIB..GIB => format!("{} MiB", count / MIB),
        _ => format!("{} GiB", tenths(GIB)),
    }
}

/// An amount for each of [`Resource::USED`].
pub(crate) type Amounts = [u64; 4];
/// A limit for each of [`Resource::USED`].
pub(crate) type Maxima = [Option<u64>; 4];

impl UsageLimits {
    pub(crate) fn maxima(&self) -> Maxima {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        [self.memory, self.processes, self.cpu_time.map(milliseconds), self.disk_written]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_described() {
        let check = |resource, scope, limit, reached, expect: &str| {
            let exceeded = Exceeded { resource, scope, limit, reached };
            assert_eq!(exceeded.to_string(), expect);
        };
        let (command, group) = (Scope::Command, Scope::Group);
        check(
            Resource::Memory,
            command,
            300 << 20,
            1_300 << 20,
            "the command used 1.2 GiB of memory, and the limit is 300 MiB",
        );
        check(
            Resource::Processes,
            group,
            10,
            12,
            "the commands of this thread together had 12 processes and threads, and the limit is 10",
        );
        check(
            Resource::CpuTime,
            command,
            1_000,
            1_250,
            "the command used 1.2 s of processor time, and the limit is 1.0 s",
        );
        check(
            Resource::DiskWritten,
            command,
            2_048,
            12,
            "the command wrote 12 bytes to disk, and the limit is 2 KiB",
        );
        check(
            Resource::FileSize,
            command,
            1 << 20,
            1 << 20,
            "the command wrote to a file beyond the limit of 1 MiB",
        );
        check(
            Resource::Output,
            command,
            1 << 10,
            1 << 11,
            "the command printed 2 KiB, and the limit is 1 KiB",
        );
    }
}
