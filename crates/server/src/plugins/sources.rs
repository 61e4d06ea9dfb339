//! Which marketplaces the administrator allows.

use std::path::Path;

use config::{Config, MarketplaceSource as Required};
use plugins::{Configured, MarketplaceSource};

use crate::error::Error;

/// The requirement that does not list a marketplace of the home, as part of a sentence.
pub(super) fn forbidding(config: &Config, marketplace: &Configured) -> Option<String> {
    let source = match &marketplace.source {
        MarketplaceSource::Local { .. } => Required::Folder(&marketplace.root),
        MarketplaceSource::Git { url, ref_name, .. } => Required::Git {
            url,
            reference: ref_name.as_deref(),
            sha: marketplace.revision.as_deref(),
        },
    };
    config.requirements.forbidding_marketplace(source)
}

/// As [`forbidding`], before a source is fetched: any commit may follow. `folder`: the real path of a
/// folder.
pub(super) fn forbidding_source(
    config: &Config,
    source: &MarketplaceSource,
    folder: &Path,
) -> Option<String> {
    let source = match source {
        MarketplaceSource::Local { .. } => Required::Folder(folder),
        MarketplaceSource::Git { url, ref_name, .. } => {
            Required::Git { url, reference: ref_name.as_deref(), sha: None }
        }
    };
    config.requirements.forbidding_marketplace(source)
}

/// The error about a source that a requirement does not list.
pub(super) fn refusal(requirement: &str) -> Error {
    let message = format!("{requirement} does not list the source of this marketplace");
    Error::denied(message).next_step("ask your administrator to list it")
}
