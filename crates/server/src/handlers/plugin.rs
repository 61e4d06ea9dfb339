//! Plugins. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, PluginInstallParams, PluginInstallResponse, PluginListParams, PluginListResponse,
    PluginMethods, PluginReadParams, PluginReadResponse, PluginSkillReadParams,
    PluginSkillReadResponse, PluginUninstallParams,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl PluginMethods<Cx> for Server {
    not_implemented! {
        plugin_list(PluginListParams) -> PluginListResponse = "plugin/list";
        plugin_read(PluginReadParams) -> PluginReadResponse = "plugin/read";
        plugin_skill_read(PluginSkillReadParams) -> PluginSkillReadResponse = "plugin/skill/read";
        plugin_install(PluginInstallParams) -> PluginInstallResponse = "plugin/install";
        plugin_uninstall(PluginUninstallParams) -> Empty = "plugin/uninstall";
    }
}
