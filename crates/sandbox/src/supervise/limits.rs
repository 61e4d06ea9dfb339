//! Watches what a command uses, and says when it used more than its limits allow.
//!
//! Nothing is looked at in the first moments, so that a short command costs nothing. Later looks are the rarer the
//! further away the limits are, and take a small part of a processor at most.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::process::Pid;

use super::request::Ended;
use super::request_limits::RequestedLimits;
use super::usage::{self, Measured};
use crate::limits::{Amounts, Exceeded, Maxima, Resource, Scope, Sheet, Spent};
use crate::linux::cgroup::CommandGroup;
use crate::linux::limit_calls;

/// Before the first look.
const FIRST: Duration = Duration::from_millis(100);
/// Between two looks at a command that works.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_millis(250);
/// Between two looks at one that waits.
const LONGEST_IDLE: Duration = Duration::from_secs(1);
/// The pause after a look is so many times the time that it took.
const COST_FACTOR: u32 = 25;
/// The signal of a process that makes a file larger than it may.
const FILE_TOO_LARGE: i32 = libc::SIGXFSZ;

/// The watch over one command.
#[derive(Debug)]
pub(super) struct Watch {
    limits: RequestedLimits,
    sheet: Option<Sheet>,
    group: Option<CommandGroup>,
    launcher: Option<Pid>,
    /// The time of the next look; `None`: nothing is limited.
    next: Option<Instant>,
    pause: Duration,
    last: Option<(Instant, Amounts)>,
    /// Bytes written by processes that the first process of namespaces reaped.
    unread: u64,
}

impl Watch {
    /// `table` is that of the command's group. Makes the command's control group, if one can be had.
    pub(super) fn new(limits: RequestedLimits, table: Option<OwnedFd>) -> Self {
        let sheet = table.map(|table| Sheet { table, row: limits.row });
        let place = limits.control_groups.as_deref().filter(|_| limits.are_watched());
        let group = place.and_then(|place| {
            let made = CommandGroup::make(place, limits.group, &limits.command, &limits.together);
            // The watch enforces the same without it.
            made.ok()
        });
        let next = limits.are_watched().then(|| Instant::now() + FIRST);
        let launcher = rustix::process::getppid();
        Self { limits, sheet, group, launcher, next, pause: SHORTEST, last: None, unread: 0 }
    }

    /// The control group to start the command in.
    pub(super) fn control_group(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().map(CommandGroup::opened)
    }

