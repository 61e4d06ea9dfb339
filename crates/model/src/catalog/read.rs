//! Reads a catalog file (configuration `model_catalog_json`) and checks it.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::entry::{Entry, Overrides};
use super::foreign;
use super::{Catalog, Effort, Family, ModelInfo, family_of};

/// A catalog file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// It cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    /// It is larger than [`MAX_CATALOG_BYTES`].
    #[error("{}: a catalog has at most {MAX_CATALOG_BYTES} bytes", path.display())]
    TooLarge { path: PathBuf },
    /// It is not a catalog; the message has line and column, or names the model.
    #[error("{}: {message}", path.display())]
    Invalid { path: PathBuf, message: String },
}

/// Largest catalog file, in bytes.
pub const MAX_CATALOG_BYTES: u64 = 4 << 20;
/// Most models, and most families, of a catalog.
const MAX_ENTRIES: usize = 4096;
/// Most tokens of a context window or a response: sums of them do not overflow.
const MAX_TOKENS: u64 = 1 << 40;
/// Smallest and largest bound on an image's longer side, in pixels.
const IMAGE_SIDES: RangeInclusive<u32> = 64..=16_384;
/// Smallest and largest bound on an image's bytes.
const IMAGE_BYTES: RangeInclusive<u64> = 10_000..=20 << 20;
/// Bounds of `max_images_bytes`: room for one image at least.
const REQUEST_IMAGE_BYTES: RangeInclusive<u64> = 20_000..=512 << 20;
/// Most characters of an entry's text in a message.
const MAX_SHOWN: usize = 80;
/// Efforts that the protocol has names for, from least to most.
pub(super) const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];

/// Reads a catalog file: a JSON object with `models` and optionally `families`, or the array of
/// models alone (docs/models.md), or the list of models of another agent (`slug`). Only `id` is required of an entry. The order is the picker's.
///
/// # Errors
/// See [`CatalogError`].
pub fn read(path: &Path) -> Result<CatalogFile, CatalogError> {
    let text = files::read_text(path, MAX_CATALOG_BYTES).map_err(|error| match error {
        files::Error::TooLarge { path, .. } => CatalogError::TooLarge { path },
        error => CatalogError::Read { path: path.to_owned(), cause: error.into_io() },
    })?;
    parse_file(&text).map_err(|message| CatalogError::Invalid { path: path.to_owned(), message })
}

/// The contents of a catalog file.
#[derive(Debug, Clone)]
pub enum CatalogFile {
    /// All models, of all providers.
    Whole(Catalog),
    /// Facts in place of those that are known otherwise.
    Overrides(Overrides),
}

/// Parses the text of a catalog that lists all models.
///
/// # Errors
/// See [`parse_file`].
pub fn parse(text: &str) -> Result<Catalog, String> {
    match parse_file(text)? {
        CatalogFile::Whole(catalog) => Ok(catalog),
        CatalogFile::Overrides(_) => Err("it has `overrides`, and lists no `models`".to_owned()),
    }
}

/// Parses the text of a catalog file. Families of the text come before the built-in ones, which its
/// models can name too.
///
/// # Errors
/// What is wrong, with line and column or the name of the model.
pub fn parse_file(text: &str) -> Result<CatalogFile, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        families: Vec<Entry>,
        models: Option<Vec<Entry>>,
        #[serde(default)]
        overrides: Vec<Entry>,
    }
    let converted = foreign::converted(text, &EFFORTS);
    let text = converted.as_deref().unwrap_or(text);
    let parsed = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map(|models| File {
            families: Vec::new(),
            models: Some(models),
            overrides: Vec::new(),
        })
    } else {
        serde_json::from_str(text)
    };
    let File { families, models, overrides } = parsed.map_err(|error| error.to_string())?;
    let Some(models) = models else {
        if !families.is_empty() || overrides.is_empty() {
            return Err("it has no `models`; list all models, or only `overrides`".to_owned());
        }
        if overrides.len() > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} overrides"));
        }
        overrides.iter().try_for_each(check_override)?;
        let overrides = overrides.into_iter().map(Entry::of_user).collect();
        return Ok(CatalogFile::Overrides(Overrides::new(overrides)));
    };
    if !overrides.is_empty() {
        return Err("it has `models` and `overrides`; change the models themselves, or list only \
                    `overrides`"
            .to_owned());
    }
    if models.is_empty() {
        return Err("it lists no model; list at least one".to_owned());
    }
    if models.len().max(families.len()) > MAX_ENTRIES {
        return Err(format!("it lists more than {MAX_ENTRIES} models or families"));
    }
    let inherited = inherited(text);
    // The built-in catalogs inherit nothing.
    let own = |entries: Vec<Entry>| match inherited.is_empty() {
        true => entries,
        false => entries.into_iter().map(Entry::of_user).collect(),
    };
    let (models, families) = (own(models), own(families));
    resolved_all(models, families, inherited).map(CatalogFile::Whole)
}

