//! Known models: their inputs, capabilities, prices, and texts for a picker (specification "Model
//! entry"). The built-in ones are data, `catalog/*.json`. A model inherits from its family what its
//! own entry leaves out; a name that is on no list gets the row of its family, and otherwise stated
//! defaults.

mod cache;
mod entry;
mod foreign;
mod listing;
mod makers;
mod names;
mod overrides;
mod read;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::price::Prices;
pub use cache::CachedListing;
use entry::Entry;
pub use entry::Overrides;
pub use listing::{ListedModel, Listing, MAX_LISTING_BYTES, parse_listing};
pub use makers::{Maker, MakerApi, maker_of_host, makers};
pub use names::is_same_model;
pub use read::{CatalogError, CatalogFile, MAX_CATALOG_BYTES, parse, parse_file, read};

/// Text of a catalog.
pub type Text = Arc<str>;

/// A model, with everything that it inherits. Token counts are as providers publish them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    pub id: Text,
    /// True if the catalog has the model or a family for its name. Otherwise the members are
    /// defaults.
    pub is_known: bool,
    /// Id of its family.
    pub family: Option<Text>,
    pub display_name: Text,
    pub description: Text,
    /// Tokens of input and output together.
    pub context_window: u64,
    /// Most tokens of one response, reasoning included; see [`Self::max_input`].
    pub max_output: u64,
    /// `max_output` where the user stated it: it is asked for on every wire. Others are, where a wire requires a limit.
    pub output_limit: Option<u64>,
    pub supports_reasoning: bool,
    pub supported_efforts: Arc<[Effort]>,
    /// Empty for models without reasoning.
    pub default_effort: Text,
    pub supports_parallel_tool_calls: bool,
    pub patch_tool: PatchTool,
    pub command_tool: CommandTool,
    /// True if it can use the provider's own web search.
    pub supports_web_search: bool,
    pub tool_search: SearchTool,
    /// Names of tools that it is not offered.
    pub withheld_tools: Arc<[Text]>,
    pub supports_verbosity: bool,
    /// Base instructions, in place of the program's.
    pub instructions: Option<Text>,
    pub input_modalities: Arc<[Modality]>,
    /// Most pixels of the longer side of an image; `None`: not known.
    pub max_image_side: Option<u32>,
    /// Most bytes of an image before base64; `None`: not known.
    pub max_image_bytes: Option<u64>,
    /// Most bytes of all images of a request, as base64; `None`: not known.
    pub max_images_bytes: Option<u64>,
    pub supports_personality: bool,
    pub is_default: bool,
    pub hidden: bool,
    /// Id of the model to move to.
    pub upgrade: Option<Text>,
    pub upgrade_info: Option<Arc<UpgradeInfo>>,
    pub availability_nux: Option<Arc<AvailabilityNux>>,
    pub additional_speed_tiers: Arc<[Text]>,
    pub service_tiers: Arc<[ServiceTier]>,
    /// `None`: unknown.
    pub prices: Option<Arc<Prices>>,
}

/// A reasoning effort that a model accepts, with what it is good for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    pub effort: Text,
    pub description: Text,
}

/// A model's way to edit files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchTool {
    /// `apply_patch` as a custom tool with a grammar.
    Custom,
    /// `apply_patch` as a function.
    Function,
    /// `apply_patch` as a command of the shell, which the program carries out itself.
    Shell,
}

/// A model's way to run commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandTool {
    /// `exec_command` and `write_stdin`.
    Terminal,
    /// `shell`: one call, one command.
    OneShot,
}

/// A model's way to search tools whose definitions are not in its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchTool {
    /// `tool_search` as the provider's own kind of tool, carried out by the program.
    Native,
    /// `tool_search` as a function.
    Function,
}

/// A kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    Text,
    Image,
}

/// A picker's text about the model to move to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpgradeInfo {
    pub model: Text,
    pub model_link: Option<Text>,
    pub upgrade_copy: Option<Text>,
    pub migration_markdown: Option<Text>,
}

/// Notice for users who see a model for the first time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AvailabilityNux {
    pub message: Text,
}

/// A service tier that a model can be asked with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTier {
    pub id: Text,
    pub name: Text,
    pub description: Text,
}

/// A family of models: what they have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Family(Entry);

/// Models in the picker's order, and the families for names that are on no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The first one whose names match applies.
    families: Vec<Family>,
    models: Vec<ModelInfo>,
    /// Models of which facts are known, and that no picker lists: whether the provider has them is not known.
    unlisted: Vec<ModelInfo>,
    /// Patterns of the models of which the first reported one is the default, the best one first.
    preferred: Arc<[Text]>,
    /// The user's own facts.
    overrides: Overrides,
}

impl ModelInfo {
    /// Context window of a model of which nothing is known.
    pub const CONTEXT_WINDOW: u64 = 128_000;
    /// Longest response of a model of which nothing is known.
    pub const MAX_OUTPUT: u64 = 16_384;

    /// Most tokens of a request that leave room for the longest response.
    #[must_use]
    pub fn max_input(&self) -> u64 {
        self.context_window.saturating_sub(self.max_output)
    }

