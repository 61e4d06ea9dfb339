//! Plugins and marketplaces as clients see them.

use std::path::Path;

use plugins::{AuthPolicy, Contents, Entry, InstallPolicy, Interface, Source};
use protocol::app::AppSummary;
use protocol::plugin::{
    PluginAuthPolicy, PluginAvailability, PluginHookSummary, PluginInstallPolicy, PluginInterface,
    PluginSource, PluginSummary,
};

use services::thread_hooks;

/// The facts about a plugin besides its entry.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) installed: bool,
    pub(super) enabled: bool,
    /// True if the requirements allow its marketplace.
    pub(super) is_allowed: bool,
}

/// The id of a plugin.
pub(super) fn id(name: &str, marketplace: &str) -> String {
    format!("{name}@{marketplace}")
}

/// `folder`: the plugin's files, with the contents, where they are on this machine. `root`: of the
/// marketplace.
pub(super) fn summary(
    entry: &Entry,
    (marketplace, root): (&str, &Path),
    found: Option<(&Path, &Contents)>,
    state: State,
) -> PluginSummary {
    let manifest = found.map(|(_, contents)| &contents.manifest);
    let interface = found
        .and_then(|(folder, contents)| Some((folder, contents.manifest.interface.as_ref()?)))
        .map(|(folder, shown)| interface(shown, folder));
    let description =
        entry.description.as_ref().or(manifest.and_then(|one| one.description.as_ref()));
    let interface = match (interface, description) {
        (None, None) if entry.category.is_none() => None,
        (known, description) => {
            let mut shown = known.unwrap_or_else(|| self::interface(&Interface::default(), root));
            shown.short_description = shown.short_description.or_else(|| description.cloned());
            shown.category = shown.category.or_else(|| entry.category.clone());
            Some(shown)
        }
    };
    let keywords = manifest.map_or(&entry.keywords, |manifest| &manifest.keywords);
    PluginSummary {
        id: id(&entry.name, marketplace),
        name: entry.name.clone(),
        source: source(&entry.source, root),
        installed: state.installed,
        enabled: state.installed && state.enabled && state.is_allowed,
        install_policy: match entry.install_policy {
            InstallPolicy::NotAvailable => PluginInstallPolicy::NotAvailable,
            InstallPolicy::Available => PluginInstallPolicy::Available,
            InstallPolicy::InstalledByDefault => PluginInstallPolicy::InstalledByDefault,
        },
        auth_policy: auth_policy(entry),
        availability: match state.is_allowed {
            true => PluginAvailability::Available,
            false => PluginAvailability::DisabledByAdmin,
        },
        interface,
        keywords: keywords.clone(),
        share_context: None,
    }
}

pub(super) fn auth_policy(entry: &Entry) -> PluginAuthPolicy {
    match entry.auth_policy {
        AuthPolicy::OnInstall => PluginAuthPolicy::OnInstall,
        AuthPolicy::OnUse => PluginAuthPolicy::OnUse,
    }
}

fn source(source: &Source, root: &Path) -> PluginSource {
    match source {
        Source::Local { path } => {
            PluginSource::Local { path: root.join(path).display().to_string() }
        }
        Source::Git { url, path, ref_name, sha } => PluginSource::Git {
            url: url.clone(),
            path: path.as_ref().map(|path| path.display().to_string()),
            ref_name: ref_name.clone(),
            sha: sha.clone(),
        },
        Source::Remote => PluginSource::Remote,
    }
}

fn interface(shown: &Interface, folder: &Path) -> PluginInterface {
    let file = |path: &std::path::PathBuf| folder.join(path).display().to_string();
    PluginInterface {
        display_name: shown.display_name.clone(),
        short_description: shown.short_description.clone(),
        long_description: shown.long_description.clone(),
        developer_name: shown.developer_name.clone(),
        category: shown.category.clone(),
        capabilities: shown.capabilities.clone(),
        website_url: shown.website_url.clone(),
        privacy_policy_url: shown.privacy_policy_url.clone(),
        terms_of_service_url: shown.terms_of_service_url.clone(),
        default_prompt: shown.default_prompt.clone(),
        brand_color: shown.brand_color.clone(),
        composer_icon: shown.composer_icon.as_ref().map(file),
        composer_icon_url: None,
        logo: shown.logo.as_ref().map(file),
        logo_url: None,
        screenshots: shown.screenshots.iter().map(file).collect(),
        screenshot_urls: Vec::new(),
    }
}

pub(super) fn apps(contents: &Contents) -> Vec<AppSummary> {
    let summary = |app: &plugins::App| AppSummary {
        id: app.id.clone(),
        name: app.name.clone(),
        description: None,
        install_url: None,
        needs_auth: false,
    };
    contents.apps.iter().map(summary).collect()
}

pub(super) fn hook(hook: &hooks::Hook) -> PluginHookSummary {
    let event_name = thread_hooks::event_name(hook.event);
    PluginHookSummary { key: hook.key.clone(), event_name }
}
