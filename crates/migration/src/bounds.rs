//! Bounds on the amount that is read. What exceeds a bound is an error that names the file, or is
//! listed as left out.

/// Bytes of a file of settings. Real ones have a few KiB; `.claude.json` also holds histories.
pub(crate) const SETTINGS_BYTES: u64 = 16 << 20;
/// Bytes of a text: instructions, a command, a sub-agent.
pub(crate) const TEXT_BYTES: u64 = 1 << 20;
/// Bytes of all files of a skill.
pub(crate) const SKILL_BYTES: u64 = 32 << 20;
/// Files of a skill.
pub(crate) const SKILL_FILES: usize = 500;
/// Entries of a folder that are looked at. Further ones are reported.
pub(crate) const FOLDER_ENTRIES: usize = 10_000;
/// Parts of an item. Further ones are listed as left out.
pub(crate) const PARTS: usize = 500;
/// Depth of folders below a root.
pub(crate) const DEPTH: usize = 6;
/// Characters of a name.
pub(crate) const NAME_CHARS: usize = 64;
/// Entries of a list of permissions.
pub(crate) const PERMISSIONS: usize = 2_000;
