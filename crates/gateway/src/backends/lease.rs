//! The place of a request at a backend, until its answer has ended.

use std::sync::Arc;

use gateway_policy::backends::{Pass, Requester};
use ratelimit::SteadyTime;

use super::live::LiveBackend;

/// The place of a request at a backend. Dropped without a verdict, it says nothing about the backend.
pub(crate) struct Lease {
    live: Arc<LiveBackend>,
    model: Box<str>,
    pass: Pass,
    is_judged: bool,
    /// The organization and the project that hold the place, at a backend with a bounded number of them.
    holder: Option<(Box<str>, Box<str>)>,
}

impl Lease {
    pub(super) fn begin(
        live: &Arc<LiveBackend>,
        model: &str,
        requester: Requester<'_>,
        is_forced: bool,
        now: SteadyTime,
    ) -> Option<Self> {
        let pass = live.begin(requester, is_forced, now)?;
        let Requester { organization, project } = requester;
        let holder = live.has_bound().then(|| (organization.into(), project.into()));
        Some(Self { live: Arc::clone(live), model: model.into(), pass, is_judged: false, holder })
    }

    /// The backend.
    pub(crate) fn live(&self) -> &Arc<LiveBackend> {
        &self.live
    }

    /// The backend began to answer: that is enough for a trial. Other requests are judged by the end of their answer.
    pub(crate) fn began(&mut self) {
        if self.pass != Pass::Usual {
            self.succeeded();
        }
    }

    /// The backend answered as it should.
    pub(crate) fn succeeded(&mut self) {
        if !std::mem::replace(&mut self.is_judged, true) {
            self.live.succeeded(self.pass, &self.model);
            // A stream that breaks off later is a failure of a request like any other.
            self.is_judged = self.pass == Pass::Usual;
            self.pass = Pass::Usual;
        }
    }

    /// The backend failed; the cause is for the log.
    pub(crate) fn failed(&mut self, cause: &str) {
        if !std::mem::replace(&mut self.is_judged, true) {
            self.live.failed(self.pass, cause);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_judged {
            self.live.abandoned(self.pass);
        }
        let holder = self.holder.as_ref();
        let holder = holder.map(|(organization, project)| Requester { organization, project });
        self.live.end(holder);
    }
}
