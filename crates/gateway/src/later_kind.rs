//! The kinds of answers that come later than their requests: where an upstream shows how far one is. What it shows is read alike
//! for all kinds, by [`gateway_body::Outcome::progress`] and its usage.

use std::time::Duration;

/// A kind of answer that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaterKind {
    /// A response in the background.
    Response,
    /// A video, which is charged by the second.
    Video,
    /// A fine-tuning job, which is charged by the tokens that it has trained.
    FineTuning,
}

impl LaterKind {
    const ALL: [Self; 3] = [Self::Response, Self::Video, Self::FineTuning];

    /// The stored name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Video => "video",
            Self::FineTuning => "fine_tuning",
        }
    }

    /// The kind of that stored name; `None` for one of a later version.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The path that shows an answer of this kind.
    pub(crate) fn path(self, id: &str) -> String {
        match self {
            Self::Response => format!("/v1/responses/{id}"),
            Self::Video => format!("/v1/videos/{id}"),
            Self::FineTuning => format!("/v1/fine_tuning/jobs/{id}"),
        }
    }

    /// The time after which its end is no longer awaited, at least: a job waits and runs for days.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Self::Response | Self::Video => Duration::ZERO,
            Self::FineTuning => Duration::from_hours(30 * 24),
        }
    }
}

/// Returns whether an upstream's id of an answer can be part of a path as it is.
pub(crate) fn is_plain(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    !matches!(id, "" | "." | "..") && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_must_be_plain() {
        for (id, plain) in [
            ("resp_0a-1.b~", true),
            ("", false),
            ("..", false),
            ("a/../b", false),
            ("a%2Fb", false),
            ("a?b", false),
            ("a b", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_plain(id), plain, "{id}");
        }
    }

    #[test]
    fn kinds_have_their_names() {
        for kind in LaterKind::ALL {
            assert_eq!(LaterKind::named(kind.name()), Some(kind));
        }
        assert_eq!(LaterKind::named("batch"), None);
    }
}
