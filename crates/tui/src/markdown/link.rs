//! Where links go, and what is said about it when their text does not.

use std::borrow::Cow;
use std::path::Path;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::context::Context;

/// Bytes of a path that mean something else in a URI.
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'?').add(b'<').add(b'>');

/// A link as it is displayed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Where the terminal goes; nothing is linked without.
    pub(super) target: Option<String>,
    /// The text in parentheses after the link.
    pub(super) note: Option<String>,
}

/// Returns the display of a link with a text.
pub(super) fn shown(text: &str, destination: &str, context: &Context) -> Shown {
    let text = text.trim();
    if is_web(destination) {
        let host = host(destination).unwrap_or(destination);
        let is_same = text == destination || self::host(text) == Some(host);
        let is_plain = is_same && !authority(text).contains(['@', '\\']);
        let note = (!is_plain).then(|| host.to_owned());
        return Shown { target: Some(destination.to_owned()), note };
    }
    if let Some(address) = destination.strip_prefix("mailto:") {
        let note = (text != address && text != destination).then(|| address.to_owned());
        return Shown { target: Some(destination.to_owned()), note };
    }
    let note = (text != destination && !destination.is_empty()).then(|| destination.to_owned());
    Shown { target: file(destination, context), note }
}

/// The parts of a text without links: each with the address that it is, if it is one.
pub(super) fn find<'t>(text: &'t str, context: &Context) -> Vec<(&'t str, Option<Shown>)> {
    let may_have_file = context.opener.is_some() && text.contains(':');
    if !text.contains("://") && !may_have_file {
        return vec![(text, None)];
    }
    let mut parts = Vec::new();
    let (mut plain, mut at) = (0, 0);
    for word in text.split_inclusive(' ') {
        if let Some((start, end, shown)) = address(word, context) {
            parts.push((&text[plain..at + start], None));
            parts.push((&text[at + start..at + end], Some(shown)));
            plain = at + end;
        }
        at += word.len();
    }
    parts.push((&text[plain..], None));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

fn address(word: &str, context: &Context) -> Option<(usize, usize, Shown)> {
    let web = word.find("https://").or_else(|| word.find("http://"));
    let start =
        web.unwrap_or_else(|| word.len() - word.trim_start_matches(['(', '[', '"', '\'']).len());
    let mut address = word[start..]
        .trim_end_matches([' ', '.', ',', ';', ':', '!', '?', '"', '\'', '>', '*', ']']);
    if !address.contains('(') {
        address = address.trim_end_matches([')', '.', ',']);
    }
    let shown = match web {
        Some(_) => shown(address, address, context),
        None => {
            let (_, line) = split_line(address);
            line?;
            Shown { target: Some(file(address, context)?), note: None }
        }
    };
    Some((start, start + address.len(), shown))
}

/// The link that opens a file of the user's, as in `src/a.rs:12`; none if it does not look like a file.
pub(super) fn file(reference: &str, context: &Context) -> Option<String> {
    let opener = context.opener.as_deref()?;
    let (path, line) = split_line(reference);
    let name = path.rsplit('/').next()?;
    let has_extension = name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=8).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && !extension.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_path = path.len() < 1000
        && !path.contains(|c: char| c.is_whitespace() || "*<>|\"'`(){}$\\".contains(c))
        && !path.contains("//")
        && (has_extension || path.contains('/') && line.is_some());
    if !is_path || path.contains(':') {
        return None;
    }
    let path = context.cwd.join(Path::new(path.strip_prefix("./").unwrap_or(path)));
    let path = utf8_percent_encode(path.to_str()?, PATH).to_string();
    let line = line.map_or(Cow::Borrowed(""), |line| Cow::Owned(format!(":{line}")));
    Some(format!("{opener}://file{path}{line}"))
}

/// A path and the line (`:12`, `:12:3`, `#L12`) after it.
fn split_line(reference: &str) -> (&str, Option<&str>) {
    let is_number =
        |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((path, line)) = reference.rsplit_once("#L")
        && is_number(line)
    {
        return (path, Some(line));
    }
    let Some((path, last)) = reference.rsplit_once(':').filter(|(_, last)| is_number(last)) else {
        return (reference, None);
    };
    match path.rsplit_once(':').filter(|(_, line)| is_number(line)) {
        Some((path, _)) => (path, Some(&reference[path.len() + 1..])),
        None => (path, Some(last)),
    }
}

fn is_web(destination: &str) -> bool {
    let starts = |scheme: &str| {
        destination.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme))
    };
    starts("http://") || starts("https://")
}

fn authority(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The host of an address, even of one without a scheme.
fn host(address: &str) -> Option<&str> {
    let authority = authority(address).split('\\').next().unwrap_or_default();
    let host = authority.rsplit('@').next()?;
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    (!host.is_empty() && !host.contains(' ')).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(opener: Option<&str>) -> Context {
        Context { cwd: "/home/a b".into(), opener: opener.map(str::to_owned), ..Context::default() }
    }

    #[test]
    fn the_host_is_shown_unless_the_text_is_the_address() {
        let check = |text: &str, destination: &str, expect: Option<&str>| {
            let shown = shown(text, destination, &context(None));
            assert_eq!(shown.note.as_deref(), expect, "{text} {destination}");
        };
        check("https://a.org/x", "https://a.org/x", None);
        check("a.org", "https://a.org/x", None);
        check("here", "https://a.org/x", Some("a.org"));
        check("https://a.org", "https://b.org", Some("b.org"));
        check("https://a.org@b.org", "https://a.org@b.org", Some("b.org"));
        check("https://a.org\\@b.org", "https://a.org\\@b.org", Some("a.org"));
        check("a.org", "HTTPS://u:p@b.org:80?x", Some("b.org"));
        check("me", "mailto:a@b.org", Some("a@b.org"));
        check("a", "javascript:alert(1)", Some("javascript:alert(1)"));
        check("src/a.rs", "src/a.rs", None);
        check("a", "src/a.rs:3", Some("src/a.rs:3"));
    }

    #[test]
    fn files_are_linked_by_the_opener() {
        let check = |reference: &str, expect: Option<&str>| {
            assert_eq!(file(reference, &context(Some("x"))).as_deref(), expect, "{reference}");
        };
        check("src/a.rs:12", Some("x://file/home/a%20b/src/a.rs:12"));
        check("./a.rs:1:2", Some("x://file/home/a%20b/a.rs:1:2"));
        check("/etc/a.conf#L3", Some("x://file/etc/a.conf:3"));
        check("Makefile", None);
        check("1.5", None);
        check("javascript:alert.js", None);
        check("a b.rs", None);
        assert_eq!(file("a.rs", &context(None)), None);
    }

    #[test]
    fn addresses_in_text() {
        let context = context(Some("x"));
        let found = find("see (https://a.org/b), src/a.rs:3. End: 5:6", &context);
        let links: Vec<_> =
            found.iter().filter(|(_, shown)| shown.is_some()).map(|(text, _)| *text).collect();
        assert_eq!(links, ["https://a.org/b", "src/a.rs:3"]);
    }
}
