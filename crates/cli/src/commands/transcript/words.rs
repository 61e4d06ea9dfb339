//! Short words for values of the protocol.

use protocol::{SandboxPolicy, ThreadItem, TokenUsageBreakdown};

/// The sandbox in a few words.
pub(crate) fn sandbox_name(policy: &SandboxPolicy) -> String {
    let with_network = |name: &str, network: bool| {
        if network { format!("{name}, with network") } else { name.to_owned() }
    };
    match policy {
        SandboxPolicy::DangerFullAccess {} => "none (danger-full-access)".to_owned(),
        SandboxPolicy::ReadOnly { network_access, .. } => {
            with_network("read-only", *network_access)
        }
        SandboxPolicy::WorkspaceWrite { network_access, .. } => {
            with_network("workspace-write", *network_access)
        }
        SandboxPolicy::ExternalSandbox { .. } => "external".to_owned(),
    }
}

/// Token usage in a line.
pub(crate) fn tokens(usage: &TokenUsageBreakdown) -> String {
    let part = |count: i64, name: &str| {
        if count > 0 { format!(" ({} {name})", grouped(count)) } else { String::new() }
    };
    format!(
        "{} in{}, {} out{}",
        grouped(usage.input_tokens),
        part(usage.cached_input_tokens, "cached"),
        grouped(usage.output_tokens),
        part(usage.reasoning_output_tokens, "reasoning"),
    )
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    if number < 0 {
        text.push('-');
    }
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in milliseconds, for people.
pub(crate) fn seconds(ms: i64) -> String {
    if ms < 1000 {
        return format!("{ms} ms");
    }
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// Returns the number of files in words.
pub(super) fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// An item that one line is enough for: its label and its text.
pub(super) fn in_a_line(item: &ThreadItem) -> Option<(&'static str, String)> {
    let because = |reason: &Option<String>| {
        reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    };
    Some(match item {
        ThreadItem::McpToolCall(call) => {
            let error = call.error.as_ref().map(|error| format!(": {}", error.message));
            ("tool", format!("{}/{}{}", call.server, call.tool, error.unwrap_or_default()))
        }
        ThreadItem::DynamicToolCall(call) => {
            let failed = if call.success == Some(false) { ": failed" } else { "" };
            ("tool", format!("{}{failed}", call.tool))
        }
        ThreadItem::CollabToolCall(call) => {
            ("agents", call.prompt.clone().unwrap_or_else(|| format!("{:?}", call.tool)))
        }
        ThreadItem::WebSearch(search) => {
            ("search", search.query.clone() + &because(&search.reason))
        }
        ThreadItem::ImageView(image) => ("image", image.path.clone() + &because(&image.reason)),
        ThreadItem::ImageGeneration(image) => {
            let prompt = image.revised_prompt.as_deref().unwrap_or("generated");
            ("image", prompt.to_owned() + &because(&image.reason))
        }
        ThreadItem::EnteredReviewMode(review) | ThreadItem::ExitedReviewMode(review) => {
            ("review", review.review.clone())
        }
        ThreadItem::ContextCompaction(compaction) => {
            let text = match &compaction.reason {
                None => "replaced by a summary, to fit the model's context".to_owned(),
                Some(reason) => format!("left as it is: {reason}"),
            };
            ("history", text)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_are_formatted() {
        let check = |number: i64, expect: &str| assert_eq!(grouped(number), expect);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(-1_234_567, "-1,234,567");
        check(i64::MIN, "-9,223,372,036,854,775,808");
        assert_eq!((seconds(999), seconds(61_250)), ("999 ms".to_owned(), "61.2 s".to_owned()));
    }

    #[test]
    fn usage_lists_only_present_counts() {
        let usage = |cached, reasoning| TokenUsageBreakdown {
            total_tokens: 1800,
            input_tokens: 1500,
            cached_input_tokens: cached,
            cache_write_input_tokens: 0,
            output_tokens: 300,
            reasoning_output_tokens: reasoning,
        };
        assert_eq!(tokens(&usage(0, 0)), "1,500 in, 300 out");
        assert_eq!(tokens(&usage(1024, 20)), "1,500 in (1,024 cached), 300 out (20 reasoning)");
    }
}
