//! `[server] pass_through`: paths that the operator opens although their cost is not known.

use super::error::Fault;

/// Most paths.
const MOST: usize = 256;

/// A path that is open, or all paths below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassThrough {
    path: Box<str>,
    is_prefix: bool,
}

impl PassThrough {
    /// Returns whether it opens this path.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        match path.strip_prefix(&*self.path) {
            Some("") => true,
            Some(rest) => self.is_prefix && rest.starts_with('/'),
            None => false,
        }
    }
}

pub(super) fn resolve(paths: &[String]) -> Result<Vec<PassThrough>, Fault> {
    let wrong = |message: String| Fault::new(&["server", "pass_through"], message);
    if paths.len() > MOST {
        return Err(wrong(format!("has {} paths; at most {MOST} are possible", paths.len())));
    }
    let read = |text: &String| {
        let (path, is_prefix) = match text.strip_suffix("/*") {
            Some(path) => (path, true),
            None => (text.as_str(), false),
        };
        let is_plain = |segment: &str| {
            let letters = segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            letters && !matches!(segment, "" | "." | "..")
        };
        let segments = path.strip_prefix("/v1/").unwrap_or_default();
        if !segments.split('/').all(is_plain) {
            return Err(wrong(format!(
                "`{text}` is not a path such as `/v1/rerank`, or `/v1/rerank/*` for it and all below it"
            )));
        }
        if matches!(segments.split('/').next(), Some("organization" | "organizations")) {
            return Err(wrong(format!(
                "`{text}` is of the administration, which is never passed on"
            )));
        }
        Ok(PassThrough { path: path.into(), is_prefix })
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_opens_itself_and_with_a_star_all_below_it() {
        let open = resolve(&["/v1/rerank".to_owned(), "/v1/x/y/*".to_owned()]).unwrap();
        let is_open = |path: &str| open.iter().any(|open| open.contains(path));
        for path in ["/v1/rerank", "/v1/x/y", "/v1/x/y/z", "/v1/x/y/z/1"] {
            assert!(is_open(path), "{path}");
        }
        for path in ["/v1/rerank/x", "/v1/reranked", "/v1/x", "/v1/x/yz", "/v2/rerank", "/v1/"] {
            assert!(!is_open(path), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for wrong in [
            "",
            "/",
            "rerank",
            "/v1",
            "/v1/",
            "/v1/*",
            "/v1/a//b",
            "/v1/../x",
            "/v1/a*",
            "/v1/*/b",
            "/v1/a?b",
            "/v1/a%20",
            "https://x/v1/a",
            "/v1/organization/*",
        ] {
            assert!(resolve(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(resolve(&vec!["/v1/a".to_owned(); MOST + 1]).is_err());
    }
}
