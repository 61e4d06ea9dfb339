//! Addresses of MCP servers that a skill may propose.

/// Checks an address: one that a server can have, and that reads as what it is.
///
/// # Errors
/// Why it is refused.
pub(super) fn check(url: &str) -> Result<(), String> {
    if let Some(c) = url.chars().find(|c| !c.is_ascii_graphic() || *c == '\\') {
        return Err(format!(
            "has the character `{}`, which can make it look like another one; write it with `%` and digits, \
             or a host in its `xn--` form",
            c.escape_unicode()
        ));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(
            "must begin with `https://` or `http://`: MCP servers have no other addresses".into()
        );
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not have a user or a password before the host".into());
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("has no host".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_one_of_a_server_and_show_its_host() {
        for fine in ["https://a.example/mcp?x=1", "HTTP://127.0.0.1:80", "https://[::1]/x@y"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (url, part) in [
            ("file:///etc/passwd", "must begin with `https://`"),
            ("javascript:alert(1)", "must begin with `https://`"),
            ("a.example/mcp", "must begin with `https://`"),
            ("", "must begin with `https://`"),
            ("https://user:pw@good@evil/", "must not have a user"),
            ("https:///x", "has no host"),
            ("https://:80/x", "has no host"),
            ("https://good\\@evil/", "\\u{5c}"),
            ("https://a\u{202e}b/", "\\u{202e}"),
            ("https://a b/", "\\u{20}"),
            ("https://\u{430}.example/", "\\u{430}"),
            ("https://a/\n", "\\u{a}"),
        ] {
            let why = check(url).unwrap_err();
            assert!(why.contains(part), "{url}: {why}");
        }
    }
}
