//! The use of the commands of a group together. Each has a row in a table, which is memory that the server and the
//! supervisors of the commands share: a supervisor writes its row and reads the others'. Commands never have it open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::MemfdFlags;

use super::{Amounts, Maxima, Resource};

/// The commands that share a limit. Cheap while none of them runs.
#[derive(Debug)]
pub struct Group {
    /// Distinguishes it from the other groups of this process.
    number: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Present while a command runs.
    table: Option<Arc<OwnedFd>>,
    /// The rows in use.
    used: Vec<bool>,
    spent: Spent,
}

/// The use of the commands that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// In milliseconds.
    pub(crate) cpu_time: u64,
    /// In bytes.
    pub(crate) disk_written: u64,
}

/// A running command of a group.
#[derive(Debug)]
pub(crate) struct Member {
    group: Arc<Group>,
    table: Arc<OwnedFd>,
    row: usize,
    /// Reported by the supervisor at the end.
    spent: Mutex<Spent>,
}

/// Bytes of a number.
const NUMBER: usize = 8;
/// Numbers before the first row: rows, and what ended commands have spent.
const HEAD: usize = 3;
/// Numbers of a row: in use or not, the amounts, and the exact memory.
const ROW: usize = 6;

impl Group {
    /// A group without commands.
    pub fn new() -> Arc<Self> {
        static GROUPS: AtomicU64 = AtomicU64::new(1);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { number, state: Mutex::default() })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The limit that the commands which have ended use up, so that no further one can run, and what they used.
    pub(crate) fn used_up(&self, together: &Maxima) -> Option<(Resource, u64, u64)> {
        let spent = self.state().spent;
        let used = [0, 0, spent.cpu_time, spent.disk_written];
        let mut all = Resource::USED.into_iter().zip(*together).zip(used);
        all.find_map(|((resource, limit), used)| {
            limit.filter(|limit| used >= *limit && used > 0).map(|limit| (resource, limit, used))
        })
    }

    /// Adds a command.
    ///
    /// # Errors
    /// There is no memory, or no descriptor, for the table.
    pub(crate) fn join(self: &Arc<Self>) -> io::Result<Member> {
        let mut state = self.state();
        let table = match &state.table {
            Some(table) => Arc::clone(table),
            None => {
                let made = rustix::fs::memfd_create("limits", MemfdFlags::CLOEXEC)?;
                Arc::clone(state.table.insert(Arc::new(made)))
            }
        };
        let row = state.used.iter().position(|used| !used).unwrap_or(state.used.len());
        let rows = state.used.len().max(row + 1);
        put(&table, row_start(row), &[1, 0, 0, 0, 0, 0])?;
        put(&table, 0, &[as_number(rows), state.spent.cpu_time, state.spent.disk_written])?;
        state.used.resize(rows, false);
        if let Some(used) = state.used.get_mut(row) {
            *used = true;
        }
        drop(state);
        Ok(Member { group: Arc::clone(self), table, row, spent: Mutex::default() })
    }

    fn leave(&self, table: &Arc<OwnedFd>, row: usize, reported: Spent) {
        let mut state = self.state();
        // A command that was killed reports nothing.
        let seen = get::<ROW>(table, row_start(row)).unwrap_or_default();
        let [_, _, _, cpu_time, disk_written, _] = seen;
        state.spent.cpu_time += reported.cpu_time.max(cpu_time);
        state.spent.disk_written += reported.disk_written.max(disk_written);
        // First the row: for a moment too little is counted, never too much.
        let freed = put(table, row_start(row), &[0]);
        let head = [as_number(state.used.len()), state.spent.cpu_time, state.spent.disk_written];
        if let Err(error) = freed.and_then(|()| put(table, 0, &head)) {
            debug_assert!(false, "memory is written without errors: {error}");
        }
        if let Some(used) = state.used.get_mut(row) {
            *used = false;
        }
        if state.used.iter().all(|used| !used) {
            state.used.clear();
            state.table = None;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    pub(crate) fn table(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }

    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// The command has ended, and used so much.
    pub(crate) fn has_spent(&self, spent: Spent) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = spent;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        self.group.leave(&self.table, self.row, spent);
    }
}

/// The table as a supervisor has it.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) table: OwnedFd,
    pub(crate) row: usize,
}

/// The use of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    pub(crate) amounts: Amounts,
    /// Memory without what may be counted twice: at most what is used.
    pub(crate) exact_memory: u64,
    /// For each resource, true if no other command that runs uses more.
    pub(crate) is_largest: [bool; 4],
}

