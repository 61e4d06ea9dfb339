//! A bounded copy of a folder to work on, removed when it is dropped. It reads the original and
//! never writes there; symbolic links are neither followed nor copied.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use crate::commands::transcript::grouped;

/// Most files that are copied.
const MAX_FILES: usize = 200;
/// Most bytes that are copied.
const MAX_BYTES: u64 = 20 << 20;
/// Most entries that are inspected.
const MAX_ENTRIES: usize = 5_000;
/// Folders that hold nothing to look at.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// The copy.
pub(super) struct Scratch {
    dir: TempDir,
    copied: Copied,
}

#[derive(Default)]
struct Copied {
    files: usize,
    bytes: u64,
    entries: usize,
    /// Names of skipped folders.
    skipped: BTreeSet<&'static str>,
    /// The number of entries that did not fit, are not plain files or could not be read; folders
    /// count as one.
    left_out: usize,
}

impl Scratch {
    /// Copies `from` into a new private folder in `temporary`, leaving out `home`.
    ///
    /// # Errors
    /// When that folder cannot be made.
    pub(super) fn copy(from: &Path, temporary: &Path, home: &Path) -> anyhow::Result<Self> {
        let dir =
            tempfile::Builder::new().prefix("agentd-demo-").tempdir_in(temporary).with_context(
                || format!("cannot create a scratch folder in {}", temporary.display()),
            )?;
        let mut copied = Copied::default();
        copied.tree(from, dir.path(), &[dir.path(), home]);
        Ok(Self { dir, copied })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Removes the copy.
    ///
    /// # Errors
    /// When something is left.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        let path = self.dir.path().to_owned();
        self.dir
            .close()
            .with_context(|| format!("cannot remove the scratch copy {}", path.display()))
    }

    /// Returns a summary of the copied files, in one line.
    pub(super) fn summary(&self) -> String {
        let Copied { files, bytes, skipped, left_out, .. } = &self.copied;
        let mut text = match files {
            0 => "no files".to_owned(),
            1 => format!("1 file of {} bytes", grouped_bytes(*bytes)),
            _ => format!("{files} files of {} bytes", grouped_bytes(*bytes)),
        };
        let names = skipped.iter().map(|name| (*name).to_owned());
        let others = (*left_out > 0).then(|| format!("{left_out} more"));
        let without: Vec<String> = names.chain(others).collect();
        if !without.is_empty() {
            text = format!("{text} (without {})", without.join(", "));
        }
        format!("{text}; it is removed at the end")
    }
}

fn grouped_bytes(bytes: u64) -> String {
    grouped(i64::try_from(bytes).unwrap_or(i64::MAX))
}

impl Copied {
    /// Copies a tree, one folder after the other. What cannot be copied is counted.
    fn tree(&mut self, from: &Path, to: &Path, except: &[&Path]) {
        let Ok(root) = fs::metadata(from) else { return };
        let mut folders = vec![(from.to_owned(), to.to_owned())];
        while let Some((from, to)) = folders.pop() {
            let Ok(entries) = self.entries(&from) else {
                self.left_out += 1;
                continue;
            };
            for entry in entries {
                let (source, target) = (entry.path(), to.join(entry.file_name()));
                if except.contains(&source.as_path()) {
                    continue;
                }
                match self.entry(&entry, &source, &target, device(&root)) {
                    Ok(true) => folders.push((source, target)),
                    Ok(false) => {}
                    Err(_) => self.left_out += 1,
                }
            }
        }
    }

    /// The entries of a folder in order, within the bound.
    fn entries(&mut self, folder: &Path) -> io::Result<Vec<DirEntry>> {
        let room = MAX_ENTRIES.saturating_sub(self.entries);
        let mut entries: Vec<_> = fs::read_dir(folder)?.take(room + 1).flatten().collect();
        if entries.len() > room {
            entries.truncate(room);
            self.left_out += 1;
        }
        self.entries += entries.len();
        entries.sort_by_key(DirEntry::file_name);
        Ok(entries)
    }

