//! Keys that have another name now, and those that another agent has under another name.

use crate::origin::Origin;

/// A renamed key: its value applies if the new key is unset.
#[derive(Debug)]
pub struct Renamed {
    /// The old dotted key.
    pub old: &'static str,
    /// The new dotted key.
    pub new: &'static str,
}

/// Every renamed key.
pub const RENAMED: &[Renamed] = &[
    Renamed { old: "experimental_instructions_file", new: "model_instructions_file" },
    Renamed { old: "background_terminal_timeout", new: "background_terminal_max_timeout" },
    Renamed { old: "experimental_use_unified_exec_tool", new: "features.unified_exec" },
    Renamed { old: "tools_view_image", new: "tools.view_image" },
];

/// Keys of the root with another name here, but the same meaning.
pub(crate) const RENAMED_KEYS: [(&str, &str); 2] = [
    ("forced_chatgpt_workspace_id", "forced_hosted_workspace_id"),
    ("openai_base_url", "default_provider_base_url"),
];
/// The same for a key of a provider.
pub(crate) const RENAMED_PROVIDER_KEY: (&str, &str) =
    ("requires_openai_auth", "requires_default_auth");
/// The key as it was written at `origin`: a value under a renamed key stands in its new place, and a
/// message about it names the old one.
pub(crate) fn written_key(key: &str, origin: &Origin) -> String {
    let old_keys = RENAMED.iter().map(|renamed| (renamed.old, renamed.new));
    let old_keys = old_keys.chain(RENAMED_KEYS).chain([RENAMED_PROVIDER_KEY]);
    for (old, new) in old_keys {
        let Some(front) = key.strip_suffix(new) else { continue };
        let is_whole = front.is_empty() || front.ends_with('.');
        if is_whole && origin.last_key() == Some(old) {
            return format!("{front}{old}");
        }
    }
    key.to_owned()
}
