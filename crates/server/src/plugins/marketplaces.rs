//! Adding, removing and upgrading marketplaces, for clients.

use std::path::PathBuf;

use config::Config;
use plugins::{Configured, MarketplaceSource};
use protocol::marketplace::{
    MarketplaceAddParams, MarketplaceAddResponse, MarketplaceRemoveResponse,
    MarketplaceUpgradeErrorInfo, MarketplaceUpgradeResponse,
};

use super::{Plugins, bounded, engine};
use services::error::Error;
use services::installed_plugins::sources;

impl Plugins {
    /// Adds a marketplace to the home.
    ///
    /// # Errors
    /// It cannot be fetched or read; the administrator does not allow it.
    pub(crate) async fn add_marketplace(
        &self,
        params: MarketplaceAddParams,
    ) -> Result<MarketplaceAddResponse, Error> {
        let MarketplaceAddParams { source, ref_name, sparse_paths } = params;
        let (ref_name, sparse) = (ref_name.as_deref(), sparse_paths.unwrap_or_default());
        let source = MarketplaceSource::parse(&source, ref_name, &sparse);
        let source = source.map_err(Error::invalid_params)?;
        let config = self.config()?;
        let folder = match &source {
            MarketplaceSource::Local { path } => self.real_path(path).await?,
            MarketplaceSource::Git { .. } => PathBuf::new(),
        };
        if let Some(requirement) = sources::forbidding_source(&config, &source, &folder) {
            return Err(sources::refusal(&requirement));
        }
        let added = self.home().add_marketplace(source, allowing(config));
        let added = bounded(added).await?;
        Ok(MarketplaceAddResponse {
            marketplace_name: added.name,
            installed_root: added.root.display().to_string(),
            already_added: added.already,
        })
    }

    /// Removes a marketplace from the home.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) async fn remove_marketplace(
        &self,
        name: String,
    ) -> Result<MarketplaceRemoveResponse, Error> {
        let removed = bounded(self.home().remove_marketplace(&name)).await?;
        self.announce();
        Ok(MarketplaceRemoveResponse {
            marketplace_name: removed.name,
            installed_root: removed.root.map(|root| root.display().to_string()),
            installed_plugin_ids: removed.installed,
        })
    }

    /// Fetches what one marketplace, or each, has now.
    ///
    /// # Errors
    /// There is none of this name; the list of marketplaces cannot be read.
    pub(crate) async fn upgrade_marketplaces(
        &self,
        name: Option<String>,
    ) -> Result<MarketplaceUpgradeResponse, Error> {
        let config = self.config()?;
        let home = self.home().clone();
        let all = self.files.run(self.installed.root(), move || home.marketplaces()).await?;
        let mut all = all.map_err(engine)?;
        if let Some(name) = &name {
            all.all.retain(|one| one.name == *name);
            all.damaged.retain(|one| one.path.file_stem().is_some_and(|stem| stem == &**name));
            if all.all.is_empty() && all.damaged.is_empty() {
                return Err(Error::not_found(format!("there is no marketplace `{name}`"))
                    .next_step("choose one from `plugin/list`"));
            }
        }
        let mut response = MarketplaceUpgradeResponse {
            selected_marketplaces: all.all.iter().map(|one| one.name.clone()).collect(),
            upgraded_roots: Vec::new(),
            errors: Vec::new(),
        };
        for damaged in all.damaged {
            let name = damaged.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let message = damaged.to_string();
            response.errors.push(MarketplaceUpgradeErrorInfo { marketplace_name: name, message });
        }
        for one in all.all {
            let requirement = sources::forbidding_source(&config, &one.source, &one.root);
            let upgraded = match requirement {
                Some(requirement) => Err(sources::refusal(&requirement)),
                None => {
                    let allow = allowing(config.clone());
                    bounded(self.home().upgrade_marketplace(&one.name, allow)).await
                }
            };
            match upgraded {
                Ok(upgrade) if upgrade.changed => {
                    response.upgraded_roots.push(upgrade.root.display().to_string());
                }
                Ok(_) => {}
                Err(error) => response.errors.push(MarketplaceUpgradeErrorInfo {
                    marketplace_name: one.name,
                    message: error.to_string(),
                }),
            }
        }
        self.announce();
        Ok(response)
    }
}

/// Refuses what the requirements do not list, now that the commit is known.
fn allowing(config: Config) -> impl FnOnce(&Configured) -> Result<(), plugins::Error> {
    move |found| match sources::forbidding(&config, found) {
        Some(requirement) => Err(plugins::Error::Forbidden(requirement)),
        None => Ok(()),
    }
}