    /// Copies an entry, or makes its folder; whether there is a folder to go into.
    fn entry(
        &mut self,
        entry: &DirEntry,
        source: &Path,
        target: &PathBuf,
        device: u64,
    ) -> io::Result<bool> {
        // Of the link, not of what it points to.
        let meta = entry.metadata()?;
        if meta.is_dir() {
            if let Some(name) = SKIPPED.into_iter().find(|name| entry.file_name() == *name) {
                self.skipped.insert(name);
                return Ok(false);
            }
            if self::device(&meta) != device {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            return fs::create_dir(target).map(|()| true);
        }
        let fits = self.files < MAX_FILES && meta.len() <= MAX_BYTES - self.bytes;
        if !meta.is_file() || !fits {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.bytes += copy(source, target, &meta)?;
        self.files += 1;
        Ok(false)
    }
}

/// Copies no more than the file's size says: files of the kernel say 0 and never end.
fn copy(source: &Path, target: &Path, meta: &Metadata) -> io::Result<u64> {
    let mut to = File::create_new(target)?;
    if meta.len() == 0 {
        return Ok(0);
    }
    let opened = files::open_without_links(source).map_err(files::Error::into_io)?;
    let copied = io::copy(&mut opened.file.take(meta.len()), &mut to)?;
    to.set_permissions(meta.permissions())?;
    Ok(copied)
}

/// The file system of a path, where the platform reports it.
#[cfg(unix)]
fn device(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::dev(meta)
}

#[cfg(not(unix))]
fn device(_meta: &Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, usize)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, size) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b'x'; *size]).unwrap();
        }
        dir
    }

    fn check(files: &[(&str, usize)], there: &[&str], gone: &[&str], summary: &str) {
        let (dir, temporary) = (tree(files), tempfile::tempdir().unwrap());
        let scratch =
            Scratch::copy(dir.path(), temporary.path(), &dir.path().join("home")).unwrap();
        assert_eq!(scratch.summary(), format!("{summary}; it is removed at the end"));
        assert!(there.iter().all(|name| scratch.path().join(name).exists()), "{there:?}");
        assert!(!gone.iter().any(|name| scratch.path().join(name).exists()), "{gone:?}");
        scratch.remove().unwrap();
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_copied_within_bounds() {
        check(&[], &[], &[], "no files");
        check(&[("a", 3)], &["a"], &[], "1 file of 3 bytes");
        let left = [("a/b/c", 2000), (".git/x", 1), ("a/target/y", 1), ("home/secret", 9)];
        check(
            &left,
            &["a/b/c"],
            &[".git", "a/target", "home"],
            "1 file of 2,000 bytes (without .git, target)",
        );
        check(
            &[("a", 1), ("big", (MAX_BYTES as usize) + 1)],
            &["a"],
            &["big"],
            "1 file of 1 bytes (without 1 more)",
        );
        let names: Vec<String> = (0..MAX_FILES + 3).map(|n| format!("f{n:04}")).collect();
        let many: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        check(&many, &["f0199"], &["f0200"], "200 files of 200 bytes (without 3 more)");
    }

    #[test]
    fn links_and_special_files_are_not_touched() {
        let (dir, temporary) = (tree(&[("a", 1)]), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let scratch = Scratch::copy(dir.path(), temporary.path(), Path::new("/none")).unwrap();
        let names: Vec<_> =
            fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
        assert_eq!(scratch.copied.left_out, 2);
    }

    #[test]
    fn a_folder_of_temporary_files_does_not_copy_its_own_copy() {
        let dir = tree(&[("a", 1)]);
        let scratch = Scratch::copy(dir.path(), dir.path(), Path::new("/none")).unwrap();
        assert_eq!(scratch.copied.files, 1);
        assert_eq!(scratch.copied.entries, 2);
    }

    #[test]
    fn a_copy_of_the_proc_file_system_is_bounded() {
        let temporary = tempfile::tempdir().unwrap();
        let from = Path::new("/proc/self");
        let scratch = Scratch::copy(from, temporary.path(), Path::new("/none")).unwrap();
        assert!(scratch.copied.entries <= MAX_ENTRIES);
    }
}
