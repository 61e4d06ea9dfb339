//! The surroundings of a configuration.

use std::path::{Path, PathBuf};

use crate::kind::ReadContext;

/// The folders and variables that the configuration depends on.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// The agent's home folder, which contains the user's `config.toml`.
    pub home: &'a Path,
    /// The administrator's folder, `/etc/agent`.
    pub system: &'a Path,
    /// The working folder. Absolute.
    pub cwd: &'a Path,
    /// Looks up an environment variable: credentials, headers, and `HOME` for `~/`.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Environment<'_> {
    /// The default of `worktrees_dir`. Not in the agent's home: no confined command can write there.
    pub(crate) fn worktrees_dir(&self) -> Option<PathBuf> {
        let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        let data = (self.variable)("XDG_DATA_HOME").and_then(absolute);
        let home = || (self.variable)("HOME").and_then(absolute);
        let data = data.or_else(|| Some(home()?.join(".local/share")))?;
        Some(data.join("agentd/worktrees"))
    }

    pub(crate) fn read_context(&self) -> ReadContext<'_> {
        ReadContext { cwd: self.cwd, user_home: (self.variable)("HOME").map(PathBuf::from) }
    }
}
