//! Known models: their inputs, capabilities, and texts for a picker (specification "Model entry").
//! It makes no requests to providers; unknown names get conservative defaults.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Text that is built in or read from a catalog file.
pub type Text = Cow<'static, str>;

/// A model. Token counts are as providers publish them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelInfo {
    pub id: Text,
    pub display_name: Text,
    pub description: Text,
    /// Tokens of input and output together.
    pub context_window: u64,
    /// Most tokens of one response, reasoning included; see [`Self::max_input`].
    pub max_output: u64,
    pub supports_reasoning: bool,
    pub supported_efforts: Cow<'static, [Effort]>,
    /// Empty for models without reasoning.
    pub default_effort: Text,
    pub supports_parallel_tool_calls: bool,
    /// Whether it accepts `apply_patch` as a custom tool with a grammar, rather than as a function.
    pub supports_custom_apply_patch: bool,
    pub supports_verbosity: bool,
    /// `text`, `image`.
    pub input_modalities: Cow<'static, [Text]>,
    pub supports_personality: bool,
    pub is_default: bool,
    pub hidden: bool,
    /// Id of the model to move to.
    pub upgrade: Option<Text>,
}

/// A reasoning effort that a model accepts, with what it is good for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    pub effort: Text,
    pub description: Text,
}

impl Default for ModelInfo {
    /// An unknown model.
    fn default() -> Self {
        Self {
            id: Text::Borrowed(""),
            display_name: Text::Borrowed(""),
            description: Text::Borrowed(""),
            context_window: 128_000,
            max_output: 16_384,
            supports_reasoning: false,
            supported_efforts: Cow::Borrowed(&[]),
            default_effort: Text::Borrowed(""),
            supports_parallel_tool_calls: true,
            supports_custom_apply_patch: false,
            supports_verbosity: false,
            input_modalities: Cow::Borrowed(TEXT_AND_IMAGE),
            supports_personality: false,
            is_default: false,
            hidden: false,
            upgrade: None,
        }
    }
}

impl ModelInfo {
    /// Most tokens of a request that leave room for the longest response.
    #[must_use]
    pub fn max_input(&self) -> u64 {
        self.context_window.saturating_sub(self.max_output)
    }
}

/// A catalog file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// It cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// It is larger than [`MAX_CATALOG_BYTES`].
    #[error("{}: a catalog has at most {MAX_CATALOG_BYTES} bytes", path.display())]
    TooLarge { path: PathBuf },
    /// It is not a catalog; the message has line and column.
    #[error("{}: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    /// It has no model, a model without an id, or an id twice.
    #[error("{}: {message}", path.display())]
    Models { path: PathBuf, message: String },
}

/// Largest catalog file, in bytes.
pub const MAX_CATALOG_BYTES: u64 = 4 << 20;

/// Reads a catalog file: a JSON array of models with the members of [`ModelInfo`] (`id` alone is
/// required), or an object with such an array as `models`. Their order is the picker's.
///
/// # Errors
/// See [`CatalogError`].
pub fn read(path: &Path) -> Result<Vec<ModelInfo>, CatalogError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped {
        models: Vec<ModelInfo>,
    }
    let text = files::read_text(path, MAX_CATALOG_BYTES).map_err(|error| match error {
        files::Error::TooLarge { path, .. } => CatalogError::TooLarge { path },
        error => CatalogError::Read { path: path.to_owned(), source: error.into_io() },
    })?;
    let parsed = if text.trim_start().starts_with('[') {
        serde_json::from_str(&text)
    } else {
        serde_json::from_str(&text).map(|Wrapped { models }| models)
    };
    let models: Vec<ModelInfo> =
        parsed.map_err(|source| CatalogError::Json { path: path.to_owned(), source })?;
    let wrong = |message: String| CatalogError::Models { path: path.to_owned(), message };
    if models.is_empty() {
        return Err(wrong("it lists no model; list at least one".to_owned()));
    }
    for (at, model) in models.iter().enumerate() {
        if model.id.is_empty() {
            return Err(wrong(format!("model {at} has no `id`")));
        }
        if models[..at].iter().any(|other| other.id == model.id) {
            return Err(wrong(format!("`{}` is listed twice", model.id)));
        }
    }
    Ok(models)
}

