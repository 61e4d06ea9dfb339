//! The managed network of a thread or a command, without its listeners.

use std::sync::Arc;
use std::time::Duration;

use super::gate::{Asker, Gate};
use super::outside::Outside;
use super::policy::EgressPolicy;

/// Time limit of a client's request, and of the connection to a server.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The managed network of a thread or a command: its policy, and whom to ask.
pub struct Egress {
    pub(super) policy: EgressPolicy,
    pub(super) gate: Gate,
    pub(super) outside: Outside,
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Egress {
    /// Without an asker, everything that the policy does not allow is refused.
    pub fn new(policy: EgressPolicy, asker: Option<Arc<dyn Asker>>, outside: Outside) -> Self {
        Self { gate: Gate::new(asker), policy, outside }
    }

    /// The policy.
    pub fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// The environment variables that make programs use the proxies.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let http = format!("http://127.0.0.1:{}", self.policy.http_port);
        let all = match self.policy.socks_port {
            Some(port) => format!("socks5h://127.0.0.1:{port}"),
            None => http.clone(),
        };
        // The command's own servers are on its loopback interface, unless the policy names the host: then
        // the servers of this machine are meant.
        let own = ["localhost", "127.0.0.1", "::1"];
        let own: Vec<&str> =
            own.into_iter().filter(|host| !self.policy.names_local(host)).collect();
        let own = own.join(",");
        let mut variables = Vec::new();
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            variables.push((name, http.clone()));
        }
        variables.extend([("ALL_PROXY", all.clone()), ("all_proxy", all)]);
        variables.extend([("NO_PROXY", own.clone()), ("no_proxy", own)]);
        variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
        variables
    }
}
