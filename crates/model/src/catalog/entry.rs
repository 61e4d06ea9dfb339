//! The members of a catalog, as they are written: of a model, or of the family that it inherits from.

use std::sync::Arc;

use serde::Deserialize;

use super::{
    AvailabilityNux, CommandTool, Effort, Modality, ModelInfo, PatchTool, SearchTool, ServiceTier,
    Text, UpgradeInfo, text_and_image,
};
use crate::price::Prices;

/// Declares the members that a family and a model share.
macro_rules! members {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// The known facts about a model or a family; an absent member is inherited.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct Entry {
            pub(super) id: Text,
            /// Patterns of the names of a family's models.
            pub(super) names: Vec<String>,
            /// Id of a model's family; by default the first one that its name matches.
            pub(super) family: Option<Text>,
            /// Id of the provider that an override is for; by default of all.
            pub(super) provider: Option<Text>,
            /// `max_output`, if the user stated it.
            #[serde(skip)]
            pub(super) output_limit: Option<u64>,
            /// The older form of `patch_tool`: custom or function.
            pub(super) supports_custom_apply_patch: Option<bool>,
            $($(#[$doc])* pub(super) $name: Option<$type>,)*
        }

        impl Entry {
            /// This entry, with what it leaves out taken from `base`.
            pub(super) fn over(self, base: &Self) -> Self {
                Self {
                    id: self.id,
                    names: self.names,
                    family: self.family.or_else(|| base.family.clone()),
                    provider: self.provider,
                    output_limit: self.output_limit.or_else(|| {
                        base.output_limit.filter(|_| self.max_output.is_none())
                    }),
                    supports_custom_apply_patch: self
                        .supports_custom_apply_patch
                        .or(base.supports_custom_apply_patch),
                    $($name: self.$name.or_else(|| base.$name.clone()),)*
                }
            }

            /// Writes what this entry says over the facts of a model.
            pub(super) fn write_over(&self, model: &mut ModelInfo) {
                $(if let Some(value) = &self.$name {
                    model.$name.set(value.clone());
                })*
                model.output_limit = self.output_limit.or(model.output_limit);
                if let (Some(custom), None) = (self.supports_custom_apply_patch, self.patch_tool) {
                    model.patch_tool = patch_tool(custom);
                }
            }
        }
    };
}

/// A member of a model, which a value of an entry replaces.
trait Member<T> {
    fn set(&mut self, value: T);
}

impl<T> Member<T> for T {
    fn set(&mut self, value: T) {
        *self = value;
    }
}

impl<T> Member<T> for Option<T> {
    fn set(&mut self, value: T) {
        *self = Some(value);
    }
}

/// The tool of the older form.
fn patch_tool(is_custom: bool) -> PatchTool {
    if is_custom { PatchTool::Custom } else { PatchTool::Function }
}

members! {
    display_name: Text,
    description: Text,
    context_window: u64,
    max_output: u64,
    supports_reasoning: bool,
    supported_efforts: Arc<[Effort]>,
    default_effort: Text,
    supports_parallel_tool_calls: bool,
    patch_tool: PatchTool,
    command_tool: CommandTool,
    supports_web_search: bool,
    tool_search: SearchTool,
    withheld_tools: Arc<[Text]>,
    supports_verbosity: bool,
    instructions: Text,
    input_modalities: Arc<[Modality]>,
    max_image_side: u32,
    max_image_bytes: u64,
    max_images_bytes: u64,
    supports_personality: bool,
    is_default: bool,
    hidden: bool,
    upgrade: Text,
    upgrade_info: Arc<UpgradeInfo>,
    availability_nux: Arc<AvailabilityNux>,
    additional_speed_tiers: Arc<[Text]>,
    service_tiers: Arc<[ServiceTier]>,
    prices: Arc<Prices>,
}

impl Entry {
    /// This entry of a file of the user's.
    pub(super) fn of_user(mut self) -> Self {
        self.output_limit = self.max_output;
        self
    }