/// The built-in models of the default provider, in the picker's order.
#[must_use]
pub fn hosted() -> Vec<ModelInfo> {
    vec![
        ModelInfo {
            is_default: true,
            supports_personality: true,
            ..gpt5("gpt-5.2-codex", "GPT-5.2-Codex", "Coding over long tasks.", LOW_TO_XHIGH)
        },
        gpt5("gpt-5.2", "GPT-5.2", "General work and coding.", NONE_TO_XHIGH),
        gpt5("gpt-5.1-codex-max", "GPT-5.1-Codex-Max", "Coding, previous.", LOW_TO_XHIGH),
        gpt5("gpt-5.1-codex-mini", "GPT-5.1-Codex-Mini", "Coding, quick and cheap.", MEDIUM_HIGH),
        older(gpt5("gpt-5.1-codex", "GPT-5.1-Codex", "Coding, older.", LOW_TO_HIGH)),
        older(gpt5("gpt-5.1", "GPT-5.1", "General work, older.", NONE_TO_HIGH)),
        older(gpt5("gpt-5-codex", "GPT-5-Codex", "Coding, first of its line.", LOW_TO_HIGH)),
        older(gpt5("gpt-5", "GPT-5", "General work, first of its line.", MINIMAL_TO_HIGH)),
        gpt5("gpt-5-mini", "GPT-5 mini", "Quick and cheap.", MINIMAL_TO_HIGH),
        hidden(gpt5("gpt-5-nano", "GPT-5 nano", "Quickest and cheapest.", MINIMAL_TO_HIGH)),
        hidden(o_series("o3", "o3", "Reasoning, older.")),
        hidden(o_series("o4-mini", "o4-mini", "Reasoning, small, older.")),
        hidden(gpt41("gpt-4.1", "GPT-4.1", "Without reasoning, very long context.")),
        hidden(gpt41("gpt-4.1-mini", "GPT-4.1 mini", "Without reasoning, small.")),
    ]
}

/// The scripted models of the `offline` provider.
#[must_use]
pub fn offline() -> Vec<ModelInfo> {
    let scripted = |id: &'static str, name: &'static str, description: &'static str| ModelInfo {
        id: id.into(),
        display_name: name.into(),
        description: description.into(),
        supports_custom_apply_patch: true,
        ..ModelInfo::default()
    };
    vec![
        ModelInfo {
            is_default: true,
            ..scripted("demo", "Demo (scripted)", "Plays one complete turn; needs no network.")
        },
        scripted("echo", "Echo (scripted)", "Answers with what you wrote; needs no network."),
    ]
}

/// The model `id` among `models`; else the capabilities of the longest known name that `id` starts
/// with, under its own name (dated snapshots); else conservative defaults.
#[must_use]
pub fn find(models: &[ModelInfo], id: &str) -> ModelInfo {
    if let Some(model) = models.iter().find(|model| model.id == id) {
        return model.clone();
    }
    let built_in = if id.starts_with('/') { offline() } else { hosted() };
    let family = family(id);
    let known = models.iter().chain(&built_in);
    let nearest = known.filter(|model| family.starts_with(&*model.id)).max_by_key(|m| m.id.len());
    let like = match nearest {
        Some(model) => model.clone(),
        None if id.starts_with('/') => built_in.into_iter().next().unwrap_or_default(),
        // A later model of a known family.
        None if is_later_gpt(family) => gpt5("", "", "", LOW_TO_HIGH),
        None => ModelInfo::default(),
    };
    ModelInfo {
        id: id.to_owned().into(),
        display_name: id.to_owned().into(),
        description: Text::Borrowed(""),
        is_default: false,
        upgrade: None,
        ..like
    }
}

/// Parses a catalog (configuration `model_catalog_json`): a JSON array of models, members named as
/// in [`ModelInfo`]; absent members have the defaults of an unknown model.
///
/// # Errors
/// The text is not such an array; the error has line and column.
pub fn parse(json: &str) -> serde_json::Result<Vec<ModelInfo>> {
    serde_json::from_str(json)
}

