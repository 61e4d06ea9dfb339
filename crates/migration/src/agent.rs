//! The agents whose configuration can be read.

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    /// Files in `.claude`, `.claude.json`, `.mcp.json` and `CLAUDE.md`.
    ClaudeCode,
    /// Files in `.codex`.
    Codex,
    /// Files in `.gemini` and `GEMINI.md`.
    GeminiCli,
    /// Files in `.cursor` and `.cursorrules`.
    Cursor,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ClaudeCode, Self::Codex, Self::GeminiCli, Self::Cursor];

    /// The name as users know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Cursor => "Cursor",
        }
    }

    /// The name in file names and ids.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Cursor => "cursor",
        }
    }
}
