//! Connected apps (`apps` of the configuration): an app is what the tools of MCP servers name as their
//! connector. Which of its tools are offered, and when the user is asked about their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use config::Config;
use config::table::{App, ToolApproval as Mode};
use mcp::{Catalog, Server, State, Tool};
use protocol::app::AppInfo;
use serde_json::Value;
use session::{Connector, ToolApproval};

/// Longest id and name of an app, in characters.
const MAX_NAME: usize = 256;
/// Longest description of an app, in characters.
const MAX_DESCRIPTION: usize = 1_000;

/// The tools of a server; of one that is down, those that it had.
pub(super) struct KnownTools {
    pub(super) catalog: Arc<Catalog>,
    pub(super) is_ready: bool,
}

impl KnownTools {
    /// `None` when the server was never ready.
    pub(super) fn of(server: &Server) -> Option<Self> {
        let is_ready = matches!(server.state(), State::Ready(_));
        Some(Self { catalog: server.catalog()?, is_ready })
    }
}

/// The configuration of connected apps.
pub(super) struct Apps<'c>(&'c Config);

impl<'c> Apps<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self(config)
    }

    /// The app that a tool belongs to. Without `features.apps` a connector means nothing.
    pub(super) fn connector(&self, tool: &Tool) -> Option<Connector> {
        if !self.0.features.apps {
            return None;
        }
        let id = meta_text(&tool.json, "connector_id", MAX_NAME)?;
        Some(Connector { id, name: meta_text(&tool.json, "connector_name", MAX_NAME) })
    }

    /// Returns whether a tool of an app is offered.
    pub(super) fn offers(&self, connector: &Connector, tool: &Tool) -> bool {
        if !self.is_enabled(&connector.id) {
            return false;
        }
        let defaults = &self.0.apps.default;
        let app = self.app(&connector.id);
        if let Some(is_on) =
            app.and_then(|app| app.tools.get(&tool.name)).and_then(|tool| tool.enabled)
        {
            return is_on;
        }
        let of_app = |read: fn(&App) -> Option<bool>| app.and_then(read);
        let destructive =
            of_app(|app| app.destructive_enabled).unwrap_or(defaults.destructive_enabled);
        let open_world =
            of_app(|app| app.open_world_enabled).unwrap_or(defaults.open_world_enabled);
        of_app(|app| app.default_tools_enabled).unwrap_or(true)
            && (destructive || tool.hints.destructive != Some(true))
            && (open_world || tool.hints.open_world != Some(true))
    }

    /// When the user is asked about the calls of a tool. `by_server`: what the entry of its server says. A
    /// server names the app itself, so the app's entry makes nothing laxer than the server's says.
    pub(super) fn mode(
        &self,
        connector: &Connector,
        tool: &str,
        by_server: Option<Mode>,
    ) -> Option<Mode> {
        let app = self.app(&connector.id);
        let of_tool = app.and_then(|app| app.tools.get(tool)).and_then(|tool| tool.approval_mode);
        let by_app = of_tool.or(app.and_then(|app| app.default_tools_approval_mode));
        let is_trusted = !self.0.untrusted_apps.contains(&connector.id);
        let by_app = match by_app {
            Some(Mode::Approve) if !is_trusted => None,
            by_app => by_app,
        };
        by_app.into_iter().chain(by_server).max_by_key(|mode| strictness(*mode))
    }

    /// The apps of these servers, by id. Of two servers that describe one differently, the first counts.
    pub(super) fn list<'s>(&self, servers: impl Iterator<Item = &'s KnownTools>) -> Vec<AppInfo> {
        let mut apps: BTreeMap<String, AppInfo> = BTreeMap::new();
        let mut unnamed = BTreeSet::new();
        let tools = servers
            .flat_map(|server| server.catalog.tools.iter().map(|tool| (tool, server.is_ready)));
        for (tool, is_ready) in tools {
            let Some(Connector { id, name }) = self.connector(tool) else { continue };
            let app = apps.entry(id.clone()).or_insert_with(|| {
                unnamed.insert(id.clone());
                app_info(id.clone(), self.is_enabled(&id), self.plugins(&id))
            });
            app.is_accessible |= is_ready;
            if let Some(name) = name.filter(|_| unnamed.remove(&id)) {
                app.name = name;
            }
            if app.description.is_none() {
                app.description = meta_text(&tool.json, "connector_description", MAX_DESCRIPTION);
            }
        }
        apps.into_values().collect()
    }

    /// Returns whether the configuration has the app on.
    pub(super) fn is_enabled(&self, id: &str) -> bool {
        self.app(id).map_or(self.0.apps.default.enabled, |app| app.enabled)
    }

    /// The names of the installed plugins that use the app.
    fn plugins(&self, id: &str) -> Vec<String> {
        let plugins = self.0.plugin_parts.iter();
        let plugins = plugins.filter(|plugin| plugin.apps.iter().any(|app| app == id));
        plugins.map(|plugin| plugin.display_name.clone()).collect()
    }

    fn app(&self, id: &str) -> Option<&'c App> {
        self.0.apps.by_id.get(id)
    }
}

/// When the user is asked, for the session.
pub(super) fn approval(mode: Option<Mode>) -> ToolApproval {
    match mode {
        None | Some(Mode::Auto) => ToolApproval::Auto,
        Some(Mode::Prompt) => ToolApproval::Prompt,
        Some(Mode::Approve) => ToolApproval::Approve,
    }
}

fn strictness(mode: Mode) -> u8 {
    match mode {
        Mode::Approve => 0,
        Mode::Auto => 1,
        Mode::Prompt => 2,
    }
}

/// A text of a tool's `_meta` as it is shown, cut at `max` characters.
fn meta_text(json: &Value, key: &str, max: usize) -> Option<String> {
    let text = json.get("_meta")?.get(key)?.as_str().filter(|text| !text.is_empty())?;
    Some(visible::text(text).chars().take(max).collect())
}

/// An app. What servers do not say of it is absent.
fn app_info(id: String, is_enabled: bool, plugin_display_names: Vec<String>) -> AppInfo {
    AppInfo {
        name: id.clone(),
        id,
        description: None,
        logo_url: None,
        logo_url_dark: None,
        distribution_channel: None,
        branding: None,
        app_metadata: None,
        labels: None,
        install_url: None,
        is_accessible: false,
        is_enabled,
        plugin_display_names,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn connector(meta: Value) -> Option<Connector> {
        let tool = json!({ "name": "t", "_meta": meta });
        let id = meta_text(&tool, "connector_id", MAX_NAME)?;
        Some(Connector { id, name: meta_text(&tool, "connector_name", MAX_NAME) })
    }

    #[test]
    fn texts_of_servers_are_cut_and_shown() {
        let long = "é".repeat(10_000);
        let found = connector(json!({ "connector_id": long, "connector_name": "a\u{202e}" }));
        let Some(Connector { id, name }) = found else { panic!("it names an app") };
        assert_eq!((id.chars().count(), name.as_deref()), (MAX_NAME, Some("a\\u{202e}")));
        for odd in [json!(7), json!(null), json!({ "connector_id": [] }), json!({})] {
            assert_eq!(connector(odd), None);
        }
    }

    #[test]
    fn the_stricter_mode_counts() {
        use Mode::{Approve, Auto, Prompt};
        let modes = [Approve, Auto, Prompt];
        for (rank, mode) in modes.into_iter().enumerate() {
            assert_eq!(usize::from(strictness(mode)), rank);
        }
    }
}
