//! Short words for values of the protocol.

use protocol::{SandboxPolicy, TokenUsageBreakdown};

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
    if usage.total_tokens == 0 && usage.input_tokens == 0 {
        return "not reported by the provider".to_owned();
    }
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
        let none = TokenUsageBreakdown {
            total_tokens: 0,
            input_tokens: 0,
            output_tokens: 0,
            ..usage(0, 0)
        };
        assert_eq!(tokens(&none), "not reported by the provider");
        assert_eq!(tokens(&usage(1024, 20)), "1,500 in (1,024 cached), 300 out (20 reasoning)");
    }
}
