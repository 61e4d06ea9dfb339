//! A request's account: its reservation, and the one place that settles it, either with the actual
//! usage or when the account is dropped (specification: What the service does).

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use ratelimit::{Micros, RequestId, SteadyTime};

use crate::bill::{Bill, End, Terms};
use crate::calibration::Ratio;
use crate::later_kind::LaterKind;
use crate::metrics::OfModel;
use crate::settlement::{self, Origin};
use crate::state::Gateway;
use crate::traces;
use gateway_body::{Outcome, Usage};
use gateway_policy::plan::{Demand, Dimension, Plan};
use gateway_policy::price::{Asked, Price, Quantities};
use gateway_policy::settings::{Backend, Model};
use gateway_policy::tenants::Caller;
use gateway_store::journal::OpenRequest;
use gateway_store::ledger::{Endpoint, Entry};

/// The reservation of a request. It is settled once: by [`Account::close`], or when it is dropped.
pub(crate) struct Account {
    gateway: Arc<Gateway>,
    facts: Facts,
    /// The reserved cost.
    reserved: u64,
    /// True once output of the model was seen.
    has_output: bool,
    /// The request in the journal, until it is settled.
    request: Option<OpenRequest>,
    /// The tokens of the model's text, for what the journal has of it.
    ratio: Ratio,
}

/// The properties of a reservation.
pub(crate) struct Facts {
    /// The caller.
    pub(crate) caller: Arc<Caller>,
    /// The model that serves it.
    pub(crate) model: Arc<Model>,
    /// The meters that it draws on.
    pub(crate) plan: Arc<Plan>,
    /// The reserved amounts.
    pub(crate) demand: Demand,
    /// The id of the request.
    pub(crate) request: RequestId,
    /// The usage page that counts it.
    pub(crate) endpoint: Endpoint,
    /// Estimated input tokens.
    pub(crate) input_estimate: u64,
    /// Output tokens that are charged, without a usage, for output that does not show in the answer's text.
    pub(crate) unseen_output: u64,
    /// When the request was received.
    pub(crate) received: Micros,
    /// The same moment on the monotonic clock.
    pub(crate) began: SteadyTime,
    /// Set if the answer may come later than the response.
    pub(crate) later: Option<ComesLater>,
    /// Its price, that of the moment of its admission.
    pub(crate) price: Option<Arc<Price>>,
    /// The parts of the request that the price depends on.
    pub(crate) asked: Asked,
    /// The most that it may use, for which money is reserved.
    pub(crate) bound: Quantities,
    /// True if it is a line of a batch.
    pub(crate) batch: bool,
    /// The backend that got it last.
    pub(crate) backend: Option<Arc<Backend>>,
    /// Its span, if it is traced.
    pub(crate) trace: Option<Traced>,
}

/// An answer that may come later than the response.
pub(crate) struct ComesLater {
    /// The kind of object that it is.
    pub(crate) kind: LaterKind,
    /// The region of the upstream that has it.
    pub(crate) region: Option<Box<str>>,
}

/// A traced request.
pub(crate) struct Traced {
    /// The context of its span.
    pub(crate) context: traces::TraceContext,
    /// `POST /v1/responses`.
    pub(crate) name: String,
    /// When it was received.
    pub(crate) received: Micros,
    /// The same moment on the monotonic clock.
    pub(crate) began: SteadyTime,
}

/// Output as a multiple of the request's maximum, beyond which an answer is cut off: output is estimated from its text,
/// and the maximum of a request that names none is the model's by the configuration.
const BEYOND: u64 = 8;
/// Tokens that an answer may have beyond that: the estimate of a short one says little.
const SLACK: u64 = 1_024;

/// The output beyond which an answer is cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    /// Output tokens of the request's maximum.
    most: u64,
    ratio: Ratio,
}

impl Ceiling {
    /// Returns whether the output is so far beyond the maximum that its server does not respect it.
    pub(crate) fn is_passed_by(&self, seen: &Outcome) -> bool {
        let received = self.ratio.tokens(seen.output_eighths);
        received > self.most.saturating_mul(BEYOND).saturating_add(SLACK)
    }
}

impl Account {
    /// Opens an account for a reservation.
    #[must_use]
    pub(crate) fn open(gateway: &Arc<Gateway>, facts: Facts, request: OpenRequest) -> Self {
        gateway.metrics.open.inc();
        let (reserved, ratio) = (facts.demand.cost, gateway.calibration.ratio(&facts.model.name));
        let (gateway, request) = (Arc::clone(gateway), Some(request));
        let mut account = Self { gateway, facts, reserved, has_output: false, request, ratio };
        account.note(Outcome::default());
        account
    }