/// The part of a name that identifies the model: `org/gpt-5-mini` is `gpt-5-mini` behind a router.
fn family(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Whether a name is of the GPT family, from version 5 on.
fn is_later_gpt(family: &str) -> bool {
    let version = family.strip_prefix("gpt-").unwrap_or_default();
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse::<u32>().is_ok_and(|major| major >= 5)
}

const TEXT_AND_IMAGE: &[Text] = &[Text::Borrowed("text"), Text::Borrowed("image")];

const fn effort(effort: &'static str, description: &'static str) -> Effort {
    Effort { effort: Text::Borrowed(effort), description: Text::Borrowed(description) }
}

const NONE: Effort = effort("none", "Answers at once, without reasoning");
const MINIMAL: Effort = effort("minimal", "Hardly any reasoning, quickest answers");
const LOW: Effort = effort("low", "Quick answers with little reasoning");
const MEDIUM: Effort = effort("medium", "Balance of speed and depth for everyday tasks");
const HIGH: Effort = effort("high", "Thorough reasoning for hard problems");
const XHIGH: Effort = effort("xhigh", "Most thorough, for the hardest problems; slow");

const MINIMAL_TO_HIGH: &[Effort] = &[MINIMAL, LOW, MEDIUM, HIGH];
const NONE_TO_HIGH: &[Effort] = &[NONE, LOW, MEDIUM, HIGH];
const NONE_TO_XHIGH: &[Effort] = &[NONE, LOW, MEDIUM, HIGH, XHIGH];
const LOW_TO_HIGH: &[Effort] = &[LOW, MEDIUM, HIGH];
const LOW_TO_XHIGH: &[Effort] = &[LOW, MEDIUM, HIGH, XHIGH];
const MEDIUM_HIGH: &[Effort] = &[MEDIUM, HIGH];

fn gpt5(
    id: &'static str,
    name: &'static str,
    description: &'static str,
    efforts: &'static [Effort],
) -> ModelInfo {
    ModelInfo {
        id: id.into(),
        display_name: name.into(),
        description: description.into(),
        context_window: 400_000,
        max_output: 128_000,
        supports_reasoning: true,
        supported_efforts: efforts.into(),
        default_effort: "medium".into(),
        supports_custom_apply_patch: true,
        // The coding models of the family accept only one verbosity.
        supports_verbosity: !id.contains("codex"),
        ..ModelInfo::default()
    }
}

fn o_series(id: &'static str, name: &'static str, description: &'static str) -> ModelInfo {
    ModelInfo {
        context_window: 200_000,
        max_output: 100_000,
        supports_custom_apply_patch: false,
        supports_verbosity: false,
        ..gpt5(id, name, description, LOW_TO_HIGH)
    }
}

fn gpt41(id: &'static str, name: &'static str, description: &'static str) -> ModelInfo {
    ModelInfo {
        id: id.into(),
        display_name: name.into(),
        description: description.into(),
        context_window: 1_047_576,
        max_output: 32_768,
        ..ModelInfo::default()
    }
}

fn older(model: ModelInfo) -> ModelInfo {
    let upgrade = if model.id.contains("codex") { "gpt-5.2-codex" } else { "gpt-5.2" };
    ModelInfo { upgrade: Some(upgrade.into()), ..hidden(model) }
}

fn hidden(model: ModelInfo) -> ModelInfo {
    ModelInfo { hidden: true, ..model }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_lists_are_consistent() {
        for models in [hosted(), offline()] {
            assert_eq!(models.iter().filter(|model| model.is_default).count(), 1);
            for model in &models {
                let efforts = &model.supported_efforts;
                assert_eq!(model.supports_reasoning, !efforts.is_empty(), "{}", model.id);
                assert!(
                    efforts.is_empty() || efforts.iter().any(|e| e.effort == model.default_effort)
                );
                assert_eq!(models.iter().filter(|other| other.id == model.id).count(), 1);
                assert!(model.max_input() > 0);
                let upgrade = model.upgrade.as_ref();
                assert!(upgrade.is_none_or(|id| models.iter().any(|other| other.id == *id)));
            }
        }
    }

    #[test]
    fn unknown_names_get_the_capabilities_of_their_family() {
        let check = |id: &str, window: u64, reasoning: bool, patch: bool| {
            let model = find(&hosted(), id);
            assert_eq!(model.id, id);
            assert!(!model.is_default);
            let found = (model.context_window, model.supports_reasoning);
            assert_eq!(found, (window, reasoning), "{id}");
            assert_eq!(model.supports_custom_apply_patch, patch, "{id}");
        };
        check("gpt-5-mini-2025-08-07", 400_000, true, true);
        check("router/gpt-5.1", 400_000, true, true);
        check("gpt-7-codex", 400_000, true, true);
        check("gpt-4.1-2025-04-14", 1_047_576, false, false);
        check("o3-2025-04-16", 200_000, true, false);
        check("gpt-4o", 128_000, false, false);
        check("llama-4", 128_000, false, false);
        check("/scripts/my.json", 128_000, false, true);
    }

    #[test]
    fn a_catalog_file_lists_only_deviations() {
        let json = r#"[{"id": "m", "context_window": 9, "input_modalities": ["text"]}]"#;
        let model = &parse(json).unwrap()[0];
        assert_eq!((&*model.id, model.context_window, model.max_output), ("m", 9, 16_384));
        assert_eq!(*model.input_modalities, [Text::Borrowed("text")]);
        assert!(parse(r#"[{"idd": "m"}]"#).unwrap_err().to_string().contains("idd"));
    }
}
