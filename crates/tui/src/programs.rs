//! Programs of the user's: the editor, for a long message, and the browser. They run as if the user had
//! started them, outside of any sandbox.
#![allow(clippy::disallowed_methods, reason = "no command of an agent is run here")]

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// Largest text that is read back, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Opens `text` in `editor`, a command line of the shell, and returns what was saved.
///
/// # Errors
/// In words for people: there is no editor, or it failed, or what it saved is not text.
pub(crate) async fn edit(editor: Option<String>, text: &str) -> Result<String, String> {
    let editor = editor.ok_or("set VISUAL or EDITOR to the editor to use")?;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("{what}: {error}")
    };
    let mut file = tempfile::Builder::new()
        .prefix("agentd-message-")
        .suffix(".md")
        .tempfile()
        .map_err(failed("cannot create a file for the editor"))?;
    file.write_all(text.as_bytes()).map_err(failed("cannot write the file for the editor"))?;
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .await
        .map_err(failed("cannot start the editor"))?;
    if !status.success() {
        return Err(format!("the editor exited with {status}; the message is unchanged"));
    }
    let mut saved = String::new();
    std::fs::File::open(file.path())
        .map_err(failed("cannot open what the editor saved"))?
        .take(MAX_BYTES)
        .read_to_string(&mut saved)
        .map_err(failed("cannot read what the editor saved"))?;
    Ok(saved.trim_end_matches('\n').to_owned())
}

/// Opens an address in the browser, and does not wait for it.
///
/// # Errors
/// It cannot be started; in words for people.
pub(crate) fn browse(address: &str) -> Result<(), String> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut browser = Command::new(program);
    browser.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.spawn().map(drop).map_err(|error| format!("{program}: {error}"))
}

/// Writes a file that does not exist yet, whole or not at all.
///
/// # Errors
/// In words for people: it exists, or cannot be written.
pub(crate) fn export(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let folder = path.parent().ok_or_else(|| format!("{}: not a file's name", path.display()))?;
    let mut file = tempfile::Builder::new()
        .prefix(".agentd-export-")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    // Anything that has the name stays, a link and a FIFO, too.
    file.persist_noclobber(path).map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{} exists already; name another file: /export FILE", path.display())
        }
        _ => failed(error.error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thread.md");
        export(&path, "# One\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# One\n");
        assert!(export(&path, "two").unwrap_err().contains("exists already"));
        let link = folder.path().join("link.md");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        assert!(export(&link, "three").unwrap_err().contains("exists already"));
        assert!(export(&folder.path().join("no/such.md"), "").unwrap_err().contains("no/such.md"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "nothing is left behind");
    }
}
