//! Names of models: dated snapshots, names behind routers, and the patterns of families.

/// The part of a name that identifies the model: `org/gpt-5-mini` is `gpt-5-mini` behind a router, and
/// `us.anthropic.claude-opus-4-6-v1:0` is `claude-opus-4-6-v1:0` on Bedrock.
pub(super) fn base(id: &str) -> &str {
    let mut name = id.rsplit('/').next().unwrap_or(id);
    // A region or a maker is a word; the dot of a version, as in `gpt-5.1`, stands between digits.
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    while let Some((word, rest)) = name.split_once('.') {
        if !is_word(word) || !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            break;
        }
        name = rest;
    }
    name
}

/// Returns whether two names mean the same model: routers put a prefix before a name, and providers
/// answer with the dated snapshot that an alias stands for.
#[must_use]
pub fn is_same_model(one: &str, other: &str) -> bool {
    let (one, other) = (base(one), base(other));
    undated(one).eq_ignore_ascii_case(undated(other))
}

/// A name without the date or the `latest` at its end, or the tag after a colon or an at sign.
pub(super) fn undated(name: &str) -> &str {
    let name = name.split([':', '@']).next().unwrap_or(name);
    let name = name.strip_suffix("-latest").unwrap_or(name);
    // Versions of the same model, which its makers' other names leave out.
    let versions: &[&str] = match () {
        () if name.starts_with("claude") => &["-v1", "-v2"],
        () if name.starts_with("gemini") => &["-001", "-002"],
        () => &[],
    };
    let name = versions.iter().find_map(|it| name.strip_suffix(it)).unwrap_or(name);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // The month of a preview: `gemini-2.5-flash-preview-09-2025`.
    if let Some((rest, [b'-', b'0' | b'1', _, b'-', b'2', b'0', _, _])) =
        name.as_bytes().split_last_chunk::<8>()
        && is_digits(&name[rest.len() + 1..].replace('-', ""))
        && !rest.is_empty()
    {
        return &name[..rest.len()];
    }
    for length in ["-2025-08-07".len(), "-20250807".len()] {
        let Some((rest, suffix)) =
            name.len().checked_sub(length).and_then(|at| name.split_at_checked(at))
        else {
            continue;
        };
        let date: String = suffix.split('-').collect();
        let parts = suffix.split('-').count();
        let is_date = suffix.starts_with("-20") && date.len() == 8 && is_digits(&date);
        if is_date && matches!(parts, 2 | 4) && !rest.is_empty() {
            return rest;
        }
    }
    name
}

/// Returns whether `name` matches `pattern`, in which `*` stands for any text. Linear in the
/// product of both lengths.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_same_model_has_several_names() {
        for (one, other) in [
            ("gpt-5", "gpt-5"),
            ("gpt-5", "gpt-5-2025-08-07"),
            ("gpt-5-2025-08-07", "gpt-5"),
            ("gpt-5", "openai/GPT-5"),
            ("claude-x", "claude-x-20250807"),
            ("gpt-5-chat-latest", "gpt-5-chat"),
            ("llama3", "llama3:8b"),
            ("claude-haiku-4-5", "us.anthropic.claude-haiku-4-5-20251001-v1:0"),
            ("claude-haiku-4-5", "claude-haiku-4-5@20251001"),
            (
                "mistral-large",
                "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.mistral.mistral-large",
            ),
            ("us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6"),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929"),
            ("gemini-2.0-flash", "gemini-2.0-flash-001"),
            ("gemini-2.5-flash-preview", "gemini-2.5-flash-preview-09-2025"),
        ] {
            assert!(is_same_model(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("gpt-5", "gpt-5-mini"),
            ("gpt-5", "gpt-5.1"),
            ("gpt-5.2-codex", "gpt-5.2"),
            ("gpt-5", ""),
            ("m-1234", "m"),
            ("deepseek", "deepseek-v3"),
            ("qwen2.5-coder", "coder"),
            ("kimi-k2.5", "5"),
            ("claude-opus-4-6", "claude-sonnet-4-6"),
            ("gemini-2.5-pro", "gemini-2.5-flash"),
            ("deepseek-v4-pro", "deepseek-v4-flash"),
        ] {
            assert!(!is_same_model(one, other), "{one} {other}");
        }
    }

    #[test]
    fn patterns_have_any_text_for_a_star() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            yes.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
            no.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
        };
        check("gpt-5*", &["gpt-5", "gpt-5.3"], &["gpt-4", "x-gpt-5", ""]);
        check("gpt-*-codex*", &["gpt-7-codex", "gpt-5.1-codex-mini"], &["gpt-codex", "gpt-5"]);
        check("*", &["", "a"], &[]);
        check("o3", &["o3"], &["o3-mini"]);
        check("a*b*c", &["abc", "axbxc"], &["ab", "acb"]);
    }

    proptest! {
        #[test]
        fn no_name_panics(one in any::<String>(), other in any::<String>()) {
            let _ = matches(&one, &other);
            prop_assert_eq!(is_same_model(&one, &other), is_same_model(&other, &one));
            prop_assert!(is_same_model(&one, &one));
        }
    }
}
