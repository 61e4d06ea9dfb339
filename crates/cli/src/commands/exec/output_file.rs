//! The file of `--output-last-message`: checked before the turn, replaced as a whole after it.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// Descriptors of this process. Replacing the file that one refers to would lose what else is written to it.
const DESCRIPTORS: [&str; 5] =
    ["/dev/fd", "/proc/self/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// A regular file, or a place for one, that can be written.
#[derive(Debug)]
pub(super) struct OutputFile {
    /// Without links.
    folder: PathBuf,
    name: OsString,
    /// Of the file that is replaced.
    permissions: Option<Permissions>,
}

impl OutputFile {
    /// Checks that the file `named` can be written; a relative path starts from `cwd`. Follows links,
    /// and leaves the folder and the file as they are.
    ///
    /// # Errors
    /// The file is not regular, or it or its folder cannot be written.
    pub(super) fn check(cwd: &Path, named: &Path) -> anyhow::Result<Self> {
        Self::find(&cwd.join(named)).context("--output-last-message")
    }

    fn find(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if DESCRIPTORS.iter().any(|start| path.starts_with(start)) {
            bail!("{shown} is a stream of this program: name a file");
        }
        let found = match path.symlink_metadata() {
            Ok(_) => {
                let target =
                    path.canonicalize().with_context(|| format!("cannot write {shown}"))?;
                let opened = files::open_for_writing(&target)?;
                Some((target, opened.metadata.permissions()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot write {shown}")),
        };
        let (path, permissions) = match found {
            Some((path, permissions)) => (path, Some(permissions)),
            None => (path.to_owned(), None),
        };
        let ends_as_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let (Some(folder), Some(name), false) = (path.parent(), path.file_name(), ends_as_folder)
        else {
            bail!("{shown} is not a file name");
        };
        let folder = folder.canonicalize().with_context(|| {
            format!("cannot write {shown}: cannot use the folder {}", folder.display())
        })?;
        let file = Self { folder, name: name.to_owned(), permissions };
        // Removed at once: only the attempt shows whether the folder takes files.
        file.temporary()?;
        Ok(file)
    }

    /// Replaces the file, so that a reader finds the old text or the new one, never a part.
    ///
    /// # Errors
    /// Of the file system, or when the folder was moved since the check.
    pub(super) fn write(&self, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(&self.name);
        let failed = || format!("cannot write {}", path.display());
        // The turn may have put a link in the folder's place.
        if self.folder.canonicalize().with_context(failed)? != self.folder {
            bail!("{}: its folder was replaced during the turn", failed());
        }
        let mut file = self.temporary()?;
        file.write_all(text.as_bytes()).with_context(failed)?;
        if let Some(permissions) = &self.permissions {
            file.as_file().set_permissions(permissions.clone()).with_context(failed)?;
        }
        file.as_file().sync_all().with_context(failed)?;
        file.persist(&path).map_err(|error| error.error).with_context(failed)?;
        Ok(())
    }

    /// A new file in the folder, which is removed when it is dropped.
    fn temporary(&self) -> anyhow::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".agentd-");
        // As any new file; the process's mask applies.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder
            .tempfile_in(&self.folder)
            .with_context(|| format!("cannot create a file in {}", self.folder.display()))
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mkfifo(path: &Path) {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn places_that_cannot_be_written_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path();
        mkfifo(&cwd.join("fifo"));
        fs::create_dir(cwd.join("folder")).unwrap();
        fs::write(cwd.join("file"), "").unwrap();
        symlink("fifo", cwd.join("link")).unwrap();
        symlink("none", cwd.join("dangling")).unwrap();
        let before = names(cwd);
        for (named, expect) in [
            ("fifo", "it is a named pipe (FIFO), not a regular file"),
            ("link", "it is a named pipe (FIFO), not a regular file"),
            ("folder", "it is a folder, not a regular file"),
            ("/dev/null", "it is a device, not a regular file"),
            ("/dev/stdout", "is a stream of this program"),
            ("dangling", "No such file"),
            ("none/x", "cannot use the folder"),
            ("file/x", "Not a directory"),
            ("new/", "is not a file name"),
            ("none/..", "is not a file name"),
        ] {
            let error = OutputFile::check(cwd, Path::new(named)).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.starts_with("--output-last-message: "), "{named}: {error}");
            assert!(error.contains(expect), "{named}: {error}");
            assert!(error.matches("No such file").count() <= 1, "{error}");
        }
        assert_eq!(names(cwd), before);
    }

    #[test]
    fn the_file_is_replaced_as_a_whole_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path();
        fs::create_dir(cwd.join("folder")).unwrap();
        let file = cwd.join("folder/file");
        fs::write(&file, "a long old text").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("folder/file", cwd.join("link")).unwrap();
        let old = fs::File::open(&file).unwrap();
        let output = OutputFile::check(cwd, Path::new("link")).unwrap();
        assert_eq!(names(&cwd.join("folder")), ["file"]);
        output.write("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(std::io::read_to_string(old).unwrap(), "a long old text");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(cwd.join("link").is_symlink());

        let output = OutputFile::check(cwd, Path::new("made")).unwrap();
        // What stands there later is replaced, not opened.
        mkfifo(&cwd.join("made"));
        output.write("").unwrap();
        assert_eq!(fs::read_to_string(cwd.join("made")).unwrap(), "");
        assert_eq!(names(cwd), ["folder", "link", "made"]);
    }

    #[test]
    fn a_folder_that_becomes_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path();
        for folder in ["out", "elsewhere"] {
            fs::create_dir(cwd.join(folder)).unwrap();
        }
        let output = OutputFile::check(cwd, Path::new("out/file")).unwrap();
        fs::remove_dir(cwd.join("out")).unwrap();
        symlink("elsewhere", cwd.join("out")).unwrap();
        let error = output.write("text").unwrap_err().to_string();
        assert!(error.contains("was replaced during the turn"), "{error}");
        assert!(names(&cwd.join("elsewhere")).is_empty());
    }
}
