//! Secrets that are known by their form, and the names of values that are secret.

use crate::{Range, is_separator};

/// Beginnings of keys and tokens of well-known services, with the fewest characters that follow.
const PREFIXES: &[(&str, usize)] = &[
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("pk_live_", 8),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxc-", 10),
    ("xoxd-", 10),
    ("xoxe-", 10),
    ("xoxe.", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 10),
    ("npm_", 20),
    ("pypi-", 20),
    ("hf_", 20),
    ("SG.", 20),
    ("dop_v1_", 20),
    ("shpat_", 16),
    ("whsec_", 16),
    ("xai-", 20),
    ("gsk_", 20),
    ("AGE-SECRET-KEY-", 20),
];

/// Parts of names whose values are secret.
const NAMES: &[&str] = &[
    "apikey",
    "accesskey",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "privatekey",
    "licensekey",
    "encryptionkey",
    "masterkey",
    "signingkey",
    "sharedkey",
    "authkey",
    "credential",
    "authorization",
    "cookie",
    "session",
    "signature",
    "bearer",
];

/// Returns whether a word is a key or token by its form.
pub(crate) fn is_secret(word: &str) -> bool {
    PREFIXES
        .iter()
        .any(|(prefix, fewest)| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *fewest))
        || is_web_token(word)
}

/// Returns whether a word has the form of an access key of a large cloud: 40 characters of base64.
pub(crate) fn is_access_key(word: &str) -> bool {
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    word.len() == 40
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
}

/// Returns whether a word is an address that is secret itself: anyone who has it can write to it.
pub(crate) fn is_secret_address(word: &str) -> bool {
    ["hooks.slack.com/services/", "discord.com/api/webhooks/"]
        .iter()
        .any(|part| word.contains(part))
}

/// Returns whether a word is a JSON Web Token: three parts, of which the first is an object in
/// base64.
fn is_web_token(word: &str) -> bool {
    word.starts_with("eyJ") && word.split('.').filter(|part| !part.is_empty()).count() == 3
}

/// Returns whether the value of this name is secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // The name of a variable that has the value.
    if plain.ends_with("envvar") {
        return false;
    }
    // `token` alone, since `tokens` and `token_count` are numbers.
    NAMES.iter().any(|part| plain.contains(part))
        || ["token", "pass", "pwd"].iter().any(|end| plain.ends_with(end))
        || ["key", "sig", "sid", "basic"].contains(&&*plain)
}

/// Returns whether a word is an option whose value is secret, as in `--password X` and `-u
/// NAME:PASSWORD`.
pub(crate) fn is_secret_option(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(name) => name == "user" || is_secret_name(name),
        None => word == "-u",
    }
}

/// Returns whether this text ends with the scheme of an `Authorization` header.
pub(crate) fn is_scheme(text: &str) -> bool {
    let last = text.rsplit(is_separator).next().unwrap_or_default();
    ["bearer", "basic"].iter().any(|scheme| last.eq_ignore_ascii_case(scheme))
}

/// Returns whether the text after a secret's name can be its value: not a number, a flag or
/// nothing, and not a scheme, whose secret follows.
pub(crate) fn may_be_value(value: &str) -> bool {
    const PLAIN: [&str; 8] = ["null", "none", "true", "false", "=", ":", "==", "!="];
    let is_number = value.len() < 12 && value.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_plain = PLAIN.iter().any(|plain| value.eq_ignore_ascii_case(plain));
    // `Secret::new` is the path of a function.
    let is_path = value.starts_with(':');
    !is_number && !is_plain && !is_path && !is_scheme(value) && !value.ends_with(':')
}

/// The user's part of a URL, without the `@`.
pub(crate) fn user_info(word: &str) -> Option<Range> {
    let start = word.find("://")? + 3;
    let authority = word[start..].find(['/', '?', '#']).map_or(word.len(), |end| start + end);
    let at = word[start..authority].rfind('@')?;
    (at > 0).then_some((start, start + at))
}

/// Private keys in PEM form, even those whose beginning or end is missing.
pub(crate) fn private_keys(text: &str) -> Vec<Range> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut found: Vec<Range> = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(BEGIN).map(|at| from + at) {
        let Some(label) = private_label(&text[start + BEGIN.len()..]) else {
            from = start + BEGIN.len();
            continue;
        };
        let end = format!("{END}{label}-----");
        let to = text[start..].find(&end).map_or(text.len(), |at| start + at + end.len());
        found.push((start, to));
        from = to;
    }
    let begun = found.len();
    for (at, _) in text.match_indices(END) {
        let Some(label) = private_label(&text[at + END.len()..]) else { continue };
        let before = found[..begun].partition_point(|(from, _)| *from < at);
        if before == 0 || found[before - 1].1 <= at {
            found.push((start_of_key(text, at), at + END.len() + label.len() + "-----".len()));
        }
    }
    found
}

/// The label after `-----BEGIN ` or `-----END ` if it is that of a private key.
fn private_label(text: &str) -> Option<&str> {
    let (label, _) = text.split_once("-----")?;
    (label.contains("PRIVATE KEY") && !label.contains('\n')).then_some(label)
}

/// Where the lines of base64 right before `end` begin.
fn start_of_key(text: &str, end: usize) -> usize {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let mut start = end;
    loop {
        // A line ends with a newline, in JSON with its escape.
        let before = text[..start].trim_end_matches([' ', '\t', '\r', '\n']);
        let before = before.strip_suffix("\\n").unwrap_or(before);
        let line = before.trim_end_matches(is_key);
        // The `n` of an escape is a letter too.
        let escape = usize::from(line.ends_with('\\') && before[line.len()..].starts_with('n'));
        let from = line.len() + escape;
        if before.len() == start || from == before.len() {
            return start;
        }
        start = from;
    }
}