impl Sheet {
    /// Writes what this command uses and returns what all use. `exact_memory` is zero while it is unknown.
    ///
    /// # Errors
    /// There is no memory for the row.
    pub(crate) fn exchange(&self, own: &Amounts, exact_memory: u64) -> io::Result<Together> {
        let [memory, processes, cpu_time, written] = *own;
        let row = [memory, processes, cpu_time, written, exact_memory];
        put(&self.table, row_start(self.row) + NUMBER, &row)?;
        let [rows, spent_time, spent_bytes] = get::<HEAD>(&self.table, 0)?;
        let mut all = Together {
            amounts: [0, 0, spent_time, spent_bytes],
            exact_memory: 0,
            is_largest: [true; 4],
        };
        for at in 0..usize::try_from(rows).unwrap_or(0) {
            let [used, memory, processes, cpu_time, written, exact] =
                get::<ROW>(&self.table, row_start(at))?;
            if used == 0 {
                continue;
            }
            let theirs = [memory, processes, cpu_time, written];
            all.exact_memory += exact;
            for (index, amount) in theirs.into_iter().enumerate() {
                all.amounts[index] += amount;
                // Of two that use the same, the one with the lower row.
                let is_more = (amount, self.row) > (own[index], at);
                all.is_largest[index] &= at == self.row || !is_more;
            }
        }
        Ok(all)
    }
}

fn row_start(row: usize) -> usize {
    (HEAD + row * ROW) * NUMBER
}

fn as_number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn put(table: &impl AsFd, at: usize, numbers: &[u64]) -> io::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    match rustix::io::pwrite(table, &bytes, as_number(at))? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

fn get<const N: usize>(table: &impl AsFd, at: usize) -> io::Result<[u64; N]> {
    let mut bytes = [0; ROW * NUMBER];
    let wanted = bytes.get_mut(..N * NUMBER).unwrap_or_default();
    if rustix::io::pread(table, &mut *wanted, as_number(at))? != N * NUMBER {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut numbers = [0; N];
    for (number, place) in wanted.as_chunks::<NUMBER>().0.iter().zip(&mut numbers) {
        *place = u64::from_le_bytes(*number);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(member: &Member) -> Sheet {
        Sheet { table: member.table().try_clone_to_owned().unwrap(), row: member.row() }
    }

    #[test]
    fn commands_of_a_group_count_together() {
        let group = Group::new();
        let (first, second) = (group.join().unwrap(), group.join().unwrap());
        let alone = sheet(&first).exchange(&[10, 1, 100, 1000], 0).unwrap();
        assert_eq!(alone.amounts, [10, 1, 100, 1000]);
        let both = sheet(&second).exchange(&[5, 2, 200, 1], 4).unwrap();
        assert_eq!(both.amounts, [15, 3, 300, 1001]);
        assert_eq!(both.exact_memory, 4);
        assert_eq!(both.is_largest, [false, true, true, false]);
        let again = sheet(&first).exchange(&[10, 2, 100, 1000], 9).unwrap();
        assert_eq!(again.exact_memory, 13);
        assert_eq!(again.is_largest, [true, true, false, true], "equal: the lower row");
    }

    #[test]
    fn what_ended_commands_spent_counts() {
        let group = Group::new();
        let (first, second) = (group.join().unwrap(), group.join().unwrap());
        sheet(&first).exchange(&[10, 1, 100, 1000], 0).unwrap();
        first.has_spent(Spent { cpu_time: 150, disk_written: 0 });
        drop(first);
        let left = sheet(&second).exchange(&[1, 1, 1, 1], 0).unwrap();
        assert_eq!(left.amounts, [1, 1, 151, 1001]);
        let third = group.join().unwrap();
        assert_eq!(third.row(), 0, "a free row is used again");
        assert_eq!(sheet(&third).exchange(&[0; 4], 0).unwrap().amounts, [1, 1, 151, 1001]);
        drop((second, third));
        let limits = |cpu_time, written| [None, None, cpu_time, written];
        assert_eq!(group.used_up(&limits(Some(153), None)), None);
        assert_eq!(group.used_up(&limits(Some(151), None)), Some((Resource::CpuTime, 151, 151)),);
        assert_eq!(
            group.used_up(&limits(None, Some(1000))),
            Some((Resource::DiskWritten, 1000, 1001)),
        );
        let alone = group.join().unwrap();
        assert_eq!(sheet(&alone).exchange(&[0; 4], 0).unwrap().amounts, [0, 0, 151, 1001]);
    }

    #[test]
    fn groups_do_not_share() {
        let (one, other) = (Group::new(), Group::new());
        assert_ne!(one.number(), other.number());
        let (first, second) = (one.join().unwrap(), other.join().unwrap());
        sheet(&first).exchange(&[10, 1, 100, 1000], 0).unwrap();
        assert_eq!(sheet(&second).exchange(&[1; 4], 0).unwrap().amounts, [1; 4]);
    }
}