    /// The model, with the stated defaults for what is not known of it.
    pub(super) fn resolve(self, is_known: bool) -> ModelInfo {
        let older = self.supports_custom_apply_patch.map(patch_tool);
        let efforts = self.supported_efforts.unwrap_or_default();
        let default_effort = self.default_effort.unwrap_or_default();
        let is_supported = efforts.iter().any(|option| option.effort == default_effort);
        let default_effort = match efforts.first() {
            Some(first) if !is_supported => first.effort.clone(),
            _ => default_effort,
        };
        let context_window = self.context_window.unwrap_or(ModelInfo::CONTEXT_WINDOW);
        ModelInfo {
            display_name: self.display_name.unwrap_or_else(|| self.id.clone()),
            id: self.id,
            is_known,
            family: self.family,
            description: self.description.unwrap_or_default(),
            context_window,
            // Small models leave room for the input.
            max_output: self
                .max_output
                .unwrap_or_else(|| ModelInfo::MAX_OUTPUT.min((context_window / 4).max(1))),
            output_limit: self.output_limit,
            supports_reasoning: self.supports_reasoning.unwrap_or(!efforts.is_empty()),
            supported_efforts: efforts,
            default_effort,
            supports_parallel_tool_calls: self.supports_parallel_tool_calls.unwrap_or(true),
            patch_tool: self.patch_tool.or(older).unwrap_or(PatchTool::Function),
            command_tool: self.command_tool.unwrap_or(CommandTool::Terminal),
            supports_web_search: self.supports_web_search.unwrap_or(true),
            tool_search: self.tool_search.unwrap_or(SearchTool::Function),
            withheld_tools: self.withheld_tools.unwrap_or_default(),
            supports_verbosity: self.supports_verbosity.unwrap_or(false),
            instructions: self.instructions,
            input_modalities: self.input_modalities.unwrap_or_else(text_and_image),
            max_image_side: self.max_image_side,
            max_image_bytes: self.max_image_bytes,
            max_images_bytes: self.max_images_bytes,
            supports_personality: self.supports_personality.unwrap_or(false),
            is_default: self.is_default.unwrap_or(false),
            hidden: self.hidden.unwrap_or(false),
            upgrade: self.upgrade.or_else(|| Some(self.upgrade_info.as_ref()?.model.clone())),
            upgrade_info: self.upgrade_info,
            availability_nux: self.availability_nux,
            additional_speed_tiers: self.additional_speed_tiers.unwrap_or_default(),
            service_tiers: self.service_tiers.unwrap_or_default(),
            prices: self.prices,
        }
    }
}

/// Facts about models, by patterns of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(Arc<[Entry]>);

impl Overrides {
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        Self(entries.into())
    }

    /// Those that apply to the models of a provider.
    pub(super) fn of_provider(&self, provider: &str) -> Self {
        let applies = |entry: &&Entry| entry.provider.as_deref().is_none_or(|id| id == provider);
        Self(self.0.iter().filter(applies).cloned().collect())
    }

    /// Writes them over what is known of a model. Of several that match, the last one has the last word.
    pub(super) fn apply(&self, model: &mut ModelInfo) {
        let base = super::names::base(&model.id).to_owned();
        let matches = |entry: &&Entry| {
            super::names::matches(&entry.id, &model.id) || super::names::matches(&entry.id, &base)
        };
        let matching: Vec<&Entry> = self.0.iter().filter(matches).collect();
        for entry in &matching {
            entry.write_over(model);
        }
        if matching.is_empty() {
            return;
        }
        model.is_known = true;
        let efforts = &model.supported_efforts;
        if !efforts.iter().any(|option| option.effort == model.default_effort) {
            let first = efforts.first().map(|option| option.effort.clone());
            model.default_effort = first.unwrap_or_default();
        }
        if matching.iter().any(|entry| entry.supported_efforts.is_some())
            && matching.iter().all(|entry| entry.supports_reasoning.is_none())
        {
            model.supports_reasoning = !model.supported_efforts.is_empty();
        }
        // There is room for the input.
        if model.max_output >= model.context_window {
            model.max_output = (model.context_window / 4).max(1);
        }
        model.output_limit = model.output_limit.map(|limit| limit.min(model.max_output));
    }
}
