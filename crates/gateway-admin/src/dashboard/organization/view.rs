//! The parts that the sections of the page share.

use std::sync::Arc;

use maud::Markup;

use super::super::text::query_value;
use crate::Services;
use gateway_policy::settings::Settings;
use gateway_policy::tenants::{Organization, Tier};

/// The data that all sections are rendered from.
pub(super) struct View<'a> {
    pub(super) services: &'a Services,
    pub(super) settings: &'a Settings,
    pub(super) organization: &'a Arc<Organization>,
    pub(super) now: ratelimit::Micros,
}

impl View<'_> {
    /// The address of the organization's page.
    pub(super) fn page(&self) -> String {
        format!("/dashboard/organizations/{}", query_value(&self.organization.id))
    }
}

/// A notice that asks for attention.
pub(super) struct Notice {
    /// True if requests are refused because of it.
    pub(super) is_bad: bool,
    pub(super) text: Markup,
}

/// `Free`, `Tier 1`.
pub(crate) fn tier_name(tier: Tier) -> String {
    match tier {
        Tier::Free => "Free".to_owned(),
        tier => format!("Tier {tier}"),
    }
}