    /// The supported effort that is nearest to one that is not supported, the lower of two; `None`
    /// for one that is supported, and where the supported ones are not known.
    #[must_use]
    pub fn nearest_effort(&self, effort: &str) -> Option<&Text> {
        let rank = |effort: &str| read::EFFORTS.iter().position(|known| *known == effort);
        let wanted = rank(effort)?;
        if self.supported_efforts.iter().any(|option| &*option.effort == effort) {
            return None;
        }
        let distance = |option: &&Effort| rank(&option.effort).map(|rank| rank.abs_diff(wanted));
        self.supported_efforts.iter().min_by_key(distance).map(|option| &option.effort)
    }

    /// Returns whether it accepts images.
    #[must_use]
    pub fn accepts_images(&self) -> bool {
        self.input_modalities.contains(&Modality::Image)
    }
}

impl Catalog {
    /// The built-in models of the default provider.
    #[must_use]
    pub fn hosted() -> Arc<Self> {
        static HOSTED: LazyLock<Arc<Catalog>> =
            LazyLock::new(|| built_in(include_str!("catalog/hosted.json")));
        HOSTED.clone()
    }

    /// The scripted models of the `offline` provider.
    #[must_use]
    pub fn offline() -> Arc<Self> {
        static OFFLINE: LazyLock<Arc<Catalog>> =
            LazyLock::new(|| built_in(include_str!("catalog/offline.json")));
        OFFLINE.clone()
    }

    /// The models, in the picker's order.
    #[must_use]
    pub fn models(&self) -> &[ModelInfo] {
        &self.models
    }

    /// The model that is used when none is named.
    #[must_use]
    pub fn default_model(&self) -> Option<&ModelInfo> {
        let mut visible = self.models.iter().filter(|model| !model.hidden);
        let first = visible.clone().next().or(self.models.first());
        visible.find(|model| model.is_default).or(first)
    }

    /// The model `id`; else the model of which it is a dated snapshot, under the snapshot's name;
    /// else a model of the first family that the name matches; else one with the defaults of
    /// [`ModelInfo`], which is not [known](ModelInfo::is_known).
    #[must_use]
    pub fn find(&self, id: &str) -> ModelInfo {
        let mut models = self.models.iter().chain(&self.unlisted);
        if let Some(model) = models.find(|model| &*model.id == id) {
            return model.clone();
        }
        self.snapshot(id).unwrap_or_else(|| self.of_family(id))
    }

    /// The model of which `id` is a dated snapshot, or a name at a router.
    fn snapshot(&self, id: &str) -> Option<ModelInfo> {
        let plain = names::undated(names::base(id));
        let mut models = self.models.iter().chain(&self.unlisted);
        let model = models.find(|model| &*model.id == plain)?;
        let mut snapshot = ModelInfo {
            id: id.into(),
            display_name: id.into(),
            description: Text::default(),
            is_default: false,
            hidden: false,
            upgrade: None,
            upgrade_info: None,
            availability_nux: None,
            ..model.clone()
        };
        self.overrides.apply(&mut snapshot);
        Some(snapshot)
    }

    /// A model that is on no list, with what its family provides.
    fn of_family(&self, id: &str) -> ModelInfo {
        let entry = Entry { id: id.into(), ..Entry::default() };
        let family = family_of(&self.families, &entry);
        let (id, is_known) = (family.map(|family| family.0.id.clone()), family.is_some());
        let base = family.map(|family| family.0.clone()).unwrap_or_default();
        let mut model = Entry { family: id, ..entry }.over(&base).resolve(is_known);
        self.overrides.apply(&mut model);
        model
    }

    fn empty() -> Self {
        Self {
            families: Vec::new(),
            models: Vec::new(),
            unlisted: Vec::new(),
            preferred: Arc::default(),
            overrides: Overrides::default(),
        }
    }

    /// The same facts for a provider of which it is not known what models it has: none is listed, or the default.
    #[must_use]
    pub fn without_listing(&self) -> Self {
        let mut catalog = self.clone();
        let unlisted = catalog.models.drain(..).map(|model| ModelInfo {
            is_default: false,
            hidden: false,
            upgrade: None,
            upgrade_info: None,
            availability_nux: None,
            ..model
        });
        catalog.unlisted.extend(unlisted);
        catalog
    }

    /// Tokens and prices of another provider's models are not known: the same names may cost more.
    #[must_use]
    pub fn without_prices(&self) -> Self {
        let mut catalog = self.clone();
        let models = catalog.models.iter_mut().chain(&mut catalog.unlisted);
        models.for_each(|model| model.prices = None);
        catalog.families.iter_mut().for_each(|family| family.0.prices = None);
        catalog
    }
}

fn family_of<'f>(families: &'f [Family], entry: &Entry) -> Option<&'f Family> {
    if let Some(named) = &entry.family {
        return families.iter().find(|family| family.0.id == *named);
    }
    let name = names::base(&entry.id);
    families.iter().find(|family| {
        let mut patterns = family.0.names.iter();
        patterns.any(|pattern| names::matches(pattern, &entry.id) || names::matches(pattern, name))
    })
}

fn built_in(json: &str) -> Arc<Catalog> {
    Arc::new(parse(json).expect("a test reads the built-in catalogs"))
}

fn text_and_image() -> Arc<[Modality]> {
    [Modality::Text, Modality::Image].into()
}