    /// Notes in the journal what was seen of the answer: that is settled if this process is killed. Returns whether the
    /// output is so far beyond the request's maximum that its server does not respect it.
    pub(crate) fn note(&mut self, seen: Outcome) -> bool {
        let is_beyond = self.ceiling().is_some_and(|ceiling| ceiling.is_passed_by(&seen));
        let end = End::killed(seen);
        let bill = Bill::new(&self.facts.terms(self.ratio), &end);
        let held = if self.facts.draws_money() { self.reserved } else { 0 };
        if let Some(request) = &mut self.request {
            request.note(&settlement::figures(&end, &bill, self.facts.received, held));
        }
        is_beyond
    }

    /// The most output of its answer; `None` if the request has no maximum.
    pub(crate) fn ceiling(&self) -> Option<Ceiling> {
        let most = self.facts.bound.output;
        (most > 0).then_some(Ceiling { most, ratio: self.ratio })
    }

    /// Notes in the journal that the store may have the account.
    pub(crate) fn may_be_kept(&mut self) {
        self.request.iter_mut().for_each(OpenRequest::may_come_later);
    }

    /// Settles the account.
    pub(crate) fn close(mut self, end: End) {
        self.settle(end);
    }

    /// Notes the backend that gets the request.
    pub(crate) fn is_sent_to(&mut self, backend: &Arc<Backend>) {
        self.facts.backend = Some(Arc::clone(backend));
    }

    /// Notes that the output does not show in the answer's text: without a usage, this much is charged.
    pub(crate) fn hides_output(&mut self, most_output: u64) {
        self.facts.unseen_output = most_output;
        self.note(Outcome::default());
    }

    /// Notes that the stream has output of the model: the first time, it is measured.
    pub(crate) fn sees_output(&mut self) {
        if !std::mem::replace(&mut self.has_output, true) {
            self.measure(&self.gateway.metrics.first_token);
        }
    }

    /// Adds the time since the request was received. A line of a batch waits for no client.
    fn measure(&self, of: &Family<OfModel, Histogram>) {
        if self.facts.batch {
            return;
        }
        let took = self.gateway.clock.steady().since(self.facts.began);
        let model = self.facts.model.name.to_string();
        let seconds = Duration::from_micros(took).as_secs_f64();
        of.get_or_create(&OfModel { model }).observe(seconds);
    }

    /// Lowers the reserved cost, now that the upstream has reported the input of an answer that goes on. Only for a
    /// quarter of it or more, so that there are few updates in any answer.
    pub(crate) fn lower_reservation(&mut self, usage: &Usage) {
        // What the store keeps of an answer that comes later is the whole reservation.
        if self.facts.later.is_some() {
            return;
        }
        let bound = self.facts.terms(Ratio::default()).bound(usage);
        if bound > self.reserved - self.reserved / 4 {
            return;
        }
        self.reserved = bound;
        if self.facts.draws_money() {
            self.request.iter_mut().for_each(|request| request.lower(bound));
        }
        let (gateway, facts) = (&self.gateway, &self.facts);
        let to = facts.plan.cost_alone(&facts.demand, bound);
        let (organization, now) = (&*facts.caller.organization.id, gateway.clock.steady());
        gateway.limits.shrink(organization, facts.request, &to, now);
    }

    /// Notes what its price depends on, and the most that it may use.
    pub(crate) fn asks(&mut self, asked: Asked, bound: Quantities) {
        self.facts.asked = asked;
        self.facts.bound = bound;
    }

    /// Notes that the answer may come later than the response, up to that many output tokens.
    pub(crate) fn comes_later(&mut self, later: ComesLater, most_output: u64) {
        self.hides_output(most_output);
        self.facts.later = Some(later);
    }

    /// Ends the account without settling it: the store has what settles it later, and until then what is reserved
    /// counts as used.
    pub(crate) fn hand_over(mut self, status: u16) {
        let request = self.request.take();
        let (gateway, facts) = (&self.gateway, &mut self.facts);
        gateway.metrics.open.dec();
        let now = gateway.clock.steady();
        let kept = vec![None; facts.plan.meters(&facts.demand).count()];
        gateway.limits.settle(&facts.caller.organization.id, facts.request, &kept, now);
        request.into_iter().for_each(OpenRequest::free);
        if let Some(traced) = facts.trace.take() {
            gateway.traces.record(traced.without_usage(status, now));
        }
    }

