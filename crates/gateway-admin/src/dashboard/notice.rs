//! The line at the top of a page that says that a form has had its effect. The address names it, so
//! that a page can be reloaded; only the lines of this file are shown.

use axum::http::Uri;
use maud::{Markup, html};

/// A notice, by its name in the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    name: &'static str,
    text: &'static str,
}

impl Notice {
    pub(super) const SAVED: Self = Self { name: "saved", text: "The change is saved." };
    pub(super) const CREATED: Self = Self { name: "created", text: "It is created." };
    pub(super) const RECORDED: Self = Self { name: "recorded", text: "The payment is recorded." };
    pub(super) const DELETED: Self = Self { name: "deleted", text: "It is deleted." };
    pub(super) const ARCHIVED: Self =
        Self { name: "archived", text: "The project is archived. Its keys are refused." };
    pub(super) const REVOKED: Self =
        Self { name: "revoked", text: "The key is revoked. Requests with it are refused." };
    pub(super) const REPEATED: Self = Self {
        name: "repeated",
        text: "This form was sent before, and nothing was done twice. The text of a key is shown only \
               once: if it is lost, rotate the key.",
    };

    const ALL: [Self; 7] = [
        Self::SAVED,
        Self::CREATED,
        Self::RECORDED,
        Self::DELETED,
        Self::ARCHIVED,
        Self::REVOKED,
        Self::REPEATED,
    ];

    /// The address of a page with this notice. `path` has no query.
    pub(super) fn at(self, path: &str) -> String {
        format!("{path}?done={}", self.name)
    }
}

/// The notice that an address names.
pub(super) fn shown(address: &Uri) -> Markup {
    let mut pairs = address.query().unwrap_or_default().split('&');
    let name = pairs.find_map(|pair| pair.strip_prefix("done="));
    let found = Notice::ALL.into_iter().find(|notice| Some(notice.name) == name);
    html! {
        @if let Some(notice) = found {
            p.notice.good role="status" tabindex="-1" autofocus { (notice.text) }
        }
    }
}
