//! Plugin marketplaces. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    MarketplaceAddParams, MarketplaceAddResponse, MarketplaceMethods, MarketplaceRemoveParams,
    MarketplaceRemoveResponse, MarketplaceUpgradeParams, MarketplaceUpgradeResponse,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl MarketplaceMethods<Cx> for Server {
    not_implemented! {
        marketplace_add(MarketplaceAddParams) -> MarketplaceAddResponse = "marketplace/add";
        marketplace_remove(MarketplaceRemoveParams) -> MarketplaceRemoveResponse = "marketplace/remove";
        marketplace_upgrade(MarketplaceUpgradeParams) -> MarketplaceUpgradeResponse = "marketplace/upgrade";
    }
}
