//! Counts of a Messages response, merged from its events.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Usage;
use crate::json::{Lenient, Tokens};

/// Counts of a response; later ones replace earlier ones, member by member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessagesUsage {
    input: u64,
    read: u64,
    written: u64,
    written_hour: u64,
    output: u64,
    thinking: u64,
    searches: u64,
    /// Tokens of a compaction at the server, which are not in the totals.
    compaction: (u64, u64),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage<'a> {
    input_tokens: Tokens,
    cache_creation_input_tokens: Tokens,
    cache_read_input_tokens: Tokens,
    output_tokens: Tokens,
    cache_creation: Option<Creation>,
    output_tokens_details: Option<OutputDetails>,
    server_tool_use: Option<ServerToolUse>,
    #[serde(borrow)]
    iterations: Option<Vec<Iteration<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Creation {
    ephemeral_1h_input_tokens: Tokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Tokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Tokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Iteration<'a> {
    #[serde(borrow, rename = "type")]
    kind: Lenient<'a>,
    input_tokens: Tokens,
    output_tokens: Tokens,
}

impl MessagesUsage {
    pub(super) fn merge(&mut self, raw: Option<&RawValue>) {
        // A count that cannot be read costs no response.
        let Some(usage) = raw.and_then(|raw| serde_json::from_str::<WireUsage<'_>>(raw.get()).ok())
        else {
            return;
        };
        let set = |count: &mut u64, new: Tokens| *count = new.0.unwrap_or(*count);
        set(&mut self.input, usage.input_tokens);
        set(&mut self.written, usage.cache_creation_input_tokens);
        set(&mut self.read, usage.cache_read_input_tokens);
        set(&mut self.output, usage.output_tokens);
        let hour = usage.cache_creation.unwrap_or_default().ephemeral_1h_input_tokens;
        set(&mut self.written_hour, hour);
        set(&mut self.thinking, usage.output_tokens_details.unwrap_or_default().thinking_tokens);
        set(&mut self.searches, usage.server_tool_use.unwrap_or_default().web_search_requests);
        if let Some(iterations) = usage.iterations {
            let compactions = iterations.iter().filter(|it| it.kind.as_str() == "compaction");
            self.compaction = compactions.fold((0, 0), |(input, output), it| {
                let count = |count: Tokens| count.0.unwrap_or_default();
                (
                    u64::saturating_add(input, count(it.input_tokens)),
                    u64::saturating_add(output, count(it.output_tokens)),
                )
            });
        }
    }

    /// The usage in the internal form, in which the input includes the cache.
    pub(super) fn total(self) -> Usage {
        let input = [self.input, self.read, self.written, self.compaction.0];
        Usage {
            input: input.into_iter().fold(0, u64::saturating_add),
            cached: self.read,
            written: self.written,
            written_hour: Tokens::part(self.written_hour, self.written),
            output: self.output.saturating_add(self.compaction.1),
            reasoning: Tokens::part(self.thinking, self.output),
            searches: self.searches,
        }
    }
}

/// The tier in a usage, by the name that other wires have for it.
pub(super) fn service_tier(usage: &RawValue) -> Option<String> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Tier<'a> {
        #[serde(borrow)]
        service_tier: Lenient<'a>,
    }
    let tier: Tier<'_> = serde_json::from_str(usage.get()).ok()?;
    let tier = tier.service_tier.0?;
    Some(if tier == "standard" { "default".to_owned() } else { tier.into_owned() })
}
