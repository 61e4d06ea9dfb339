//! Which marketplaces the administrator allows.

use std::path::Path;

use config::{Config, MarketplaceSource as Required};
use plugins::{Configured, Installed, MarketplaceSource};

use crate::error::Error;

/// The requirement that does not list a marketplace of the home, as part of a sentence.
pub fn forbidding(config: &Config, marketplace: &Configured) -> Option<String> {
    let Configured { source, root, revision, .. } = marketplace;
    config.requirements.forbidding_marketplace(required(source, root, revision.as_deref()))
}

/// The requirement that does not list the marketplace that a plugin was installed from. One that is not
/// recorded is in no list.
pub fn forbidding_installed(config: &Config, plugin: &Installed) -> Option<String> {
    let Some(source) = &plugin.marketplace_source else {
        return config.requirements.restricting_marketplaces();
    };
    let folder = match source {
        MarketplaceSource::Local { path } => path,
        MarketplaceSource::Git { .. } => Path::new(""),
    };
    let source = required(source, folder, plugin.marketplace_revision.as_deref());
    config.requirements.forbidding_marketplace(source)
}

/// `folder`: the real path of a folder.
fn required<'s>(
    source: &'s MarketplaceSource,
    folder: &'s Path,
    sha: Option<&'s str>,
) -> Required<'s> {
    match source {
        MarketplaceSource::Local { .. } => Required::Folder(folder),
        MarketplaceSource::Git { url, ref_name, .. } => {
            Required::Git { url, reference: ref_name.as_deref(), sha }
        }
    }
}

/// As [`forbidding`], before a source is fetched: any commit may follow. `folder`: the real path of a
/// folder.
pub fn forbidding_source(
    config: &Config,
    source: &MarketplaceSource,
    folder: &Path,
) -> Option<String> {
    config.requirements.forbidding_marketplace(required(source, folder, None))
}

/// The error about a source that a requirement does not list.
pub fn refusal(requirement: &str) -> Error {
    let message = format!("{requirement} does not list the source of this marketplace");
    Error::denied(message).next_step("ask your administrator to list it")
}
