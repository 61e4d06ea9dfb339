//! Sharing plugins through a service. The configuration has no key that names one, so that every request
//! is refused with what to do instead.

use protocol::plugin_share::{
    PluginShareDeleteParams, PluginShareListResponse, PluginShareSaveParams,
    PluginShareSaveResponse, PluginShareUpdateTargetsParams, PluginShareUpdateTargetsResponse,
};
use protocol::{Empty, PluginShareMethods};

use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

impl PluginShareMethods<Caller> for Server {
    async fn plugin_share_list(
        &self,
        _: Caller,
        _: Empty,
    ) -> Result<PluginShareListResponse, Error> {
        Err(no_service())
    }

    async fn plugin_share_save(
        &self,
        _: Caller,
        _: PluginShareSaveParams,
    ) -> Result<PluginShareSaveResponse, Error> {
        Err(no_service())
    }

    async fn plugin_share_update_targets(
        &self,
        _: Caller,
        _: PluginShareUpdateTargetsParams,
    ) -> Result<PluginShareUpdateTargetsResponse, Error> {
        Err(no_service())
    }

    async fn plugin_share_delete(
        &self,
        _: Caller,
        _: PluginShareDeleteParams,
    ) -> Result<Empty, Error> {
        Err(no_service())
    }
}

/// The error of a request that only a service for plugins could answer.
pub(super) fn no_service() -> Error {
    Error::wrong_state("no service for plugins is configured").next_step(
        "share a plugin as a git repository or a folder with a marketplace, which `marketplace/add` reads",
    )
}
