//! The remains of a killed import next to the files that it was writing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The files in a folder that a process which has ended was writing. None when the folder does not exist.
#[must_use]
pub fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    let is_left = |name: &OsStr| {
        writer(name).is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists())
    };
    names.filter(|name| is_left(name)).map(|name| folder.join(name)).collect()
}

/// The process that writes a file before it gets its name: `.NAME.PROCESS-NUMBER.tmp`, as
/// `sandbox::files` names it. `None` for other names.
pub(crate) fn writer(name: &OsStr) -> Option<u32> {
    let name = name.to_str()?.strip_prefix('.')?.strip_suffix(".tmp")?;
    let (_, numbers) = name.rsplit_once('.')?;
    let (process, number) = numbers.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_processes_that_have_ended_are_left_over() {
        let check = |name: &str, expected| assert_eq!(writer(OsStr::new(name)), expected, "{name}");
        check(".SKILL.md.12-0.tmp", Some(12));
        check(".a.b.c.7-18446744073709551615.tmp", Some(7));
        for other in ["SKILL.md", ".tmp", ".a.tmp", ".a.1-.tmp", ".a.-1.tmp", "a.1-1.tmp", ".a.1-1"]
        {
            check(other, None);
        }
        let folder = tempfile::tempdir().unwrap();
        let own = format!(".a.{}-1.tmp", std::process::id());
        for name in [&*own, ".b.4294967295-1.tmp", "c"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(leftovers(folder.path()), [folder.path().join(".b.4294967295-1.tmp")]);
        assert!(leftovers(&folder.path().join("missing")).is_empty());
    }
}
