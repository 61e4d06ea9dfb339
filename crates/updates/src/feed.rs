//! The document of a feed, and what it means for a version.

use semver::Version;
use serde::Deserialize;

/// Longest version or address, in bytes.
const MAX_TEXT: usize = 500;

/// The latest release, as a feed describes it:
/// `{ "version": "1.4.0", "notes": "https://…", "minimum": "1.2.0" }`. Members that it does not know are ignored,
/// so that a feed can say more to later programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    version: Version,
    /// Address of what is new, for people: `https`, printable.
    notes: String,
    /// The oldest version that still works with the user's services.
    minimum: Option<Version>,
}

#[derive(Deserialize)]
struct Document {
    version: String,
    notes: String,
    #[serde(default)]
    minimum: Option<String>,
}

/// Why a document is no feed.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("it is not the JSON of a feed: {cause}")]
    Json { cause: serde_json::Error },
    #[error("`{member}` is not a version such as `1.4.0`")]
    Version { member: &'static str },
    #[error("`notes` is not an address that starts with `https://`")]
    Notes,
}

impl Release {
    /// Reads a document.
    ///
    /// # Errors
    /// See [`FeedError`].
    pub fn parse(document: &[u8]) -> Result<Self, FeedError> {
        let Document { version, notes, minimum } =
            serde_json::from_slice(document).map_err(|cause| FeedError::Json { cause })?;
        let minimum = minimum.as_deref().map(|text| version_of("minimum", text)).transpose()?;
        let is_printable = notes.bytes().all(|byte| byte.is_ascii_graphic());
        if !notes.starts_with("https://") || !is_printable || notes.len() > MAX_TEXT {
            return Err(FeedError::Notes);
        }
        Ok(Self { version: version_of("version", &version)?, notes, minimum })
    }

    /// The version, as it is written.
    #[must_use]
    pub fn version(&self) -> String {
        self.version.to_string()
    }

    /// Returns the notice for the user of version `own`; `None` when it is not older. A release
    /// candidate is news only to those who already use one.
    #[must_use]
    pub fn notice(&self, own: &str) -> Option<String> {
        let own = Version::parse(own).ok()?;
        let is_for_testers = !self.version.pre.is_empty() && own.pre.is_empty();
        // Metadata of builds has no order.
        if is_for_testers || self.version.cmp_precedence(&own).is_le() {
            return None;
        }
        let Self { version, notes, minimum } = self;
        let outdated = minimum.as_ref().filter(|least| own.cmp_precedence(least).is_lt());
        Some(match outdated {
            Some(least) => format!(
                "agentd {version} is available, and this version, {own}, is older than {least}, the oldest that \
                 still works; see {notes}"
            ),
            None => format!("agentd {version} is available; this is {own}. See {notes}"),
        })
    }
}

fn version_of(member: &'static str, text: &str) -> Result<Version, FeedError> {
    let version = (text.len() <= MAX_TEXT).then(|| Version::parse(text).ok()).flatten();
    version.ok_or(FeedError::Version { member })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn release(version: &str, minimum: &str) -> Release {
        let document = format!(
            r#"{{ "version": "{version}", "notes": "https://a.example/n", "minimum": {minimum}, "later": [1] }}"#
        );
        Release::parse(document.as_bytes()).unwrap()
    }

    #[test]
    fn only_later_versions_are_news() {
        for (version, own, is_news) in [
            ("1.4.0", "1.3.9", true),
            ("1.10.0", "1.9.0", true),
            ("1.4.0", "1.4.0", false),
            ("1.4.0", "1.5.0", false),
            ("1.4.0", "1.4.0-rc.1", true),
            ("1.4.0-rc.1", "1.3.0", false),
            ("1.4.0-rc.2", "1.4.0-rc.1", true),
            ("1.4.0+build.7", "1.4.0+build.6", false),
            ("1.4.0", "unknown", false),
        ] {
            assert_eq!(release(version, "null").notice(own).is_some(), is_news, "{version} {own}");
        }
    }

    #[test]
    fn the_notice_says_that_a_version_is_older_than_the_minimum() {
        let notice = |own| release("1.4.0", "\"1.2.0\"").notice(own).unwrap();
        assert_eq!(
            notice("1.3.0"),
            "agentd 1.4.0 is available; this is 1.3.0. See https://a.example/n"
        );
        assert!(notice("1.1.9").contains("older than 1.2.0, the oldest that still works"));
    }

    #[test]
    fn other_documents_are_refused_with_the_reason() {
        let long = format!(r#"{{"version":"1.0.0","notes":"https://{}"}}"#, "x".repeat(600));
        for (document, why) in [
            ("", "not the JSON"),
            ("[]", "not the JSON"),
            ("null", "not the JSON"),
            ("{\"version\":\"1.0.0\"}", "missing field `notes`"),
            ("{\"version\":7,\"notes\":\"https://a\"}", "not the JSON"),
            ("{\"version\":\"1.0\",\"notes\":\"https://a\"}", "`version`"),
            ("{\"version\":\"v1.0.0\",\"notes\":\"https://a\"}", "`version`"),
            ("{\"version\":\"\",\"notes\":\"https://a\"}", "`version`"),
            ("{\"version\":\"1.0.0\\u001b[2J\",\"notes\":\"https://a\"}", "`version`"),
            ("{\"version\":\"99999999999999999999.0.0\",\"notes\":\"https://a\"}", "`version`"),
            ("{\"version\":\"1.0.0\",\"notes\":\"https://a\",\"minimum\":\"1\"}", "`minimum`"),
            ("{\"version\":\"1.0.0\",\"notes\":\"javascript:alert(1)\"}", "`notes`"),
            ("{\"version\":\"1.0.0\",\"notes\":\"https://a\\u001b[2J\"}", "`notes`"),
            ("{\"version\":\"1.0.0\",\"notes\":\"https://a\\nRun this: rm\"}", "`notes`"),
            (&long, "`notes`"),
        ] {
            let error = Release::parse(document.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{document}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_get_a_verdict(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Release::parse(&bytes);
        }

        #[test]
        fn a_notice_is_one_printable_line(version in ".{0,12}", minimum in ".{0,12}", notes in ".{0,20}") {
            let notes = format!("https://{notes}");
            let document =
                serde_json::json!({ "version": version, "notes": notes, "minimum": minimum });
            if let Ok(release) = Release::parse(document.to_string().as_bytes()) {
                let notice = release.notice("0.0.0").unwrap_or_default();
                prop_assert!(notice.chars().all(|c| !c.is_control()), "{}", notice);
            }
        }
    }
}
