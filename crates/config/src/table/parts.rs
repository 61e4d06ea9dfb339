//! The parts of the program that some keys wait for.

use crate::kind::Effect;

pub(super) const WINDOWS: Effect = Effect::With("the sandbox on Windows");
pub(super) const TERMINAL: Effect = Effect::With("the terminal interface");
pub(super) const TELEMETRY: Effect = Effect::With("telemetry");
pub(super) const MCP: Effect = Effect::With("the MCP client");
pub(super) const APPS: Effect = Effect::With("apps");
pub(super) const AGENTS: Effect = Effect::With("sub-agents");
pub(super) const SKILLS: Effect = Effect::With("skills");
pub(super) const ACCOUNTS: Effect = Effect::With("accounts");