    /// The gateway that holds it.
    #[must_use]
    pub(crate) fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The properties of the reservation.
    #[must_use]
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    fn settle(&mut self, end: End) {
        let Some(mut request) = self.request.take() else { return };
        let (gateway, facts) = (&self.gateway, &self.facts);
        gateway.metrics.open.dec();
        self.measure(&gateway.metrics.duration);
        let terms = facts.terms(match end.counts_text(facts.model.max_reported_tokens) {
            true => gateway.calibration.ratio(&facts.model.name),
            false => Ratio::default(),
        });
        let bill = Bill::new(&terms, &end);
        if let Some(outcome) = end.whole().filter(|_| !bill.usage_invalid) {
            gateway.calibration.learn(&facts.model.name, outcome);
        }
        let (date, now) = (gateway.clock.now(), gateway.clock.steady());
        let settlement = facts.plan.settlement(&facts.demand, &bill.consumed());
        let organization = &*facts.caller.organization.id;
        let entry = facts.origin().entry(&end, &bill, date);
        // First, so that no reservation that is settled seems open in the journal.
        request.end(&entry);
        gateway.limits.settle(organization, facts.request, &settlement, now);
        settlement::count(&gateway.metrics, &entry, &bill);
        settlement::log(&entry, &facts.model.upstream.name, &end);
        if let Some(traced) = &facts.trace {
            gateway.traces.record(traced.span(&entry, now));
        }
        gateway.spend.settled(&facts.caller, entry.cost);
        gateway.ledger.settle(entry, request);
    }
}

impl Drop for Account {
    /// The request was dropped; the upstream may have started.
    fn drop(&mut self) {
        if self.request.is_some() {
            self.settle(self.gateway.dropped(Outcome::default()));
        }
    }
}

impl Traced {
    /// The span of a request whose usage is unknown, or that never had an account.
    #[must_use]
    pub(crate) fn without_usage(self, status: u16, now: SteadyTime) -> traces::Span {
        let ended = self.ended(now);
        let Self { context, name, received, .. } = self;
        traces::Span {
            context,
            name,
            is_upstream: false,
            began: received,
            ended,
            status,
            attributes: Vec::new(),
        }
    }

    /// The date of its end: as long after its beginning as it took.
    fn ended(&self, now: SteadyTime) -> Micros {
        self.received.saturating_add(now.since(self.began))
    }

    fn span(&self, entry: &Entry, now: SteadyTime) -> traces::Span {
        let tokens = |count: u64| count.to_string();
        traces::Span {
            context: self.context,
            name: self.name.clone(),
            is_upstream: false,
            began: self.received,
            ended: self.ended(now),
            status: entry.status,
            attributes: vec![
                ("request.id", entry.request.to_string()),
                ("organization.id", entry.organization.to_string()),
                ("project.id", entry.project.to_string()),
                ("gen_ai.request.model", entry.model.to_string()),
                ("gen_ai.usage.input_tokens", tokens(entry.input_tokens)),
                ("gen_ai.usage.output_tokens", tokens(entry.output_tokens)),
            ],
        }
    }
}

impl Facts {
    /// Returns whether its cost is reserved on a limit of spend.
    pub(crate) fn draws_money(&self) -> bool {
        self.plan.meters(&self.demand).any(|meter| meter.dimension == Dimension::Spend)
    }

    fn terms(&self, ratio: Ratio) -> Terms {
        Terms {
            demand: self.demand,
            input_estimate: self.input_estimate,
            unseen_output: self.unseen_output,
            price: self.price.clone(),
            asked: self.asked.clone(),
            bound: self.bound,
            most_reported: self.model.max_reported_tokens,
            ratio,
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            request: request_id(self.request).into(),
            organization: self.caller.organization.id.clone(),
            project: self.caller.project.id.clone(),
            key: self.caller.key.clone(),
            model: self.model.name.clone(),
            backend: self.backend.as_ref().map(|backend| backend.label.clone()).unwrap_or_default(),
            endpoint: self.endpoint,
            batch: self.batch,
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// `req_` and 32 hexadecimal digits.
#[must_use]
pub(crate) fn request_id(request: RequestId) -> String {
    let mut id = String::with_capacity(36);
    id.push_str("req_");
    id.extend((0..32).rev().map(|place| char::from(HEX[(request >> (4 * place)) as usize & 15])));
    id
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_hexadecimal() {
        let request = 0x0123_4567_89ab_cdef_0000_0000_dead_beef;
        assert_eq!(super::request_id(request), "req_0123456789abcdef00000000deadbeef");
    }
}
