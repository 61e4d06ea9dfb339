//! Removes secrets from text before it leaves the machine: those in well-known forms, values whose name
//! says that they are secret, and words that are too random to be anything else.
//!
//! It errs on the side of removing: a digest may go, an identifier in the form of a UUID stays.

mod context;
mod entropy;
mod known;

use std::borrow::Cow;

/// The replacement of a secret.
pub const REDACTED: &str = "[redacted]";

/// Text without its secrets, and how many were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<'t> {
    pub text: Cow<'t, str>,
    pub removed: usize,
}

/// Removes the secrets of a text.
#[must_use]
pub fn redact(text: &str) -> Redacted<'_> {
    let mut found = known::private_keys(text);
    for word in words(text) {
        found.extend(secret_in(text, word));
        found.extend(secret_in_url(text, word));
    }
    found.sort_unstable();
    let mut result = String::new();
    let (mut end, mut removed) = (0, 0);
    for (from, to) in found {
        if from < end {
            continue;
        }
        result.push_str(&text[end..from]);
        result.push_str(REDACTED);
        (end, removed) = (to, removed + 1);
    }
    if removed == 0 {
        return Redacted { text: Cow::Borrowed(text), removed };
    }
    result.push_str(&text[end..]);
    Redacted { text: Cow::Owned(result), removed }
}

/// A range of bytes of the text, on character boundaries.
type Range = (usize, usize);

/// Returns whether a character separates words. `=` and `:` are looked at afterwards.
fn is_separator(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\''
                | '`'
                | ','
                | ';'
                | '('
                | ')'
                | '<'
                | '>'
                | '{'
                | '}'
                | '['
                | ']'
                | '|'
                | '&'
                | '\\'
        )
}

fn words(text: &str) -> impl Iterator<Item = Range> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, c)| is_separator(*c)).is_some() {}
        let (from, first) = rest.next()?;
        let mut to = from + first.len_utf8();
        while let Some((at, c)) = rest.next_if(|(_, c)| !is_separator(*c)) {
            to = at + c.len_utf8();
        }
        Some((from, to))
    })
}

/// The secret parts of a URL: the user's, and that of the query.
fn secret_in_url(text: &str, (from, to): Range) -> impl Iterator<Item = Range> {
    let word = &text[from..to];
    let user = known::user_info(word);
    let parts = user.into_iter().chain(user.and_then(|_| parameter(word)));
    parts.map(move |(start, end)| (from + start, from + end))
}

/// The secret part of a word that has no user's part of a URL: of `NAME=VALUE` only the value. A value in
/// quotes that a name says to be secret goes as a whole.
fn secret_in(text: &str, (from, to): Range) -> Option<Range> {
    let word = &text[from..to];
    let here = |(start, end): Range| (from + start, from + end);
    if known::user_info(word).is_some() {
        return None;
    }
    if known::is_secret_address(word) {
        return Some((from, to));
    }
    let value = value_start(word);
    if let Some((start, end)) = known_part(word) {
        let name = &word[..value.saturating_sub(1)];
        // A key before a colon, as in a message about it.
        let is_key = start < value && known::is_secret(name) && name.contains(is_digit);
        return Some(here(if is_key { (start, value - 1) } else { (start.max(value), end) }));
    }
    if let Some(part) = context::option_value(text, (from, to)) {
        return Some(part);
    }
    let (name, secret) = (&word[..value], &word[value..]);
    if secret.is_empty() {
        return None;
    }
    if context::is_cookie(text, from, name) {
        return Some((from + value, to));
    }
    let above = if name.is_empty() { context::name_before(text, from) } else { name };
    // `auth: Auth` is a type.
    if (known::is_secret_name(above) || name.eq_ignore_ascii_case("auth="))
        && known::may_be_value(secret)
        && !context::is_diagnosis(text, from, above, secret)
    {
        return Some((from + value, context::end_of_value(text, from + value, to, above)));
    }
    if let Some(part) = parameter(word) {
        return Some(here(part));
    }
    if value == 0 && context::is_query_parameter(text, from) {
        return Some((from, context::end_of_value(text, from, to, "")));
    }
    let is_secret = known::is_access_key(secret) || entropy::is_random(secret);
    is_secret.then_some((from + value, to))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// The value of a secret parameter within a word, as in the query of a URL, even if that is encoded.
fn parameter(word: &str) -> Option<Range> {
    const SIGNS: [&str; 3] = ["=", "%3D", "%3d"];
    SIGNS.into_iter().flat_map(|sign| word.match_indices(sign)).find_map(|(at, sign)| {
        let is_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']');
        let before = &word[..at];
        let name = &before[before.trim_end_matches(is_name).len()..];
        // What is encoded before the name ends with two digits.
        let decoded = match before[..before.len() - name.len()].ends_with('%') {
            true => name.get(2..).unwrap_or_default(),
            false => name,
        };
        let start = at + sign.len();
        let end = word[start..].find("%26").map_or(word.len(), |end| start + end);
        (known::is_secret_name(decoded) && start < end && known::may_be_value(&word[start..end]))
            .then_some((start, end))
    })
}

