//! Checks a configuration as a whole, with the files and servers that a first turn would use.

use std::path::Path;

use config::{Error, Origin, Resolved, SourceRange, Warning, WarningKind};

use crate::config_source::ConfigSource;
use crate::mcp_servers;
use crate::options::Options;
use crate::thread_defaults::MAX_INSTRUCTIONS_BYTES;

/// Checks the configuration of the working folder as a whole: every mistake, in the order of the files
/// and lines, and its warnings likewise.
pub fn check_configuration(options: &Options) -> (Vec<Error>, Vec<Warning>) {
    let (mut errors, loaded) = ConfigSource::mistakes(options);
    errors.extend(loaded.iter().flat_map(|loaded| unusable_files(&loaded.resolved)));
    let mut warnings = Vec::new();
    if let Some(loaded) = loaded {
        let resolved = &loaded.resolved;
        for (name, message) in mcp_servers::unusable(&resolved.config, options) {
            let key = config::dotted_key(&["mcp_servers", &name]);
            let origins = resolved.origins();
            let below = format!("{key}.");
            let origin = origins.iter().find(|(path, _)| *path == key || path.starts_with(&below));
            let origin = origin.map_or(Origin::Process, |(_, origin)| (*origin).clone());
            warnings.push(Warning { origin, key, message, kind: WarningKind::Note });
        }
        warnings.extend(loaded.resolved.warnings);
    }
    warnings.sort_by_key(|warning| {
        (warning.origin.layer(), warning.origin.range().map(SourceRange::line_column))
    });
    (errors, warnings)
}

/// The mistakes in the files that a first turn would read.
fn unusable_files(resolved: &Resolved) -> Vec<Error> {
    let config = &resolved.config;
    let prose = |path: &Path| {
        let read = files::read_prose(path, MAX_INSTRUCTIONS_BYTES);
        read.err().map(|error| error.to_string())
    };
    let catalog = |path: &Path| model::catalog::read(path).err().map(|error| error.to_string());
    let named = [
        ("model_catalog_json", config.model_catalog_json.as_deref().and_then(catalog)),
        ("model_instructions_file", config.model_instructions_file.as_deref().and_then(prose)),
        (
            "experimental_compact_prompt_file",
            config.experimental_compact_prompt_file.as_deref().and_then(prose),
        ),
    ];
    let refused = |(key, message): (&str, Option<String>)| {
        let (_, origin) = resolved.value(key)?;
        Some(Error::Refused { origin: origin.clone(), key: key.to_owned(), message: message? })
    };
    named.into_iter().filter_map(refused).collect()
}
