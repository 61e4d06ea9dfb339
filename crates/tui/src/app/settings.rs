//! The settings of the user's shell and the configuration for the terminal program.

use std::path::PathBuf;

use protocol::SandboxPolicy;

use crate::app::configuration::Configuration;
use crate::palette::{Depth, Rgb};

/// The settings of the user's shell.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The colours that may be used (`NO_COLOR`, `COLORTERM`, `TERM`).
    pub depth: Depth,
    /// The terminal's background, where its kind says that; others are asked.
    pub background: Option<Rgb>,
    /// True if the terminal breaks rows that are too long after a resize, as most do.
    pub reflows: bool,
    /// True if it is tmux.
    pub is_tmux: bool,
    /// `VISUAL` or `EDITOR`.
    pub editor: Option<String>,
    /// When the program was started, in seconds of Unix time.
    pub started_at: i64,
    /// Of this program.
    pub process_id: u32,
    /// The user's home folder, which is written `~`.
    pub home: Option<PathBuf>,
    /// True if the server is on this machine, in this process.
    pub server_is_here: bool,
    /// Names of the variables that seem to hold keys of model providers.
    pub key_variables: Vec<String>,
}

impl Environment {
    /// From environment variables.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let color_term = set("COLORTERM").unwrap_or_default();
        let depth = match () {
            () if set("NO_COLOR").is_some() || term == "dumb" => Depth::Monochrome,
            () if color_term == "truecolor" || color_term == "24bit" => Depth::Full,
            () if term.contains("direct") => Depth::Full,
            () if term.contains("256color") => Depth::Indexed,
            () => Depth::Sixteen,
        };
        // xterm and the consoles cut; so does screen, but not tmux, whose TERM is often the same.
        let cuts = set("XTERM_VERSION").is_some()
            || term == "linux"
            || term.starts_with("vt")
            || (term.starts_with("screen") && set("TMUX").is_none());
        // The variable is inherited by other terminals that are started inside, such as that of an editor.
        let is_tmux = set("TMUX").is_some()
            && (set("TERM_PROGRAM").as_deref() == Some("tmux")
                || term.starts_with("tmux")
                || term.starts_with("screen"));
        Self {
            depth,
            // The console of Linux, which answers no question about colours.
            background: (term == "linux").then_some((0, 0, 0)),
            reflows: !cuts,
            is_tmux,
            editor: set("VISUAL").or_else(|| set("EDITOR")),
            home: set("HOME").map(PathBuf::from),
            started_at: 0,
            process_id: 0,
            server_is_here: false,
            key_variables: Vec::new(),
        }
    }
}

/// The values of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// `tui.alternate_screen` is `always`.
    pub(super) is_full_screen: bool,
    /// It is `never`.
    pub(super) is_inline: bool,
    /// `tui.animations`.
    pub(super) animations: bool,
    /// `tui.show_tooltips`.
    pub(super) tooltips: bool,
    /// `tui.status_line`; empty: none.
    pub(super) status_line: Vec<String>,
    /// `tui.notifications`: which events, all of them where it is `None`.
    pub(super) notifications: Notify,
    /// `tui.notification_method` is `bel`.
    pub(super) rings: bool,
    /// `tui.theme`.
    pub(super) theme: Option<String>,
    /// `file_opener` as the scheme of links to files.
    pub(super) opener: Option<String>,
    /// `disable_paste_burst`.
    pub(super) disable_paste_burst: bool,
    /// `hide_agent_reasoning`.
    pub(super) hides_reasoning: bool,
    /// `features.undo`.
    pub(super) undoes: bool,
    /// `feedback.enabled`.
    pub(super) feedback: bool,
    /// `sandbox_workspace_write`.
    pub(super) workspace: Workspace,
    /// True if messages are shown as they were written (`/raw`).
    pub(super) raw: bool,
}

/// The rights of commands that may write in the working folder (`sandbox_workspace_write`).
#[derive(Clone, Debug, Default)]
pub(super) struct Workspace {
    roots: Vec<String>,
    network: bool,
    exclude_tmpdir: bool,
    exclude_slash_tmp: bool,
}