/// The part of a word that is a secret by its form, to the end of the word.
fn known_part(word: &str) -> Option<Range> {
    let after = word.match_indices(['=', ':', '/', '@']).map(|(at, sign)| at + sign.len());
    let start = std::iter::once(0).chain(after).find(|at| known::is_secret(&word[*at..]))?;
    Some((start, word.len()))
}

/// Where the value of `NAME=VALUE` or `NAME:VALUE` begins; 0 for a word without a name.
fn value_start(word: &str) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let Some(at) = word.find(|c| !is_name(c)) else { return 0 };
    // The padding of base64.
    if word[at..].bytes().all(|byte| byte == b'=') {
        return 0;
    }
    match word.as_bytes()[at] {
        b'=' | b':' if at > 0 => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let cases = [
            ("plain words stay", "plain words stay"),
            ("export OPENAI_API_KEY=sk-proj-abcdefgh12345678", "export OPENAI_API_KEY=[redacted]"),
            ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
            (
                "{\"api_key\": \"hunter22\", \"model\": \"gpt\"}",
                "{\"api_key\": \"[redacted]\", \"model\": \"gpt\"}",
            ),
            ("password = 'correct horse'", "password = '[redacted]'"),
            ("https://user:pass@example.com/x", "https://[redacted]@example.com/x"),
            ("token ghp_0123456789abcdefghijABCDEFGHIJ012345", "token [redacted]"),
            ("AKIAIOSFODNN7EXAMPLE is a key", "[redacted] is a key"),
            ("eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted]"),
            ("tokens: 12345, max_tokens=4096", "tokens: 12345, max_tokens=4096"),
            ("token_count: 17", "token_count: 17"),
            (
                "thread 01a208fd-30be-77a8-9e37-77c5b7904c95",
                "thread 01a208fd-30be-77a8-9e37-77c5b7904c95",
            ),
            (
                "/home/someone/project/src/main_window_controller.rs",
                "/home/someone/project/src/main_window_controller.rs",
            ),
            ("seed 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "seed [redacted]"),
            ("x=Zm9vYmFyMTIzNDU2Nzg5MEFCQ0RFRkdI", "x=[redacted]"),
            ("secret: null, password: true", "secret: null, password: true"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nafter",
                "[redacted]\nafter",
            ),
            ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]"),
            ("DB_PASS=hunter2", "DB_PASS=[redacted]"),
            ("Authorization: Basic dXNlcjpw", "Authorization: Basic [redacted]"),
            ("mysql --password hunter2 -h db", "mysql --password [redacted] -h db"),
            ("curl -u name:word https://x", "curl -u name:[redacted] https://x"),
            ("https://hooks.slack.com/services/T0/B0/abc", "[redacted]"),
            ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK12", "[redacted]"),
            ("<password>hunter2</password>", "<password>[redacted]</password>"),
            ("<name>value</name>", "<name>value</name>"),
            (
                r#"{"msg":"{\"password\": \"jsonpw12\", \"apiKey\":\"camel12\", \"n\":\"x\"}"}"#,
                r#"{"msg":"{\"password\": \"[redacted]\", \"apiKey\":\"[redacted]\", \"n\":\"x\"}"}"#,
            ),
            (r#"pwd: "has spaces \" in it" rest"#, r#"pwd: "[redacted]" rest"#),
            (r#"{\"pwd\": \"has spaces\", \"a\": 1}"#, r#"{\"pwd\": \"[redacted]\", \"a\": 1}"#),
            ("passphrase: open sesame now\nnext", "passphrase: [redacted]\nnext"),
            ("password:\n  hunter2\nuser:\n  me", "password:\n  [redacted]\nuser:\n  me"),
            ("password: |\n  hunter2", "password: |\n  [redacted]"),
            ("mysql -h db -phunter2 shop", "mysql -h db -p[redacted] shop"),
            ("/usr/bin/sshpass -p hunter2 ssh x", "/usr/bin/sshpass -p [redacted] ssh x"),
            (r#"["sshpass", "-p", "hunter2"]"#, r#"["sshpass", "-p", "[redacted]"]"#),
            (r#"["x", "--password", "hunter2"]"#, r#"["x", "--password", "[redacted]"]"#),
            ("mkdir -parents a; ls -p x", "mkdir -parents a; ls -p x"),
            ("machine x login me password hunter2", "machine x login me password [redacted]"),
            ("  login me\n  password hunter2\n", "  login me\n  password [redacted]\n"),
            ("the password is wrong", "the password is wrong"),
            ("MYSQL_PWD=mp99", "MYSQL_PWD=[redacted]"),
            ("Set-Cookie: sid=abc123; Path=/", "Set-Cookie: sid=[redacted]; Path=/"),
            ("https://x.example/a?n=1&sig=abc%2Fd", "https://x.example/a?n=1&sig=[redacted]"),
            ("https://x.example/a?sig=abc%2Fd", "https://x.example/a?sig=[redacted]"),
            (
                "u=https%3A%2F%2Fx%3Faccess_token%3Dqq77zz%26n%3D1",
                "u=https%3A%2F%2Fx%3Faccess_token%3D[redacted]%26n%3D1",
            ),
            ("access_token%3Dqq77zz", "access_token%3D[redacted]"),
            ("xoxe.xoxp-1-Mi0yLTEyMzQ1Njc4OTA", "[redacted]"),
            ("Cookie: session=abcdef", "Cookie: session=[redacted]"),
            ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]"),
            (r#"{"Authorization":"Basic dXNlcjpw=="}"#, r#"{"Authorization":"Basic [redacted]"}"#),
            ("Authorization: Token abc 12\nnext", "Authorization: [redacted]\nnext"),
            (
                "-H 'Authorization: ApiKey abc' https://x",
                "-H 'Authorization: [redacted]' https://x",
            ),
            (
                r#"{"Authorization": "Token abc", "n": 1}"#,
                r#"{"Authorization": "[redacted]", "n": 1}"#,
            ),
            (
                "Authorization: Digest username=\"me\", response=\"0a1b\"\nnext",
                "Authorization: [redacted]\nnext",
            ),
            (
                "https://u:p@h/v1?api_key=hunter2&sig=abc&n=1",
                "https://[redacted]@h/v1?api_key=[redacted]&sig=[redacted]&n=1",
            ),
            (
                "postgres://u@h/db?password=hunter2",
                "postgres://[redacted]@h/db?password=[redacted]",
            ),
            ("count=", "count="),
            ("Secret::new(token), auth: Auth", "Secret::new(token), auth: Auth"),
            ("password: Tr0ub4dor&3xyz\nnext", "password: [redacted]\nnext"),
            ("password=a,b;c)d e", "password=[redacted] e"),
            ("login(password=hunter2), then", "login(password=[redacted]), then"),
            ("{password:hunter2,user:me}", "{password:[redacted],user:me}"),
            ("a?password=hunter2&user=me", "a?password=[redacted]&user=me"),
            ("license_key=abc1 MASTER_KEY: def2", "license_key=[redacted] MASTER_KEY: [redacted]"),
            ("encryption_key=abc auth=xyz", "encryption_key=[redacted] auth=[redacted]"),
            ("Cookie: a=x1; b=y2\nc=d", "Cookie: a=[redacted]; b=[redacted]\nc=d"),
            (
                "'set-cookie: a=x1; Path=/x; Max-Age=10'",
                "'set-cookie: a=[redacted]; Path=/x; Max-Age=10'",
            ),
            ("xai-abcdefghij0123456789", "[redacted]"),
            ("gsk_abcdefghij0123456789", "[redacted]"),
            ("AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQ", "[redacted]"),
            ("invalid basic string, expected", "invalid basic string, expected"),
            ("unexpected token: string", "unexpected token: string"),
            ("bearer_token_env_var = \"API_KEY\"", "bearer_token_env_var = \"API_KEY\""),
            (
                "query_params = { api-version = \"2025-04\", code = \"ab c\" }",
                "query_params = { api-version = \"2025-04\", code = \"[redacted]\" }",
            ),
            (
                "\n[model_providers.x.query_params]\napi-version = \"1\"\ncode = \"abc\"\n[a]\nb = \"c\"",
                "\n[model_providers.x.query_params]\napi-version = \"1\"\ncode = \"[redacted]\"\n[a]\nb = \"c\"",
            ),
            ("query_params.code = \"abc\"", "query_params.code = \"[redacted]\""),
            ("Bearer abcDEF12", "Bearer [redacted]"),
            ("cut\nMIIEvQIBADAN\nAAAA\n-----END PRIVATE KEY-----\nafter", "[redacted]\nafter"),
            (
                r#""x: ABCD12\nEF/+==\n-----END RSA PRIVATE KEY-----\n" after"#,
                r#""x: [redacted]\n" after"#,
            ),
            ("key Kl3/9sPq+Zx0aBc7Dd8/eFgH1jK2mN4pQrStUvWx=.", "key [redacted]"),
            (
                "https://x.example/Some/Path2/WithParts github.com/Owner/Repo2/tree/Main3/Folder",
                "https://x.example/Some/Path2/WithParts github.com/Owner/Repo2/tree/Main3/Folder",
            ),
            (
                "java/org/example/Http2/ServerConnection/Http2FrameReader",
                "java/org/example/Http2/ServerConnection/Http2FrameReader",
            ),
            ("ghp_0123456789abcdefghijABCD: bad credentials", "[redacted]: bad credentials"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text).text, expected, "{text}");
        }
    }

    /// Base64 of `bytes`, which are random.
    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits: Vec<u8> =
            bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
        let letters = bits.chunks(6).map(|bits| {
            let number = (0..6).fold(0, |n, at| n << 1 | usize::from(*bits.get(at).unwrap_or(&0)));
            char::from(LETTERS[number])
        });
        let mut text: String = letters.collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        text
    }

    #[test]
    fn random_base64_goes() {
        // Numbers that are the same in every run (xorshift).
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        for length in [32, 48, 64] {
            let keys: Vec<String> = (0..2_000)
                .map(|_| base64(&(0..length).map(|_| next()).collect::<Vec<u8>>()))
                .collect();
            let is_shown = |key: &&String| redact(&format!("it is {key} here")).text.contains(*key);
            let shown: Vec<_> = keys.iter().filter(is_shown).collect();
            // One of a thousand happens to read like words.
            assert!(shown.len() <= 2, "{length}: {shown:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text: String) {
            let once = redact(&text);
            prop_assert!(once.removed > 0 || once.text == text);
        }

        #[test]
        fn keys_go_wherever_they_stand(
            before in "([a-z ,:=\"'{}\n]{0,20}[ ,:=\"'{}\n])?",
            key in "sk-[A-Za-z0-9]{24,48}",
            after in "[ ,\"'}\n][a-z ]{0,10}",
        ) {
            let text = format!("{before}{key}{after}");
            prop_assert!(!redact(&text).text.contains(&key), "{text}");
        }
    }
}
