//! The entries of MCP servers.

use std::ffi::OsStr;

use config::table::McpServer;

use super::{Check, Severity, folder, programs};

impl Check<'_> {
    pub(super) fn servers(&mut self) {
        for (name, server) in &self.resolved.config.mcp_servers {
            let severity = Severity::of_part(server.enabled && server.required);
            let key = config::dotted_key(&["mcp_servers", name]);
            match (&server.command, &server.url) {
                (Some(_), Some(_)) => {
                    let why = "has both `command` and `url`; keep the one that reaches it";
                    self.add(severity, &key, why);
                }
                (None, None) => {
                    self.add(severity, &key, "has neither `command` nor `url`; set one");
                }
                // One that is off may be so because its program or token is missing.
                (Some(command), None) if server.enabled => {
                    self.program(severity, &key, command, server);
                }
                (None, Some(_)) if server.enabled => self.endpoint(severity, name, server),
                _ => {}
            }
        }
    }

    fn program(&mut self, severity: Severity, key: &str, command: &str, server: &McpServer) {
        let cwd = server.cwd.as_deref().unwrap_or(&self.options.cwd);
        if let Err(why) = folder(cwd) {
            let message = format!("{why}; the server starts in a folder that exists");
            return self.add(severity, &format!("{key}.cwd"), message);
        }
        let variable = self.options.variable("PATH");
        let path = server.env.get("PATH").or(variable.as_ref()).map(OsStr::new);
        if let Err(why) = programs::find(command, cwd, path) {
            self.add(severity, &format!("{key}.command"), why);
        }
    }

    fn endpoint(&mut self, severity: Severity, name: &str, server: &McpServer) {
        let key = |member| ["mcp_servers", name, member];
        self.headers(severity, &key("http_headers"), &server.http_headers);
        let unset = (severity, "the server cannot be reached");
        let headers = &server.env_http_headers;
        self.headers_from_variables(severity, unset, &key("env_http_headers"), headers);
        let secret = &server.oauth.client_secret_env;
        for (member, variable) in [
            ("bearer_token_env_var", &server.bearer_token_env_var),
            ("oauth.client_secret_env", secret),
        ] {
            let Some(variable) = variable else { continue };
            if self.options.variable(variable).is_none_or(|value| value.is_empty()) {
                let key = format!("{}.{member}", config::dotted_key(&["mcp_servers", name]));
                let message = format!(
                    "the variable {variable} is not set, so the server cannot be reached; set it"
                );
                self.add(severity, &key, message);
            }
        }
    }
}
