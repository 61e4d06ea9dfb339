//! Marketplaces, for clients.

use protocol::MarketplaceMethods;
use protocol::marketplace::{
    MarketplaceAddParams, MarketplaceAddResponse, MarketplaceRemoveParams,
    MarketplaceRemoveResponse, MarketplaceUpgradeParams, MarketplaceUpgradeResponse,
};

use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

impl MarketplaceMethods<Caller> for Server {
    /// One that was added before stays as it is.
    async fn marketplace_add(
        &self,
        _: Caller,
        params: MarketplaceAddParams,
    ) -> Result<MarketplaceAddResponse, Error> {
        self.services.plugins.add_marketplace(params).await
    }

    /// Plugins that were installed from it stay.
    async fn marketplace_remove(
        &self,
        _: Caller,
        params: MarketplaceRemoveParams,
    ) -> Result<MarketplaceRemoveResponse, Error> {
        self.services.plugins.remove_marketplace(params.marketplace_name).await
    }

    /// One that cannot be upgraded stays as it is, and is in `errors`.
    async fn marketplace_upgrade(
        &self,
        _: Caller,
        params: MarketplaceUpgradeParams,
    ) -> Result<MarketplaceUpgradeResponse, Error> {
        self.services.plugins.upgrade_marketplaces(params.marketplace_name).await
    }
}
