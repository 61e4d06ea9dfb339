//! The limits that one answer of a provider reports, for the requests that wait and for the reader of the
//! response.

use hyper::HeaderMap;

use crate::pacing::Permit;
use crate::{Event, PlanUsage, RateLimits};

/// The limits that one answer of a provider reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReportedLimits {
    pub(crate) rates: Option<RateLimits>,
    plan: Option<PlanUsage>,
}

impl ReportedLimits {
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        Self { rates: RateLimits::read(headers), plan: PlanUsage::read(headers) }
    }

    /// The events for the reader of the response.
    pub(crate) fn into_events(self) -> Vec<Event> {
        let plan = self.plan.map(|plan| Event::PlanUsage(Box::new(plan)));
        self.rates.map(Event::RateLimits).into_iter().chain(plan).collect()
    }
}

/// Informs the requests that wait of the limits among the events of a response.
pub(crate) fn note(events: &[Event], permit: &mut Permit) {
    for event in events {
        if let Event::RateLimits(limits) = event {
            permit.report(Some(limits));
        }
    }
}
