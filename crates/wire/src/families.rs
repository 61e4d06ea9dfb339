//! Switches of known servers and models, by the server's host and the model's name.

use crate::kind::Wire;
use crate::target::{
    CacheHints, CacheMarks, ChatOptions, GeminiOptions, GeminiThinking, MessagesOptions,
    MessagesThinking, Platform, Target,
};

impl Target {
    /// The target for a model of a server. Unknown ones have the switches that most servers take.
    #[must_use]
    pub fn of_server(wire: Wire, provider: &str, host: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            max_output: max_output(wire, model),
            cache: CacheHints::default(),
            platform: Platform::Direct,
            messages: messages(host, model),
            chat: ChatOptions::of_host(host),
            gemini: gemini(model),
        }
    }

    /// The same target, served by `platform`.
    #[must_use]
    pub fn on(mut self, platform: Platform) -> Self {
        self.platform = platform;
        // Vertex refuses ids of calls, and goes by their names and order.
        self.gemini.has_call_ids &= platform != Platform::Vertex;
        self
    }
}

/// The part of a model's name after the name of a router or a region.
fn base_name(model: &str) -> &str {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.find("claude").map_or(name, |at| &name[at..])
}

fn has_any(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

/// Families of Claude that think with a budget of tokens, and know no effort.
const WITH_BUDGET: [&str; 7] = [
    "claude-3-7",
    "claude-sonnet-4-2",
    "claude-sonnet-4-0",
    "claude-opus-4-2",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-haiku-4-5",
];

fn messages(host: &str, model: &str) -> MessagesOptions {
    let (name, base) = (base_name(model), MessagesOptions::default());
    if !name.starts_with("claude") {
        // Another server with this wire: what every one of them takes.
        return MessagesOptions {
            thinking: MessagesThinking::Budget,
            has_effort: false,
            has_format: false,
            has_strict: false,
            web_search: None,
            has_sampling: true,
            cache: CacheMarks::Short,
            ..base
        };
    }
    let is_own = host.ends_with("anthropic.com");
    // Others take marks of an hour for some models only.
    let cache = if is_own { CacheMarks::Adaptive } else { CacheMarks::Short };
    let base = MessagesOptions { has_sampling: true, cache, ..base };
    if has_any(
        name,
        &[
            "claude-2",
            "claude-instant",
            "claude-3-opus",
            "claude-3-sonnet",
            "claude-3-haiku",
            "claude-3-5",
        ],
    ) {
        let thinking = MessagesThinking::Unknown;
        return MessagesOptions {
            thinking,
            has_effort: false,
            has_format: false,
            has_strict: false,
            ..base
        };
    }
    let is_4_5 = has_any(name, &["claude-sonnet-4-5", "claude-opus-4-5"]);
    if is_4_5 || has_any(name, &WITH_BUDGET) {
        let has_effort = name.contains("claude-opus-4-5");
        let has_format = is_own
            && (is_4_5 || name.contains("claude-haiku-4-5") || name.contains("claude-opus-4-1"));
        let thinking = MessagesThinking::Budget;
        return MessagesOptions {
            thinking,
            has_effort,
            has_format,
            has_strict: has_format,
            ..base
        };
    }
    base
}

fn gemini(model: &str) -> GeminiOptions {
    let name = base_name(model);
    let is_second = has_any(name, &["gemini-1", "gemini-2"]);
    let thinking = match () {
        () if name.contains("gemini-2.5") => GeminiThinking::Budget,
        () if is_second || !name.starts_with("gemini") => GeminiThinking::None,
        () => GeminiThinking::Level,
    };
    GeminiOptions { thinking, is_third: !is_second, ..GeminiOptions::default() }
}

/// The largest output of a model, where its wire requires a limit.
fn max_output(wire: Wire, model: &str) -> Option<u64> {
    let name = base_name(model);
    if wire != Wire::Messages || !name.starts_with("claude") {
        return None;
    }
    Some(match name {
        _ if has_any(
            name,
            &["claude-2", "claude-instant", "claude-3-opus", "claude-3-sonnet", "claude-3-haiku"],
        ) =>
        {
            4_096
        }
        _ if name.contains("claude-3-5") => 8_192,
        _ if has_any(name, &["claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-2"]) => 32_000,
        _ if has_any(
            name,
            &["claude-3-7", "claude-sonnet-4-0", "claude-sonnet-4-2", "-4-5", "-4.5"],
        ) =>
        {
            64_000
        }
        _ => 128_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_families() {
        let thinking = |model: &str| messages("api.anthropic.com", model).thinking;
        assert_eq!(thinking("claude-3-5-sonnet-20241022"), MessagesThinking::Unknown);
        assert_eq!(thinking("claude-sonnet-4-5"), MessagesThinking::Budget);
        assert_eq!(
            thinking("us.anthropic.claude-opus-4-1-20250805-v1:0"),
            MessagesThinking::Budget
        );
        assert_eq!(thinking("claude-opus-4-6"), MessagesThinking::Adaptive);
        assert_eq!(messages("h", "glm-5").cache, CacheMarks::Short);
        assert_eq!(max_output(Wire::Messages, "claude-3-haiku-20240307"), Some(4096));
        assert_eq!(max_output(Wire::Messages, "claude-haiku-4-5"), Some(64_000));
        assert_eq!(max_output(Wire::Messages, "claude-opus-4-6"), Some(128_000));
        assert_eq!(max_output(Wire::Messages, "glm-5"), None);
        assert_eq!(gemini("gemini-2.5-pro").thinking, GeminiThinking::Budget);
        assert_eq!(gemini("google/gemini-3-pro").thinking, GeminiThinking::Level);
    }
}
