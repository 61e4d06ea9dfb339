//! Opens the user's browser. It outlives this program, so it is not started through the sandbox, which
//! ends what it starts.
#![expect(clippy::disallowed_methods, reason = "see above")]

use std::io::{self, IsTerminal};
use std::process::{Command, Stdio};

use crate::environment::Environment;

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(target_os = "macos"))]
const OPENER: &str = "xdg-open";

/// Returns whether a user on a terminal of a graphical session runs this program.
pub(super) fn may_open(environment: &Environment) -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && has_display(environment)
}

/// Returns whether this program runs in a graphical session.
pub(in crate::commands) fn has_display(environment: &Environment) -> bool {
    let is_set = |name: &str| environment.variable(name).is_some_and(|value| !value.is_empty());
    let is_remote = is_set("SSH_CONNECTION") || is_set("SSH_TTY");
    let has_display = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    has_display && !is_remote
}

/// Opens `url`. Returns whether a program for that was started.
pub(in crate::commands) fn open(url: &str) -> bool {
    let mut command = Command::new(OPENER);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in the terminal must not end the browser.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().is_ok()
}