/// The catalog of these models and families; `inherited` are families that come after them.
pub(super) fn resolved_all(
    models: Vec<Entry>,
    families: Vec<Entry>,
    inherited: Vec<Family>,
) -> Result<Catalog, String> {
    check_ids("model", &models)?;
    check_ids("family", &families)?;
    if let Some(bad) = families.iter().find(|family| family.family.is_some()) {
        return Err(format!("family `{}`: a family has no `family`", bad.id));
    }
    if let Some(bad) = models.iter().find(|model| !model.names.is_empty()) {
        return Err(format!("model `{}`: only families have `names`", bad.id));
    }
    if let Some(bad) = models.iter().chain(&families).find(|entry| entry.provider.is_some()) {
        return Err(format!("`{}`: only overrides have a `provider`", bad.id));
    }
    let mut families: Vec<Family> = families.into_iter().map(Family).collect();
    families.extend(inherited);
    let models = models.into_iter().map(|model| resolved(model, &families));
    let models = models.collect::<Result<Vec<_>, _>>()?;
    families.iter().try_for_each(|family| check(&family.0))?;
    check_default(&models)?;
    check_upgrades(&models)?;
    Ok(Catalog { families, models, ..Catalog::empty() })
}

fn check_override(entry: &Entry) -> Result<(), String> {
    let wrong = |problem: &str| Err(format!("override `{}`: {problem}", shown(&entry.id)));
    if entry.id.is_empty() {
        return Err("an override has no `id`, which is a model's name or a pattern".to_owned());
    }
    if entry.family.is_some() || !entry.names.is_empty() {
        return wrong("it has neither `family` nor `names`; its `id` may have `*` for any text");
    }
    check(entry)
}

/// A model with what it inherits.
fn resolved(model: Entry, families: &[Family]) -> Result<ModelInfo, String> {
    let family = family_of(families, &model);
    if let (Some(named), None) = (&model.family, family) {
        return Err(format!("model `{}`: there is no family `{named}`", model.id));
    }
    check(&model)?;
    let inherits_upgrade = model.upgrade.is_none() && model.upgrade_info.is_none();
    let own_default = model.default_effort.clone().filter(|effort| !effort.is_empty());
    let base = family.map(|family| family.0.clone()).unwrap_or_default();
    let id = family.map(|family| family.0.id.clone());
    let mut info = Entry { family: id, ..model.over(&base) }.resolve(true);
    if inherits_upgrade && info.upgrade.as_ref() == Some(&info.id) {
        // The model to which its family moves.
        (info.upgrade, info.upgrade_info) = (None, None);
    }
    let efforts: Vec<&str> = info.supported_efforts.iter().map(|option| &*option.effort).collect();
    // An inherited one that the model does not support is replaced.
    if let Some(effort) = own_default.filter(|effort| !efforts.contains(&&**effort)) {
        let problem = match efforts.is_empty() {
            true => "the model has no `supported_efforts`".to_owned(),
            false => format!("the model supports {}", efforts.join(", ")),
        };
        return Err(format!("model `{}`: `default_effort` is `{effort}`, but {problem}", info.id));
    }
    match info.max_input() {
        0 => Err(format!("model `{}`: `max_output` leaves no room for input", info.id)),
        _ => Ok(info),
    }
}

fn check_default(models: &[ModelInfo]) -> Result<(), String> {
    let mut defaults = models.iter().filter(|model| model.is_default);
    match (defaults.next(), defaults.next()) {
        (Some(first), Some(second)) => Err(format!(
            "`{}` and `{}` both have `is_default`; leave it to one model",
            first.id, second.id
        )),
        _ => Ok(()),
    }
}

