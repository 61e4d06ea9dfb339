//! Which tools of connected apps are offered, and when the user is asked about their calls (`apps` of
//! the configuration). An app is what the tools of an MCP server name as their connector.

use config::Config;
use config::table::{App, ToolApproval};
use mcp::Hints;
use session::Connector;

/// See the module.
pub(super) struct Apps<'c>(&'c Config);

impl<'c> Apps<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self(config)
    }

    /// When the user is asked about a tool of an app; `None` when it is not offered.
    pub(super) fn mode(
        &self,
        connector: &Connector,
        tool: &str,
        hints: Hints,
    ) -> Option<Option<ToolApproval>> {
        if !self.is_enabled(&connector.id) {
            return None;
        }
        let defaults = &self.0.apps.default;
        let app = self.app(&connector.id);
        let entry = app.and_then(|app| app.tools.get(tool));
        let of_app = |read: fn(&App) -> Option<bool>| app.and_then(read);
        let is_on = match entry.and_then(|entry| entry.enabled) {
            Some(is_on) => is_on,
            None => {
                let destructive =
                    of_app(|app| app.destructive_enabled).unwrap_or(defaults.destructive_enabled);
                let open_world =
                    of_app(|app| app.open_world_enabled).unwrap_or(defaults.open_world_enabled);
                of_app(|app| app.default_tools_enabled).unwrap_or(true)
                    && (destructive || hints.destructive != Some(true))
                    && (open_world || hints.open_world != Some(true))
            }
        };
        let mode = entry.and_then(|entry| entry.approval_mode);
        let mode = mode.or(app.and_then(|app| app.default_tools_approval_mode));
        is_on.then_some(mode)
    }

    /// Whether the configuration has the app on.
    fn is_enabled(&self, id: &str) -> bool {
        self.app(id).map_or(self.0.apps.default.enabled, |app| app.enabled)
    }

    fn app(&self, id: &str) -> Option<&'c App> {
        self.0.apps.by_id.get(id)
    }
}
