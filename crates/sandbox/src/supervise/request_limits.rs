//! The limits of a command, as part of its request.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::limits::Maxima;

/// The limits that the supervisor of a command enforces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestedLimits {
    /// Of the command.
    pub(crate) command: Maxima,
    /// Of all commands of its group.
    pub(crate) together: Maxima,
    /// The number of its group; 0: it has none.
    pub(crate) group: u64,
    /// Its row in the group's table, which is sent with the request.
    pub(crate) row: usize,
    pub(crate) file_size: Option<u64>,
    pub(crate) nice: u8,
    /// The folder in which the kernel enforces limits; `None`: the supervisor watches alone.
    pub(crate) control_groups: Option<PathBuf>,
}

/// Bytes before the folder.
const FIXED: usize = 8 * 11 + 2;

impl RequestedLimits {
    /// Returns whether something is limited that has to be watched.
    pub(crate) fn are_watched(&self) -> bool {
        self.command.iter().chain(&self.together).any(Option::is_some)
    }

    /// Most processes of the command.
    pub(crate) fn processes(&self) -> Option<u64> {
        self.command[1].into_iter().chain(self.together[1]).min()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED);
        let limits = self.command.iter().chain(&self.together).chain([&self.file_size]);
        // No limit is that large.
        let numbers = limits.map(|limit| limit.unwrap_or(u64::MAX));
        let rest = [self.group, u64::try_from(self.row).unwrap_or(u64::MAX)];
        numbers.chain(rest).for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.push(self.nice);
        bytes.push(u8::from(self.control_groups.is_some()));
        bytes.extend(self.control_groups.iter().flat_map(|path| path.as_os_str().as_bytes()));
        bytes
    }

    /// Decodes the result of [`RequestedLimits::encode`]; `None` if malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.split_at_checked(FIXED - 2)?;
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut number = || numbers.next().unwrap_or(u64::MAX);
        let mut limit = || Some(number()).filter(|limit| *limit != u64::MAX);
        let command = [limit(), limit(), limit(), limit()];
        let together = [limit(), limit(), limit(), limit()];
        let file_size = limit();
        let (group, row) = (number(), usize::try_from(number()).ok()?);
        let [nice, has_folder, folder @ ..] = rest else { return None };
        let control_groups = match (has_folder, folder) {
            (0, []) => None,
            (1, folder) => Some(PathBuf::from(OsString::from_vec(folder.to_vec()))),
            _ => return None,
        };
        Some(Self { command, together, group, row, file_size, nice: *nice, control_groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn maxima() -> impl Strategy<Value = Maxima> {
        [(); 4].map(|()| prop::option::of(0..u64::MAX))
    }

    proptest! {
        #[test]
        fn limits_round_trip(
            command in maxima(), together in maxima(), group in any::<u64>(), row in any::<u32>(),
            file_size in prop::option::of(0..u64::MAX), nice in any::<u8>(),
            folder in prop::option::of("[a-z/]{0,9}"),
        ) {
            let (row, control_groups) = (row as usize, folder.map(PathBuf::from));
            let limits =
                RequestedLimits { command, together, group, row, file_size, nice, control_groups };
            prop_assert_eq!(RequestedLimits::decode(&limits.encode()), Some(limits));
        }

        #[test]
        fn malformed_limits_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..FIXED)) {
            prop_assert_eq!(RequestedLimits::decode(&bytes), None);
        }
    }
}
