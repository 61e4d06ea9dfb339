//! The entries of one folder as the index keeps them: packed into one allocation, in which half a
//! million names take a few megabytes, and which a search reads from front to back.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::letter::{mask, pairs};
use crate::rules::{GIT, RuleFiles, Rules};
use crate::score::starts;

/// Bytes before each name: its masks (4 each), its pairs (8), its length (2), whether it is a folder (1).
const HEADER: usize = 19;
/// A folder that changed this shortly before it was listed may have changed again within the same tick
/// of the file system's clock.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// The same for file systems that count whole seconds.
const COARSE_CLOCK_TICK: Duration = Duration::from_secs(2);

/// An entry of a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Where it begins in the packed entries.
    pub(crate) offset: u32,
    /// See [`mask`].
    pub(crate) mask: u32,
    /// The mask of the letters whose place counts: see [`starts`].
    pub(crate) starts: u32,
    /// See [`pairs`].
    pub(crate) pairs: u64,
    pub(crate) is_folder: bool,
    pub(crate) name: &'a [u8],
}

/// Packed entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries(Box<[u8]>);

impl Entries {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (entry, next) = self.entry(at)?;
            at = next;
            Some(entry)
        })
    }

    /// The entry at `offset`, where one begins.
    pub(crate) fn at(&self, offset: u32) -> Option<Entry<'_>> {
        Some(self.entry(offset as usize)?.0)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn entry(&self, at: usize) -> Option<(Entry<'_>, usize)> {
        let (header, rest) = self.0.get(at..)?.split_first_chunk::<HEADER>()?;
        let (mask, header) = header.split_first_chunk()?;
        let (starts, header) = header.split_first_chunk()?;
        let (pairs, header) = header.split_first_chunk()?;
        let (length, is_folder) = header.split_first_chunk()?;
        let name = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
        let entry = Entry {
            offset: u32::try_from(at).ok()?,
            mask: u32::from_le_bytes(*mask),
            starts: u32::from_le_bytes(*starts),
            pairs: u64::from_le_bytes(*pairs),
            is_folder: *is_folder != [0],
            name,
        };
        Some((entry, at + HEADER + name.len()))
    }
}

/// Adds an entry to `packed`. Returns whether there was room: names have at most 65,535 bytes on every
/// system, and offsets have 32 bits.
fn pack(packed: &mut Vec<u8>, name: &[u8], is_folder: bool) -> bool {
    let (Ok(length), Ok(_)) = (u16::try_from(name.len()), u32::try_from(packed.len())) else {
        return false;
    };
    packed.extend_from_slice(&mask(name).to_le_bytes());
    packed.extend_from_slice(&starts(name).to_le_bytes());
    packed.extend_from_slice(&pairs(name).to_le_bytes());
    packed.extend_from_slice(&length.to_le_bytes());
    packed.push(u8::from(is_folder));
    packed.extend_from_slice(name);
    true
}

/// The contents of a folder.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) entries: Entries,
    /// Number of entries.
    pub(crate) count: usize,
    /// The rules for its entries.
    pub(crate) rules: Arc<Rules>,
    /// When the folder changed last; `None` when that is unknown or too recent to be relied on.
    pub(crate) changed: Option<SystemTime>,
}

impl Listing {
    /// Of a folder with these entries, each with whether it is a folder. Those for which there is no room
    /// are left out.
    pub(crate) fn of<'n>(
        entries: impl IntoIterator<Item = (&'n [u8], bool)>,
        rules: &Arc<Rules>,
    ) -> Self {
        let mut packed = Vec::new();
        let mut count = 0;
        for (name, is_folder) in entries {
            count += usize::from(pack(&mut packed, name, is_folder));
        }
        Self { entries: Entries(packed.into()), count, rules: rules.clone(), changed: None }
    }

    /// Of a folder that cannot be listed at present.
    pub(crate) fn unreadable(parent: &Arc<Rules>) -> Self {
        Self { entries: Entries::default(), count: 0, rules: parent.clone(), changed: None }
    }
}

/// Lists the folder at `path`, without what `parent`, the rules of the folder above, and its own rules
/// leave out. Links are entries, and are not followed. Fails with [`io::ErrorKind::Interrupted`] once
/// `is_stopped`.
pub(crate) fn list(
    path: &Path,
    parent: &Arc<Rules>,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Listing> {
    let changed = path.metadata()?.modified().ok();
    let listed_at = SystemTime::now();
    let mut found = RuleFiles::default();
    let mut all = Vec::new();
    let mut full = false;
    for entry in path.read_dir()? {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let entry = entry?;
        let name = entry.file_name();
        found.note(&name);
        if name == GIT {
            continue;
        }
        // An entry whose kind cannot be read has disappeared.
        let Ok(kind) = entry.file_type() else { continue };
        full |= !pack(&mut all, &name.into_vec(), kind.is_dir());
    }
    if full {
        tracing::warn!("{}: the folder is too large, a part of it is searched", path.display());
    }
    let rules = Rules::of_folder(path, found, parent);
    let (entries, count) = without_ignored(path, Entries(all.into()), &rules);
    let changed = changed.filter(|changed| is_settled(*changed, listed_at));
    Ok(Listing { entries, count, rules, changed })
}

fn is_settled(changed: SystemTime, listed_at: SystemTime) -> bool {
    let since_epoch = changed.duration_since(SystemTime::UNIX_EPOCH);
    let is_coarse = since_epoch.is_ok_and(|time| time.subsec_nanos() == 0);
    let tick = if is_coarse { COARSE_CLOCK_TICK } else { CLOCK_TICK };
    listed_at.duration_since(changed).is_ok_and(|passed| passed > tick)
}

fn without_ignored(folder: &Path, all: Entries, rules: &Rules) -> (Entries, usize) {
    let mut kept = Vec::new();
    let mut count = 0;
    let mut left_out = false;
    for entry in all.iter() {
        if rules.ignores(&folder.join(OsStr::from_bytes(entry.name)), entry.is_folder) {
            left_out = true;
        } else {
            count += 1;
            pack(&mut kept, entry.name, entry.is_folder);
        }
    }
    if left_out { (Entries(kept.into()), count) } else { (all, count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_entries_are_read_as_they_were_written() {
        let names: [(&[u8], bool); 4] =
            [(b"a.rs", false), (b"", true), (b"odd\xff", true), (&[b'x'; 300], false)];
        let mut packed = Vec::new();
        for (name, is_folder) in names {
            assert!(pack(&mut packed, name, is_folder));
        }
        let entries = Entries(packed.into());
        let read: Vec<_> = entries.iter().map(|entry| (entry.name, entry.is_folder)).collect();
        assert_eq!(read, names);
        for entry in entries.iter() {
            assert_eq!(entries.at(entry.offset).unwrap().name, entry.name);
            assert_eq!((entry.mask, entry.pairs), (mask(entry.name), pairs(entry.name)));
        }
    }
}
