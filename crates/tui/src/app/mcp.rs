//! MCP servers: their state, and logging in at one.

use protocol::{
    McpAuthStatus, McpServerOauthLoginCompletedNotification, McpServerStatusListResponse,
};
use serde_json::json;

use crate::app::{App, Effect};

impl App {
    /// `/mcp [login NAME]`.
    pub(super) fn mcp(&mut self, rest: &str) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words[..] {
            [] => self.show_servers(),
            ["login", name] => self.log_in_at(name),
            _ => self.notice("/mcp lists the servers; /mcp login NAME logs in at one."),
        }
    }

    fn show_servers(&mut self) {
        let Some(id) = &self.session.id else {
            return self.notice("The thread is still being opened.");
        };
        self.call_then("mcpServerStatus/list", json!({ "threadId": id }), |app, result| {
            let list = result
                .map_err(|error| error.message)
                .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
            match list {
                Ok(McpServerStatusListResponse { data, .. }) if data.is_empty() => {
                    app.info("No MCP servers are configured: agentd mcp add");
                }
                Ok(McpServerStatusListResponse { data, .. }) => {
                    let lines: Vec<String> = data
                        .iter()
                        .map(|server| {
                            let name = &server.name;
                            let login = match server.auth_status {
                                McpAuthStatus::NotLoggedIn => {
                                    format!("  not logged in: /mcp login {name}")
                                }
                                McpAuthStatus::OAuth => "  logged in".to_owned(),
                                McpAuthStatus::BearerToken => "  with a token".to_owned(),
                                McpAuthStatus::Unsupported => String::new(),
                            };
                            format!("{name}  {} tools{login}", server.tools.len())
                        })
                        .collect();
                    app.info(&lines.join("\n"));
                }
                Err(why) => app.error(&format!("The MCP servers cannot be listed: {why}")),
            }
        });
    }

    fn log_in_at(&mut self, name: &str) {
        let Some(id) = &self.session.id else {
            return self.notice("The thread is still being opened.");
        };
        let params = json!({ "name": name, "threadId": id });
        let name = name.to_owned();
        self.call_then("mcpServer/oauth/login", params, move |app, result| match result {
            Ok(begun) => {
                let address = begun["authorizationUrl"].as_str().unwrap_or_default().to_owned();
                app.info(&format!(
                    "Log in at {name} on this page, which opens in the browser:\n{address}"
                ));
                app.effects.push_back(Effect::Browse(address));
            }
            Err(error) => app.error(&format!("No login at {name}: {}", error.message)),
        });
    }

    pub(super) fn mcp_login_completed(&mut self, it: McpServerOauthLoginCompletedNotification) {
        match (it.success, it.error) {
            (true, _) => self.info(&format!("Logged in at {}.", it.name)),
            (false, why) => {
                let why = why.unwrap_or_else(|| "the login did not succeed".to_owned());
                self.error(&format!("Not logged in at {}: {why}", it.name));
            }
        }
    }
}
