//! The state of one entry of a folder, as it is compared, stored and restored.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use sha2::{Digest as _, Sha256};

/// The SHA-256 digest of contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub(crate) [u8; 32]);

impl Digest {
    pub(crate) fn of(contents: &[u8]) -> Self {
        Self(Sha256::digest(contents).into())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The state of an entry that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A regular file whose contents are stored. `mode` holds the permission bits.
    File { mode: u32, bytes: u64, contents: Digest },
    /// A symbolic link.
    Link { target: OsString },
    /// A folder; its entries have states of their own.
    Folder { mode: u32 },
    /// Something that is there, without its contents. Two are equal if nothing has changed, as far as
    /// the system's stamps tell.
    Unkept { reason: Reason, stamp: Digest },
}

/// Why contents are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Larger than the bound of its kind.
    TooLarge,
    /// Ignored by a `.gitignore`, and too large to keep all the same.
    Ignored,
    /// A socket, FIFO or device.
    Special,
    /// This user cannot read it.
    Unreadable,
    /// A version control folder, such as `.git`: only whether it is there is known.
    VersionControl,
}

impl Reason {
    /// The reason in a message: "… is not kept: {}".
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Reason::TooLarge => "it is too large",
            Reason::Ignored => "it is an ignored folder with many files, or a large ignored file",
            Reason::Special => "it is not a regular file",
            Reason::Unreadable => "it cannot be read",
            Reason::VersionControl => "it belongs to version control, which is not recorded",
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [
            Reason::TooLarge,
            Reason::Ignored,
            Reason::Special,
            Reason::Unreadable,
            Reason::VersionControl,
        ]
        .into_iter()
        .find(|reason| *reason as u8 == byte)
    }
}

const FILE: u8 = 1;
const LINK: u8 = 2;
const FOLDER: u8 = 3;
const UNKEPT: u8 = 4;

impl State {
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, State::Folder { .. })
    }

    /// The state as it is stored: its kind, then its parts in their order. The digest of a file is at
    /// byte 13, where the collection of unused contents reads it.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(45);
        match self {
            State::File { mode, bytes: length, contents } => {
                bytes.push(FILE);
                bytes.extend(mode.to_le_bytes());
                bytes.extend(length.to_le_bytes());
                bytes.extend(contents.0);
            }
            State::Link { target } => {
                bytes.push(LINK);
                bytes.extend(target.as_bytes());
            }
            State::Folder { mode } => {
                bytes.push(FOLDER);
                bytes.extend(mode.to_le_bytes());
            }
            State::Unkept { reason, stamp } => {
                bytes.extend([UNKEPT, *reason as u8]);
                bytes.extend(stamp.0);
            }
        }
        bytes
    }

    /// `None` for bytes that [`State::to_bytes`] does not write.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            FILE => {
                let (mode, rest) = rest.split_first_chunk()?;
                let (length, contents) = rest.split_first_chunk()?;
                Some(State::File {
                    mode: u32::from_le_bytes(*mode),
                    bytes: u64::from_le_bytes(*length),
                    contents: Digest(contents.try_into().ok()?),
                })
            }
            LINK => Some(State::Link { target: OsStr::from_bytes(rest).to_owned() }),
            FOLDER => Some(State::Folder { mode: u32::from_le_bytes(rest.try_into().ok()?) }),
            UNKEPT => {
                let (reason, stamp) = rest.split_first()?;
                let reason = Reason::from_byte(*reason)?;
                Some(State::Unkept { reason, stamp: Digest(stamp.try_into().ok()?) })
            }
            _ => None,
        }
    }
}

/// A path as the database keeps it.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> std::path::PathBuf {
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn states() -> impl Strategy<Value = State> {
        let digest = any::<[u8; 32]>().prop_map(Digest);
        let reason = (0u8..5).prop_map(|byte| Reason::from_byte(byte).unwrap());
        prop_oneof![
            (any::<u32>(), any::<u64>(), digest.clone())
                .prop_map(|(mode, bytes, contents)| State::File { mode, bytes, contents }),
            any::<Vec<u8>>().prop_map(|target| State::Link { target: OsString::from_vec(target) }),
            any::<u32>().prop_map(|mode| State::Folder { mode }),
            (reason, digest).prop_map(|(reason, stamp)| State::Unkept { reason, stamp }),
        ]
    }

    proptest! {
        #[test]
        fn a_stored_state_is_read_as_it_was(state in states()) {
            prop_assert_eq!(State::from_bytes(&state.to_bytes()), Some(state));
        }

        #[test]
        fn no_bytes_are_a_reason_to_panic(bytes: Vec<u8>) {
            let _ = State::from_bytes(&bytes);
        }
    }
}
