//! MCP servers: their state, and logging in at one.

use protocol::{
    McpAuthStatus, McpServerOauthLoginCompletedNotification, McpServerOauthLoginParams,
    McpServerStartupStatusUpdatedNotification, McpServerState, McpServerStatus,
    McpServerStatusListParams, McpServerStatusListResponse,
};

use crate::app::events::Effect;
use crate::app::program::App;

/// `/mcp [login NAME]`.
pub(super) fn mcp(app: &mut App, rest: &str) {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words[..] {
        [] => show_servers(app),
        ["login", name] => log_in_at(app, name),
        _ => app.notice("/mcp lists the servers; /mcp login NAME logs in at one."),
    }
}

fn show_servers(app: &mut App) {
    let Some(id) = app.thread_id() else { return };
    let params =
        McpServerStatusListParams { thread_id: Some(id), ..McpServerStatusListParams::default() };
    app.call::<protocol::McpServerStatusList>(&params, |app, result| match result {
        Ok(McpServerStatusListResponse { data, .. }) if data.is_empty() => {
            app.info("No MCP servers are configured: agentd mcp add");
        }
        Ok(McpServerStatusListResponse { data, .. }) => {
            let lines: Vec<String> = data.iter().map(line).collect();
            app.info(&lines.join("\n"));
        }
        Err(error) => {
            app.error(&format!("The MCP servers cannot be listed: {}", error.message));
        }
    });
}

/// The line of a server.
fn line(server: &McpServerStatus) -> String {
    let name = &server.name;
    let state = match server.status {
        McpServerState::NotStarted => "  not started".to_owned(),
        McpServerState::Starting => "  starting".to_owned(),
        McpServerState::Ready => format!("  {} tools", server.tools.len()),
        McpServerState::Failed => "  failed".to_owned(),
        McpServerState::Cancelled => "  ends".to_owned(),
    };
    let login = match server.auth_status {
        McpAuthStatus::NotLoggedIn => format!("  not logged in: /mcp login {name}"),
        McpAuthStatus::OAuth => "  logged in".to_owned(),
        McpAuthStatus::BearerToken => "  with a token".to_owned(),
        McpAuthStatus::Unsupported => String::new(),
    };
    let error = server.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("{name}{state}{login}{error}")
}

pub(super) fn mcp_server_status(app: &mut App, it: McpServerStartupStatusUpdatedNotification) {
    if let Some(error) = it.error {
        app.error(&format!("The MCP server {} did not start: {error}", it.name));
    }
}

fn log_in_at(app: &mut App, name: &str) {
    let Some(id) = app.thread_id() else { return };
    let params = McpServerOauthLoginParams {
        name: name.to_owned(),
        scopes: None,
        timeout_secs: None,
        thread_id: Some(id),
    };
    let name = name.to_owned();
    app.call::<protocol::McpServerOauthLogin>(&params, move |app, result| match result {
        Ok(begun) => {
            let address = begun.authorization_url;
            app.info(&format!(
                "Log in at {name} on this page, which opens in the browser:\n{address}"
            ));
            app.output.emit(Effect::Browse(address));
        }
        Err(error) => app.error(&format!("The login at {name} could not start: {}", error.message)),
    });
}

pub(super) fn mcp_login_completed(app: &mut App, it: McpServerOauthLoginCompletedNotification) {
    match (it.success, it.error) {
        (true, _) => app.info(&format!("Logged in at {}.", it.name)),
        (false, why) => {
            let why = why.unwrap_or_else(|| "the login failed".to_owned());
            app.error(&format!("Not logged in at {}: {why}", it.name));
        }
    }
}
