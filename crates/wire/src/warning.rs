//! Members that a translation leaves out although they only tune an answer. Each is named once.

use std::borrow::Cow;

/// A member that was left out or replaced, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The member's path without positions in arrays, such as `messages[].cache_control`.
    pub member: Cow<'static, str>,
    /// The reason, as a clause.
    pub reason: &'static str,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.member, self.reason)
    }
}

/// Most warnings of one translation; the last one then says that there are more. They go into a header or a line
/// of the log, so a request of many unknown members must not fill these.
pub const MAX_WARNINGS: usize = 32;

/// Longest name of a member in a warning, in bytes. Names of unknown members come from the request.
const MAX_MEMBER: usize = 128;

/// The warnings of a translation, each once, in the order of their members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings(Vec<Warning>);

impl Warnings {
    /// Adds a warning unless it is there.
    pub fn add(&mut self, member: impl Into<Cow<'static, str>>, reason: &'static str) {
        let mut member = member.into();
        if member.len() > MAX_MEMBER {
            let end = (0..=MAX_MEMBER).rev().find(|at| member.is_char_boundary(*at));
            member.to_mut().truncate(end.unwrap_or_default());
        }
        let warning = Warning { member, reason };
        if self.0.contains(&warning) || self.0.len() > MAX_WARNINGS {
            return;
        }
        if self.0.len() == MAX_WARNINGS {
            let reason = "more members were left out than are named";
            self.0.push(Warning { member: Cow::Borrowed("…"), reason });
            return;
        }
        self.0.push(warning);
    }

    /// The warnings.
    #[must_use]
    pub fn as_slice(&self) -> &[Warning] {
        &self.0
    }

    /// True if nothing was left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds those of another step of the same translation.
    pub fn extend(&mut self, other: Self) {
        for warning in other.0 {
            self.add(warning.member, warning.reason);
        }
    }
}
