//! The managed networks of permission profiles: patterns of domains, sockets, addresses of proxies.

use super::{Check, Severity};
use crate::egress_policy::network_mistakes;

impl Check<'_> {
    pub(super) fn networks(&mut self) {
        let config = &self.resolved.config;
        let selected = config.permission_profile.as_ref().map(|profile| profile.name.as_str());
        for (name, permissions) in &config.permissions {
            let severity = Severity::of_part(selected == Some(name));
            for (key, why) in network_mistakes(&permissions.network, &self.options.environment) {
                let key =
                    format!("{}.{key}", config::dotted_key(&["permissions", name, "network"]));
                self.add(severity, &key, why);
            }
        }
    }
}
