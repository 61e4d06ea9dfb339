//! Shared plugins. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, PluginShareDeleteParams, PluginShareListResponse, PluginShareMethods,
    PluginShareSaveParams, PluginShareSaveResponse, PluginShareUpdateTargetsParams,
    PluginShareUpdateTargetsResponse,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl PluginShareMethods<Cx> for Server {
    not_implemented! {
        plugin_share_list(Empty) -> PluginShareListResponse = "plugin/share/list";
        plugin_share_save(PluginShareSaveParams) -> PluginShareSaveResponse = "plugin/share/save";
        plugin_share_update_targets(PluginShareUpdateTargetsParams) -> PluginShareUpdateTargetsResponse = "plugin/share/updateTargets";
        plugin_share_delete(PluginShareDeleteParams) -> Empty = "plugin/share/delete";
    }
}
