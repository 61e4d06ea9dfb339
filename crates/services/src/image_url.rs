//! Checks of image URLs that clients send. They are checked on arrival, because a URL that the
//! provider refuses would fail every later turn of the thread.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::bounds::IMAGE_BYTES;
use crate::error::Error;

/// Longest `https:` URL, in bytes.
const MAX_LINK: usize = 8 * 1024;

/// Checks that the model can be sent the image at `url`: a `data:` URL that holds an image in
/// base64, or an `https:` URL with a host and without a user. An image over `http:` could be read and
/// replaced on its way to the provider, and a password would be stored with the thread.
///
/// # Errors
/// What is wrong with it.
pub fn check(url: &str) -> Result<(), Error> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Error::invalid_params(format!(
            "`{}` is not an image URL: {WANTED}",
            shown(url)
        )));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "data" => data(rest),
        "https" => link(url, rest),
        _ => Err(Error::invalid_params(format!(
            "an image cannot have a `{}:` URL: {WANTED}",
            shown(scheme)
        ))),
    }
}

const WANTED: &str = "give a `data:` or `https:` URL, or a file as `localImage`";

fn data(rest: &str) -> Result<(), Error> {
    let bad = |what: &str| Err(Error::invalid_params(format!("the `data:` URL {what}")));
    let Some((kind, encoded)) = rest.split_once(',') else {
        return bad("has no `,` before its data");
    };
    let mut parameters = kind.split(';');
    let media_type = parameters.next().unwrap_or_default();
    let subtype = media_type.get(..6).filter(|kind| kind.eq_ignore_ascii_case("image/"));
    if subtype.is_none() || media_type.len() == 6 {
        return Err(Error::invalid_params(format!(
            "the `data:` URL holds `{}`, which is not an image: it must begin with `data:image/`",
            shown(media_type)
        )));
    }
    if !parameters.next_back().is_some_and(|last| last.eq_ignore_ascii_case("base64")) {
        return bad("is not base64: add `;base64` before its data");
    }
    if encoded.is_empty() {
        return bad("holds no data");
    }
    // Four characters are three bytes.
    if encoded.len() > IMAGE_BYTES.div_ceil(3) * 4 {
        return Err(Error::invalid_params(format!(
            "the image is larger than {} MiB",
            IMAGE_BYTES >> 20
        )));
    }
    match is_base64(encoded.as_bytes()) {
        true => Ok(()),
        false => bad("holds no valid base64"),
    }
}

/// The base64 of a `data:` URL that was checked.
pub fn encoded(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once(':')?;
    let is_data = scheme.eq_ignore_ascii_case("data");
    is_data.then(|| rest.split_once(',').map(|(_, encoded)| encoded)).flatten()
}

/// Returns whether all of it is base64; decoded in pieces, since the bytes are not needed.
fn is_base64(encoded: &[u8]) -> bool {
    const PIECE: usize = 4 * 1024;
    let mut decoded = [0; PIECE / 4 * 3];
    let last = encoded.len().saturating_sub(1) / PIECE;
    encoded.len().is_multiple_of(4)
        && encoded.chunks(PIECE).enumerate().all(|(at, piece)| {
            let is_padded = piece.last() == Some(&b'=');
            (at == last || !is_padded) && STANDARD.decode_slice(piece, &mut decoded).is_ok()
        })
}

fn link(url: &str, rest: &str) -> Result<(), Error> {
    let host = rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#']).next());
    if host.is_some_and(|host| host.contains('@')) {
        let message = "the URL of an image cannot hold a user or a password";
        return Err(Error::invalid_params(message).next_step(
            "remove what stands before the `@` of its host; a signed URL has its key in the query",
        ));
    }
    if host.is_none_or(|host| host.is_empty() || host.starts_with(':')) {
        return Err(Error::invalid_params(format!("`{}` names no host", shown(url))));
    }
    if url.len() > MAX_LINK {
        return Err(Error::invalid_params(format!(
            "the URL is longer than {} KiB",
            MAX_LINK >> 10
        )));
    }
    if let Some(hidden) = url.chars().find(|c| *c == ' ' || visible::is_hidden(*c)) {
        let mut bytes = [0; 4];
        let bytes = hidden.encode_utf8(&mut bytes).bytes();
        let encoded: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
        return Err(Error::invalid_params(format!(
            "`{}` has white space or a hidden character in it: encode it as {encoded}",
            shown(url)
        )));
    }
    Ok(())
}

/// The beginning of what a client sent.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    visible::path(Path::new(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_can_be_sent() {
        for url in [
            "https://example.com/a.png",
            "HTTPS://example.com:80/a%20b.png?x@y#z",
            "https://[::1]/a",
            "data:image/png;base64,AAAA",
            "data:image/svg+xml;charset=utf-8;base64,AA==",
            "DATA:IMAGE/PNG;BASE64,AAA=",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
        let long = format!("data:image/png;base64,{}AA==", "AAAA".repeat(5000));
        assert!(check(&long).is_ok());
    }

    #[test]
    fn invalid_image_urls_are_refused() {
        let refuse = |url: &str, why: &str| {
            let error = check(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        };
        refuse("", "not an image URL");
        refuse("picture.png", "not an image URL");
        refuse("/tmp/picture.png", "not an image URL");
        refuse("file:///tmp/picture.png", "`file:`");
        refuse("javascript:alert(1)", "`javascript:`");
        refuse("http://example.com/a.png", "cannot have a `http:` URL: give a `data:` or `https:`");
        refuse("HTTP://example.com/a.png", "`HTTP:`");
        refuse("https://u:secret@h/", "a user or a password");
        refuse("https://h\\@evil/", "a user or a password");
        refuse("https://@h/", "a user or a password");
        refuse("https:/picture.png", "names no host");
        refuse("https://", "names no host");
        refuse("https://:80/", "names no host");
        refuse("https://a/b c", "encode it as %20");
        refuse("https://a/b\u{202e}c", "encode it as %E2%80%AE");
        refuse(&format!("https://a/{}", "x".repeat(9000)), "8 KiB");
        refuse("data:", "no `,`");
        refuse("data:,x", "not an image");
        refuse("data:text/plain;base64,AAAA", "`text/plain`");
        refuse("data:image/;base64,AAAA", "not an image");
        refuse("data:imag\u{e9}/png;base64,AAAA", "not an image");
        refuse("data:image/png,AAAA", "not base64");
        refuse("data:image/png;base64,", "no data");
        refuse("data:image/png;base64,AA\u{e9}=", "no valid base64");
        refuse("data:image/png;base64,AAA", "no valid base64");
        refuse("data:image/png;base64,AA==AAAA", "no valid base64");
        refuse(&format!("data:image/png;base64,{}", "A".repeat(28 << 20)), "20 MiB");
        let middle = format!("data:image/png;base64,{}AA=={}", "AAAA".repeat(1023), "AAAA");
        refuse(&middle, "no valid base64");
    }
}
