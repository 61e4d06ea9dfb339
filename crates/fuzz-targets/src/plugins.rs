//! Marketplaces and manifests: whatever the text, names are single components of paths, paths stay within
//! their folder, and no source is an option or a helper of git.

use std::path::{Component, Path};

use plugins::{Manifest, Marketplace, MarketplaceSource, Source, check_name};

fn is_inside(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

fn is_safe(url: &str) -> bool {
    !url.starts_with('-') && !url.contains("::") && !url.contains(char::is_control)
}

/// Checks one input.
pub fn run(text: &[u8]) {
    let path = Path::new("/m/file.json");
    if let Ok(read) = Marketplace::parse(text, Path::new("/m"), path) {
        assert_eq!(check_name(&read.name), Ok(()));
        assert!(read.plugins.len() <= plugins::marketplace::MAX_PLUGINS);
        for entry in &read.plugins {
            assert_eq!(check_name(&entry.name), Ok(()));
            match &entry.source {
                Source::Local { path } => assert!(is_inside(path)),
                Source::Git { url, path, ref_name, .. } => {
                    assert!(is_safe(url));
                    assert!(path.as_deref().is_none_or(is_inside));
                    assert!(ref_name.as_deref().is_none_or(|name| !name.starts_with('-')));
                }
                Source::Remote => {}
            }
        }
    }
    if let Ok(manifest) = Manifest::parse(text, path) {
        assert_eq!(check_name(&manifest.name), Ok(()));
        let interface = manifest.interface.unwrap_or_default();
        assert!(interface.screenshots.iter().all(|path| is_inside(path)));
        assert!(interface.logo.iter().chain(&interface.composer_icon).all(|path| is_inside(path)));
    }
    if let Ok(text) = std::str::from_utf8(text)
        && let Ok(MarketplaceSource::Git { url, .. }) = MarketplaceSource::parse(text, None, &[])
    {
        assert!(is_safe(&url));
    }
}