/// Checks that the models to move to are in the catalog.
fn check_upgrades(models: &[ModelInfo]) -> Result<(), String> {
    let ids: HashSet<&str> = models.iter().map(|model| &*model.id).collect();
    for model in models {
        let named = model.upgrade_info.as_ref().map(|info| &info.model);
        for (key, upgrade) in [("upgrade", model.upgrade.as_ref()), ("upgrade_info.model", named)] {
            let Some(upgrade) = upgrade else { continue };
            let problem = match ids.contains(&**upgrade) {
                true if *upgrade == model.id => "the model itself",
                true => continue,
                false => "which the catalog does not list",
            };
            return Err(format!(
                "model `{}`: `{key}` is `{}`, {problem}",
                model.id,
                shown(upgrade)
            ));
        }
    }
    Ok(())
}

/// The families of the built-in catalog, for other catalogs than itself.
fn inherited(text: &str) -> Vec<Family> {
    let is_built_in = [include_str!("hosted.json"), include_str!("offline.json")].contains(&text);
    // A catalog may be that of any provider.
    if is_built_in { Vec::new() } else { Catalog::of_host("").families.clone() }
}

fn check_ids(kind: &str, entries: &[Entry]) -> Result<(), String> {
    let mut ids = HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        if entry.id.is_empty() {
            return Err(format!("{kind} {at} has no `id`"));
        }
        if let Some(hidden) = entry.id.chars().find(|c| visible::is_hidden(*c)) {
            return Err(format!(
                "{kind} {at}: the id `{}` has the hidden character {}; write it without",
                shown(&entry.id),
                hidden.escape_unicode()
            ));
        }
        if !ids.insert(&entry.id) {
            return Err(format!("`{}` is listed twice", entry.id));
        }
    }
    Ok(())
}

/// Text of the file in a message, on one line.
fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).flat_map(escaped).collect()
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    let escape = visible::is_hidden(c).then(|| c.escape_unicode());
    let plain = escape.is_none().then_some(c);
    escape.into_iter().flatten().chain(plain)
}

fn check(entry: &Entry) -> Result<(), String> {
    let wrong = |problem: String| Err(format!("`{}`: {problem}", entry.id));
    let is_effort = |effort: &str| EFFORTS.contains(&effort);
    let efforts: &[Effort] = entry.supported_efforts.as_deref().unwrap_or_default();
    if let Some(bad) = efforts.iter().find(|option| !is_effort(&option.effort)) {
        let known = EFFORTS.join(", ");
        return wrong(format!("there is no effort `{}`; the efforts are {known}", bad.effort));
    }
    if let Some(default) = entry.default_effort.as_deref().filter(|effort| !effort.is_empty()) {
        let is_supported = efforts.iter().any(|option| &*option.effort == default);
        if !is_effort(default) || (!efforts.is_empty() && !is_supported) {
            return wrong(format!("`default_effort` is `{default}`, which is not supported"));
        }
    }
    for (key, tokens) in
        [("context_window", entry.context_window), ("max_output", entry.max_output)]
    {
        if tokens.is_some_and(|tokens| tokens == 0 || tokens > MAX_TOKENS) {
            return wrong(format!("`{key}` is a number from 1 to {MAX_TOKENS}"));
        }
    }
    if entry.max_image_side.is_some_and(|side| !IMAGE_SIDES.contains(&side)) {
        let (least, most) = (IMAGE_SIDES.start(), IMAGE_SIDES.end());
        return wrong(format!("`max_image_side` is a number from {least} to {most}"));
    }
    if entry.max_image_bytes.is_some_and(|bytes| !IMAGE_BYTES.contains(&bytes)) {
        let (least, most) = (IMAGE_BYTES.start(), IMAGE_BYTES.end());
        return wrong(format!("`max_image_bytes` is a number from {least} to {most}"));
    }
    if entry.max_images_bytes.is_some_and(|bytes| !REQUEST_IMAGE_BYTES.contains(&bytes)) {
        let (least, most) = (REQUEST_IMAGE_BYTES.start(), REQUEST_IMAGE_BYTES.end());
        return wrong(format!("`max_images_bytes` is a number from {least} to {most}"));
    }
    if entry.input_modalities.as_ref().is_some_and(|modalities| modalities.is_empty()) {
        return wrong("`input_modalities` is empty; leave it out for text and images".to_owned());
    }
    Ok(())
}
