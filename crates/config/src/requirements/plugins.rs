//! Requirements on plugins: the marketplaces that they may come from.

use std::path::Path;

use crate::origin::Origin;
use crate::table::AllowedMarketplace;

/// The marketplaces that one file allows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AllowedSources {
    pub(super) listed: Vec<AllowedMarketplace>,
    pub(super) origin: Origin,
}

/// Where a marketplace comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarketplaceSource<'s> {
    /// A folder.
    Folder(&'s Path),
    /// A git repository.
    Git {
        /// Its address.
        url: &'s str,
        /// The branch, tag or commit that it was added with.
        reference: Option<&'s str>,
        /// The commit that it is at; `None` before it was fetched: any can follow.
        sha: Option<&'s str>,
    },
}

impl AllowedSources {
    pub(super) fn allows(&self, source: MarketplaceSource<'_>) -> bool {
        self.listed.iter().any(|one| allows(one, source))
    }
}

fn allows(allowed: &AllowedMarketplace, source: MarketplaceSource<'_>) -> bool {
    match source {
        MarketplaceSource::Folder(folder) => allowed.path.as_deref() == Some(folder),
        MarketplaceSource::Git { url, reference, sha } => {
            let is_at = |given: Option<&str>| match (&allowed.sha, given) {
                (None, _) | (Some(_), None) => true,
                (Some(wanted), Some(given)) => wanted == given,
            };
            allowed.url.as_deref().is_some_and(|listed| trimmed(listed) == trimmed(url))
                && (allowed.reference.is_none() || allowed.reference.as_deref() == reference)
                && is_at(sha)
        }
    }
}

/// The address without the endings that make no difference.
fn trimmed(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url)
}
