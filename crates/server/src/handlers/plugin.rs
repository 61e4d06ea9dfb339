//! Plugins, for clients.

use std::path::PathBuf;

use protocol::plugin::{
    PluginInstallParams, PluginInstallResponse, PluginListMarketplaceKind, PluginListParams,
    PluginListResponse, PluginReadParams, PluginReadResponse, PluginSkillReadParams,
    PluginSkillReadResponse, PluginUninstallParams,
};
use protocol::{Empty, PluginMethods};

use crate::handlers::plugin_share::no_service;
use crate::server::Server;
use services::error::Error;
use services::folders::{self, absolute};
use services::peer::Caller;

/// Folders of a request.
const MAX_FOLDERS: usize = 100;

impl PluginMethods<Caller> for Server {
    /// The marketplaces of the home, then those of the trusted projects in `cwds`.
    async fn plugin_list(
        &self,
        _: Caller,
        params: PluginListParams,
    ) -> Result<PluginListResponse, Error> {
        let PluginListParams { cwds, marketplace_kinds } = params;
        let is_asked = |kind| marketplace_kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
        let cwds = cwds.unwrap_or_default();
        if cwds.len() > MAX_FOLDERS {
            let message = format!("`cwds`: at most {MAX_FOLDERS} folders are allowed");
            return Err(Error::invalid_params(message));
        }
        let mut projects: Vec<PathBuf> = Vec::new();
        if is_asked(PluginListMarketplaceKind::WorkspaceDirectory) {
            for cwd in &cwds {
                let cwd = absolute("cwds", cwd)?;
                let cwd = folders::check_cwd(&self.services.files, cwd).await?;
                let loaded = self.services.configurations.in_folder(&cwd, None).await?;
                for folder in &loaded.resolved.config.project_folders {
                    if !projects.contains(folder) {
                        projects.push(folder.clone());
                    }
                }
            }
        }
        let of_home = is_asked(PluginListMarketplaceKind::Local);
        self.services.plugins.list(of_home, projects).await
    }

    /// Without a marketplace, `pluginName` is the id of an installed plugin.
    async fn plugin_read(
        &self,
        _: Caller,
        params: PluginReadParams,
    ) -> Result<PluginReadResponse, Error> {
        let is_alone =
            params.marketplace_path.is_none() && params.remote_marketplace_name.is_none();
        if is_alone && params.plugin_name.contains('@') {
            let plugin = self.services.plugins.read_installed(params.plugin_name).await?;
            return Ok(PluginReadResponse { plugin });
        }
        let path = marketplace(params.marketplace_path, params.remote_marketplace_name)?;
        let plugin = self.services.plugins.read(path, params.plugin_name).await?;
        Ok(PluginReadResponse { plugin })
    }

    /// Skills of plugins with files are read as all others are.
    async fn plugin_skill_read(
        &self,
        _: Caller,
        _: PluginSkillReadParams,
    ) -> Result<PluginSkillReadResponse, Error> {
        Err(no_service())
    }

    /// Replaces another version that is installed.
    async fn plugin_install(
        &self,
        _: Caller,
        params: PluginInstallParams,
    ) -> Result<PluginInstallResponse, Error> {
        let path = marketplace(params.marketplace_path, params.remote_marketplace_name)?;
        self.services.plugins.install(path, params.plugin_name).await
    }

    async fn plugin_uninstall(
        &self,
        _: Caller,
        params: PluginUninstallParams,
    ) -> Result<Empty, Error> {
        self.services.plugins.uninstall(params.plugin_id).await?;
        Ok(Empty {})
    }
}

/// The path of the marketplace that a request names.
fn marketplace(path: Option<String>, remote: Option<String>) -> Result<PathBuf, Error> {
    match (path, remote) {
        (Some(path), None) => absolute("marketplacePath", &path),
        (None, Some(_)) => Err(no_service()),
        (Some(_), Some(_)) => Err(Error::exclusive("marketplacePath", "remoteMarketplaceName")),
        (None, None) => Err(Error::invalid_params("`marketplacePath` is missing")
            .next_step("give the `path` of a marketplace from `plugin/list`")),
    }
}
