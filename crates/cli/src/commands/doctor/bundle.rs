//! The file of a bundle: shown, then written, whole or not at all, and never over another file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use crate::commands::{Invalid, eprint, is_confirmed, print};
use crate::environment::Environment;

/// The folder that everything is in, so that unpacking fills no other.
const FOLDER: &str = "agentd-bundle";
/// Longest file of a bundle, in bytes; a longer one is cut off.
const MAX_ENTRY: usize = 2 << 20;

/// A file of a bundle. Its text has no secrets: there is no other way to make one.
#[derive(Debug)]
pub(super) struct Entry {
    name: &'static str,
    text: String,
    /// Secrets that were removed.
    removed: usize,
}

impl Entry {
    /// A file with `text` but its secrets.
    pub(super) fn new(name: &'static str, text: &str) -> Self {
        let redacted = redact::redact(text);
        let (mut text, removed) = (redacted.text.into_owned(), redacted.removed);
        if text.len() > MAX_ENTRY {
            text.truncate(text.floor_char_boundary(MAX_ENTRY));
            text.push_str("\n[cut off]\n");
        }
        Self { name, text, removed }
    }
}

/// Lists the files, asks, and writes them.
///
/// # Errors
/// The path is taken, no one can be asked, or the file cannot be written.
pub(super) fn offer(
    entries: &[Entry],
    path: Option<&Path>,
    is_confirmed_already: bool,
    environment: &Environment,
) -> anyhow::Result<()> {
    let clock = environment.clone().options("cli").clock;
    let now = jiff::Timestamp::from_millisecond(clock.now_ms()).unwrap_or_default();
    let path = match path {
        Some(path) => environment.cwd.join(path),
        None => {
            let time = now.strftime("%Y%m%dT%H%M%SZ");
            environment.cwd.join(format!("agentd-bundle-{time}.tar.gz"))
        }
    };
    check_free(&path)?;
    print(format_args!("\nThe bundle:"))?;
    for entry in entries {
        let removed = match entry.removed {
            0 => String::new(),
            1 => ", 1 secret removed".to_owned(),
            count => format!(", {count} secrets removed"),
        };
        print(format_args!("  {:<20} {:>9} bytes{removed}", entry.name, entry.text.len()))?;
    }
    let question = format!("Write {}?", path.display());
    if !is_confirmed_already && !is_confirmed(&question, "add `--yes` to write the bundle")? {
        eprint(format_args!("agentd: nothing was written"));
        return Ok(());
    }
    let packed = pack(entries, now.as_second()).context("the bundle cannot be packed")?;
    write(&path, &packed)?;
    print(format_args!(
        "\nWritten to {} ({} bytes); it is not sent anywhere. No filter finds every secret: check \
         the file before you send it.",
        path.display(),
        packed.len()
    ))?;
    Ok(())
}

/// Refuses a path that is taken before anyone is asked; `write` refuses it again.
fn check_free(path: &Path) -> anyhow::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(found) if found.is_dir() => {
            Err(Invalid::new(format!("{} is a folder: name a file in it", path.display())).into())
        }
        Ok(_) => Err(taken(path)),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn taken(path: &Path) -> anyhow::Error {
    let message = format!("{} exists and is not replaced: name another file", path.display());
    Invalid::new(message).into()
}

fn pack(entries: &[Entry], seconds: i64) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(entry.text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(seconds).unwrap_or(0));
        archive.append_data(
            &mut header,
            PathBuf::from(FOLDER).join(entry.name),
            entry.text.as_bytes(),
        )?;
    }
    archive.into_inner()?.finish()
}

/// Writes a file for its owner alone, whole or not at all.
fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let failed = || format!("cannot write {}", path.display());
    // Files of this crate have mode 0600.
    let mut draft = NamedTempFile::new_in(folder).with_context(failed)?;
    draft.write_all(contents).with_context(failed)?;
    draft.as_file().sync_all().with_context(failed)?;
    match draft.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(taken(path));
        }
        Err(error) => return Err(error.error).with_context(failed),
    }
    // tidy: open a folder, which is no FIFO.
    #[cfg(unix)]
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Njc4OTA";

    #[test]
    fn an_entry_has_no_secrets_and_is_bounded() {
        let entry = Entry::new("a.txt", &format!("api_key = \"{SECRET}\"\nkept\n"));
        assert!(!entry.text.contains(SECRET) && entry.text.contains("kept"), "{entry:?}");
        assert_eq!(entry.removed, 1);
        let entry = Entry::new("a.txt", &format!("{}\n", "ä".repeat(500)).repeat(2200));
        assert!(entry.text.len() <= MAX_ENTRY + 20 && entry.text.ends_with("[cut off]\n"));
    }

    #[test]
    fn no_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.tar.gz");
        write(&path, b"one").unwrap();
        let error = write(&path, b"two").unwrap_err().to_string();
        assert!(error.contains("exists and is not replaced"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = write(&dir.path().join("none/b"), b"x").unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
    }
}