impl Workspace {
    fn new(config: Configuration<'_>) -> Self {
        let flag = |name: &str| {
            config.flag(&format!("sandbox_workspace_write.{name}")).unwrap_or_default()
        };
        Self {
            roots: config.strings("sandbox_workspace_write.writable_roots").unwrap_or_default(),
            network: flag("network_access"),
            exclude_tmpdir: flag("exclude_tmpdir_env_var"),
            exclude_slash_tmp: flag("exclude_slash_tmp"),
        }
    }

    /// The policy of a thread that works in `cwd`.
    pub(super) fn policy(&self, cwd: &str) -> SandboxPolicy {
        let cwd = std::iter::once(cwd.to_owned()).filter(|_| !self.roots.is_empty());
        SandboxPolicy::WorkspaceWrite {
            writable_roots: cwd.chain(self.roots.iter().cloned()).collect(),
            read_only_access: None,
            network_access: self.network,
            exclude_tmpdir_env_var: self.exclude_tmpdir,
            exclude_slash_tmp: self.exclude_slash_tmp,
        }
    }
}

/// Which events the user is notified of while the terminal is not focused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notify {
    All,
    None,
    Of(Vec<String>),
}

impl Notify {
    pub(super) fn includes(&self, event: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Of(events) => events.iter().any(|of| of == event),
        }
    }
}

/// The items of the status line unless the configuration names others.
const STATUS_LINE: &[&str] = &["model", "mode", "folder", "branch", "context", "cost", "agents"];

impl Default for Settings {
    fn default() -> Self {
        Self {
            is_full_screen: false,
            is_inline: false,
            animations: true,
            tooltips: true,
            status_line: STATUS_LINE.iter().map(|item| (*item).to_owned()).collect(),
            notifications: Notify::All,
            rings: false,
            theme: None,
            opener: None,
            disable_paste_burst: false,
            hides_reasoning: false,
            undoes: false,
            feedback: true,
            workspace: Workspace::default(),
            raw: false,
        }
    }
}

impl Settings {
    /// Takes what `config/read` answers with; keys that are not set keep their defaults.
    pub(super) fn read(&mut self, config: Configuration<'_>) {
        let alternate = config.text("tui.alternate_screen");
        self.is_full_screen = alternate == Some("always");
        self.is_inline = alternate == Some("never");
        self.animations = config.flag("tui.animations").unwrap_or(true);
        self.tooltips = config.flag("tui.show_tooltips").unwrap_or(true);
        self.rings = config.text("tui.notification_method") == Some("bel");
        self.theme = config.text("tui.theme").map(str::to_owned);
        if let Some(items) = config.strings("tui.status_line") {
            self.status_line = items;
        }
        self.notifications = match config.flag("tui.notifications") {
            Some(false) => Notify::None,
            _ => config.strings("tui.notifications").map_or(Notify::All, Notify::Of),
        };
        self.disable_paste_burst = config.flag("disable_paste_burst").unwrap_or(false);
        self.hides_reasoning = config.flag("hide_agent_reasoning").unwrap_or(false);
        self.undoes = config.flag("features.undo").unwrap_or(false);
        self.workspace = Workspace::new(config);
        self.feedback = config.flag("feedback.enabled").unwrap_or(true);
        let scheme = match config.text("file_opener") {
            None | Some("editor") => Some("vscode"),
            Some("editor-insiders") => Some("vscode-insiders"),
            Some("none") => None,
            Some(other) => Some(other),
        };
        self.opener = scheme.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmux_is_recognised_and_what_runs_inside_is_not() {
        let tmux = |variables: &[(&str, &str)]| {
            let value = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            Environment::from_variables(value).is_tmux
        };
        assert!(tmux(&[("TMUX", "/tmp/t,1,0"), ("TERM", "screen-256color")]));
        assert!(tmux(&[("TMUX", "/tmp/t,1,0"), ("TERM", "xterm"), ("TERM_PROGRAM", "tmux")]));
        assert!(!tmux(&[("TMUX", "/tmp/t,1,0"), ("TERM", "xterm"), ("TERM_PROGRAM", "vscode")]));
        assert!(!tmux(&[("TERM", "screen")]));
    }
}