    /// The time until the next look.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        let left = self.next?.saturating_duration_since(Instant::now());
        // Rounded up, so that the look is due then.
        let nanoseconds = left.as_nanos() + 1_000_000;
        Some(Timespec {
            tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanoseconds % 1_000_000_000).unwrap_or(0),
        })
    }

    /// Processes whose files cannot be read wrote `bytes` in total, and have ended.
    pub(super) fn wrote_unread(&mut self, bytes: u64) {
        self.unread = bytes;
    }

    /// Returns whether it is time to look.
    pub(super) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| Instant::now() >= next)
    }

    /// The limit of processes, if the machine has so many that the command can have reached it.
    pub(super) fn crowd(&self) -> Option<Exceeded> {
        let full = self.full()?;
        (usage::threads_of_machine()? >= full.limit).then_some(full)
    }

    /// The limit of processes, of a command that can make no more of them.
    pub(super) fn full(&self) -> Option<Exceeded> {
        let limit = self.limits.processes().filter(|_| !self.counted_by_kernel())?;
        let scope =
            if self.limits.command[1] == Some(limit) { Scope::Command } else { Scope::Group };
        Some(Exceeded { resource: Resource::Processes, scope, limit, reached: limit + 1 })
    }

    /// Looks at the command if it is time to.
    pub(super) fn look(&mut self) -> Option<Exceeded> {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return None;
        }
        let begun = limit_calls::own_cpu_time();
        let (used, measured) = self.measure();
        let exceeded = self.check(&used, &measured);
        self.plan(now, used);
        let cost = limit_calls::own_cpu_time().saturating_sub(begun);
        let pause = self.pause.max((cost * COST_FACTOR).min(LONGEST_IDLE));
        self.next = exceeded.is_none().then(|| Instant::now() + pause);
        exceeded
    }

    fn measure(&self) -> (Amounts, Measured) {
        let most = match self.counted_by_kernel() {
            true => None,
            false => [self.limits.command[1], self.limits.together[1]].into_iter().flatten().max(),
        };
        let measured = usage::measure(most.unwrap_or(u64::MAX), self.unread);
        let mut used =
            [measured.memory, measured.processes, measured.cpu_time, measured.disk_written];
        if let Some(group) = &self.group {
            // Children of processes that do not reap them are missing elsewhere.
            used[2] = group.cpu_time().unwrap_or(0).max(used[2]);
            if let Some((processes, _)) = self.group_counts() {
                used[1] = processes;
            }
        }
        (used, measured)
    }

    fn counted_by_kernel(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.counts)
    }

    fn group_counts(&self) -> Option<(u64, u64)> {
        self.group.as_ref().filter(|group| group.counts)?.processes()
    }

    fn check(&self, used: &Amounts, measured: &Measured) -> Option<Exceeded> {
        let mut exact = None;
        for (index, resource) in Resource::USED.into_iter().enumerate() {
            let Some(limit) = self.limits.command[index] else { continue };
            let mut reached = used[index];
            let is_over = |reached: u64| match self.counted_by_kernel() {
                // The kernel lets no more be made.
                true if resource == Resource::Processes => reached >= limit,
                true if resource == Resource::Memory => false,
                _ => reached > limit,
            };
            if resource == Resource::Memory && is_over(reached) {
                reached = *exact.get_or_insert_with(|| measured.exact_memory());
            }
            if is_over(reached) {
                return Some(Exceeded { resource, scope: Scope::Command, limit, reached });
            }
        }
        self.check_group(used, exact, measured)
    }

    fn check_group(
        &self,
        used: &Amounts,
        exact: Option<u64>,
        measured: &Measured,
    ) -> Option<Exceeded> {
        let over = |resource: Resource, limit: u64, reached: u64| {
            Some(Exceeded { resource, scope: Scope::Group, limit, reached })
        };
        // A table that cannot be written, for want of memory, is tried again at the next look.
        let sheet = self.sheet.as_ref()?;
        let mut all = sheet.exchange(used, exact.unwrap_or(0)).ok()?;
        if let (Some(limit), false) = (self.limits.together[0], self.counted_by_kernel())
            && all.amounts[0] > limit
        {
            // Shared memory may be in there more than once, so each command now adds what it has for certain.
            let exact = exact.unwrap_or_else(|| measured.exact_memory());
            all = sheet.exchange(used, exact).ok()?;
            if all.exact_memory > limit && all.is_largest[0] {
                return over(Resource::Memory, limit, all.exact_memory);
            }
        }
        if let Some(limit) = self.limits.together[1] {
            let (reached, is_over) = match self.group_counts() {
                Some((_, all)) => (all, all >= limit),
                None => (all.amounts[1], all.amounts[1] > limit),
            };
            if is_over && all.is_largest[1] {
                return over(Resource::Processes, limit, reached);
            }
        }
        [2, 3].into_iter().find_map(|index: usize| {
            let limit = self.limits.together[index]?;
            let is_over = all.amounts[index] > limit && all.is_largest[index];
            is_over.then(|| over(Resource::USED[index], limit, all.amounts[index])).flatten()
        })
    }

    /// Plans the next look: before a limit could be reached at the rate since the last one.
    fn plan(&mut self, now: Instant, used: Amounts) {
        let last = self.last.replace((now, used));
        let Some((then, before)) = last else { return };
        if used[2] == before[2] {
            self.pause = (self.pause * 2).min(LONGEST_IDLE);
            return;
        }
        let span = now.duration_since(then);
        let soonest = nearest(&self.limits.command, &before, &used, span);
        self.pause = soonest.map_or(LONGEST, |time| (time / 2).clamp(SHORTEST, LONGEST));
    }

    /// The limit that made the command end, as its end shows it.
    pub(super) fn verdict(&self, how: Ended) -> Option<Exceeded> {
        if let Some(scope) = self.group.as_ref().and_then(CommandGroup::out_of_memory) {
            let limits = match scope {
                Scope::Command => &self.limits.command,
                Scope::Group => &self.limits.together,
            };
            let limit = limits[0]?;
            return Some(Exceeded { resource: Resource::Memory, scope, limit, reached: limit });
        }
        let is_too_large = match how {
            Ended::Code(code) => code == 128 + FILE_TOO_LARGE,
            Ended::Signal(signal) => signal == FILE_TOO_LARGE,
            Ended::NotConfined(_) | Ended::NotExecuted(_) => false,
        };
        let limit = self.limits.file_size.filter(|_| is_too_large)?;
        let (resource, scope) = (Resource::FileSize, Scope::Command);
        Some(Exceeded { resource, scope, limit, reached: limit })
    }

    /// The use of the command until now, if its group has a limit of the sum.
    pub(super) fn spent(&self) -> Spent {
        if self.sheet.is_none() || self.limits.together[2..].iter().all(Option::is_none) {
            return Spent::default();
        }
        let ([_, _, cpu_time, disk_written], _) = self.measure();
        Spent { cpu_time, disk_written }
    }

    /// Kills all processes of the command at once, where its control group can.
    pub(super) fn kill(&self) -> Option<io::Result<()>> {
        self.group.as_ref().map(CommandGroup::kill)
    }

    /// No process is left.
    pub(super) fn remove(&self) {
        if let Some(group) = &self.group {
            // The launcher ends with the server: no other command will start.
            group.remove(rustix::process::getppid() != self.launcher);
        }
    }
}

/// The time until the first limit is reached at the rate of the last `span`.
fn nearest(limits: &Maxima, before: &Amounts, now: &Amounts, span: Duration) -> Option<Duration> {
    let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let times = limits.iter().zip(before).zip(now).filter_map(|((limit, before), now)| {
        let grown = now.checked_sub(*before).filter(|grown| *grown > 0)?;
        let left = (*limit)?.saturating_sub(*now);
        // In an order that neither overflows nor loses small rates.
        Some(u128::from(left) * u128::from(span) / u128::from(grown))
    });
    Some(Duration::from_micros(u64::try_from(times.min()?).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_limit_decides() {
        let second = Duration::from_secs(1);
        let limits = [Some(1000), Some(10), None, Some(1 << 40)];
        let times = |before, now| nearest(&limits, &before, &now, second);
        assert_eq!(times([0; 4], [0; 4]), None);
        assert_eq!(times([0; 4], [100, 0, 5, 0]), Some(9 * second));
        assert_eq!(times([0; 4], [100, 5, 5, 0]), Some(second));
        assert_eq!(times([0; 4], [2000, 0, 0, 0]), Some(Duration::ZERO));
        assert_eq!(times([500, 9, 0, 0], [100, 5, 5, 0]), None);
    }
}
