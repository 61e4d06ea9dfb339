//! Plugins on a terminal. What their authors wrote is shown with hidden characters visible.

use std::io;

use protocol::{PluginAvailability, PluginDetail, PluginSource, PluginSummary};

use crate::commands::print;

/// Returns the state of a plugin, installed and in use or not, for the place after its name.
pub(super) fn state(plugin: &PluginSummary) -> &'static str {
    match (plugin.availability, plugin.installed, plugin.enabled) {
        (PluginAvailability::DisabledByAdmin, true, _) => {
            "  (installed; not used: the administrator does not allow its source)"
        }
        (PluginAvailability::DisabledByAdmin, false, _) => {
            "  (the administrator does not allow its source)"
        }
        (PluginAvailability::Available, true, true) => "  (installed)",
        (PluginAvailability::Available, true, false) => "  (installed, switched off)",
        (PluginAvailability::Available, false, _) => "",
    }
}

/// Prints all that is known of a plugin.
pub(super) fn show(detail: &PluginDetail) -> io::Result<()> {
    let summary = &detail.summary;
    print(format_args!("{}{}", visible::line(&summary.id), state(summary)))?;
    print(format_args!("    from {}", source(&summary.source)))?;
    if let Some(description) = &detail.description {
        print(format_args!("    {}", flat(description)))?;
    }
    let skills = detail
        .skills
        .iter()
        .map(|skill| format!("{}: {}", visible::line(&skill.name), flat(&skill.description)));
    section("Skills", skills)?;
    let apps = detail.apps.iter().map(|app| visible::line(&app.name).into_owned());
    section("Apps", apps)?;
    let actions = detail.actions.iter().map(|action| visible::line(action).into_owned());
    section("What it could do", actions)?;
    let changes = detail.changes.iter().flatten();
    section("What an upgrade changes", changes.map(|change| visible::line(change).into_owned()))
}

/// Prose of an author on one line, so that it cannot look like what follows it.
pub(super) fn flat(text: &str) -> String {
    visible::line(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
    for (place, line) in lines.enumerate() {
        if place == 0 {
            print(format_args!("  {title}:"))?;
        }
        print(format_args!("    {line}"))?;
    }
    Ok(())
}

fn source(source: &PluginSource) -> String {
    match source {
        PluginSource::Local { path } => visible::line(path).into_owned(),
        PluginSource::Git { url, path, ref_name, sha } => {
            let mut shown = url.clone();
            let parts = [("folder", path), ("ref", ref_name), ("commit", sha)];
            for (what, value) in parts {
                if let Some(value) = value {
                    shown.push_str(&format!(", {what} {value}"));
                }
            }
            visible::line(&shown).into_owned()
        }
        PluginSource::Remote => "a remote marketplace".to_owned(),
    }
}
