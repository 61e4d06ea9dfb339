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
            $($(#[$doc])* pub(super) $name: Option<$type>,)*
        }

        impl Entry {
            /// This entry, with what it leaves out taken from `base`.
            pub(super) fn over(self, base: &Self) -> Self {
                Self {
                    id: self.id,
                    names: self.names,
                    family: self.family.or_else(|| base.family.clone()),
                    $($name: self.$name.or_else(|| base.$name.clone()),)*
                }
            }
        }
    };
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
    /// The older form of `patch_tool`: custom or function.
    supports_custom_apply_patch: bool,
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
    /// The model, with the stated defaults for what is not known of it.
    pub(super) fn resolve(self, is_known: bool) -> ModelInfo {
        let older = self.supports_custom_apply_patch.map(|custom| match custom {
            true => PatchTool::Custom,
            false => PatchTool::Function,
        });
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
