//! Programs of the user's: the editor, for a long message, and the browser. They run as if the user had
//! started them, outside of any sandbox.
#![allow(clippy::disallowed_methods, reason = "no command of an agent is run here")]

use std::io::{self, Read as _, Write as _};
use std::process::Stdio;

use tokio::process::Command;

/// Largest text that is read back, in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Opens `text` in `editor`, a command line of the shell, and returns what was saved.
///
/// # Errors
/// In words for people: there is no editor, or it failed, or what it saved is no text.
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
        return Err(format!("the editor ended with {status}; the message is as it was"));
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
