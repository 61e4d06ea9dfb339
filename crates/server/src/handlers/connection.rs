//! The handshake.

use protocol::{ClientInfo, ConnectionMethods, InitializeParams, InitializeResponse};

use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

impl ConnectionMethods<Caller> for Server {
    async fn initialize(
        &self,
        caller: Caller,
        params: InitializeParams,
    ) -> Result<InitializeResponse, Error> {
        let InitializeParams { client_info, capabilities } = params;
        if !fits_header(&client_info.name) || client_info.name.is_empty() {
            return Err(Error::invalid_params(
                "`clientInfo.name` must be visible ASCII, because it is sent in an HTTP header",
            ));
        }
        let capabilities = capabilities.unwrap_or_default();
        for (name, is_asked) in
            [("eventCursor", capabilities.event_cursor), ("tokenCost", capabilities.token_cost)]
        {
            if is_asked && !capabilities.experimental_api {
                return Err(Error::wrong_state(format!(
                    "initialize.capabilities.{name} requires experimentalApi capability"
                )));
            }
        }
        let options = &self.services.options;
        let own = user_agent(&options.version, &client_info);
        let shown = caller.peer.protocol_version().map(|version| user_agent(version, &client_info));
        let response = InitializeResponse {
            user_agent: shown.unwrap_or_else(|| own.clone()),
            agent_home: options.home.display().to_string(),
            platform_family: std::env::consts::FAMILY.to_owned(),
            platform_os: std::env::consts::OS.to_owned(),
        };
        if !caller.peer.negotiate(own, client_info, capabilities) {
            return Err(Error::wrong_state("Already initialized"));
        }
        Ok(response)
    }
}

/// `name/version (os; arch) agentd (client; client version)`.
fn user_agent(version: &str, client: &ClientInfo) -> String {
    let client_version: String =
        client.version.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
    format!(
        "{}/{version} ({}; {}) agentd ({}; {client_version})",
        client.name,
        std::env::consts::OS,
        std::env::consts::ARCH,
        client.name,
    )
}

fn fits_header(name: &str) -> bool {
    name.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}
